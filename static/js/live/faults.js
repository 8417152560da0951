// @ts-check
/** The panel of a sick run: loaded again whenever its faults change. */

import { loadFragment } from "../ui/fragment.js";

const place = document.querySelector("[data-faults]");

if (place instanceof HTMLElement) {
  const load = () => void loadFragment(place, place.dataset.faults ?? "");
  document.addEventListener("runevents", (event) => {
    const events = /** @type {CustomEvent<import("../types.js").Event[]>} */ (event).detail;
    const shown = place.childElementCount > 0;
    if (events.some(({ type, judged }) => type === "faults" || (judged && (shown || judged.faults.length > 0)))) load();
  });
  document.addEventListener("runreloaded", load);
}
