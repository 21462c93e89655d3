"use strict";
// What every page has: the theme's switch, values under the pointer, and tables that sort.
const element = (id) => document.getElementById(id);

const THEMES = [["", "as the system"], ["light", "light"], ["dark", "dark"]];
let theme = 0;
function showTheme() {
  const [value, word] = THEMES[theme];
  if (value) document.documentElement.dataset.theme = value;
  else delete document.documentElement.dataset.theme;
  element("theme").textContent = "Theme: " + word;
}
element("theme").addEventListener("click", () => { theme = (theme + 1) % THEMES.length; showTheme(); });
showTheme();

function showTip(text, at) {
  const tip = element("tip");
  tip.textContent = text;
  tip.hidden = false;
  const left = Math.min(at.right + 10, window.innerWidth - tip.offsetWidth - 8);
  const below = at.bottom + 10, fits = below + tip.offsetHeight < window.innerHeight;
  tip.style.left = Math.max(8, left) + "px";
  tip.style.top = (fits ? below : Math.max(8, at.top - tip.offsetHeight - 10)) + "px";
}

function hideTip() { element("tip").hidden = true; }

// Shows the text while the pointer or the focus is on the shape, and after a tap.
function tipOn(shape, text) {
  const show = () => showTip(text, shape.getBoundingClientRect());
  for (const event of ["mouseenter", "focus", "click"]) shape.addEventListener(event, show);
  for (const event of ["mouseleave", "blur"]) shape.addEventListener(event, hideTip);
}
for (const shape of document.querySelectorAll("[data-tip]")) tipOn(shape, shape.dataset.tip);
window.addEventListener("scroll", hideTip, { passive: true });

// By number where every cell of the column that says something begins with one.
function sortTable(head) {
  const table = head.closest("table"), body = table.tBodies[0], column = head.cellIndex;
  const descending = head.getAttribute("aria-sort") === "ascending";
  const key = (row) => row.cells[column].dataset.value || row.cells[column].textContent.trim();
  const silent = (text) => text === "" || text === "\u2013";
  const rows = [...body.rows], numeric = rows.map(key).every((text) => silent(text) || !Number.isNaN(parseFloat(text)));
  const compare = (a, b) => numeric ? parseFloat(a) - parseFloat(b) : a.localeCompare(b, undefined, { numeric: true });
  rows.sort((a, b) => {
    const x = key(a), y = key(b);
    if (silent(x) || silent(y)) return silent(x) - silent(y);
    return descending ? compare(y, x) : compare(x, y);
  });
  for (const other of head.parentElement.cells) other.removeAttribute("aria-sort");
  head.setAttribute("aria-sort", descending ? "descending" : "ascending");
  body.append(...rows);
}
document.addEventListener("click", (event) => {
  const head = event.target.closest("thead th");
  if (head) sortTable(head);
});

// Names of points stand where they cover neither another name nor a point; what has no such place is
// under the pointer.
function placeNames() {
  const covers = (a, b) => a.left < b.right && b.left < a.right && a.top < b.bottom && b.top < a.bottom;
  for (const field of document.querySelectorAll(".scatter .field")) {
    const points = [...field.querySelectorAll(".point")].map((one) => one.getBoundingClientRect());
    const taken = [], bounds = field.closest(".scatter").getBoundingClientRect();
    // Where there is no room for all, walzip's own come first.
    for (const name of [".point.ours b", ".point:not(.ours) b"].flatMap((of) => [...field.querySelectorAll(of)])) {
      name.style.display = "";
      const own = name.parentElement.getBoundingClientRect();
      const fits = ["", "to-left", "below", "below to-left"].some((place) => {
        name.parentElement.classList.remove("to-left", "below");
        name.parentElement.classList.add(...place.split(" ").filter(Boolean));
        const box = name.getBoundingClientRect();
        const others = points.filter((point) => point.left !== own.left || point.top !== own.top);
        return box.left >= bounds.left && box.right <= bounds.right && ![...taken, ...others].some((other) => covers(box, other));
      });
      name.style.display = fits ? "" : "none";
      if (fits) taken.push(name.getBoundingClientRect());
    }
  }
}
placeNames();
window.addEventListener("resize", placeNames);

// On paper nothing can be opened.
window.addEventListener("beforeprint", () => {
  for (const details of document.querySelectorAll("details")) details.open = true;
});

// A page can be sent on alone, and its figures be taken out of it.
const save = element("save-csv");
if (save) save.addEventListener("click", () => {
  const link = document.createElement("a");
  link.download = "measurements.csv";
  link.setAttribute("href", URL.createObjectURL(new Blob([element("csv").textContent], { type: "text/csv" })));
  link.click();
});
