// Earlier runs: what became of a case, and how many cases blocked in each run.

const AT_THRESHOLD = 24;

function trendPoints(row) {
  const [outcomes, ratios] = row.trend;
  return [...outcomes].map((sign, place) => ({
    started: DATA.runs[place],
    commit: DATA.commits[place],
    outcome: sign === "." ? null : OUTCOMES[fromDigit(sign)],
    ratio: ratios[place],
  }));
}

// The latest outcomes as small blocks, for a row of the list.
function trendBlocks(row) {
  if (!row.trend) return null;
  const points = trendPoints(row).filter((point) => point.outcome).slice(-12);
  const label = points.map((point) => t("o_" + point.outcome)).join(", ");
  return el("span", { class: "blocks", role: "img", "aria-label": `${t("trend")}: ${label}` }, points.map((point) => el("span", { class: `block o-${point.outcome}` })));
}

function ratioText(sign) {
  if (sign === ".") return "";
  if (sign === "!") return "∞";
  if (sign === "0") return "0";
  return `${power("2", fromDigit(sign) - AT_THRESHOLD)} × ${t("threshold")}`;
}

// Readings against their threshold over the runs, each dot in the colour of its outcome.
function trendPicture(row) {
  const points = trendPoints(row);
  const [height, foot] = [110, 18];
  const at = (place) => percent((place + 0.5) / points.length);
  const level = (sign) => (sign === "!" ? 6 : 10 + (1 - Math.max(fromDigit(sign), 1) / 35) * (height - foot - 16));
  const limit = level(AT_THRESHOLD.toString(36));
  const shown = points.map((point, place) => ({ ...point, place })).filter((point) => point.outcome);
  if (!shown.length) return null;
  const drawing = picture(
    height,
    `${t("trend")}: ${shown.map((point) => t("o_" + point.outcome)).join(", ")}`,
    line(0, limit, "100%", limit, "limit"),
    words(0, limit - 4, t("threshold"), "tick", "start"),
    line(0, height - foot, "100%", height - foot, "axis"),
    words(0, height - 4, points[0].started.slice(0, 10), "tick", "start"),
    points.length > 1 && words("100%", height - 4, points[points.length - 1].started.slice(0, 10), "tick", "end"),
  );
  const measured = shown.filter((point) => point.ratio !== ".");
  measured.slice(1).forEach((point, before) => {
    const last = measured[before];
    drawing.append(line(at(last.place), level(last.ratio), at(point.place), level(point.ratio), "trend-line"));
  });
  for (const point of shown) {
    const y = point.ratio === "." ? height - foot : level(point.ratio);
    const said = [point.started, point.commit, t("o_" + point.outcome), ratioText(point.ratio)].filter(Boolean).join(" · ");
    drawing.append(tipped(svg("circle", { cx: at(point.place), cy: y, r: 4, class: `mark o-${point.outcome}` }), said));
  }
  return drawing;
}

// The times of the case over the runs, from 0 to the largest.
function timesTrend(row) {
  const past = (row.past || []).map((ms, place) => ({ ms, place })).filter(({ ms }) => ms !== null);
  if (past.length < 2) return null;
  const [height, foot, top] = [64, 4, 16];
  const most = Math.max(...past.map(({ ms }) => ms)) || 1;
  const at = ({ place }) => percent((place + 0.5) / row.past.length);
  const level = ({ ms }) => height - foot - (ms / most) * (height - foot - top);
  const said = ({ ms, place }) => [DATA.runs[place], DATA.commits[place], duration(ms * 1e6)].filter(Boolean).join(" · ");
  return picture(
    height,
    `${t("time")}: ${past.map(({ ms }) => duration(ms * 1e6)).join(", ")}`,
    words(0, 10, t("time"), "tick", "start"),
    words("100%", 10, duration(past[past.length - 1].ms * 1e6), "tick", "end"),
    line(0, height - foot, "100%", height - foot, "axis"),
    past.slice(1).map((point, before) => line(at(past[before]), level(past[before]), at(point), level(point), "trend-line")),
    past.map((point) => tipped(svg("circle", { cx: at(point), cy: level(point), r: 3, class: "dot" }), said(point))),
  );
}

// One column per run: what blocked in red, the rest below.
function runsPicture() {
  const totals = DATA.runs.map(() => new Map());
  for (const row of RESULTS) {
    [...row.trend[0]].forEach((sign, place) => {
      if (sign === ".") return;
      const word = OUTCOMES[fromDigit(sign)];
      totals[place].set(word, (totals[place].get(word) || 0) + 1);
    });
  }
  return el(
    "div",
    { class: "runs" },
    DATA.runs.map((started, place) => {
      const counts = new Map([...totals[place]].sort(([a], [b]) => BLOCKING_FIRST.indexOf(a) - BLOCKING_FIRST.indexOf(b)));
      const total = [...counts.values()].reduce((sum, count) => sum + count, 0);
      const blocked = [...counts].filter(([word]) => BLOCKS.has(word)).reduce((sum, [, count]) => sum + count, 0);
      const said = `${[started, DATA.commits[place]].filter(Boolean).join(" · ")}: ${[...counts].map(([word, count]) => `${t("o_" + word)} ${whole(count)}`).join(", ")}`;
      return tipped(
        el(
          "div",
          { class: "run", role: "img", "aria-label": said },
          el("span", { class: "run-count" }, blocked ? whole(blocked) : ""),
          el("div", { class: "column" }, [...counts].map(([word, count]) => el("span", { class: `part o-${word}`, "--share": percent(count / total) }))),
        ),
        said,
      );
    }),
  );
}
