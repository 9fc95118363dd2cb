"use strict";

// The theme gives each block of code a navigation without a name of its own.
function hideLandmarks() {
  for (const nav of document.querySelectorAll("nav.md-code__nav")) nav.setAttribute("role", "none");
}
new MutationObserver(hideLandmarks).observe(document.body, { childList: true, subtree: true });
hideLandmarks();

// The theme gives the dialog of the search no name.
document.querySelector(".md-search").setAttribute("aria-label", "Search");

// What scrolls by itself can be scrolled by keys.
for (const frame of document.querySelectorAll("p:has(> img), .output")) {
  if (frame.scrollWidth > frame.clientWidth) frame.tabIndex = 0;
}
