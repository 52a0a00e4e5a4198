// Everything about one case, made when the case is opened.

const pill = (outcome) => el("span", { class: `pill o-${outcome}` }, el("span", { class: "sign", "aria-hidden": "true" }, MARKS[outcome]), t("o_" + outcome));
const block = (title, name, ...children) => el("section", { class: `block-of ${name}` }, el("h4", {}, title), ...children);

const table = (heads, rows, numbers = [], name = "") =>
  el(
    "div",
    { class: "scroll" },
    el("table", { class: name }, el("thead", {}, el("tr", {}, heads.map((head) => el("th", { scope: "col", class: numbers.includes(head) ? "number" : null }, head)))), el("tbody", {}, rows)),
  );

const facts = (pairs) => el("dl", { class: "facts" }, pairs.filter(Boolean).map(([name, value]) => el("div", {}, el("dt", {}, name), el("dd", {}, value))));

// Some wrong elements of an output, as the backend and the baseline have them.
function samplesTable(row, output) {
  const rows = (row.wrong || []).filter(([name]) => name === output).flatMap(([, , samples]) =>
    samples.map((cells) => el("tr", {}, cells.map((words, column) => el("td", { class: column === 1 ? "mono bad" : "mono" }, words)))),
  );
  return rows.length ? table([t("element"), t("evaluated"), t("baseline")], rows, [], "samples") : null;
}

// The cause that the case fails for, and how its own outputs are wrong.
function causeBlock(row) {
  const cause = row.cause && DATA.causes[row.cause - 1];
  if (!cause && !row.wrong) return null;
  return el(
    "div",
    { class: "cause" },
    cause && el("p", { class: "cause-head" }, cause.head),
    // Where the head says the same, once is enough.
    (row.wrong || []).flatMap(([output, words]) => [cause && cause.head.endsWith(words) ? null : el("p", {}, words), samplesTable(row, output)]),
    cause && cause.rows.length > 1 && el("button", { type: "button", class: "link", click: () => goToList({ search: `cause:${row.cause}` }) }, t("cause_cases", { n: whole(cause.rows.length) })),
  );
}

function reasonBlock(row) {
  const parts = [causeBlock(row)];
  if (row.why) parts.push(el("p", { class: `why ${row.blocks ? "blocking" : ""} o-${row.outcome}` }, row.why));
  if (row.expected && row.status !== row.expected) {
    parts.push(el("p", { class: "statuses" }, `${t("status")}: `, el("code", {}, row.status || t("none")), ` · ${t("expected")}: `, el("code", {}, row.expected)));
  }
  if (row.attempts) {
    parts.push(el("ol", { class: "attempts" }, row.attempts.map(([outcome, reason]) => el("li", {}, pill(OUTCOMES[outcome]), " ", pooled(reason)))));
  }
  return parts;
}

function tensorsBlock(row) {
  const line = (direction) => ({ id, dtype, layout, dims }) => {
    return el("tr", {}, el("td", { class: "mono" }, id), el("td", { class: "mono dims" }, dims.join(" × ") || "—"), el("td", { class: "mono" }, dtype), el("td", { class: "mono" }, layout), el("td", {}, direction));
  };
  const rows = [...row.inputs.map(line(t("input"))), ...row.outputs.map(line(t("output")))];
  return rows.length ? block(t("tensors"), "double", table([t("name"), t("dims"), t("dtype"), t("layout"), ""], rows)) : null;
}

function paramsBlock(row) {
  if (!row.params) return null;
  const [names, ...values] = row.params;
  return block(t("params"), "params", facts(pooled(names).map((name, place) => [name, el("code", {}, values[place])])));
}

function criteriaBlock(row) {
  if (!row.readings.length) return null;
  const axis = logAxis(row.readings.flatMap((reading) => [numeric(reading.value), reading.threshold]));
  const rows = row.readings.map((reading) =>
    el(
      "tr",
      {},
      el("td", { class: "mono" }, reading.output),
      el("td", { class: "mono" }, reading.criterion),
      el("td", { class: "axis-cell" }, readingPicture(reading, axis)),
      el("td", { class: `mono number ${reading.within ? "good" : "bad"}` }, figure(reading.value)),
      el("td", { class: "mono number limit-cell" }, figure(reading.threshold)),
    ),
  );
  rows.push(el("tr", { class: "axis-row" }, el("td"), el("td"), el("td", { class: "axis-cell" }, readingAxis(axis)), el("td"), el("td")));
  return block(t("criteria"), "criteria wide", table([t("output"), t("criterion"), t("log_axis"), t("value"), t("threshold")], rows, [t("value"), t("threshold")], "readings"));
}

function worstBlock(row) {
  if (!row.worst) return null;
  const [output, index, evaluated, baseline, unequal, compared, ulp, beyond, bits] = row.worst;
  // Results of earlier versions, and outputs within their criteria, have no count of their own.
  const counted = beyond === null ? unequal : beyond;
  const share = (count) => `${whole(count)} / ${whole(compared)} (${shareText(count, compared)})`;
  return block(
    t("worst"),
    "worst",
    facts([
      [t("element"), el("code", {}, `${pooled(output)}${index}`)],
      [t("evaluated"), el("code", {}, evaluated)],
      [t("baseline"), el("code", {}, baseline)],
      beyond !== null && [t("beyond"), share(beyond)],
      [t(bits === null ? "unequal" : "bits_unequal"), share(bits === null ? unequal : bits)],
      ulp !== null && [t("max_ulp"), whole(ulp)],
    ]),
    el("div", { class: "bar thin", role: "img", "aria-label": shareText(counted, compared) }, el("span", { class: "part o-failed", "--share": percent(compared ? counted / compared : 0) })),
  );
}

function elementsBlock(row) {
  if (!row.elements) return null;
  const rows = row.elements.map(([what, beyond, compared, ratio, place, evaluated, baseline, allowed]) => {
    const [output, precision] = pooled(what);
    return el(
      "tr",
      {},
      el("td", { class: "mono" }, output),
      el("td", { class: `mono number ${beyond ? "bad" : "good"}` }, `${whole(beyond)} / ${whole(compared)}`),
      el("td", { class: "mono number" }, `${figure(ratio)} ×`),
      el("td", { class: "mono" }, `${place} = ${evaluated}`),
      el("td", { class: "mono" }, `${baseline} ± ${figure(allowed)}`),
      el("td", {}, precision),
    );
  });
  const numbers = [t("beyond_bound"), t("of_bound")];
  const heads = [t("output"), ...numbers, t("worst"), t("baseline"), t("precision")];
  return block(t("each_element"), "elements wide", table(heads, rows, numbers), el("p", { class: "hint" }, t("each_element_hint")));
}

function exactBlock(row) {
  if (!row.exact) return null;
  return block(t("arbitration"), "exact wide", el("ul", {}, ...row.exact.map((words) => el("li", {}, words))), el("p", { class: "hint" }, t("arbitration_hint")));
}

function stressBlock(row) {
  if (!row.stress) return null;
  const rows = row.stress.map(([threads, repetitions, failed, differing]) => {
    const mark = failed ? "bad" : "good";
    return el("tr", {}, ...[[threads], [repetitions], [failed, mark], [differing]].map(([count, tone = ""]) => el("td", { class: `mono number ${tone}` }, whole(count))));
  });
  const heads = [t("threads"), t("repetitions"), t("o_failed"), t("other_bits")];
  return block(t("stress"), "stress", table(heads, rows, heads), el("p", { class: "hint" }, t("stress_hint")));
}

function profileBlocks(row) {
  if (!row.profile) return [];
  const { output, width } = row.profile;
  const tensor = row.outputs.find(({ id }) => id === output);
  return [
    block(`${t("histogram")} · ${output}`, "histogram", errorHistogram(row.profile), el("p", { class: "hint" }, t("histogram_hint"))),
    block(`${t("map")} · ${output}`, "map-block", errorMap(row.profile, tensor && tensor.dims), el("p", { class: "hint" }, width ? t("map_folded", { n: whole(width) }) : t("map_hint"))),
  ];
}

function timesBlock(record, title) {
  if (!record) return null;
  const [count, low, edge, high, median, from, to, mad, cv, bins] = record;
  const times = { low, edge, high, median, from: numeric(from), to: numeric(to), bins };
  return block(
    title,
    "times-block",
    timesPicture(times, title),
    facts([
      [t("median"), duration(median)],
      Number.isFinite(times.to) && [t("interval"), `${duration(times.from)} … ${duration(times.to)}`],
      [t("mad"), duration(mad)],
      [t("cv"), shareText(cv, 1)],
      [t("sample_count"), whole(count)],
    ]),
  );
}

function roofBlock(row) {
  const { roof } = row;
  if (!roof) return null;
  const figures = facts([
    [t("io_rate"), rate(roof.io_rate, "B/s")],
    roof.op_rate > 0 && [t("op_rate"), rate(roof.op_rate, "op/s")],
    [t("theory_io"), bytes(row.io)],
    row.ops > 0 && [t("theory_ops"), scaled(row.ops, 1000, ["", "k", "M", "G", "T"])],
    [t("workspace"), bytes(row.perf.workspace || 0)],
  ]);
  if (roof.io === undefined) return block(t("efficiency"), "efficiencies", figures, el("p", { class: "hint" }, t("no_device")));
  return block(
    t("efficiency"),
    "efficiencies",
    efficiencyBar(t("io_efficiency"), roof.io, roof.wanted, roof.side === "io"),
    roof.compute !== undefined && efficiencyBar(t("compute_efficiency"), roof.compute, roof.wanted, roof.side === "compute"),
    el("p", { class: `accept ${verdictOf(roof)}` }, verdictOf(roof) ? t(roof.accepted ? "reached" : "not_reached", { share: shareText(roof.wanted, 1), side: t("side_" + roof.side) }) : t("too_short")),
    figures,
  );
}

function perfBlocks(row) {
  if (!row.perf) return [];
  const drawing = intensity(row) > 0 ? roofline(RESULTS, DATA.run.device, row) : null;
  return [
    timesBlock(row.perf.device, t("device_time")),
    timesBlock(row.perf.interface, t("interface_time")),
    roofBlock(row),
    drawing && block(t("roofline"), "double", drawing),
  ];
}

function printedBlocks(row) {
  const lines = (title, text) => block(title, "printed wide", el("pre", { tabindex: "0" }, text));
  return [row.notes && lines(t("notes"), row.notes.join("\n\n")), row.printed && lines(t("printed"), row.printed)];
}

function commandLine(command) {
  if (!command) return null;
  return el("div", { class: "repro" }, el("span", { class: "prompt", "aria-hidden": "true" }, "$"), el("code", {}, command), copyButton(command));
}

function caseDetail(listed) {
  const row = unfolded(listed);
  const trends = row.trend && [trendPicture(row), timesTrend(row)];
  return el(
    "div",
    { class: "detail", id: `case-${row.number}`, role: "region", "aria-label": row.id },
    reasonBlock(row),
    commandLine(row.repro),
    commandLine(row.debug),
    el(
      "div",
      { class: "blocks-of" },
      criteriaBlock(row),
      elementsBlock(row),
      exactBlock(row),
      stressBlock(row),
      worstBlock(row),
      profileBlocks(row),
      tensorsBlock(row),
      paramsBlock(row),
      perfBlocks(row),
      trends && trends[0] && block(t("trend"), "trend-block", trends),
      printedBlocks(row),
    ),
    el(
      "p",
      { class: "foot" },
      caseLink(row, t("case_link")),
      row.doc && el("span", {}, `${t("doc")}: ${row.doc}`),
      row.mark && el("span", {}, `${t("fingerprint")}: `, el("code", {}, row.mark)),
      !row.absent && row.status && row.status === row.expected && el("span", {}, `${t("status")}: `, el("code", {}, row.status)),
    ),
  );
}
