// Elements and figures. Text always goes in as text nodes: what a case or a backend says is never read as markup.

const WORDS = JSON.parse(document.getElementById("words").textContent);
// The page holds an empty <svg>, which knows the name of its namespace.
const SVG = document.getElementById("svg-namespace").namespaceURI;

function fill(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes || {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("--")) node.style.setProperty(name, value);
    else if (typeof value === "function") node.addEventListener(name, value);
    else node.setAttribute(name, value === true ? "" : value);
  }
  node.append(...children.flat().filter((child) => child !== null && child !== undefined && child !== false));
  return node;
}

const el = (tag, attributes, ...children) => fill(document.createElement(tag), attributes, children);
const svg = (tag, attributes, ...children) => fill(document.createElementNS(SVG, tag), attributes, children);

function t(key, values) {
  const words = WORDS[key];
  return values ? words.replace(/\{(\w+)\}/g, (_, name) => values[name]) : words;
}

// A gate may learn a transition that this page does not know yet.
const movedText = (word) => WORDS["m_" + word] || word;

const percent = (share) => `${(100 * share).toFixed(3)}%`;
const whole = (count) => count.toLocaleString(document.documentElement.lang);

// A share for people: never rounded to 0 % or 100 % where it is not.
function shareText(part, all) {
  if (!all) return "0 %";
  const share = (100 * part) / all;
  if (part && share < 0.1) return "< 0.1 %";
  if (part < all && share > 99.9) return "> 99.9 %";
  return `${Number(share.toFixed(1))} %`;
}

// JSON has no NaN and no infinity; they come as words.
const numeric = (value) => (typeof value === "string" ? Number(value.replace("inf", "Infinity")) : value);

function figure(value) {
  const number = numeric(value);
  if (Number.isNaN(number)) return "NaN";
  if (!Number.isFinite(number)) return number > 0 ? "∞" : "−∞";
  if (number === 0) return "0";
  const size = Math.abs(number);
  return size >= 1e-3 && size < 1e5 ? String(Number(number.toPrecision(4))) : number.toExponential(2).replace("e+", "e");
}

const scaled = (value, steps, units) => {
  let place = 0;
  while (place < units.length - 1 && Math.abs(value) >= steps) {
    value /= steps;
    place += 1;
  }
  return `${Number(value.toPrecision(3))} ${units[place]}`;
};
const duration = (ns) => (ns >= 60e9 ? `${Math.floor(ns / 60e9)} min ${Math.round((ns % 60e9) / 1e9)} s` : scaled(ns, 1000, ["ns", "µs", "ms", "s"]));
const bytes = (count) => scaled(count, 1024, ["B", "KiB", "MiB", "GiB", "TiB"]);
const rate = (perSecond, unit) => scaled(perSecond, 1000, ["", "k", "M", "G", "T", "P"]) + unit;

const RAISED = { "-": "⁻", 0: "⁰", 1: "¹", 2: "²", 3: "³", 4: "⁴", 5: "⁵", 6: "⁶", 7: "⁷", 8: "⁸", 9: "⁹" };
const power = (base, exponent) => base + [...String(exponent)].map((sign) => RAISED[sign]).join("");
const fromDigit = (sign) => parseInt(sign, 36);

// One tooltip and one set of listeners for all pictures: a page draws thousands of dots.
const tip = el("div", { class: "tip", role: "presentation", hidden: true });
const TIPS = new WeakMap();

function tipped(node, words) {
  TIPS.set(node, words);
  return node;
}

function moveTip(event) {
  let node = event.target;
  while (node && !TIPS.has(node)) node = node.parentNode;
  tip.hidden = !node;
  if (!node) return;
  tip.textContent = TIPS.get(node);
  tip.style.left = `${Math.min(event.clientX + 14, window.innerWidth - tip.offsetWidth - 8)}px`;
  tip.style.top = `${Math.min(event.clientY + 16, window.innerHeight - tip.offsetHeight - 8)}px`;
}

function copyButton(text) {
  const button = el("button", { type: "button", class: "copy" }, t("copy"));
  button.addEventListener("click", async () => {
    let copied = true;
    try {
      await navigator.clipboard.writeText(text);
    } catch {
      // Pages opened as files may lack the clipboard interface; a selected field and the old command work there.
      const field = el("textarea", { class: "offscreen", readonly: true, "aria-hidden": "true" }, text);
      button.after(field);
      field.select();
      copied = document.execCommand("copy");
      field.remove();
      button.focus();
    }
    button.textContent = copied ? t("copied") : t("copy_failed");
    button.classList.toggle("done", copied);
    setTimeout(() => {
      button.textContent = t("copy");
      button.classList.remove("done");
    }, 1600);
  });
  return button;
}
