// @ts-check
/** Launch form of a study: rows of settings appear when they are needed, problems are shown at their fields. */

import { html, need, setText } from "../ui/dom.js";

const form = /** @type {HTMLFormElement} */ (need(document, "[data-study-form]"));
const rows = /** @type {HTMLElement[]} */ ([...form.querySelectorAll("[data-setting-row]")]);
const add = /** @type {HTMLButtonElement} */ (need(form, "[data-add-setting]"));

/** @param {HTMLElement} row */
const isEmpty = (row) => [...row.querySelectorAll("input")].every((input) => !input.value);

/** @param {number} count rows that are shown */
function showRows(count) {
  for (const [at, row] of rows.entries()) row.hidden = at >= count;
  add.hidden = count >= rows.length;
}

add.addEventListener("click", () => {
  const count = rows.filter((row) => !row.hidden).length + 1;
  showRows(count);
  rows[count - 1].querySelector("input")?.focus();
});

/** Show each problem of the check at its field, unless the field is still untouched. */
function showProblems() {
  for (const old of form.querySelectorAll(".field-error")) old.remove();
  for (const field of form.querySelectorAll("[aria-invalid]")) {
    field.removeAttribute("aria-invalid");
    field.removeAttribute("aria-describedby");
  }
  const problems = /** @type {NodeListOf<HTMLElement>} */ (form.querySelectorAll("#study-check [data-field]"));
  for (const problem of problems) {
    const name = problem.dataset.field ?? "";
    const field = form.elements.namedItem(name);
    const text = field instanceof HTMLInputElement || field instanceof HTMLTextAreaElement;
    if (!text || field.type === "hidden" || !(field.value || "posted" in form.dataset)) continue;
    const id = `error-${name}`;
    field.setAttribute("aria-invalid", "true");
    field.setAttribute("aria-describedby", id);
    field.closest("label")?.append(html("span", { class: "field-error", id }, [problem.textContent ?? ""]));
  }
  const size = form.querySelector("[data-size]")?.textContent ?? "";
  setText(need(form, "[data-summary]"), problems.length ? (problems[0].textContent ?? "") : size);
  need(form, "[data-summary]").classList.toggle("bad", problems.length > 0 && "posted" in form.dataset);
}

showRows(Math.max(1, rows.findLastIndex((row) => !isEmpty(row)) + 1));
showProblems();
if ("posted" in form.dataset) /** @type {HTMLElement|null} */ (form.querySelector("[aria-invalid]"))?.focus();
document.addEventListener("htmx:afterSettle", showProblems);
