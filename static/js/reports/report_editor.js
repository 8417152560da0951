// @ts-check
/** The editor of a report: Ctrl+Enter, a warning before text is lost, and read-outs of the previewed charts. */

import { need } from "../ui/dom.js";
import { toast } from "../ui/toast.js";
import "../curves/chart_readings.js";

const form = /** @type {HTMLFormElement} */ (need(document, "[data-editor]"));
const fields = /** @type {HTMLInputElement[]} */ ([...form.querySelectorAll("input[name=title], textarea")]);

/** Warn if anything would be lost: `data-unsaved` is on a form that the server refused. @param {Event} event */
const warn = (event) => {
  const changed = fields.some((field) => field.value !== field.defaultValue);
  if (changed || form.dataset.unsaved !== undefined) event.preventDefault();
};

window.addEventListener("pageshow", () => window.addEventListener("beforeunload", warn));
form.addEventListener("submit", () => window.removeEventListener("beforeunload", warn));
form.addEventListener("keydown", (event) => {
  if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) form.requestSubmit();
});
document.addEventListener("htmx:sendError", () => toast("No connection: no preview. Your text stays here."));
document.addEventListener("htmx:beforeSwap", (event) => {
  const swap = /** @type {CustomEvent<{shouldSwap: boolean, serverResponse: string}>} */ (event).detail;
  if (swap.serverResponse.includes("<html")) swap.shouldSwap = false; // the login page
  if (!swap.shouldSwap) toast("No preview: log in again in another tab, or shorten the text, which stays here.");
});
