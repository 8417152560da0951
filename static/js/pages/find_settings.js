// @ts-check
/** Search box over the settings of a run: shows the rows that contain all words, in sections that open by themselves. */

import { need, setText } from "../ui/dom.js";

const root = need(document, "[data-find-settings]");
const rows = /** @type {HTMLElement[]} */ ([...root.querySelectorAll("details tr")]);
const sections = [...root.querySelectorAll("details")].filter((section) => section.querySelector("tr"));

/** @param {string} text */
function find(text) {
  const words = text.toLowerCase().split(/\s+/).filter(Boolean);
  for (const row of rows) row.hidden = !words.every((word) => row.textContent?.toLowerCase().includes(word));
  for (const section of sections) {
    const found = [...section.querySelectorAll("tr")].some((row) => !row.hidden);
    section.hidden = !found;
    section.open = words.length > 0 && found;
  }
  const left = rows.filter((row) => !row.hidden).length;
  setText(need(root, "[data-found]"), words.length ? `${left} of ${rows.length} settings` : "");
}

need(root, "[data-find]").addEventListener("input", (event) => {
  find(/** @type {HTMLInputElement} */ (event.target).value);
});
