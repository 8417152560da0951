// @ts-check
/**
 * The evaluation tab while the run is live: a new result has the server draw the results again, in their place. What was
 * focused keeps the focus, by its id.
 */

import { need, setText } from "../ui/dom.js";
import { percent } from "../ui/formatting.js";

/** The suites of an examination arrive one after the other: they are drawn together. */
const TOGETHER = 400;
const ASK_AGAIN = 4000;
const said = need(document, "[data-exams-said]");
let timer = 0;

/** @param {number} wait milliseconds */
function draw(wait) {
  window.clearTimeout(timer);
  timer = window.setTimeout(() => need(document, "#exams").dispatchEvent(new CustomEvent("examined")), wait);
}

document.addEventListener("runevents", (message) => {
  const events = /** @type {CustomEvent<import("../live/types.js").Event[]>} */ (message).detail;
  const results = events.filter((event) => event.type === "evaluation");
  if (results.length === 0) return;
  setText(said, results.map((result) => `${result.suite}: ${percent(result.success)} after iteration ${result.iteration}.`).join(" "));
  draw(TOGETHER);
});
document.addEventListener("runreloaded", () => draw(TOGETHER));
for (const failed of ["htmx:sendError", "htmx:responseError"]) document.addEventListener(failed, () => draw(ASK_AGAIN));
document.addEventListener("htmx:beforeSwap", (event) => {
  const swap = /** @type {CustomEvent<{shouldSwap: boolean, serverResponse: string}>} */ (event).detail;
  if (!swap.shouldSwap || swap.serverResponse.includes('id="exams"')) return;
  swap.shouldSwap = false; // the page to log in, instead of the results
  location.reload();
});
document.documentElement.classList.add("exams-ready");
