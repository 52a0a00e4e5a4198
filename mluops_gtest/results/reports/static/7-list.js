// The list of cases: filters, a row per case, the keyboard. Rows are made as the reader comes near them, in batches; what
// is not there yet, or no longer, is a gap of its height.

const BATCH = 100;
// Batches that are there at the same time.
const MAX_BATCHES = 40;
const LIST = { rows: [], batches: [], filled: [], open: new Set(), body: null, more: null, count: null, fields: {} };

const chip = (word, name) => el("span", { class: `chip ${name}` }, word);

function ratioMeter(row) {
  if (row.ratio === null) return el("span", { class: "meter none" });
  // Six decades below the threshold fill the meter; what is nearer to it fills more.
  const share = row.ratio <= 0 ? 0 : Math.min(Math.max((Math.log10(row.ratio) + 6) / 6, 0.03), 1);
  const said = `${t("of_threshold")}: ${row.ratio === Infinity ? "∞" : figure(row.ratio)}`;
  return el("span", { class: `meter ${row.ratio > 1 ? "over" : ""}`, role: "img", "aria-label": said, title: said }, el("span", { "--share": percent(share) }));
}

function caseName(id) {
  const cut = id.indexOf("/") + 1;
  return el("bdi", { class: "id" }, el("span", { class: "owner" }, id.slice(0, cut)), el("span", { class: "own" }, id.slice(cut)));
}

function listRow(row) {
  const head = el(
    "button",
    { type: "button", class: `row ${row.blocks ? "blocking" : ""}`, "aria-expanded": "false", "aria-controls": `case-${row.number}`, "data-row": row.number },
    el("span", { class: "chevron", "aria-hidden": "true" }, "›"),
    pill(row.outcome),
    el("span", { class: "name" }, caseName(row.id), row.why && (row.blocks || row.outcome === "passed") ? el("span", { class: "brief" }, row.why.split("\n")[0]) : null),
    el("span", { class: "chips" }, row.outliers ? chip(`△ ${t("outliers", { n: whole(row.outliers) })}`, "outliers") : null, row.moved ? chip(movedText(row.moved), `moved m-${row.moved.replaceAll(" ", "-")}`) : null, row.tags.map((tag) => chip(tag, "tag"))),
    DATA.runs.length ? trendBlocks(row) || el("span", { class: "blocks" }) : null,
    ratioMeter(row),
    el("span", { class: "time" }, row.absent ? "" : duration(row.ms * 1e6)),
  );
  const item = el("li", { class: "item" }, head);
  head.addEventListener("click", () => toggle(row, item));
  if (LIST.open.has(row.number)) expand(row, item);
  return item;
}

function expand(row, item) {
  LIST.open.add(row.number);
  item.firstChild.setAttribute("aria-expanded", "true");
  whenRead(() => {
    if (LIST.open.has(row.number) && item.children.length === 1) item.append(caseDetail(row));
  });
}

function toggle(row, item) {
  if (!LIST.open.has(row.number)) {
    expand(row, item);
    return;
  }
  LIST.open.delete(row.number);
  item.firstChild.setAttribute("aria-expanded", "false");
  if (item.children.length > 1) item.lastChild.remove();
}

const GAPS = new IntersectionObserver((entries) => entries.filter((entry) => entry.isIntersecting).forEach((entry) => fillBatch(BATCHES.get(entry.target))), { rootMargin: "600px" });
const BATCHES = new WeakMap();

function emptyBatches(rows) {
  return Array.from({ length: Math.ceil(rows.length / BATCH) }, (_, place) => {
    const gap = el("li", { class: "gap", role: "presentation", "--rows": Math.min(BATCH, rows.length - place * BATCH) });
    const batch = { place, gap, items: [] };
    BATCHES.set(gap, batch);
    return batch;
  });
}

function fillBatch(batch, most = MAX_BATCHES) {
  if (batch.items.length) return;
  const start = batch.place * BATCH;
  batch.items = LIST.rows.slice(start, start + BATCH).map(listRow);
  GAPS.unobserve(batch.gap);
  batch.gap.replaceWith(...batch.items);
  LIST.filled.push(batch);
  if (LIST.filled.length > most) leaveBatch(batch);
  LIST.more.hidden = LIST.filled.length >= Math.min(LIST.batches.length, MAX_BATCHES);
}

// The batch that is furthest from where the reader is becomes a gap again.
function leaveBatch(here) {
  const away = (batch) => Math.abs(batch.place - here.place);
  const left = LIST.filled.filter((batch) => !batch.items.some((item) => item.contains(document.activeElement))).reduce((a, b) => (away(b) > away(a) ? b : a));
  const [first, last] = [left.items[0], left.items[left.items.length - 1]].map((item) => item.getBoundingClientRect());
  left.gap.style.setProperty("--rows", (last.bottom - first.top) / LIST.height);
  left.items[0].before(left.gap);
  left.items.forEach((item) => item.remove());
  left.items = [];
  LIST.filled.splice(LIST.filled.indexOf(left), 1);
  GAPS.observe(left.gap);
}

const showMore = () => {
  const next = LIST.batches.find((batch) => !batch.items.length);
  if (next) fillBatch(next);
};

// Paper has no scrolling: what it shows of the current filter must be there, up to a number of rows that it can take.
function showForPrint() {
  const filtered = LIST.print.hidden;
  const wanted = new Set();
  LIST.rows.forEach((row, place) => (filtered || row.blocks || LIST.open.has(row.number)) && wanted.add(Math.floor(place / BATCH)));
  [...wanted].slice(0, MAX_BATCHES).forEach((place) => fillBatch(LIST.batches[place], Infinity));
  LIST.cut.hidden = wanted.size <= MAX_BATCHES;
}

function refreshList() {
  GAPS.disconnect();
  LIST.rows = selected();
  LIST.batches = emptyBatches(LIST.rows);
  LIST.filled = [];
  LIST.body.replaceChildren(...LIST.batches.map((batch) => batch.gap));
  LIST.more.hidden = true;
  if (LIST.batches.length) {
    fillBatch(LIST.batches[0]);
    const { items } = LIST.batches[0];
    LIST.height = Math.max((items[items.length - 1].getBoundingClientRect().bottom - items[0].getBoundingClientRect().top) / items.length, 1);
    LIST.body.style.setProperty("--row-height", `${LIST.height}px`);
    LIST.batches.slice(1).forEach((batch) => GAPS.observe(batch.gap));
  }
  LIST.count.textContent = t("shown", { n: whole(LIST.rows.length), all: whole(ROWS.length) });
  LIST.empty.hidden = LIST.rows.length > 0;
  const filtered = Object.entries(FILTER).some(([name, value]) => value && name !== "order");
  LIST.reset.hidden = !filtered;
  LIST.body.classList.toggle("unfiltered", !filtered);
  LIST.print.hidden = filtered;
  document.querySelectorAll("[data-outcome]").forEach((button) => button.setAttribute("aria-pressed", String(button.dataset.outcome === FILTER.outcome)));
  const state = new URLSearchParams(Object.entries(FILTER).filter(([name, value]) => value && !(name === "order" && value === "severity")));
  if (`#${state}` !== location.hash && (state.size || location.hash.includes("="))) setAddress(state.size ? `#${state}` : location.pathname + location.search);
}

// Sandboxed viewers forbid touching the address; the list works without.
function setAddress(address) {
  try {
    history.replaceState(null, "", address);
  } catch {
    return;
  }
}

function setFilter(changes) {
  Object.assign(FILTER, changes);
  for (const [name, field] of Object.entries(LIST.fields)) field.value = FILTER[name];
  refreshList();
}

const resetFilter = (changes = {}) => setFilter({ search: "", outcome: "", operator: "", tag: "", moved: "", ...changes });

function goToList(changes) {
  resetFilter(changes);
  document.getElementById("cases").scrollIntoView();
}

function goToCase(row) {
  if (!LIST.rows.includes(row)) resetFilter();
  const place = LIST.rows.indexOf(row);
  const batch = LIST.batches[Math.floor(place / BATCH)];
  fillBatch(batch);
  const item = batch.items[place % BATCH];
  expand(row, item);
  item.firstChild.focus({ preventScroll: true });
  // On its way a smooth one would fill gaps, and so move what it goes to.
  item.scrollIntoView({ behavior: "instant" });
}

// An address that opens the case wherever the page lies.
const caseLink = (row, ...words) => el("a", { class: "link", href: `#${encodeURIComponent(row.id).replaceAll("%2F", "/")}`, click: () => goToCase(ROWS[row.number]) }, words);

// The item beside this one, made if it is not there.
function neighbour(item, side) {
  const beside = item[side];
  if (!beside || !BATCHES.has(beside)) return beside;
  fillBatch(BATCHES.get(beside));
  return item[side];
}

// The last item that is there behind this one without a gap between.
function lastShown(item) {
  while (item.nextElementSibling && !BATCHES.has(item.nextElementSibling)) item = item.nextElementSibling;
  return item;
}

function firstItem() {
  if (LIST.batches.length) fillBatch(LIST.batches[0]);
  return LIST.body.firstElementChild;
}

function moveFocus(event) {
  const head = event.target.closest("button.row");
  if (!head || event.altKey || event.ctrlKey || event.metaKey) return;
  const item = head.parentElement;
  const row = ROWS[Number(head.dataset.row)];
  const open = LIST.open.has(row.number);
  const targets = { ArrowDown: () => neighbour(item, "nextElementSibling"), ArrowUp: () => neighbour(item, "previousElementSibling"), Home: firstItem, End: () => lastShown(item) };
  const target = targets[event.key] && targets[event.key]();
  if (target) target.firstChild.focus();
  else if ((event.key === "ArrowRight" && !open) || (event.key === "ArrowLeft" && open)) toggle(row, item);
  else if (event.key === "ArrowUp") LIST.fields.search.focus();
  else if (event.key !== "ArrowDown") return;
  event.preventDefault();
}

function choice(name, label, entries) {
  const field = el("select", { "aria-label": label }, entries.map(([value, words]) => el("option", { value }, words)));
  field.addEventListener("change", () => setFilter({ [name]: field.value }));
  LIST.fields[name] = field;
  return field;
}

const optionsOf = (counts, all, words = (word) => word) => [["", all], ...[...counts].map(([word, count]) => [word, `${words(word)} (${count})`])];

function outcomeButtons() {
  const counts = counted(ROWS, (row) => [row.outcome], BLOCKING_FIRST);
  const blocking = ROWS.filter((row) => row.blocks).length;
  const entries = [["", t("all"), ROWS.length], ...(blocking ? [["blocking", t("blocking"), blocking]] : []), ...[...counts].map(([word, count]) => [word, t("o_" + word), count])];
  return el(
    "div",
    { class: "outcomes", role: "group", "aria-label": t("outcome") },
    entries.map(([word, name, count]) =>
      el("button", { type: "button", class: `toggle ${word ? "o-" + word : ""}`, "data-outcome": word, "aria-pressed": "false", click: () => setFilter({ outcome: word }) }, name, el("b", {}, whole(count))),
    ),
  );
}

function casesSection() {
  const search = el("input", { type: "search", id: "search", placeholder: t("search_hint"), "aria-label": t("search"), autocomplete: "off", spellcheck: "false" });
  search.addEventListener("input", () => setFilter({ search: search.value }));
  search.addEventListener("keydown", (event) => {
    const first = event.key === "ArrowDown" && firstItem();
    if (!first) return;
    first.firstChild.focus();
    event.preventDefault();
  });
  LIST.fields.search = search;
  LIST.body = el("ul", { class: "list", keydown: moveFocus });
  LIST.more = el("button", { type: "button", class: "more", click: () => showMore() }, t("more"));
  LIST.print = el("p", { class: "hint print-note" }, t("print_note"));
  LIST.cut = el("p", { class: "hint print-note", hidden: true }, t("print_cut", { n: whole(BATCH * MAX_BATCHES) }));
  LIST.count = el("span", { class: "count", role: "status" });
  LIST.empty = el("p", { class: "nothing", hidden: true }, t("nothing_found"));
  LIST.reset = el("button", { type: "button", class: "reset", hidden: true, click: () => resetFilter() }, t("reset"));
  return el(
    "section",
    { id: "cases", class: "cases" },
    el(
      "div",
      { class: "toolbar" },
      el("div", { class: "toolbar-line" }, el("h2", {}, t("cases")), LIST.count, LIST.reset, el("span", { class: "keys" }, t("keys"))),
      LIST.print,
      LIST.cut,
      el(
        "div",
        { class: "toolbar-line" },
        el("label", { class: "searching" }, search, el("kbd", { "aria-hidden": "true" }, "/")),
        choice("operator", t("operator"), optionsOf(counted(ROWS, (row) => [row.operator]), t("all_operators"))),
        choice("tag", t("tag"), optionsOf(counted(ROWS, (row) => row.tags), t("all_tags"))),
        DATA.against ? choice("moved", t("transition"), optionsOf(counted(ROWS, (row) => (row.moved ? [row.moved] : [])), t("all_transitions"), movedText)) : null,
        choice("order", t("order"), ["severity", "id", "ratio", "time"].map((word) => [word, t("by_" + word)])),
      ),
      outcomeButtons(),
    ),
    LIST.body,
    LIST.empty,
    LIST.more,
  );
}
