// The page of several runs: a search, and addresses that open a case or search for a cause.
(() => {
"use strict";
const field = document.getElementById("find");
// Runs that agree have nothing to search.
if (!field) return;
const count = document.getElementById("count");
const cases = [...document.querySelectorAll("details[data-words]")];

function search() {
  const asked = field.value.toLowerCase().split(/\s+/).filter(Boolean);
  for (const one of cases) one.hidden = !asked.every((word) => one.dataset.words.includes(word));
  const figures = { n: cases.filter((one) => !one.hidden).length, all: cases.length };
  count.textContent = count.dataset.words.replace(/\{(\w+)\}/g, (_, name) => figures[name]);
}

// The fragment of the address; as it stands where a lone % was typed by hand.
function fragment() {
  try {
    return decodeURIComponent(location.hash.slice(1));
  } catch {
    return location.hash.slice(1);
  }
}

function follow() {
  const words = fragment();
  const found = cases.find((one) => one.id === words);
  const named = document.getElementById(words);
  if (!words || (named && !found)) return;
  field.value = found ? "" : words;
  search();
  if (found) found.open = true;
  (found || field).scrollIntoView();
}

field.addEventListener("input", search);
window.addEventListener("hashchange", follow);
search();
follow();
})();
