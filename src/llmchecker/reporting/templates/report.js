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

// What is closed does not print.
let closed = [];
window.addEventListener("beforeprint", () => {
  closed = [...document.querySelectorAll("details.witnesses:not([open])")];
  for (const details of closed) details.open = true;
});
window.addEventListener("afterprint", () => {
  for (const details of closed) details.open = false;
});
