// --- All rows by one measure, relative to one of them ---------------------------

const MEASURES = {
  size: { word: "bytes", of: (figures) => figures.output_bytes, wall: false },
  wall: { word: "wall time of compressing", of: (figures) => figures.compress_s, range: "compress_range_s", wall: true },
  cpu: { word: "processor time of compressing", of: (figures) => figures.compress_cpu_s, range: "compress_cpu_range_s", wall: false },
  unpack: { word: "wall time of unpacking", of: (figures) => figures.decompress_s, range: "decompress_range_s", wall: true },
  unpack_cpu: { word: "processor time of unpacking", of: (figures) => figures.decompress_cpu_s, range: "decompress_cpu_range_s", wall: false },
  memory: { word: "peak memory of compressing", of: (figures) => figures.compress_peak_bytes, wall: false },
};
// Further apart than this, bars from zero would hide the small ones.
const BARS_RANGE_MAX = 50;

function drawRanking() {
  const measure = MEASURES[element("measure").value], base = Number(element("baseline").value);
  const known = data.summary.filter((summary) => summary.all && measure.of(summary.all) > 0);
  const basis = known.find((summary) => summary.row === base);
  const ranking = element("ranking");
  ranking.classList.toggle("wall", measure.wall);
  if (!basis) { ranking.innerHTML = "<p>The baseline was not measured on every segment.</p>"; return; }
  const unit = measure.of(basis.all);
  const lines = known.map((summary) => ({ row: data.rows[summary.row], ratio: measure.of(summary.all) / unit,
    range: measure.range && summary.all[measure.range] ? summary.all[measure.range].map((value) => value / unit) : null }));
  lines.sort((a, b) => a.ratio - b.ratio);
  const high = Math.max(...lines.map((line) => (line.range ? line.range[1] : line.ratio)));
  const low = Math.min(...lines.map((line) => (line.range ? line.range[0] : line.ratio)));
  const points = high > low * BARS_RANGE_MAX;
  const from = 10 ** Math.floor(Math.log10(low)), to = 10 ** Math.ceil(Math.log10(high));
  const place = (value) => 100 * (points ? Math.log(value / from) / Math.log(to / from) : value / high);
  const ticks = [];
  if (points) for (let tick = from; tick <= to * 1.001; tick *= 10) ticks.push(tick);
  const lineUp = ticks.map((tick) => `<i style="left:${place(tick)}%"></i>`).join("");
  const shapes = ({ row, ratio, range }) => {
    const tip = escaped(`${row.label}: ${ratio.toFixed(3)}${range ? `, ${range.map((value) => value.toFixed(3)).join(" to ")}` : ""}`);
    const mine = ours(row) ? " ours" : "", at = place(ratio);
    const shape = points ? `<span class="point${mine}" style="left:${at}%"` : `<span class="bar${mine}" style="width:${at}%"`;
    const whisker = range ? `<b class="whisker" style="left:${place(range[0])}%;width:${place(range[1]) - place(range[0])}%"></b>` : "";
    return `${lineUp}${shape} tabindex="0" data-tip="${tip}" aria-label="${tip}"></span>${whisker}`;
  };
  const axis = points ? `<span class="label"></span><span class="axis">${ticks.map((tick) => `<span style="left:${place(tick)}%">${Number(tick.toPrecision(1))}</span>`).join("")}</span><span class="value note">times, logarithmic axis</span>` : "";
  ranking.innerHTML = `<div class="bars${points ? " points" : ""}">${lines.map((line) => `<span class="label${ours(line.row) ? " ours" : ""}">${escaped(line.row.label)}</span><span class="pair">${shapes(line)}</span><span class="value">${line.ratio.toFixed(2)}</span>`).join("")}${axis}</div>`;
  for (const shape of ranking.querySelectorAll("[data-tip]")) tipOn(shape, shape.dataset.tip);
  const spread = measure.range ? (data.settings.runs === 1 ? " A single run: there is no spread." : " Whiskers are the range over the runs.") : "";
  element("ranked").textContent = `${measure.word} for each of ${data.rows[base].label}'s, over all segments; less is better.${spread}` +
    (measure.wall && BUSY ? " Grey: the machine was busy, wall times are not to be trusted." : "");
}

function drawRankingChoices() {
  element("measure").innerHTML = Object.entries(MEASURES).map(([value, { word }]) => `<option value="${value}">${word}</option>`).join("");
  element("baseline").innerHTML = data.rows.map((row, at) => `<option value="${at}">${escaped(row.label)}</option>`).join("");
  element("baseline").value = Math.max(0, data.rows.findIndex((row) => row.contender === "zstd" && row.level === 1));
  for (const id of ["measure", "baseline"]) element(id).addEventListener("change", drawRanking);
  drawRanking();
}
