// What the run says as a whole.

const card = (label, value, name = "") => el("div", { class: `card ${name}` }, el("span", { class: "value" }, value), el("span", { class: "label" }, label));
const panel = (id, title, hint, ...children) => el("section", { id, class: "panel" }, el("h2", {}, title), hint && el("p", { class: "hint" }, hint), ...children);

const blockedRows = () => RESULTS.filter((row) => row.blocks);
const fact = (pairs, name) => (pairs.find(([key]) => key === name) || [])[1];

function verdictSection(groups) {
  const blocked = blockedRows().length;
  const counts = counted(RESULTS, (row) => [row.outcome], BLOCKING_FIRST);
  const backendMs = RESULTS.reduce((sum, row) => sum + row.ms, 0);
  const words = t("verdict_" + DATA.verdict, { n: whole(blocked), all: whole(RESULTS.length) });
  const sign = { clear: "✓", blocked: "✗", empty: "∅", interrupted: "◼" }[DATA.verdict];
  return el(
    "section",
    { class: `verdict v-${DATA.verdict}`, id: "overview" },
    el("div", { class: "headline" }, el("span", { class: "big-sign", "aria-hidden": "true" }, sign), el("p", {}, words)),
    RESULTS.length ? outcomeBar(counts, RESULTS.length, "bar tall") : null,
    el(
      "div",
      { class: "cards" },
      card(t("cases"), whole(RESULTS.length)),
      card(t("o_passed"), whole(counts.get("passed") || 0)),
      card(t("blocking"), whole(blocked), blocked ? "bad" : ""),
      card(t("distinct"), whole(groups.length)),
      card(t("operators"), whole(new Set(RESULTS.map((row) => row.operator)).size)),
      card(t("backend_time"), duration(backendMs * 1e6)),
      card(t("run_time"), duration(DATA.run.seconds * 1e9)),
    ),
  );
}

function summaryTable(title, groups, filterName) {
  const rows = [...groups].sort(([a], [b]) => (a < b ? -1 : 1)).map(([word, members]) => {
    const counts = counted(members, (row) => [row.outcome], BLOCKING_FIRST);
    const blocked = members.filter((row) => row.blocks).length;
    const worst = members.reduce((most, { ratio }) => (ratio === null ? most : Math.max(most, ratio)), -1);
    return el(
      "tr",
      {},
      el("th", { scope: "row" }, el("button", { type: "button", class: "link", click: () => goToList({ [filterName]: word }) }, word)),
      el("td", { class: "bar-cell" }, outcomeBar(counts, members.length)),
      el("td", { class: "number" }, whole(members.length)),
      el("td", { class: `number ${blocked ? "bad" : "faint"}` }, blocked ? el("button", { type: "button", class: "link bad", click: () => goToList({ [filterName]: word, outcome: "blocking" }) }, whole(blocked)) : "0"),
      el("td", { class: "number" }, shareText(counts.get("passed") || 0, members.length)),
      el("td", { class: "number optional" }, worst < 0 ? "—" : figure(Number(worst.toPrecision(2)))),
      el("td", { class: "number optional" }, duration(members.reduce((sum, row) => sum + row.ms, 0) * 1e6)),
    );
  });
  const heads = ["", "", t("cases"), t("blocking"), t("o_passed"), t("worst_ratio"), t("time")];
  return el(
    "section",
    { class: "panel" },
    el("h2", {}, title),
    el("div", { class: "scroll" }, el("table", { class: "summary" }, el("thead", {}, el("tr", {}, heads.map((head, place) => el("th", { scope: "col", class: place > 4 ? "number optional" : place > 1 ? "number" : "" }, head)))), el("tbody", {}, rows))),
  );
}

// What the cases of a group have in common, and of one of them its map, some wrong elements and how to run it again.
function groupBody(cause, first) {
  const row = unfolded(cause ? RESULTS[cause.case] : first);
  const words = cause && [...cause.support, t("cause_example", { case: row.id, words: cause.example })];
  const about = cause && el("div", { class: "group-words" }, words.map((said) => el("p", {}, said)), samplesTable(row, cause.output), el("p", {}, el("code", {}, cause.mark)));
  return el("div", { class: "group-body" }, cause && el("div", { class: "group-cause" }, about, cause.map && wrongMap(cause.map, cause.dims)), commandLine(row.repro));
}

function failureGroup([mark, members]) {
  const operators = [...new Set(members.map((row) => row.operator))].sort();
  const [first] = members;
  const cause = first.cause ? DATA.causes[first.cause - 1] : null;
  const search = cause ? { search: `cause:${first.cause}` } : first.mark ? { search: `mark:${mark}` } : { outcome: first.outcome };
  const list = el("ul", { class: "group-cases" }, members.slice(0, 200).map((row) => el("li", {}, caseLink(row, el("bdi", {}, row.id)))));
  return el(
    "details",
    { class: "group" },
    el(
      "summary",
      { click: () => whenRead(() => list.previousSibling.tagName === "SUMMARY" && list.before(groupBody(cause, first))) },
      el("span", { class: "chevron", "aria-hidden": "true" }, "›"),
      el("span", { class: "group-count" }, whole(members.length)),
      pill(first.outcome),
      el("span", { class: "group-why" }, cause ? cause.head : first.why.split("\n")[0] || t("no_reason")),
      cause ? null : el("span", { class: "group-about" }, operators.join(", "), first.mark ? el("code", {}, mark) : null),
    ),
    list,
    el("button", { type: "button", class: "small", click: () => goToList(search) }, t("show_in_list", { n: whole(members.length) })),
  );
}

// Blocking cases by cause, those that have none by fingerprint, else by what is said of them. The smallest case stands for
// its group.
function failureGroups() {
  const groups = [...groupedBy(blockedRows(), (row) => [row.cause ? `cause ${row.cause}` : row.mark || `${row.outcome}: ${row.why}`])];
  for (const [, members] of groups) members.sort((a, b) => a.size - b.size || a.place - b.place);
  return groups.sort(([, a], [, b]) => ORDERS.severity(a[0], b[0]) || b.length - a.length);
}

function failuresSection(groups) {
  if (!groups.length) return null;
  const body = el("div", { class: "groups" }, groups.slice(0, 20).map(failureGroup));
  const rest = groups.slice(20);
  const more = rest.length ? el("button", { type: "button", class: "more" }, t("more_groups", { n: whole(rest.length) })) : null;
  if (more) {
    more.addEventListener("click", () => {
      body.append(...rest.map(failureGroup));
      more.remove();
    });
  }
  return panel("failures", t("failures"), t("failures_hint", { n: whole(blockedRows().length), groups: whole(groups.length) }), body, more);
}

function transitionsSection() {
  if (!DATA.against) return null;
  const counts = counted(ROWS, (row) => (row.moved ? [row.moved] : []));
  const order = ["regressed", "new and failing", "missing", "became skipped", "not run", "suspect", "still failing", "fixed", "new", "still skipped", "still passing"];
  const entries = [...counts].sort(([a], [b]) => order.indexOf(a) - order.indexOf(b) || (a < b ? -1 : 1));
  return panel(
    "transitions",
    t("transitions"),
    t("transitions_hint"),
    el(
      "div",
      { class: "tiles" },
      entries.map(([word, count]) =>
        el("button", { type: "button", class: `tile m-${word.replaceAll(" ", "-")}`, click: () => goToList({ moved: word }) }, el("span", { class: "value" }, whole(count)), el("span", { class: "label" }, movedText(word))),
      ),
    ),
  );
}

function performanceSection() {
  const timed = RESULTS.filter((row) => row.roof !== undefined);
  if (!timed.length) return null;
  const { device } = DATA.run;
  const drawing = roofline(timed, device, null);
  const strips = efficiencyStrip(timed);
  const about = device ? t("device_is", { name: device.name || t("device"), bandwidth: device.bandwidth ? rate(device.bandwidth, "B/s") : "—" }) : t("no_device");
  return panel(
    "performance",
    t("performance"),
    `${t("timed", { n: whole(timed.length) })} ${about}`,
    el("div", { class: "side-by-side" }, drawing && el("div", {}, el("h3", {}, t("roofline")), drawing), strips && el("div", {}, el("h3", {}, t("roof_share")), strips)),
  );
}

function trendsSection() {
  const starts = DATA.runs;
  if (!starts.length) return null;
  const ends = el("div", { class: "runs-ends" }, el("span", {}, starts[0].slice(0, 16).replace("T", " ")), el("span", {}, starts[starts.length - 1].slice(0, 16).replace("T", " ")));
  return panel("trends", t("trends"), t("trends_hint", { n: whole(starts.length) }), el("div", { class: "runs-frame", "--count": starts.length }, runsPicture(), starts.length > 1 && ends));
}

const deviceFacts = (device) => [
  [t("name"), device.name || "—"],
  [t("bandwidth"), rate(device.bandwidth, "B/s")],
  ...peaks(device).map(([dtype, peak]) => [`${t("peak")} ${dtype}`, rate(peak, "op/s")]),
];

function environmentSection() {
  const { run } = DATA;
  const seconds = Object.entries(run.timing);
  const part = (title, pairs) => pairs.length > 0 && el("div", {}, el("h3", {}, title), facts(pairs.map(([name, value]) => [name, el("code", {}, value)])));
  return panel(
    "environment",
    t("environment"),
    null,
    el(
      "div",
      { class: "columns" },
      part(t("labels"), run.labels),
      part(t("backend"), run.backend),
      part(t("machine"), run.environment),
      run.device ? part(t("device"), deviceFacts(run.device)) : null,
      part(t("selection"), run.selection),
      part(t("timing"), seconds.map(([phase, value]) => [phase, duration(value * 1e9)])),
    ),
  );
}
