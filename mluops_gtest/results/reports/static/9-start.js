// The page put together, its theme, its keys, its print.

const THEMES = ["auto", "light", "dark"];

function setTheme(theme) {
  document.documentElement.dataset.theme = theme;
  // Storage is refused to some pages opened as files; the choice then lasts as long as the page.
  try {
    localStorage.setItem("mluops-test-theme", theme);
  } catch {
    return;
  }
}

function storedTheme() {
  try {
    return localStorage.getItem("mluops-test-theme");
  } catch {
    return null;
  }
}

function themeButton() {
  const button = el("button", { type: "button", class: "theme" });
  const show = () => {
    const theme = document.documentElement.dataset.theme;
    button.textContent = { auto: "◐", light: "☀", dark: "☾" }[theme];
    button.title = `${t("theme")}: ${t("theme_" + theme)}`;
    button.setAttribute("aria-label", button.title);
  };
  const stored = storedTheme();
  document.documentElement.dataset.theme = THEMES.includes(stored) ? stored : "auto";
  show();
  button.addEventListener("click", () => {
    setTheme(THEMES[(THEMES.indexOf(document.documentElement.dataset.theme) + 1) % THEMES.length]);
    show();
  });
  return button;
}

function pageHead(sections) {
  const { run } = DATA;
  const titles = { failures: "failures", transitions: "transitions", performance: "performance", trends: "trends", cases: "cases", environment: "environment" };
  const links = sections.filter((section) => section && titles[section.id]).map((section) => el("a", { href: `#${section.id}` }, t(titles[section.id])));
  return el(
    "header",
    { class: "head" },
    el(
      "div",
      { class: "head-line" },
      el("div", {}, el("h1", {}, t("title"), " ", el("bdi", { class: "backend" }, fact(run.backend, "name") || "?")), el("p", { class: "about" }, `${run.started.replace("T", " ").replace("+00:00", " UTC")} · ${duration(run.seconds * 1e9)} · mluops-test ${run.version}`)),
      themeButton(),
    ),
    el("nav", { "aria-label": t("sections") }, links),
  );
}

// A name as addresses have it; also one that was typed by hand, with a lone %.
function decoded(words) {
  try {
    return decodeURIComponent(words);
  } catch {
    return words;
  }
}

// A shared address brings its filter, its case or both; false where it names neither.
function readAddress() {
  const words = location.hash.slice(1);
  const state = new URLSearchParams(words);
  const changes = {};
  for (const name of Object.keys(FILTER)) if (state.has(name)) changes[name] = state.get(name);
  if (!(changes.order in ORDERS)) delete changes.order;
  const id = decoded(words);
  const row = words && (ROWS.find((one) => one.id === id) || ROWS.find((one) => one.id === state.get("case")));
  if (Object.keys(changes).length) resetFilter(changes);
  if (row) {
    goToCase(row);
    setAddress(`#${words}`);
  }
  return Boolean(row || Object.keys(changes).length);
}

function pageKeys(event) {
  const typing = event.target.closest && event.target.closest("input, select, textarea");
  if (event.key === "/" && !typing && !event.ctrlKey && !event.metaKey && !event.altKey) {
    event.preventDefault();
    LIST.fields.search.focus();
    LIST.fields.search.select();
  } else if (event.key === "Escape" && event.target === LIST.fields.search) {
    setFilter({ search: "" });
  }
}

function start() {
  const page = document.getElementById("page");
  const groups = failureGroups();
  const sections = [
    verdictSection(groups),
    transitionsSection(),
    failuresSection(groups),
    trendsSection(),
    el(
      "div",
      { class: "pair" },
      summaryTable(t("operators"), groupedBy(RESULTS, (row) => [row.operator]), "operator"),
      summaryTable(t("tags"), groupedBy(RESULTS, (row) => row.tags), "tag"),
    ),
    performanceSection(),
    casesSection(),
    environmentSection(),
  ].filter(Boolean);
  page.append(pageHead(sections), el("main", {}, sections), tip);
  if (!readAddress()) refreshList();
  document.addEventListener("keydown", pageKeys);
  document.addEventListener("pointermove", moveTip);
  window.addEventListener("hashchange", readAddress);
  window.addEventListener("beforeprint", showForPrint);
  // For whoever measures: the first screen is made, and will be seen with the next frame.
  requestAnimationFrame(() => performance.mark("first screen"));
}

// A large page is unpacked first: what the first screen needs, and behind it what opened cases show.
async function startPacked(data, lines) {
  takeData(JSON.parse(await unpacked(data)));
  start();
  await new Promise((done) => requestAnimationFrame(() => setTimeout(done)));
  takeLines(await unpacked(lines));
}

const [data, lines] = ["data", "lines"].map((id) => document.getElementById(id));
if ("packed" in data.dataset) startPacked(data, lines);
else {
  takeData(JSON.parse(data.textContent));
  takeLines(lines.textContent);
  start();
}
