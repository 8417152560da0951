// @ts-check
/** The note of the live page when an evaluation solves puzzles for the first time. An earlier one remains until then. */

import { loadFragment } from "../ui/fragment.js";

const note = document.querySelector("[data-first-successes]");

if (note instanceof HTMLElement) {
  const load = () => void loadFragment(note, note.dataset.firstSuccesses ?? "");
  document.addEventListener("runevents", (event) => {
    const events = /** @type {CustomEvent<import("../types.js").Event[]>} */ (event).detail;
    if (events.some(({ type }) => type === "evaluation")) load();
  });
  document.addEventListener("runreloaded", load);
}
