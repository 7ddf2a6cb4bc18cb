/* The search field of the documentation's pages. search_index.js defines `sections`: the title,
 * address and text in lower case of each section and public name. */
const field = document.getElementById("search");
const found = document.getElementById("found");
const MAX_RESULTS = 20;

/* 0: every word is in the title; 1: every word is in the text; 2: a word is missing. */
function rank(section, words) {
  if (words.every((word) => section[0].toLowerCase().includes(word))) return 0;
  return words.every((word) => section[2].includes(word)) ? 1 : 2;
}

function show() {
  const words = field.value.toLowerCase().split(/\s+/).filter(Boolean);
  found.replaceChildren();
  if (words.length === 0) return;
  const results = [[], []];
  for (const section of sections) results[rank(section, words)]?.push(section);
  for (const [title, address] of results.flat().slice(0, MAX_RESULTS)) {
    const link = document.createElement("a");
    link.href = address;
    link.textContent = title;
    found.append(link);
  }
  if (!found.firstChild) found.textContent = "No section contains these words.";
}

field.addEventListener("input", show);
