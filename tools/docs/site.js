// Searches in the browser, in an index that is loaded on first use, and adds copy buttons to code blocks. Files are enough; no server is
// needed.
"use strict";

const field = document.getElementById("search");
const results = document.getElementById("results");
const article = document.querySelector("article");
const shownMax = 30;

function index() {
  if (window.searchIndex) return Promise.resolve(window.searchIndex);
  return new Promise((resolve, reject) => {
    const script = document.createElement("script");
    script.src = `${window.siteRoot}index.js`;
    script.onload = () => resolve(window.searchIndex);
    script.onerror = () => reject(new Error("the search index cannot be loaded"));
    document.head.append(script);
  });
}

// Every word must match. A heading counts more than body text, a whole word more than a part of one.
function score(entry, words) {
  let sum = 0;
  for (const word of words) {
    const heading = entry.heading.toLowerCase();
    const text = (entry.lower ??= entry.words.toLowerCase());
    const page = entry.page.toLowerCase();
    const here = (heading.includes(word) ? 20 : 0) + (page.includes(word) ? 8 : 0) + Math.min(text.split(word).length - 1, 5);
    if (here === 0) return 0;
    sum += here;
  }
  return sum;
}

function excerpt(entry, word) {
  const at = Math.max(entry.words.toLowerCase().indexOf(word) - 60, 0);
  return (at > 0 ? "…" : "") + entry.words.slice(at, at + 180);
}

async function search() {
  const words = field.value.toLowerCase().split(/\s+/).filter((word) => word.length > 1);
  results.hidden = words.length === 0;
  article.hidden = words.length > 0;
  if (words.length === 0) return;
  const entries = await index();
  const hits = entries.map((entry) => [score(entry, words), entry]).filter(([points]) => points > 0);
  hits.sort((a, b) => b[0] - a[0]);
  results.replaceChildren(title(hits.length), ...hits.slice(0, shownMax).map(([, entry]) => hit(entry, words[0])));
}

function title(count) {
  const element = document.createElement("h2");
  element.textContent = count === 0 ? "No results" : count === 1 ? "1 result" : `${count} results`;
  return element;
}

function hit(entry, word) {
  const element = document.createElement("p");
  const link = document.createElement("a");
  link.href = window.siteRoot + entry.address;
  link.textContent = entry.page === entry.heading ? entry.page : `${entry.page}: ${entry.heading}`;
  link.addEventListener("click", () => { field.value = ""; search(); });
  const text = document.createElement("span");
  text.textContent = excerpt(entry, word);
  element.append(link, document.createElement("br"), text);
  return element;
}

function copyButtons() {
  for (const block of document.querySelectorAll("pre:not(:has(> .printed))")) {
    const button = document.createElement("button");
    button.textContent = "Copy";
    button.addEventListener("click", async () => {
      await navigator.clipboard.writeText(block.querySelector("code").textContent);
      button.textContent = "Copied";
    });
    block.append(button);
  }
}

field.addEventListener("input", search);
field.form.addEventListener("submit", (event) => {
  event.preventDefault();
  results.querySelector("a")?.click();
});
document.addEventListener("keydown", (event) => {
  if (event.key === "/" && document.activeElement !== field) {
    event.preventDefault();
    field.focus();
  }
  if (event.key === "Escape") {
    field.value = "";
    search();
  }
});
if (navigator.clipboard) copyButtons();

// A link can contain a query: index.html?q=slow+consumer
const asked = new URLSearchParams(location.search).get("q");
if (asked) {
  field.value = asked;
  search();
}
