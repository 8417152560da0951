// @ts-check
/** The editor of a report: Ctrl+Enter, a warning before text is lost, and read-outs of the previewed charts. */

import { need } from "../ui/dom.js";
import "../curves/chart_readings.js";

const form = /** @type {HTMLFormElement} */ (need(document, "[data-editor]"));
const fields = /** @type {HTMLInputElement[]} */ ([...form.querySelectorAll("input[name=title], textarea")]);
let leaving = false;

/** Whether anything would be lost: `data-unsaved` is on a form whose text the server has refused. */
const changed = () => form.dataset.unsaved !== undefined || fields.some((field) => field.value !== field.defaultValue);

form.addEventListener("keydown", (event) => {
  if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) form.requestSubmit();
});
form.addEventListener("submit", () => {
  leaving = true;
});
window.addEventListener("pageshow", () => {
  leaving = false;
});
window.addEventListener("beforeunload", (event) => {
  if (!leaving && changed()) event.preventDefault();
});
