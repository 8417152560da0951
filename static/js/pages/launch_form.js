// @ts-check
/**
 * Launch form: highlights values that differ from the preset, marks invalid fields for assistive technology, copies texts.
 */

import { copy } from "../ui/clipboard.js";

const form = document.querySelector("[data-launch]");

/** @param {Element} row */
function mark(row) {
  const field = row.querySelector("input:not([type=hidden]), select, textarea");
  const value = field instanceof HTMLInputElement && field.type === "checkbox" ? (field.checked ? "on" : "")
    : /** @type {HTMLInputElement|HTMLSelectElement|HTMLTextAreaElement} */ (field).value.trim();
  row.classList.toggle("differs", value !== row.getAttribute("data-default"));
}

form?.addEventListener("input", (event) => {
  const row = event.target instanceof Element ? event.target.closest("[data-setting]") : null;
  if (row) mark(row);
});

document.addEventListener("htmx:afterSettle", () => {
  for (const slot of form?.querySelectorAll(".error") ?? []) {
    const field = document.getElementById(slot.id.replace(/-error$/, ""));
    if (!field) continue;
    if (slot.textContent) field.setAttribute("aria-invalid", "true");
    else field.removeAttribute("aria-invalid");
  }
});

const wrong = form?.querySelector("[aria-invalid=true]");
if (wrong instanceof HTMLElement) wrong.focus();

document.addEventListener("click", (event) => {
  const button = event.target instanceof Element ? event.target.closest("[data-copy-text]") : null;
  const text = button && document.getElementById(button.getAttribute("data-copy-text") ?? "")?.textContent;
  if (text) copy(text, "Copied.");
});
