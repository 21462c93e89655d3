// --- All programs by one measure, relative to one row: a line each, its levels as dots -----------

const MEASURES = {
  size: { word: "bytes", of: (figures) => figures.output_bytes, wall: false },
  wall: { word: "wall time of compressing", of: (figures) => figures.compress_s, range: "compress_range_s", wall: true },
  cpu: { word: "processor time of compressing", of: (figures) => figures.compress_cpu_s, range: "compress_cpu_range_s", wall: false },
  unpack: { word: "wall time of unpacking", of: (figures) => figures.decompress_s, range: "decompress_range_s", wall: true },
  unpack_cpu: { word: "processor time of unpacking", of: (figures) => figures.decompress_cpu_s, range: "decompress_cpu_range_s", wall: false },
  memory: { word: "peak memory of compressing", of: (figures) => figures.compress_peak_bytes, wall: false },
};
// Further apart than this, an axis from zero would hide the small ones.
const LENGTHS_RANGE_MAX = 50;

// An axis from zero, or a logarithmic one.
function rankingAxis(low, high) {
  if (high > low * LENGTHS_RANGE_MAX) {
    const from = 10 ** Math.floor(Math.log10(low)), to = 10 ** Math.ceil(Math.log10(high)), ticks = [];
    for (let tick = from; tick <= to * 1.001; tick *= 10) ticks.push(tick);
    return { place: (value) => 100 * Math.log(value / from) / Math.log(to / from), ticks, words: "times, logarithmic axis" };
  }
  const found = ticks(0, high, false), step = found[1] - found[0], to = Math.ceil(high / step - 1e-9) * step;
  const all = [];
  for (let tick = 0; tick <= to * 1.001; tick += step) all.push(tick);
  return { place: (value) => 100 * value / to, ticks: all, words: "times, from zero" };
}

function rankingLines(measure, unit) {
  const lines = programs().map((program) => ({ ...program, levels: program.rows.flatMap((row) => {
    const of = data.summary[row].all;
    if (!of || !(measure.of(of) > 0)) return [];
    const range = measure.range && of[measure.range];
    return [{ row: data.rows[row], ratio: measure.of(of) / unit, range: range ? range.map((value) => value / unit) : null }];
  }) }));
  const known = lines.filter((line) => line.levels.length);
  for (const line of known) line.least = Math.min(...line.levels.map((level) => level.ratio));
  return known.sort((a, b) => a.ours - b.ours || a.least - b.least);
}

function rankingLine({ label, levels, ours: mine, least }, { place, ticks }) {
  const kind = mine ? " ours" : "", most = Math.max(...levels.map((level) => level.ratio));
  const lineUp = ticks.map((tick) => `<i style="left:${place(tick)}%"></i>`).join("");
  const dots = levels.map(({ row, ratio, range }) => {
    const tip = escaped(`${row.label}: ${ratio.toFixed(3)}${range ? `, ${range.map((value) => value.toFixed(3)).join(" to ")}` : ""}`);
    const band = range ? `<b class="band${kind}" style="left:${place(range[0])}%;width:${place(range[1]) - place(range[0])}%"></b>` : "";
    return `${band}<span class="point${kind}" style="left:${place(ratio)}%" tabindex="0" data-tip="${tip}" aria-label="${tip}"></span>`;
  }).join("");
  const join = levels.length > 1 ? `<b class="join${kind}" style="left:${place(least)}%;width:${place(most) - place(least)}%"></b>` : "";
  const value = levels.length > 1 ? `${least.toFixed(2)} to ${most.toFixed(2)}` : least.toFixed(2);
  return `<span class="label${kind}">${escaped(label)}</span><span class="pair">${lineUp}${join}${dots}</span><span class="value">${value}</span>`;
}

function drawRanking() {
  const measure = MEASURES[element("measure").value], base = Number(element("baseline").value);
  const basis = data.summary.find((summary) => summary.row === base && summary.all && measure.of(summary.all) > 0);
  const ranking = element("ranking");
  ranking.classList.toggle("wall", measure.wall);
  if (!basis) { ranking.innerHTML = "<p>The baseline was not measured on every segment.</p>"; return; }
  const lines = rankingLines(measure, measure.of(basis.all));
  const drawn = lines.flatMap((line) => line.levels.flatMap(({ ratio, range }) => range || [ratio]));
  const axis = rankingAxis(Math.min(...drawn), Math.max(...drawn));
  const marks = axis.ticks.map((tick) => `<span style="left:${axis.place(tick)}%">${Number(tick.toPrecision(2))}</span>`).join("");
  ranking.innerHTML = `<div class="bars points">${lines.map((line) => rankingLine(line, axis)).join("")}` +
    `<span class="label"></span><span class="axis">${marks}</span><span class="value note">${axis.words}</span></div>`;
  for (const shape of ranking.querySelectorAll("[data-tip]")) tipOn(shape, shape.dataset.tip);
  const spread = measure.range ? (data.settings.runs === 1 ? " A single run: there is no spread." : " Bands are the range over the runs.") : "";
  element("ranked").textContent = `${measure.word} for each of ${data.rows[base].label}'s, over the same segments; less is better. A dot is a level: the pointer says which.${spread}` +
    (measure.wall && BUSY ? " Grey: the machine was busy, wall times are not to be trusted." : "");
}

function drawRankingChoices() {
  element("measure").innerHTML = Object.entries(MEASURES).map(([value, { word }]) => `<option value="${value}">${word}</option>`).join("");
  element("baseline").innerHTML = data.rows.map((row, at) => `<option value="${at}">${escaped(row.label)}</option>`).join("");
  element("baseline").value = Math.max(0, data.rows.findIndex((row) => row.contender === "zstd" && row.level === 1));
  for (const id of ["measure", "baseline"]) element(id).addEventListener("change", drawRanking);
  drawRanking();
}
