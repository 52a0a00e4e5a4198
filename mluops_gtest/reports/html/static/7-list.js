// The list of cases: filters, a row per case, the keyboard. Rows are made as the reader comes near them.

const BATCH = 100;
const LIST = { rows: [], shown: 0, open: new Set(), body: null, more: null, count: null, fields: {} };

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
    el("span", { class: "name" }, caseName(row.id), row.why && row.blocks ? el("span", { class: "brief" }, row.why.split("\n")[0]) : null),
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
  if (item.children.length === 1) item.append(caseDetail(row));
}

function toggle(row, item) {
  if (!LIST.open.has(row.number)) {
    expand(row, item);
    return;
  }
  LIST.open.delete(row.number);
  item.firstChild.setAttribute("aria-expanded", "false");
  item.lastChild.remove();
}

function showMore(until = LIST.shown + BATCH) {
  const next = LIST.rows.slice(LIST.shown, until);
  LIST.body.append(...next.map(listRow));
  LIST.shown += next.length;
  LIST.more.hidden = LIST.shown >= LIST.rows.length;
}

function refreshList() {
  LIST.rows = selected();
  LIST.shown = 0;
  LIST.body.replaceChildren();
  showMore();
  LIST.count.textContent = t("shown", { n: whole(LIST.rows.length), all: whole(ROWS.length) });
  LIST.empty.hidden = LIST.rows.length > 0;
  const filtered = Object.entries(FILTER).some(([name, value]) => value && name !== "order");
  LIST.reset.hidden = !filtered;
  LIST.body.classList.toggle("unfiltered", !filtered);
  LIST.print.hidden = filtered;
  document.querySelectorAll("[data-outcome]").forEach((button) => button.setAttribute("aria-pressed", String(button.dataset.outcome === FILTER.outcome)));
  const state = new URLSearchParams(Object.entries(FILTER).filter(([name, value]) => value && !(name === "order" && value === "severity")));
  const address = state.size ? `#${state}` : location.pathname + location.search;
  // Sandboxed viewers forbid touching the address; the list works without.
  try {
    if (`#${state}` !== location.hash && (state.size || location.hash.includes("="))) history.replaceState(null, "", address);
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
  if (place >= LIST.shown) showMore(place + BATCH);
  const item = LIST.body.children[place];
  expand(row, item);
  item.firstChild.focus({ preventScroll: true });
  item.scrollIntoView();
}

function moveFocus(event) {
  const head = event.target.closest("button.row");
  if (!head || event.altKey || event.ctrlKey || event.metaKey) return;
  const item = head.parentElement;
  const row = ROWS[Number(head.dataset.row)];
  if (event.key === "ArrowDown" && !item.nextElementSibling) showMore();
  const open = LIST.open.has(row.number);
  const target = { ArrowDown: item.nextElementSibling, ArrowUp: item.previousElementSibling, Home: LIST.body.firstElementChild, End: LIST.body.lastElementChild }[event.key];
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
    if (event.key !== "ArrowDown" || !LIST.body.firstChild) return;
    LIST.body.firstChild.firstChild.focus();
    event.preventDefault();
  });
  LIST.fields.search = search;
  LIST.body = el("ul", { class: "list", keydown: moveFocus });
  LIST.more = el("button", { type: "button", class: "more", click: () => showMore() }, t("more"));
  LIST.print = el("p", { class: "hint print-note" }, t("print_note"));
  LIST.count = el("span", { class: "count", role: "status" });
  LIST.empty = el("p", { class: "nothing", hidden: true }, t("nothing_found"));
  LIST.reset = el("button", { type: "button", class: "reset", hidden: true, click: () => resetFilter() }, t("reset"));
  new IntersectionObserver((entries) => entries.some((entry) => entry.isIntersecting) && LIST.shown < LIST.rows.length && showMore(), { rootMargin: "600px" }).observe(LIST.more);
  return el(
    "section",
    { id: "cases", class: "cases" },
    el(
      "div",
      { class: "toolbar" },
      el("div", { class: "toolbar-line" }, el("h2", {}, t("cases")), LIST.count, LIST.reset, el("span", { class: "keys" }, t("keys"))),
      LIST.print,
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
