"use strict";

// Without this script all rows are visible.
const search = document.querySelector("#search");
const rows = [...document.querySelectorAll("tbody tr")];
const texts = rows.map((row) => row.textContent.toLowerCase());

search.parentElement.hidden = false;
search.addEventListener("input", () => {
  const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
  rows.forEach((row, index) => {
    row.hidden = !words.every((word) => texts[index].includes(word));
  });
});
