// The report's data, unfolded: rows with their pooled values in place, and what follows from them.

const OUTCOMES = DATA.outcomes.map(([word]) => word);
// A case of the baseline without a result here: no outcome of a run, but it blocks and stands before those that did not run.
const BLOCKING_FIRST = DATA.gravest.flatMap((word) => (word === "not_run" ? ["missing", word] : [word]));
const BLOCKS = new Set(["missing", ...DATA.outcomes.filter(([, blocks]) => blocks).map(([word]) => word)]);
const MARKS = { missing: "∅", ...Object.fromEntries(DATA.outcomes.map(([word, , sign]) => [word, sign])) };

const pooled = (number) => (number === undefined ? undefined : DATA.pool[number]);

// The largest reading as a multiple of its threshold; a threshold of 0 allows nothing but 0.
function largestRatio(readings) {
  let largest = null;
  for (const { value, threshold } of readings) {
    const reading = numeric(value);
    let ratio = Infinity;
    if (Number.isFinite(reading)) ratio = threshold > 0 ? reading / threshold : reading > 0 ? Infinity : 0;
    if (largest === null || ratio > largest) largest = ratio;
  }
  return largest;
}

function unfoldTensor([number, ...dims]) {
  const [id, dtype, layout] = pooled(number);
  return { id, dtype, layout, dims };
}

function unfold(row, number) {
  const outcome = OUTCOMES[row.outcome];
  const readings = (row.readings || []).map(([what, value, within]) => {
    const [output, criterion, threshold] = pooled(what);
    return { output, criterion, threshold: numeric(threshold), value, within: within === 1 };
  });
  const [status, expected] = pooled(row.status);
  const tags = pooled(row.tags);
  const why = pooled(row.why) || "";
  const mark = pooled(row.mark) || "";
  const [repro, debug] = [row.repro, row.debug].map((words) => pooled(words)?.join(row.id));
  return {
    ...row, number, outcome, readings, status, expected, tags, why, mark,
    outliers: (row.elements || []).reduce((sum, [, beyond]) => sum + beyond, 0),
    inputs: (row.inputs || []).map(unfoldTensor), outputs: (row.outputs || []).map(unfoldTensor),
    operator: pooled(row.op), blocks: BLOCKS.has(outcome), ratio: largestRatio(readings), moved: pooled(row.moved),
    repro, debug, trend: row.trend && row.trend.map(pooled),
    text: [row.id, ...tags, outcome, mark, why, (row.elements || []).some(([, beyond]) => beyond) ? "outliers" : ""].join("\n").toLowerCase(),
  };
}

// A case of the baseline without a result here still has a row, so that it can be found.
const unfoldMissing = ([id, moved], number) => ({
  id, number, moved, outcome: "missing", blocks: true, operator: id.split("/")[0], tags: [], readings: [], inputs: [], outputs: [], ratio: null, ms: 0,
  why: t("missing_why"), mark: "", absent: true, text: `${id}\nmissing`.toLowerCase(),
});

const RESULTS = DATA.rows.map(unfold);
DATA.causes.forEach((cause, place) => cause.rows.forEach((number) => (RESULTS[number].cause = place + 1)));
const ROWS = [...RESULTS, ...DATA.missing.map((entry, place) => unfoldMissing(entry, RESULTS.length + place))];
const BY_ID = new Map(ROWS.map((row) => [row.id, row]));

// Counts per word, in the order given or else by name.
function counted(rows, words, order) {
  const counts = new Map();
  for (const row of rows) for (const word of words(row)) counts.set(word, (counts.get(word) || 0) + 1);
  const place = (word) => (order ? order.indexOf(word) : word);
  return new Map([...counts].sort(([a], [b]) => (place(a) < place(b) ? -1 : 1)));
}

function groupedBy(rows, words) {
  const groups = new Map();
  for (const row of rows) {
    for (const word of words(row)) {
      if (!groups.has(word)) groups.set(word, []);
      groups.get(word).push(row);
    }
  }
  return groups;
}

// What the list shows: every word of the search must occur; `tag:`, `outcome:`, `op:`, `mark:` and `cause:` look at one field alone.
const FILTER = { search: "", outcome: "", operator: "", tag: "", moved: "", order: "severity" };
const FIELDS = {
  "tag:": (row, word) => row.tags.some((tag) => tag.toLowerCase() === word),
  "outcome:": (row, word) => row.outcome === word,
  "op:": (row, word) => row.operator.toLowerCase().includes(word),
  "mark:": (row, word) => row.mark === word,
  "cause:": (row, word) => String(row.cause) === word,
};

function matches(row, word) {
  const field = Object.keys(FIELDS).find((prefix) => word.startsWith(prefix));
  return field ? FIELDS[field](row, word.slice(field.length)) : row.text.includes(word);
}

const ORDERS = {
  severity: (a, b) => BLOCKING_FIRST.indexOf(a.outcome) - BLOCKING_FIRST.indexOf(b.outcome),
  id: () => 0,
  ratio: (a, b) => (b.ratio === null ? -1 : b.ratio) - (a.ratio === null ? -1 : a.ratio) || 0,
  time: (a, b) => b.ms - a.ms,
};

function selected() {
  const words = FILTER.search.toLowerCase().split(/\s+/).filter(Boolean);
  const rows = ROWS.filter(
    (row) =>
      (!FILTER.outcome || (FILTER.outcome === "blocking" ? row.blocks : row.outcome === FILTER.outcome)) &&
      (!FILTER.operator || row.operator === FILTER.operator) &&
      (!FILTER.tag || row.tags.includes(FILTER.tag)) &&
      (!FILTER.moved || row.moved === FILTER.moved) &&
      words.every((word) => matches(row, word)),
  );
  const order = ORDERS[FILTER.order];
  return rows.sort((a, b) => order(a, b) || (a.id < b.id ? -1 : 1));
}
