// Draws the page out of the results in the element "data". Everything that is shown is escaped.
const data = JSON.parse(document.getElementById("data").textContent);
const escaped = (text) => String(text).replace(/[&<>"']/g, (c) => "&#" + c.charCodeAt(0) + ";");
const UNKNOWN = "\u2013";

const ours = (row) => row.contender.startsWith("walzip");
const threads = (row) => (row.threads === "one" ? 1 : data.provenance.cpus);
const family = (row) => {
  const known = ["walzip", "zstd", "xz", "gzip", "bzip2", "lz4", "brotli"];
  const name = row.contender.replace("pigz", "gzip").replace("lbzip2", "bzip2");
  return known.find((start) => name.startsWith(start)) || "other";
};
// The families that the reader switched off.
const hidden = new Set();
const folders = [...new Set(data.covered.map((input) => data.inputs[input].folder))];
const megabytes = (bytes) => bytes / 1e6;
const seconds = (value) => value.toFixed(value < 10 ? 3 : 1);
const counted = (number, noun) => `${number} ${noun}${number === 1 ? "" : "s"}`;
const percent = (value) => (value * 100).toFixed(0) + " %";

// The figures of each row for a choice of the workload: a folder, or a mean.
function figures(choice) {
  return data.summary.flatMap((summary) => {
    const found = choice === "all" || choice === "realistic" ? summary[choice]
      : summary.folders.find((of) => "folder " + of.folder === choice);
    return found ? [{ row: data.rows[summary.row], figures: found }] : [];
  });
}

function table(id, heads, lines) {
  const head = heads.map((text) => `<th${text.startsWith("|") ? ' class="upright"' : ""}><button type="button">${escaped(text.replace("|", ""))}</button></th>`);
  const body = lines.map((cells) => "<tr>" + cells.map((cell) => {
    const { text, kind = "", style = "", title = "" } = typeof cell === "object" ? cell : { text: cell };
    return `<td class="${kind}"${style ? ` style="${style}"` : ""}${title ? ` title="${escaped(title)}"` : ""}>${escaped(text)}</td>`;
  }).join("") + "</tr>");
  element(id).innerHTML = `<table><thead><tr>${head.join("")}</tr></thead><tbody>${body.join("")}</tbody></table>`;
  const why = reasons(heads, lines);
  element(id).insertAdjacentHTML("afterend", why ? `<p class="note">${escaped(why)}</p>` : "");
}

// Why cells are empty.
function reasons(heads, lines) {
  const known = { spread: "a single run has none", "its time": "too few runs tell", "its unpack time": "too few runs tell",
    "its cpu time": "too few runs tell", "its unpack cpu time": "too few runs tell", level: "nothing was compared", "its bytes": "nothing was compared" };
  const found = new Map();
  heads.forEach((head, at) => {
    const empty = lines.some((cells) => (typeof cells[at] === "object" ? cells[at].text : cells[at]) === UNKNOWN);
    if (!empty) return;
    const reason = known[head] || "not measured on every segment";
    found.set(reason, [...(found.get(reason) || []), "\u201c" + head.replace("|", "") + "\u201d"]);
  });
  if (found.size === 1) return `\u2013: ${[...found.keys()][0]}.`;
  return found.size ? "\u2013: " + [...found].map(([reason, of]) => `under ${of.length > 3 ? `${of.slice(0, 2).join(", ")} and ${of.length - 2} more` : of.join(", ")}, ${reason}`).join("; ") + "." : "";
}

const named = (row) => ({ text: row.label, kind: ours(row) ? "ours" : "" });

// --- Size against time --------------------------------------------------------

const WIDE = { width: 960, height: 480, left: 58, right: 90, top: 14, bottom: 44 };
const NARROW = { width: 400, height: 420, left: 46, right: 56, top: 14, bottom: 44 };

// Round values within a range: 1, 2, 5 by powers of ten when it is logarithmic.
function ticks(low, high, logarithmic) {
  const found = [];
  if (logarithmic) {
    // Within less than a power of ten, more digits are needed.
    const digits = high / low < 8 ? [1, 2, 3, 4, 5, 6, 7, 8, 9] : [1, 2, 5];
    for (let power = Math.floor(Math.log10(low)); power <= Math.ceil(Math.log10(high)); power++)
      for (const digit of digits) found.push(digit * 10 ** power);
  } else {
    const rough = (high - low) / 5, unit = 10 ** Math.floor(Math.log10(rough));
    const step = [1, 2, 5, 10].map((digit) => digit * unit).find((value) => value >= rough);
    for (let at = 0; at <= high; at += step) found.push(at);
  }
  return found.filter((value) => value >= low * 0.999 && value <= high * 1.001);
}

function scale(values, from, to, logarithmic) {
  let low = Math.min(...values), high = Math.max(...values);
  if (logarithmic) { low /= 1.25; high *= 1.25; } else { low = 0; high *= 1.08; }
  const of = logarithmic ? Math.log : (value) => value;
  const place = (value) => from + (of(value) - of(low)) / (of(high) - of(low)) * (to - from);
  return { place, ticks: ticks(low, high, logarithmic) };
}

// What nothing else is both smaller and faster than, from the fastest to the smallest.
function frontier(points) {
  let smallest = Infinity;
  return [...points].sort((a, b) => a.x - b.x || a.y - b.y).filter((point) => {
    const best = point.y < smallest;
    if (best) smallest = point.y;
    return best;
  });
}

function mark(point, x, y, attributes) {
  const color = `var(--${family(point.row)})`, several = threads(point.row) > 1;
  const unproven = point.row.contender === "walzip-unverified";
  const paint = unproven ? `style="fill:var(--page);stroke:${color};stroke-width:2"` : `style="fill:${color}"`;
  const size = ours(point.row) ? 6 : 4.5;
  return several
    ? `<rect x="${x - size}" y="${y - size}" width="${2 * size}" height="${2 * size}" ${paint} ${attributes}/>`
    : `<circle cx="${x}" cy="${y}" r="${size}" ${paint} ${attributes}/>`;
}

// Names of the best choices, and of the well-known levels, where they do not cover one another.
function names(points, best, box) {
  const taken = points.map((point) => ({ x0: point.px - 5, x1: point.px + 5, y0: point.py - 5, y1: point.py + 5 }));
  const overlaps = (a) => taken.some((b) => a.x0 < b.x1 && b.x0 < a.x1 && a.y0 < b.y1 && b.y0 < a.y1);
  const ordered = [...best, ...points.filter((point) => !best.includes(point))];
  return ordered.map((point) => {
    const width = point.row.label.length * 7.3, places = [
      [point.px + 9, point.py + 4], [point.px - 9 - width, point.py + 4],
      [point.px - width / 2, point.py - 10], [point.px - width / 2, point.py + 19]];
    for (const [x, y] of places) {
      const area = { x0: x - 2, x1: x + width + 2, y0: y - 11, y1: y + 3 };
      if (area.x0 < box.left || area.x1 > box.width || area.y0 < 0 || area.y1 > box.height - box.bottom || overlaps(area)) continue;
      taken.push(area);
      const kind = best.includes(point) ? "name halo" : "halo";
      return `<text class="${kind}" x="${x}" y="${y}">${escaped(point.row.label)}</text>`;
    }
    return "";
  }).join("");
}

function drawChart() {
  const direction = element("direction").value, choice = element("workload").value;
  const chosen = [element("workload"), element("direction")].map((list) => list.selectedOptions[0].textContent);
  document.querySelector(".controls").dataset.chosen = `Workload: ${chosen[0]}; time of ${chosen[1]}`;
  const box = element("chart").clientWidth < 600 ? NARROW : WIDE;
  const shown = figures(choice).filter(({ row }) => !hidden.has(family(row)));
  const judged = BUSY ? direction.replace("_s", "_cpu_s") : direction;
  const points = shown.map(({ row, figures }) => ({
    row, figures, x: Math.max(figures[judged], 1e-4), range: figures[judged.replace("_s", "_range_s")], y: megabytes(figures.output_bytes / figures.segments) }));
  if (!points.length) { element("chart").innerHTML = hidden.size ? "<p>Every series is switched off.</p>" : "<p>Nothing was measured wholly on this workload.</p>"; return; }
  const sizes = points.map((point) => point.y);
  const logarithmic = Math.max(...sizes) > 20 * Math.min(...sizes);
  const across = scale(points.flatMap((point) => [point.x, ...(point.range || [])]).map((x) => Math.max(x, 1e-4)), box.left, box.width - box.right, true);
  const up = scale(sizes, box.height - box.bottom, box.top, logarithmic);
  for (const point of points) { point.px = across.place(point.x); point.py = up.place(point.y); }
  const best = FEW ? [] : frontier(points), right = box.width - 8, bottom = box.height - box.bottom;
  const parts = [];
  let last = -Infinity;
  for (const value of across.ticks) {
    const x = across.place(value);
    parts.push(`<line class="grid" x1="${x}" x2="${x}" y1="${box.top}" y2="${bottom}"/>`);
    if (x - last < 34) continue;
    last = x;
    parts.push(`<text x="${x}" y="${bottom + 16}" text-anchor="middle">${Number(value.toPrecision(1))}</text>`);
  }
  for (const value of up.ticks) {
    const y = up.place(value);
    parts.push(`<line class="grid" x1="${box.left}" x2="${right}" y1="${y}" y2="${y}"/>`);
    parts.push(`<text x="${box.left - 6}" y="${y + 4}" text-anchor="end">${Number(value.toPrecision(2))}</text>`);
  }
  parts.push(`<text x="${(box.left + right) / 2}" y="${box.height - 8}" text-anchor="middle">${BUSY ? "processor seconds" : "seconds"} a segment (logarithmic)</text>`);
  parts.push(`<text transform="translate(14 ${(box.top + bottom) / 2}) rotate(-90)" text-anchor="middle">MB a segment${logarithmic ? " (logarithmic)" : ""}</text>`);
  if (!FEW) parts.push(`<polyline class="frontier" points="${best.map((point) => point.px + "," + point.py).join(" ")}"/>`);
  for (const { range, py } of points) if (range)
    parts.push(`<line class="range" x1="${across.place(Math.max(range[0], 1e-4))}" x2="${across.place(range[1])}" y1="${py}" y2="${py}"/>`);
  points.forEach((point, index) => {
    if (!ours(point.row)) parts.push(mark(point, point.px, point.py, attributes(index, point)));
  });
  points.forEach((point, index) => {
    if (ours(point.row)) parts.push(mark(point, point.px, point.py, attributes(index, point)));
  });
  parts.push(names(points, best, box));
  element("chart").innerHTML = `<svg viewBox="0 0 ${box.width} ${box.height}" role="img" aria-label="Size against time">${parts.join("")}</svg>`;
  for (const shape of document.querySelectorAll("#chart .point")) {
    tipOn(shape, described(points[shape.dataset.index], best));
  }
  function attributes(index, point) {
    return `class="point" tabindex="0" data-index="${index}" aria-label="${escaped(point.row.label)}"`;
  }
}

function described({ row, figures }, best) {
  const original = figures.original_bytes / figures.segments, written = figures.output_bytes / figures.segments;
  const spread = figures.compress_spread === null ? "" : `, spread ${percent(figures.compress_spread)}`;
  const count = threads(row);
  return [
    `${row.label} (${count} thread${count > 1 ? "s" : ""})${best.some((point) => point.row === row) ? ", on the line" : ""}`,
    `${megabytes(written).toFixed(3)} MB of ${megabytes(original).toFixed(1)}, ${(original / written).toFixed(2)} : 1`,
    figures.ratio_to_zstd_1 === null ? "" : `${figures.ratio_to_zstd_1.toFixed(3)} of zstd -1's bytes`,
    `compressing ${seconds(figures.compress_s)} s (processor ${seconds(figures.compress_cpu_s)} s)${spread}`,
    `decompressing ${seconds(figures.decompress_s)} s (processor ${seconds(figures.decompress_cpu_s)} s)`,
  ].filter(Boolean).join("\n");
}

function drawLegend() {
  const words = { other: "others", gzip: "gzip, pigz", bzip2: "bzip2, lbzip2" };
  const found = [...new Set(data.rows.map(family))];
  const swatch = (shape) => `<svg width="14" height="14" viewBox="-7 -7 14 14">${shape}</svg>`;
  const entries = found.map((name) => `<button type="button" data-family="${name}" aria-pressed="true">${swatch(`<circle r="5" style="fill:var(--${name})"/>`)}${escaped(words[name] || name)}</button>`);
  if (data.rows.some((row) => row.contender === "walzip-unverified"))
    entries.push(`<span>${swatch('<circle r="5" style="fill:none;stroke:var(--walzip);stroke-width:2"/>')}walzip --no-verify</span>`);
  if (data.rows.some((row) => threads(row) > 1))
    entries.push(`<span>${swatch('<rect x="-5" y="-5" width="10" height="10" style="fill:var(--soft)"/>')}square: ${data.provenance.cpus} threads</span>`);
  element("legend").innerHTML = entries.join("");
  for (const button of document.querySelectorAll("#legend button")) button.addEventListener("click", () => {
    const name = button.dataset.family;
    if (!hidden.delete(name)) hidden.add(name);
    button.setAttribute("aria-pressed", String(!hidden.has(name)));
    drawChart();
  });
}

// --- Tables -------------------------------------------------------------------

const RUNS_MIN = 3, RUNS = data.complete_runs, FEW = RUNS < RUNS_MIN, BUSY = data.dominance.judged_by === "processor";
const JUDGED = BUSY ? "processor time" : "wall time";

function answered(answer) {
  if (answer.answer === "beaten") return { text: data.rows[answer.row].label, kind: "yes" };
  const others = { unbeaten: { text: "none", kind: "no" }, too_few_runs: { text: "too few runs" },
    not_distinguishable: { text: "not distinguishable" } };
  return others[answer.answer] || UNKNOWN;
}

const shares = (answer) => [answer.bytes, answer.compress_time, answer.decompress_time]
  .map((share) => (typeof share === "number" ? percent(share) : UNKNOWN));
// The level that it was compared with.
const level = (answer) => (answer.row === undefined ? UNKNOWN : data.rows[answer.row].label);
const smaller = (answer) => (answer.row === undefined || answer.bytes >= 1 ? UNKNOWN : level(answer));

function drawDominance() {
  const verdicts = data.dominance.verdicts;
  const unverified = data.rows.some((row) => row.contender === "walzip-unverified");
  const heads = ["program", "threads", "runs", "spread", ...(FEW ? ["smaller"] : ["beaten by", "level"]), "its bytes"];
  if (!FEW) heads.push(...(BUSY ? ["its cpu time", "its unpack cpu time"] : ["its time", "its unpack time"]), "on folders");
  if (unverified) heads.push(FEW ? "smaller, without proof" : "without proof by");
  const column = FEW ? smaller : answered;
  table("dominance", heads, verdicts.map((verdict) => {
    const cells = [named(data.rows[verdict.row]), verdict.threads, verdict.runs, verdict.spread === null ? UNKNOWN : percent(verdict.spread), column(verdict.verified), ...(FEW ? [] : [level(verdict.verified)]), ...shares(verdict.verified)];
    if (FEW) cells.splice(6);
    else cells.push(verdict.folders ? `${verdict.folders - verdict.not_on.length - verdict.undecided_on.length} of ${verdict.folders}` : UNKNOWN);
    return unverified ? [...cells, column(verdict.unverified)] : cells;
  }));
  const asked = verdicts.some((verdict) => verdict.folders);
  const judged = FEW ? `<p class="warning">${counted(RUNS, "complete run")}: differences in time prove nothing, so only sizes are
      compared. A verdict on time takes ${RUNS_MIN} interleaved runs.</p>`
    : BUSY ? `<p class="warning">The machine was busy (load ${data.dominance.busy.toFixed(1)}): verdicts are on processor time, not on wall time.</p>` : "";
  const proof = `walzip has one thread and decodes what it wrote before it reports success${unverified ? ", except in the last column" : ""}.`;
  const how = FEW ? "The lowest level that writes fewer bytes is named." : `By ${JUDGED}, where the runs of both
    are apart by more than half of the wider range; otherwise they are not distinguishable. Of the levels that are both smaller and faster, the smallest
    is named; "level" is that one, or where none is both the one that comes nearest. Shares are of the program's own.`;
  const list = FEW ? [] : verdicts.map(exception).filter(Boolean);
  element("exceptions").innerHTML = `${judged}<p class="note">Over the same segments. ${proof} ${how}</p>` +
    (list.length ? `<p>Where no level is both smaller and faster, or the runs do not tell:</p><ul>${list.join("")}</ul>`
      : asked && verdicts.every((verdict) => verdict.verified.answer === "beaten") ? "<p>No exceptions, on any folder.</p>" : "");
}

function exception(verdict) {
  const near = verdict.verified.answer === "not_distinguishable" ? verdict.verified : null;
  const none = verdict.folders && verdict.not_on.length === verdict.folders;
  const parts = [
    near ? `${data.rows[near.row].label} is smaller; its time is not distinguishable (${near.runs} runs${near.spread === null ? "" : ", spread " + percent(near.spread)})` : "",
    verdict.verified.answer === "unbeaten" && !none ? "not over all segments" : "",
    none ? "on no folder" : verdict.not_on.length ? "not on " + verdict.not_on.join(", ") : "",
    verdict.undecided_on.length ? "not distinguishable on " + verdict.undecided_on.join(", ") : "",
  ].filter(Boolean);
  const more = verdict.threads > 1 ? ` (${verdict.threads} threads against one)` : "";
  return parts.length ? `<li><strong>${escaped(data.rows[verdict.row].label)}</strong>: ${escaped(parts.join("; ") + more)}</li>` : "";
}

function drawPublished() {
  const { published, same_volume: same, volumes, published_source: source } = data.dominance;
  const measuredPairs = published.filter((pair) => pair.row !== null), others = published.length - measuredPairs.length;
  const [time, size] = same ? ["seconds", "MB"] : ["time", "size"];
  table("published", ["published", time, size, "here", "threads", time, size, FEW ? "smaller here" : "beaten here by"], measuredPairs.map((pair) => {
    const ratios = (of) => (of ? of.map((ratio) => ratio.toFixed(2)) : [UNKNOWN, UNKNOWN]);
    const start = [pair.label, ...(same ? [pair.compress_s.toFixed(3), pair.output_mb.toFixed(3)] : ratios(pair.relative_published))];
    const row = data.rows[pair.row], of = data.summary[pair.row].all;
    const grey = (text) => ({ text, kind: "wall" });
    const measured = of ? [grey(seconds(of.compress_s)), megabytes(of.output_bytes / of.segments).toFixed(3)] : [UNKNOWN, UNKNOWN];
    const verdict = data.dominance.verdicts.find((verdict) => verdict.row === pair.row);
    const answer = verdict.verified.answer === "unknown" ? verdict.unverified : verdict.verified;
    return [...start, row.label, threads(row), ...(same ? measured : ratios(pair.relative_here)), FEW ? smaller(answer) : answered(answer)];
  }));
  const example = data.dominance.timed_example;
  if (example) {
    const decimals = [3, 3, 3, 1, 0, 0, 0, 0];
    const values = (of) => of.map((value, at) => ({ text: value === null ? UNKNOWN : value.toFixed(decimals[at]), kind: at ? "" : "wall" }));
    const { label, values: theirs } = data.example;
    table("example", [label, "seconds", "user s", "system s", "peak MB", "major faults", "minor faults", "voluntary switches", "involuntary"],
      [["published, one segment", ...values(theirs)], ["here, in the mean", ...values(example)]]);
  }
  const what = same ? "Another machine and other segments: compare within each half of the table."
    : `The volumes differ, so there are no seconds: times and sizes are relative to gzip -1's, each within its own half${BUSY ? "; here it is processor time" : ""}.`;
  const unmeasured = others ? ` ${others} of the ${published.length} published pairs were not measured here; --published measures all.` : "";
  element("source").textContent = `${what}${unmeasured} ${volumes}. Source of the published figures: ${source}.`;
}

// The levels of each program, others before ours.
function programs() {
  const found = [...new Set(data.rows.map((row) => row.contender))].map((contender) => {
    const rows = data.rows.flatMap((row, at) => (row.contender === contender ? [at] : []));
    const name = contender.replace("-unverified", " --no-verify").replace(/-(T0|l|z)$/, " -$1");
    return { label: rows.length === 1 ? data.rows[rows[0]].label : name, rows, ours: ours(data.rows[rows[0]]) };
  });
  return found.sort((a, b) => a.ours - b.ours);
}

// A column for each level where they fit, or else one for each program's smallest.
function drawWorkloads() {
  const cell = (rows, folder) => {
    const known = rows.flatMap((row) => {
      const of = data.summary[row].folders.find((figures) => figures.folder === folder);
      return of && of.ratio_to_zstd_1 !== null ? [[of.ratio_to_zstd_1, row]] : [];
    });
    if (!known.length) return UNKNOWN;
    const [ratio, row] = known.reduce((best, one) => (one[0] < best[0] ? one : best));
    const saved = Math.max(0, 1 - ratio), title = rows.length > 1 ? data.rows[row].label : "";
    return { text: ratio.toFixed(3), title, style: `background:color-mix(in srgb, var(--walzip) ${(saved * 55).toFixed(0)}%, transparent)` };
  };
  const all = programs(), levels = all.flatMap(({ rows }) => rows.map((row) => ({ label: data.rows[row].label, rows: [row] })));
  const fit = levels.length <= 24, columns = fit ? levels : all;
  const heads = columns.map(({ label }) => (columns.length > 9 ? "|" : "") + label);
  table("workloads", ["folder", ...heads], folders.map((folder) => [folder, ...columns.map(({ rows }) => cell(rows, folder))]));
  if (!fit) element("workloads").insertAdjacentHTML("afterend", `<p class="note">Of each program the level that makes the least of a folder; the pointer says which.</p>`);
}

function drawFigures() {
  const realistic = data.summary.some((summary) => summary.realistic);
  const floor = data.provenance.memory_floor_bytes;
  const peak = (bytes) => (floor !== null && bytes <= floor ? "<" + Math.ceil(megabytes(floor)) : megabytes(bytes).toFixed(bytes < 1e7 ? 1 : 0));
  const counts = ({ compress_counts: of }) => (of ? [of[0] + of[1], of[2] + of[3]].map((count) => count.toFixed(0)) : [UNKNOWN, UNKNOWN]);
  const ratio = (of) => (of && of.ratio_to_zstd_1 !== null ? of.ratio_to_zstd_1.toFixed(3) : UNKNOWN);
  const heads = ["program", "threads", "size", ...(realistic ? ["realistic"] : []), "MB", "seconds", "cpu s", "spread", "peak MB",
    "faults", "switches", "unpack s", "cpu s", "peak MB"];
  table("figures", heads, data.summary.map((summary) => {
    const row = data.rows[summary.row], of = summary.all;
    const start = [named(row), threads(row)], wall = (text) => ({ text, kind: "wall" });
    if (!of) return [...start, ...heads.slice(2).map(() => UNKNOWN)];
    return [...start, ratio(of), ...(realistic ? [ratio(summary.realistic)] : []), megabytes(of.output_bytes / of.segments).toFixed(3),
      wall(seconds(of.compress_s)), seconds(of.compress_cpu_s), wall(of.compress_spread === null ? UNKNOWN : percent(of.compress_spread)),
      peak(of.compress_peak_bytes), ...counts(of), wall(seconds(of.decompress_s)), seconds(of.decompress_cpu_s), peak(of.decompress_peak_bytes)];
  }));
}

function drawProvenance() {
  const { provenance, settings, inputs } = data;
  const bytes = inputs.reduce((sum, input) => sum + input.bytes, 0);
  const sampled = settings.sampled ? `, a random sample of ${settings.sampled.of} (seed ${settings.sampled.seed})` : "";
  const runs = settings.runs === 1 ? "one run" : `${settings.runs} runs, interleaved`;
  element("subtitle").textContent = `${data.rows.length} programs and levels on ${counted(inputs.length, "segment")} in ${counted(folders.length, "folder")}${sampled}, ` +
    `${megabytes(bytes).toFixed(0)} MB; ${runs}; ${provenance.date.slice(0, 10)}. Every figure is a round trip that gave back every byte.`;
  const load = [provenance.load_average_before, provenance.load_average_after].map((value) => (value === null ? UNKNOWN : value.toFixed(2)));
  const lines = [["Machine", data.machine], ["Begun", provenance.date], ["Harness", provenance.harness],
    ["Load", `${load[0]} before, ${load[1]} after`], ["Size", "bytes relative to zstd -1's, geometric mean over folders; realistic leaves out pgbench-*, idle and seg64"]];
  element("provenance").innerHTML = lines.map(([name, text]) => `<dt>${escaped(name)}</dt><dd>${escaped(text)}</dd>`).join("");
  const warnings = data.missing.map((missing) => `${missing.contender} is left out: ${missing.program} is not installed (package ${missing.package}).`);
  for (const failed of data.failed)
    warnings.push(`${data.rows[failed.row].label} failed on ${inputs[failed.input].folder}/${inputs[failed.input].name}: ${failed.reason}`);
  const partly = data.covered.length < inputs.length ? ` Figures are of the ${data.covered.length} of ${counted(inputs.length, "segment")} that every program was measured on.` : "";
  if (data.stopped !== null) warnings.push(`Incomplete: ${data.stopped}.${partly}`);
  element("warnings").innerHTML = warnings.map((text) => `<p class="warning">${escaped(text)}</p>`).join("");
  table("commands", ["row", "version", "compress", "decompress"], data.rows.map((row) => [named(row),
    ...[row.program.version, row.compress, row.decompress].map((text) => ({ text, kind: "left" }))]));
  table("inputs", ["segment", "bytes", "BLAKE3"], inputs.map((input) => [`${input.folder}/${input.name}`, input.bytes, { text: input.blake3, kind: "left" }]));
}

function drawChoices() {
  const options = [["all", folders.length > 1 ? "all folders" : folders[0]]];
  if (data.summary.some((summary) => summary.realistic)) options.push(["realistic", "realistic folders"]);
  if (folders.length > 1) options.push(...folders.map((folder) => ["folder " + folder, folder]));
  element("workload").innerHTML = options.map(([value, text]) => `<option value="${escaped(value)}">${escaped(text)}</option>`).join("");
  for (const id of ["workload", "direction"]) element(id).addEventListener("change", drawChart);
  window.addEventListener("resize", drawChart);
}

element("line").textContent = FEW ? `${counted(RUNS, "complete run")}: the times of points that are close prove nothing.`
  : `The dashed line joins the points that no other is left of and below. A bar through a point is the range over ${RUNS} runs: points whose bars overlap, or nearly, are not distinguishable in time.`;
drawChoices();
drawLegend();
drawProvenance();
drawChart();
drawDominance();
drawPublished();
drawWorkloads();
drawFigures();
