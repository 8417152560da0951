// @ts-check
/** Ctrl K, ⌘ K and the search button open the command palette, which is loaded when it is first opened. */

import { setText } from "./dom.js";

/** @type {Promise<typeof import("./palette.js")>|null} */
let loading = null;

async function toggle() {
  loading ??= import("./palette.js");
  try {
    (await loading).togglePalette();
  } catch (error) {
    loading = null; // offline: the next key tries again
    throw error;
  }
}

document.addEventListener("keydown", (event) => {
  if (event.key.toLowerCase() !== "k" || !(event.ctrlKey || event.metaKey) || event.altKey || event.shiftKey) return;
  event.preventDefault();
  void toggle();
});
document.addEventListener("click", (event) => {
  if (event.target instanceof Element && event.target.closest("[data-open-palette]")) void toggle();
});
const hint = document.querySelector("[data-open-palette] kbd");
if (hint && /Mac|iPhone|iPad/.test(navigator.platform)) setText(hint, "⌘ K");
