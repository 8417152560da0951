// @ts-check
/** Buttons that copy a field or a text: `<button data-copy-from="id of the element" data-copied="words">`. */

import { copy } from "./clipboard.js";

document.addEventListener("click", (event) => {
  const button = event.target instanceof Element ? event.target.closest("[data-copy-from]") : null;
  if (!(button instanceof HTMLElement)) return;
  const field = document.getElementById(button.dataset.copyFrom ?? "");
  if (!field) return;
  if (field instanceof HTMLInputElement) field.select();
  void copy(
    field instanceof HTMLInputElement ? field.value : (field.textContent ?? ""),
    button.dataset.copied ?? "Copied.",
  );
});
