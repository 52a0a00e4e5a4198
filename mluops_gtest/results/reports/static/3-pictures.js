// Pictures. Places along an axis are percentages, so that a picture follows its column and its words keep their size.

const BINS = 32;
const LOWEST = -30;

const picture = (height, label, ...children) =>
  svg("svg", { class: "picture", width: "100%", height, role: "img", "aria-label": label }, ...children);

const line = (x1, y1, x2, y2, name) => svg("line", { x1, y1, x2, y2, class: name });
const words = (x, y, content, name = "tick", anchor = "middle") => svg("text", { x, y, class: name, "text-anchor": anchor }, content);

// Shares of a whole side by side, largest trouble first.
function outcomeBar(counts, total, name = "bar") {
  const label = [...counts].map(([word, count]) => `${t("o_" + word)} ${count}`).join(", ");
  return el(
    "div",
    { class: name, role: "img", "aria-label": label },
    [...counts].map(([word, count]) =>
      tipped(el("span", { class: `part o-${word}`, "--share": percent(count / total) }), `${t("o_" + word)}: ${whole(count)} (${shareText(count, total)})`),
    ),
  );
}

// A logarithmic axis over positive figures, with a place for 0 on its left and for what is not finite on its right.
function logAxis(figures) {
  const usable = figures.filter((value) => Number.isFinite(value) && value > 0).map(Math.log10);
  const low = Math.floor(Math.min(...usable, 0) - 0.5);
  const high = Math.ceil(Math.max(...usable, low + 2) + 0.5);
  // Not at the ends, where 0 and ∞ have their names.
  const step = Math.ceil((high - low) / 8);
  const ticks = [];
  for (let decade = low + 1; decade < high; decade += step) ticks.push(decade);
  const [left, right] = [0.09, 0.92];
  return {
    ticks,
    at(value) {
      if (!Number.isFinite(value)) return 0.97;
      if (value <= 0) return 0.03;
      return left + ((Math.log10(value) - low) / (high - low)) * (right - left);
    },
  };
}

function readingPicture(reading, axis) {
  const value = numeric(reading.value);
  const limit = axis.at(reading.threshold);
  const label = `${reading.criterion}: ${figure(value)} ${reading.within ? "≤" : ">"} ${figure(reading.threshold)}`;
  return tipped(
    picture(
      26,
      label,
      svg("rect", { x: 0, y: 5, width: "100%", height: 16, rx: 3, class: "zone-bad" }),
      svg("rect", { x: 0, y: 5, width: percent(limit), height: 16, rx: 3, class: "zone-good" }),
      axis.ticks.map((decade) => line(percent(axis.at(10 ** decade)), 5, percent(axis.at(10 ** decade)), 21, "grid")),
      line(percent(limit), 2, percent(limit), 24, "limit"),
      svg("circle", { cx: percent(axis.at(value)), cy: 13, r: 5, class: reading.within ? "dot good" : "dot bad" }),
    ),
    label,
  );
}

const readingAxis = (axis) =>
  picture(
    16,
    t("log_axis"),
    words(percent(0.03), 12, "0"),
    axis.ticks.map((decade) => words(percent(axis.at(10 ** decade)), 12, power("10", decade))),
    words(percent(0.97), 12, "∞"),
  );

const heat = (bin) => percent(bin / (BINS - 1));

function binText(bin) {
  if (bin === 0) return `< ${power("2", LOWEST + 1)}`;
  const start = `${power("2", bin + LOWEST)} (${figure(2 ** (bin + LOWEST))})`;
  return bin === BINS - 1 ? `≥ ${start}` : `${start} … ${power("2", bin + LOWEST + 1)}`;
}

function errorHistogram(profile) {
  const most = Math.log1p(Math.max(...profile.bins));
  const [height, foot] = [150, 20];
  const bars = profile.bins.map((count, bin) => {
    const size = count ? Math.max((Math.log1p(count) / most) * (height - foot - 8), 3) : 0;
    const bar = svg("rect", { x: percent((bin + 0.06) / BINS), width: percent(0.88 / BINS), y: height - foot - size, height: size, class: "heat", "--heat": heat(bin) });
    return tipped(bar, `${t("relative_error")} ${binText(bin)}: ${t("elements", { n: whole(count) })}`);
  });
  const ticks = [0, 6, 12, 18, 24, 30].map((bin) => words(percent((bin + 0.5) / BINS), height - 5, power("2", bin + LOWEST)));
  const label = `${t("histogram")}: ${profile.bins.map((count, bin) => (count ? `${binText(bin)} ${count}` : "")).filter(Boolean).join("; ")}`;
  return picture(height, label, line(0, height - foot, "100%", height - foot, "axis"), bars, ticks);
}

function spanText(cell, cells, size) {
  const [from, to] = [Math.ceil((cell * size) / cells), Math.ceil(((cell + 1) * size) / cells) - 1];
  return from >= to ? String(from) : `${from}–${to}`;
}

// A cell of a folded map by flat indices: from its first element to its last.
function flatText(cell, cells, sizes, count) {
  const [first, last] = [0, 1].map((end) => [0, 1].map((axis) => Math.ceil(((cell[axis] + end) * sizes[axis]) / cells[axis]) - end));
  const [from, to] = [first, last].map(([row, column]) => Math.min(row * sizes[1] + column, count - 1));
  return from >= to ? String(from) : `${from}–${to}`;
}

// A map of cells: the last axis runs across, all others down; a folded map has lines of `width` elements. `look` gives
// each sign its class, its heat or null, and its words.
function cellMap({ rows, columns, cells, width }, dims, label, look) {
  // Cells are square where the map is; a narrow or flat one stretches them, at most threefold.
  const fit = (count) => Math.min(Math.floor(300 / count), 28);
  const wide = Math.min(fit(columns), 3 * fit(rows));
  const high = Math.min(fit(rows), 3 * fit(columns));
  const count = dims ? dims.reduce((product, dim) => product * dim, 1) : rows * columns;
  const across = width || (dims && dims.length ? dims[dims.length - 1] : columns);
  const down = Math.ceil(count / across);
  const shapes = [...cells].map((sign, place) => {
    const [row, column] = [Math.floor(place / columns), place % columns];
    const where = width
      ? `${t("map_flat")} ${flatText([row, column], [rows, columns], [down, across], count)}`
      : `${t("map_rows")} ${spanText(row, rows, down)}, ${t("map_columns")} ${spanText(column, columns, across)}`;
    const [named, warmth, said] = look(sign);
    const shape = svg("rect", { x: column * wide, y: row * high, width: wide - 0.6, height: high - 0.6, class: `cell ${named}`, "--heat": warmth });
    return tipped(shape, `${where}: ${said}`);
  });
  return svg("svg", { class: "picture map", width: columns * wide, height: rows * high, viewBox: `0 0 ${columns * wide} ${rows * high}`, role: "img", "aria-label": `${label}: ${rows} × ${columns}` }, shapes);
}

const mapLegend = (entries) => el("div", { class: "legend" }, entries.map(([name, words]) => el("span", { class: "entry" }, el("span", { class: `swatch ${name}` }), words)));

function errorMap(profile, dims) {
  const drawing = cellMap(profile, dims, t("map"), (sign) => {
    if (sign === ".") return ["equal", null, t("map_equal")];
    if (sign === "!") return ["lost", null, t("map_lost")];
    return ["heat", heat(fromDigit(sign)), binText(fromDigit(sign))];
  });
  return el("div", { class: "map-frame" }, drawing, mapLegend([["equal", t("map_equal")], ["ramp", `${power("2", LOWEST)} … ≥ 2`], ["lost", t("map_lost")]]));
}

// Which share of each cell is wrong.
function wrongMap([rows, columns, cells, width], dims) {
  const drawing = cellMap({ rows, columns, cells, width }, dims, t("wrong_map"), (sign) => {
    if (sign === ".") return ["equal", null, t("wrong_none")];
    if (sign === "#") return ["wrong", null, t("wrong_all")];
    return ["partly", null, t("wrong_some")];
  });
  return el("div", { class: "map-frame" }, drawing, mapLegend([["equal", t("wrong_none")], ["partly", t("wrong_some")], ["wrong", t("wrong_all")]]));
}

function timesPicture(times, label) {
  const { low, edge, high, median, from, to, bins } = times;
  const span = edge - low || 1;
  const at = (ns) => (edge > low ? Math.min((ns - low) / span, 1) : 0.5);
  const most = Math.max(...bins);
  const [height, foot] = [92, 20];
  const bars = bins.map((count, bin) => {
    const size = count ? Math.max((count / most) * (height - foot - 6), 2) : 0;
    const start = low + (span * bin) / bins.length;
    const tail = bin === bins.length - 1 && high > edge ? ` (${t("tail")} ${duration(high)})` : "";
    const bar = svg("rect", { x: percent((bin + 0.06) / bins.length), width: percent(0.88 / bins.length), y: height - foot - size, height: size, class: "times" });
    return tipped(bar, `${duration(start)} … ${duration(low + (span * (bin + 1)) / bins.length)}${tail}: ${t("samples", { n: whole(count) })}`);
  });
  return picture(
    height,
    `${label}: ${t("median")} ${duration(median)}, ${duration(low)} … ${duration(high)}`,
    Number.isFinite(to) && svg("rect", { x: percent(at(from)), width: percent(Math.max(at(to) - at(from), 0.004)), y: 0, height: height - foot, class: "interval" }),
    bars,
    line(percent(at(median)), 0, percent(at(median)), height - foot, "median"),
    line(0, height - foot, "100%", height - foot, "axis"),
    words(0, height - 5, duration(low), "tick", "start"),
    edge > low && words("100%", height - 5, (high > edge ? "≥ " : "") + duration(edge), "tick", "end"),
  );
}

function efficiencyBar(label, share, wanted, judged) {
  const scale = Math.max(1, share);
  const said = `${label}: ${shareText(share, 1)}`;
  return el(
    "div",
    { class: "efficiency" },
    el("span", { class: "what" }, label),
    picture(
      18,
      said,
      svg("rect", { x: 0, y: 4, width: "100%", height: 10, rx: 2, class: "track" }),
      svg("rect", { x: 0, y: 4, width: percent(share / scale), height: 10, rx: 2, class: judged ? (share >= wanted ? "fill good" : "fill bad") : "fill" }),
      judged && line(percent(wanted / scale), 0, percent(wanted / scale), 18, "limit"),
    ),
    el("span", { class: "figure" }, `${Number((100 * share).toPrecision(3))} %`),
  );
}
