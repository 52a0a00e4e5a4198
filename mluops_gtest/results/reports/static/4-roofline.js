// The roofline: operations per byte across, operations per second up, both logarithmic, with the device's two roofs.

function decades(values) {
  let [least, most] = [Infinity, -Infinity];
  for (const value of values) {
    if (!(value > 0) || !Number.isFinite(value)) continue;
    least = Math.min(least, value);
    most = Math.max(most, value);
  }
  const low = Math.floor(Math.log10(least) - 0.2);
  const high = Math.ceil(Math.log10(most) + 0.2);
  return { low, high, at: (value) => (Math.log10(value) - low) / (high - low) };
}

function peaks(device) {
  if (!device || !device.peak) return [];
  return typeof device.peak === "object" ? Object.entries(device.peak) : [["", device.peak]];
}

// Neither, where the call is too short to blame it.
const verdictOf = (roof) => (roof.accepted === undefined ? "" : roof.accepted ? "good" : "bad");

const intensity = (row) => (row.roof ? row.roof.intensity : 0);

// Of rows whose dots lie on one place only the first is drawn, with how many there are: there may be 100 000.
function dotsApart(rows, placeOf) {
  const places = new Map();
  for (const row of rows) {
    const place = placeOf(row);
    const known = places.get(place);
    if (known) known.more += 1;
    else places.set(place, { row, more: 0 });
  }
  return [...places.values()];
}

const andMore = (more) => (more ? ` (+ ${whole(more)})` : "");

function roofline(rows, device, current) {
  const points = rows.filter((row) => intensity(row) > 0);
  if (!points.length) return null;
  const bandwidth = device && device.bandwidth;
  const tops = peaks(device);
  const ridges = bandwidth ? tops.map(([, peak]) => peak / bandwidth) : [];
  const x = decades([...points.map(intensity), ...ridges, ...ridges.map((ridge) => 40 * ridge)]);
  const y = decades([...points.map((row) => row.roof.op_rate), ...tops.map(([, peak]) => peak)]);
  // Drawn for the window it is seen in, so that its words are neither large nor tiny there.
  const [width, height, left, foot, top] = [Math.min(Math.max(window.innerWidth - 70, 320), 640), 320, 66, 40, 12];
  const px = (value) => left + x.at(value) * (width - left - 12);
  const py = (value) => height - foot - y.at(value) * (height - foot - top);
  const drawing = svg("svg", { class: "picture roofline", viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": t("roofline") });
  for (let decade = x.low; decade <= x.high; decade += Math.ceil(((x.high - x.low) * 60) / width)) {
    drawing.append(line(px(10 ** decade), top, px(10 ** decade), height - foot, "grid"), words(px(10 ** decade), height - foot + 15, power("10", decade)));
  }
  for (let decade = y.low; decade <= y.high; decade += Math.ceil((y.high - y.low) / 8)) {
    drawing.append(line(left, py(10 ** decade), width - 12, py(10 ** decade), "grid"), words(left - 6, py(10 ** decade) + 4, rate(10 ** decade, "op/s"), "tick", "end"));
  }
  const [from, to] = [10 ** x.low, 10 ** x.high];
  // The names of lower roofs stand under their lines, so that near roofs do not write over each other.
  const falling = bandwidth ? [...tops].sort(([, a], [, b]) => b - a) : [];
  falling.forEach(([dtype, peak], place) => {
    const ridge = Math.min(Math.max(peak / bandwidth, from), to);
    const start = Math.max(from, 10 ** y.low / bandwidth);
    if (start < ridge) drawing.append(line(px(start), py(start * bandwidth), px(ridge), py(ridge * bandwidth), "roof"));
    if (ridge < to) {
      drawing.append(line(px(ridge), py(peak), px(to), py(peak), "roof"), words(width - 16, py(peak) + (place ? 1 + 12 * place : -5), `${dtype} ${rate(peak, "op/s")}`.trim(), "tick roof-name", "end"));
    }
  });
  const isThis = (row) => current !== null && row.number === current.number;
  const pixel = (value) => Math.round(value / 2);
  const others = dotsApart(
    points.filter((row) => !isThis(row)),
    (row) => `${pixel(px(intensity(row)))} ${pixel(py(row.roof.op_rate))} ${verdictOf(row.roof)}`,
  );
  // The case in question is drawn last, above the others.
  for (const { row, more } of [...others, ...points.filter(isThis).map((row) => ({ row, more: 0 }))]) {
    const { roof } = row;
    const told = !current ? "" : isThis(row) ? " this" : " faint";
    const dot = svg("circle", { cx: px(intensity(row)), cy: py(roof.op_rate), r: isThis(row) ? 7 : 4, class: `dot ${verdictOf(roof)}${told}` });
    drawing.append(tipped(dot, `${row.id}: ${rate(roof.op_rate, "op/s")}, ${figure(intensity(row))} op/B${andMore(more)}`));
  }
  drawing.append(words((left + width) / 2, height - 6, t("intensity"), "axis-name"));
  return drawing;
}

const shareOf = (roof) => Math.max(roof.io, roof.compute || 0);

// Shares of the bandwidth for all cases of an operator on one line: pure-IO operators have no place on a roofline.
function efficiencyStrip(rows) {
  const judged = rows.filter((row) => row.roof && row.roof.io !== undefined);
  if (!judged.length) return null;
  return el(
    "div",
    { class: "strips" },
    [...groupedBy(judged, (row) => [row.operator])].sort().map(([operator, members]) =>
      el(
        "div",
        { class: "strip" },
        el("span", { class: "what" }, operator),
        picture(
          30,
          `${operator}: ${t("roof_share")}`,
          svg("rect", { x: 0, y: 11, width: "100%", height: 8, rx: 2, class: "track" }),
          [0.3, 0.6].map((share) => line(percent(share), 5, percent(share), 25, "limit")),
          dotsApart(members, ({ roof }) => `${Math.round(500 * shareOf(roof))} ${verdictOf(roof)}`).map(({ row, more }) => {
            const { roof } = row;
            const share = shareOf(roof);
            const dot = svg("circle", { cx: percent(Math.min(share, 1)), cy: 15, r: 4, class: `dot ${verdictOf(roof)}` });
            return tipped(dot, `${row.id}: ${shareText(share, 1)} (${t("side_" + roof.side)}), ${t("wanted")} ${shareText(roof.wanted, 1)}${andMore(more)}`);
          }),
        ),
        el("span", { class: "figure" }, `${members.filter((row) => row.roof.accepted).length} / ${members.length}`),
      ),
    ),
    el("div", { class: "strip" }, el("span", { class: "what" }), picture(16, t("roof_share"), [0, 0.3, 0.6, 1].map((share) => words(percent(share), 12, `${100 * share} %`, "tick", share === 0 ? "start" : share === 1 ? "end" : "middle"))), el("span", { class: "figure" })),
  );
}
