"use strict";

// Without this script all rows are visible.
const filters = document.querySelector(".filters");
const search = document.querySelector("#search");
const buttons = [...filters.querySelectorAll("button")];
const rows = [...document.querySelectorAll("tbody tr")];
const texts = rows.map((row) => row.textContent.toLowerCase());

function filterRows() {
  const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
  const pressed = buttons.filter((button) => button.getAttribute("aria-pressed") === "true");
  const statuses = pressed.map((button) => button.dataset.status);
  rows.forEach((row, index) => {
    const isChosen = !statuses.length || statuses.includes(row.dataset.status);
    row.hidden = !isChosen || !words.every((word) => texts[index].includes(word));
  });
  const shown = rows.filter((row) => !row.hidden).length;
  filters.querySelector("output").textContent = `${shown} of ${rows.length} rows`;
}

for (const button of buttons) {
  button.addEventListener("click", () => {
    const isPressed = button.getAttribute("aria-pressed") === "true";
    button.setAttribute("aria-pressed", String(!isPressed));
    filterRows();
  });
}
search.addEventListener("input", filterRows);
// A link to a row that a filter hides shows all rows.
window.addEventListener("hashchange", () => {
  const target = location.hash && document.getElementById(location.hash.slice(1));
  if (!target || !target.hidden) return;
  for (const button of buttons) button.setAttribute("aria-pressed", "false");
  search.value = "";
  filterRows();
  target.scrollIntoView();
});
filters.hidden = false;
filterRows();
