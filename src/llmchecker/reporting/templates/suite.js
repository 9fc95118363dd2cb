"use strict";

// Without this script all rows are visible.
const filters = document.querySelector(".filters");
const search = document.querySelector("#search");
const foundAnswers = document.querySelector("#found-answers");
const buttons = [...filters.querySelectorAll("button")];
const rows = [...document.querySelectorAll("tbody tr")];
const texts = rows.map((row) => row.textContent.toLowerCase());

// A row has the words in its own text, or its requirement has answers with them.
function filterRows() {
  const words = searchAnswers();
  const pressed = buttons.filter((button) => button.getAttribute("aria-pressed") === "true");
  const statuses = pressed.map((button) => button.dataset.status);
  rows.forEach((row, index) => {
    const isChosen = !statuses.length || statuses.includes(row.dataset.status);
    const link = row.querySelector("a[href^='#answers']");
    const answers = link && document.querySelector(link.getAttribute("href"));
    const isFound = words.every((word) => texts[index].includes(word)) || (answers && !answers.hidden);
    row.hidden = !isChosen || !isFound;
  });
  const shown = rows.filter((row) => !row.hidden).length;
  document.querySelector("#found-rows").textContent = `${shown} of ${rows.length} rows`;
}

for (const button of buttons) {
  button.addEventListener("click", () => {
    const isPressed = button.getAttribute("aria-pressed") === "true";
    button.setAttribute("aria-pressed", String(!isPressed));
    filterRows();
  });
}
search.addEventListener("input", filterRows);
const groups = [...document.querySelectorAll("details.answers")].map((details) => ({
  details,
  title: details.querySelector("summary").textContent.toLowerCase(),
  answers: [...details.querySelectorAll("li")].map((item) => [item, item.textContent.toLowerCase()]),
}));

// A search opens the requirements with its words in an answer, or in an answer and the title.
function searchAnswers() {
  const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
  let shown = 0, total = 0;
  for (const { details, title, answers } of groups) {
    let found = 0;
    for (const [item, text] of answers) {
      item.hidden = !words.every((word) => text.includes(word) || title.includes(word));
      found += !item.hidden;
    }
    shown += found;
    total += answers.length;
    details.hidden = !found;
    details.open = words.length > 0 && found > 0;
  }
  if (foundAnswers) foundAnswers.textContent = `${shown} of ${total} answers`;
  return words;
}

// A link to answers opens them.
function openTarget() {
  const target = location.hash && document.getElementById(location.hash.slice(1));
  if (!target || target.tagName !== "DETAILS") return;
  if (target.hidden) {
    search.value = "";
    filterRows();
  }
  target.open = true;
  target.scrollIntoView();
}
window.addEventListener("hashchange", openTarget);

// A link to a row that a filter hides shows all rows.
window.addEventListener("hashchange", () => {
  const target = location.hash && document.getElementById(location.hash.slice(1));
  if (!target || !target.hidden || target.tagName !== "TR") return;
  for (const button of buttons) button.setAttribute("aria-pressed", "false");
  search.value = "";
  filterRows();
  target.scrollIntoView();
});
filters.hidden = false;
filterRows();
openTarget();
