"use strict";

// Without this script every state can still be opened and closed one by one.
const tree = document.querySelector(".tree");
const buttons = document.querySelector(".buttons");

const opened = {
  all: () => true,
  none: () => false,
  deciding: (details) => details.parentElement.classList.contains("leads"),
};

if (tree && buttons) {
  buttons.hidden = false;
  buttons.addEventListener("click", (event) => {
    const wanted = opened[event.target.dataset.open];
    if (!wanted) return;
    for (const details of tree.querySelectorAll("details")) details.open = wanted(details);
  });
}

// Without this script all answers are visible.
const filters = document.querySelector(".filters");

function isChosen(element) {
  const selects = [...filters.querySelectorAll("select")];
  return selects.every((select) => !select.value || element.dataset[select.dataset.filter] === select.value);
}

function filterAnswers() {
  for (const element of document.querySelectorAll(".answer, details.witnesses")) {
    element.hidden = !isChosen(element);
  }
  for (const card of document.querySelectorAll(".card")) {
    card.hidden = !card.querySelector(".answer:not([hidden])");
  }
  const total = document.querySelectorAll(".answer").length;
  const shown = document.querySelectorAll(".answer:not([hidden])").length;
  filters.querySelector("output").textContent = `${shown} of ${total} answers`;
}

if (filters) {
  filters.hidden = false;
  filters.addEventListener("change", filterAnswers);
  // A browser restores the choices of an earlier visit.
  filterAnswers();
}

// A link into a closed part opens it.
function openTarget() {
  const target = location.hash && document.getElementById(decodeURIComponent(location.hash.slice(1)));
  if (!target) return;
  const fold = target.querySelector(":scope > details.fold");
  if (fold) fold.open = true;
}
window.addEventListener("hashchange", openTarget);
openTarget();

// A link to an answer that a filter hides shows all answers.
window.addEventListener("hashchange", () => {
  const target = location.hash && document.getElementById(location.hash.slice(1));
  if (!filters || !target || !target.hidden) return;
  for (const select of filters.querySelectorAll("select")) select.value = "";
  filterAnswers();
  target.scrollIntoView();
});

const frames = [...document.querySelectorAll(".frame")];

// The columns that identify a row stay in place if they leave room for the others.
function placeColumns(frame) {
  const scroll = frame.querySelector(".scroll");
  const heads = [...frame.querySelectorAll("thead .fixed")];
  const widths = heads.map((head) => head.offsetWidth);
  const fits = widths.reduce((sum, width) => sum + width, 0) < scroll.clientWidth / 2;
  for (const row of frame.querySelectorAll("tr")) {
    let left = 0;
    [...row.querySelectorAll(".fixed")].forEach((cell, index) => {
      cell.style.left = fits || index === 0 ? `${left}px` : "auto";
      left += widths[index];
    });
  }
}

// A shadow is at the side on which columns or, on a phone, rows follow.
function markHidden(frame) {
  const scroll = frame.querySelector(".scroll");
  frame.classList.toggle("more", scroll.scrollLeft + scroll.clientWidth < scroll.scrollWidth - 1);
  frame.classList.toggle("below", scroll.scrollTop + scroll.clientHeight < scroll.scrollHeight - 1);
}

function arrange() {
  frames.forEach(placeColumns);
  frames.forEach(markHidden);
}

for (const frame of frames) {
  frame.querySelector(".scroll").addEventListener("scroll", () => markHidden(frame), { passive: true });
}
window.addEventListener("resize", arrange);
// The columns of a closed part have no widths.
for (const fold of document.querySelectorAll("details.fold")) fold.addEventListener("toggle", arrange);
arrange();

// What is closed does not print.
let closed = [];
window.addEventListener("beforeprint", () => {
  closed = [...document.querySelectorAll("details.witnesses:not([open]), details.fold:not([open])")];
  for (const details of closed) details.open = true;
});
window.addEventListener("afterprint", () => {
  for (const details of closed) details.open = false;
});
