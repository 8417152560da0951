// @ts-check
/** Buttons that copy the value of a field: `<button data-copy-from="id of the field" data-copied="words">`. */

import { copy } from "./clipboard.js";

document.addEventListener("click", (event) => {
  const button = event.target instanceof Element ? event.target.closest("[data-copy-from]") : null;
  if (!(button instanceof HTMLElement)) return;
  const field = document.getElementById(button.dataset.copyFrom ?? "");
  if (!(field instanceof HTMLInputElement)) return;
  field.select();
  void copy(field.value, button.dataset.copied ?? "Copied.");
});
