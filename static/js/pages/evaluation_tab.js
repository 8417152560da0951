// @ts-check
/**
 * Evaluation tab of a live run: reloads the rendered results after each new result and preserves the focus by id.
 */

import { need, setText } from "../ui/dom.js";
import { evaluatedWhen, percent } from "../ui/formatting.js";

/** The suites of one evaluation arrive one after the other and are reloaded together. */
const FETCH_DELAY = 400;
const FETCH_INTERVAL = 4000;
const announcement = need(document, "[data-results-announcement]");
let timer = 0;

/** @param {number} wait milliseconds */
function draw(wait) {
  window.clearTimeout(timer);
  timer = window.setTimeout(() => need(document, "#exams").dispatchEvent(new CustomEvent("examined")), wait);
}

document.addEventListener("runevents", (message) => {
  const events = /** @type {CustomEvent<import("../types.js").Event[]>} */ (message).detail;
  const results = events.filter((event) => event.type === "evaluation");
  if (results.length === 0) return;
  setText(
    announcement,
    results
      .map((result) => `${result.suite}: ${percent(result.success)} ${evaluatedWhen(result.iteration)}.`)
      .join(" "),
  );
  draw(FETCH_DELAY);
});
document.addEventListener("runreloaded", () => draw(FETCH_DELAY));
for (const failed of ["htmx:sendError", "htmx:responseError"])
  document.addEventListener(failed, () => draw(FETCH_INTERVAL));
document.addEventListener("htmx:beforeSwap", (event) => {
  /** @type {{target: Element, shouldSwap: boolean, serverResponse: string}} */
  const swap = /** @type {CustomEvent} */ (event).detail;
  const isExpected = swap.target.id === "exams" ? 'id="exams"' : /^\s*(<li class="evaluation-question"|$)/;
  if (!swap.shouldSwap || swap.serverResponse.search(isExpected) >= 0) return;
  swap.shouldSwap = false; // the login page instead of the results
  location.reload();
});
document.documentElement.classList.add("exams-ready");
