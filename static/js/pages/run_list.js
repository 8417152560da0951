// @ts-check
/**
 * Run list: selection of runs to compare by mouse and keyboard, preserved across row updates; no polling while the page
 * is hidden.
 */

import { describe, onKey } from "../ui/shortcuts.js";
import { setText } from "../ui/dom.js";

const COLUMNS_KEY = "echoscope.hiddenRunColumns";
/** @type {Set<string>} */
const chosen = new Set();
const form = document.querySelector("[data-compare]");
const go = /** @type {HTMLButtonElement|null} */ (document.querySelector("[data-compare-go]"));
const words = document.querySelector("[data-chosen]");

/** @returns {HTMLInputElement[]} */
function boxes() {
  return [.../** @type {NodeListOf<HTMLInputElement>} */ (document.querySelectorAll("input[name=compare]"))];
}

/** Runs of a row: several of a folded one. @param {HTMLInputElement} box */
const runsOf = (box) => box.value.split(",");

/** Restore the checkboxes after a row update, and the label of the button. */
function show() {
  for (const box of boxes()) {
    const count = runsOf(box).filter((slug) => chosen.has(slug)).length;
    box.checked = count === runsOf(box).length;
    box.indeterminate = count > 0 && !box.checked;
  }
  if (words)
    setText(
      words,
      chosen.size === 0 ? "" : chosen.size === 1 ? "1 run selected; select another" : `${chosen.size} runs selected`,
    );
  if (go) go.disabled = chosen.size < 2;
}

function compare() {
  if (chosen.size > 1) location.assign(`/compare?runs=${[...chosen].join(",")}`);
}

/** @param {HTMLInputElement} box */
function note(box) {
  for (const slug of runsOf(box)) {
    if (box.checked) chosen.add(slug);
    else chosen.delete(slug);
  }
  show();
}

/** Move the focus to the title of another row. @param {number} step */
function move(step) {
  const rows = [...document.querySelectorAll("[data-run-row]")];
  if (!rows.length) return;
  const at = rows.findIndex((row) => row.contains(document.activeElement));
  const next = at < 0 ? (step > 0 ? 0 : rows.length - 1) : Math.min(rows.length - 1, Math.max(0, at + step));
  /** @type {HTMLElement|null} */ (rows[next].querySelector("[data-name]"))?.focus();
}

/** Unfold or fold the row with the focus. @param {boolean} open */
function unfold(open) {
  const toggle = document.activeElement?.closest("[data-run-row]")?.querySelector(".fold-toggle");
  if (!(toggle instanceof HTMLElement) || (toggle.ariaExpanded === "true") === open) return false;
  toggle.click();
  return true;
}

function toggle() {
  const row = document.activeElement?.closest("[data-run-row]");
  const box = /** @type {HTMLInputElement|null|undefined} */ (row?.querySelector("input[name=compare]"));
  if (!box) return;
  box.checked = !box.checked;
  note(box);
}

/** Hidden columns: those of the view in the address, else of this browser. @returns {Set<string>} */
function hiddenColumns() {
  const asked = new URLSearchParams(location.search).get("hide");
  if (asked !== null) return new Set(asked.split(" ").filter((name) => name && name !== "none"));
  try {
    return new Set((localStorage.getItem(COLUMNS_KEY) ?? "").split(" ").filter(Boolean));
  } catch {
    return new Set();
  }
}

/** @param {Set<string>} hidden */
function hideColumns(hidden) {
  if (form instanceof HTMLElement) form.dataset.hidden = [...hidden].join(" ");
  for (const box of /** @type {NodeListOf<HTMLInputElement>} */ (document.querySelectorAll("[data-column]"))) {
    box.checked = !hidden.has(box.dataset.column ?? "");
  }
}

form?.addEventListener("change", (event) => {
  if (!(event.target instanceof HTMLInputElement)) return;
  if (event.target.name === "compare") note(event.target);
  const column = event.target.dataset.column;
  if (column === undefined) return;
  const hidden = hiddenColumns();
  if (event.target.checked) hidden.delete(column);
  else hidden.add(column);
  const address = new URL(location.href);
  if (address.searchParams.has("hide")) {
    address.searchParams.set("hide", [...hidden].join(" ") || "none");
    history.replaceState(history.state, "", address);
  } else {
    try {
      localStorage.setItem(COLUMNS_KEY, [...hidden].join(" "));
    } catch {
      /* storage is forbidden: for this page only */
    }
  }
  hideColumns(hidden);
});
hideColumns(hiddenColumns());
document.querySelector("[data-save-view]")?.addEventListener("submit", (event) => {
  const query = new URLSearchParams(location.search); // the address follows the filters, the field was written with the page
  query.set("hide", [...hiddenColumns()].join(" ") || "none");
  const field = event.target instanceof HTMLFormElement ? event.target.elements.namedItem("query") : null;
  if (field instanceof HTMLInputElement) field.value = query.toString();
});
form?.addEventListener("submit", (event) => {
  event.preventDefault();
  compare();
});
describe("Runs", [
  ["j k", "next, previous run"],
  ["→ ←", "unfold, fold a study or the seeds of a configuration"],
  ["x", "select it"],
  ["c", "compare the selected runs"],
]);
onKey((key) => {
  switch (key) {
    case "j":
    case "ArrowDown":
      move(1);
      return true;
    case "k":
    case "ArrowUp":
      move(-1);
      return true;
    case "ArrowRight":
      return unfold(true);
    case "ArrowLeft":
      return unfold(false);
    case "x":
      toggle();
      return true;
    case "c":
      compare();
      return true;
    default:
      return false;
  }
});
document.addEventListener("htmx:beforeRequest", (event) => {
  const asks = event.target instanceof Element && event.target.id === "runs";
  if (asks && document.hidden) event.preventDefault();
});
document.addEventListener("htmx:afterSettle", show);
for (const box of boxes()) if (box.checked) for (const slug of runsOf(box)) chosen.add(slug);
show();
