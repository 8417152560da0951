// @ts-check
/**
 * Run list: selection of runs to compare by mouse and keyboard, preserved across row updates; no polling while the page is
 * hidden.
 */

import { onKey } from "../ui/shortcuts.js";
import { setText } from "../ui/dom.js";

/** @type {Set<string>} */
const chosen = new Set();
const form = document.querySelector("[data-compare]");
const go = /** @type {HTMLButtonElement|null} */ (document.querySelector("[data-compare-go]"));
const words = document.querySelector("[data-chosen]");

/** @returns {HTMLInputElement[]} */
function boxes() {
  return [.../** @type {NodeListOf<HTMLInputElement>} */ (document.querySelectorAll("input[name=compare]"))];
}

/** Restore the checkboxes after a row update, and the label of the button. */
function show() {
  for (const box of boxes()) box.checked = chosen.has(box.value);
  if (words) setText(words, chosen.size === 0 ? "" : chosen.size === 1 ? "1 run selected; select another" : `${chosen.size} runs selected`);
  if (go) go.disabled = chosen.size < 2;
}

function compare() {
  if (chosen.size > 1) location.assign(`/compare?runs=${[...chosen].join(",")}`);
}

/** @param {HTMLInputElement} box */
function note(box) {
  if (box.checked) chosen.add(box.value);
  else chosen.delete(box.value);
  show();
}

/** Move the focus to the title of another row. @param {number} step */
function move(step) {
  const rows = [...document.querySelectorAll("[data-run-row]")];
  if (!rows.length) return;
  const at = rows.findIndex((row) => row.contains(document.activeElement));
  const next = at < 0 ? (step > 0 ? 0 : rows.length - 1) : Math.min(rows.length - 1, Math.max(0, at + step));
  /** @type {HTMLElement|null} */ (rows[next].querySelector(".title a"))?.focus();
}

function toggle() {
  const row = document.activeElement?.closest("[data-run-row]");
  const box = /** @type {HTMLInputElement|null|undefined} */ (row?.querySelector("input[name=compare]"));
  if (!box) return;
  box.checked = !box.checked;
  note(box);
}

form?.addEventListener("change", (event) => {
  if (event.target instanceof HTMLInputElement && event.target.name === "compare") note(event.target);
});
form?.addEventListener("submit", (event) => {
  event.preventDefault();
  compare();
});
onKey((key) => {
  switch (key) {
    case "j": case "ArrowDown": move(1); return true;
    case "k": case "ArrowUp": move(-1); return true;
    case "x": toggle(); return true;
    case "c": compare(); return true;
    default: return false;
  }
});
document.addEventListener("htmx:beforeRequest", (event) => {
  const asks = event.target instanceof Element && event.target.id === "runs";
  if (asks && document.hidden) event.preventDefault();
});
document.addEventListener("htmx:afterSettle", show);
for (const box of boxes()) if (box.checked) chosen.add(box.value);
show();
