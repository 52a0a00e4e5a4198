// The report's data: a row per case for the list, the whole case when it is opened, filters and orders.

// Known when the data is read.
let DATA, OUTCOMES, BLOCKING_FIRST, BLOCKS, MARKS, GRAVITY;
const RESULTS = [];
const ROWS = [];

const pooled = (number) => (number === undefined || number === null ? undefined : DATA.pool[number]);

// A row of the list, from the columns; the rest of the case is read when it is opened.
class Row {
  constructor(number, columns) {
    this.number = number;
    this.id = columns.id[number];
    this.operator = DATA.pool[columns.op[number]];
    this.tags = DATA.pool[columns.tags[number]];
    this.outcome = OUTCOMES[columns.outcome[number]];
    this.blocks = BLOCKS.has(this.outcome);
    this.ms = columns.ms[number];
    // The largest reading as a multiple of its threshold.
    const ratio = columns.ratio[number];
    this.ratio = ratio === null || ratio === undefined ? null : numeric(ratio);
    this.outliers = columns.outliers[number];
    this.why = pooled(columns.why[number]) || "";
    this.mark = pooled(columns.mark[number]) || "";
    this.size = columns.size[number];
    this.moved = pooled(columns.moved[number]);
    const trend = columns.trend[number];
    this.trend = trend ? trend.map(pooled) : null;
    // Undefined where the case was not timed, null where its times say nothing of the device.
    this.roof = DATA.timed[number];
    this.absent = false;
    // Its place among all by name.
    this.place = number;
  }

  // What the search looks into; made when somebody searches.
  get text() {
    const text = [this.id, ...this.tags, this.outcome, this.mark, this.why, this.outliers ? "outliers" : ""].join("\n").toLowerCase();
    Object.defineProperty(this, "text", { value: text });
    return text;
  }
}

// A case of the baseline without a result here still has a row, so that it can be found.
const missingRow = ([id, moved], number) => ({
  id, number, moved, outcome: "missing", blocks: true, operator: id.split("/")[0], tags: [], ratio: null, ms: 0, outliers: 0, size: 0,
  why: t("missing_why"), mark: "", absent: true, text: `${id}\nmissing`.toLowerCase(),
});

function takeData(data) {
  DATA = data;
  OUTCOMES = DATA.outcomes.map(([word]) => word);
  // A case of the baseline without a result here: no outcome of a run, but it blocks and stands before those that did not run.
  BLOCKING_FIRST = DATA.gravest.flatMap((word) => (word === "not_run" ? ["missing", word] : [word]));
  BLOCKS = new Set(["missing", ...DATA.outcomes.filter(([, blocks]) => blocks).map(([word]) => word)]);
  MARKS = { missing: "∅", ...Object.fromEntries(DATA.outcomes.map(([word, , sign]) => [word, sign])) };
  GRAVITY = new Map(BLOCKING_FIRST.map((word, place) => [word, place]));
  // Columns without any value are left out.
  const columns = { ratio: [], why: [], mark: [], moved: [], trend: [], ...DATA.columns };
  for (let number = 0; number < DATA.cases; number += 1) RESULTS.push(new Row(number, columns));
  DATA.causes.forEach((cause, place) => cause.rows.forEach((number) => (RESULTS[number].cause = place + 1)));
  for (const row of RESULTS) ROWS.push(row);
  for (const entry of DATA.missing) ROWS.push(missingRow(entry, ROWS.length));
  // Names are compared once, afterwards their order is a number; mostly they come in order.
  const ordered = ROWS.every((row, place) => place === 0 || ROWS[place - 1].id < row.id);
  (ordered ? ROWS : [...ROWS].sort((a, b) => (a.id < b.id ? -1 : 1))).forEach((row, place) => (row.place = place));
}

// What is shown of an opened case, a line of JSON each; null until it is unpacked.
const LINES = { texts: null, waiting: [] };

function takeLines(text) {
  LINES.texts = text.split("\n");
  for (const call of LINES.waiting.splice(0)) call();
}

// At once where the lines are there, as they are on all but large pages.
function whenRead(call) {
  if (LINES.texts) call();
  else LINES.waiting.push(call);
}

function unfoldTensor([number, ...dims]) {
  const [id, dtype, layout] = pooled(number);
  return { id, dtype, layout, dims };
}

// The row of an opened case with everything that is known of it.
function unfolded(row) {
  if (row.absent) return { ...row, readings: [], inputs: [], outputs: [] };
  const line = JSON.parse(LINES.texts[row.number]);
  const readings = (line.readings || []).map(([what, value, within]) => {
    const [output, criterion, threshold] = pooled(what);
    return { output, criterion, threshold: numeric(threshold), value, within: within === 1 };
  });
  const [status, expected] = pooled(line.status);
  const [repro, debug] = [line.repro, line.debug].map((words) => pooled(words)?.join(row.id));
  return {
    ...row, ...line, readings, status, expected, repro, debug,
    inputs: (line.inputs || []).map(unfoldTensor), outputs: (line.outputs || []).map(unfoldTensor),
  };
}

// The text of a script element with data; of a large page it is packed.
async function unpacked(node) {
  const signs = atob(node.textContent);
  const packed = new Uint8Array(signs.length);
  for (let place = 0; place < signs.length; place += 1) packed[place] = signs.charCodeAt(place);
  return new Response(new Blob([packed]).stream().pipeThrough(new DecompressionStream("deflate"))).text();
}

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

// Whether a row has that word of the search.
function asking(word) {
  const field = Object.keys(FIELDS).find((prefix) => word.startsWith(prefix));
  const rest = field && word.slice(field.length);
  return field ? (row) => FIELDS[field](row, rest) : (row) => row.text.includes(word);
}

const ORDERS = {
  severity: (a, b) => GRAVITY.get(a.outcome) - GRAVITY.get(b.outcome),
  id: () => 0,
  ratio: (a, b) => (b.ratio === null ? -1 : b.ratio) - (a.ratio === null ? -1 : a.ratio) || 0,
  time: (a, b) => b.ms - a.ms,
};

function selected() {
  const asked = FILTER.search.toLowerCase().split(/\s+/).filter(Boolean).map(asking);
  const rows = ROWS.filter(
    (row) =>
      (!FILTER.outcome || (FILTER.outcome === "blocking" ? row.blocks : row.outcome === FILTER.outcome)) &&
      (!FILTER.operator || row.operator === FILTER.operator) &&
      (!FILTER.tag || row.tags.includes(FILTER.tag)) &&
      (!FILTER.moved || row.moved === FILTER.moved) &&
      asked.every((matches) => matches(row)),
  );
  const order = ORDERS[FILTER.order];
  return rows.sort((a, b) => order(a, b) || a.place - b.place);
}
