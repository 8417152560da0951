// @ts-check
/** Best value and range of a metric, below its chart. Buckets keep their extremes, so that both are exact. */

import { html } from "../ui/dom.js";

/** @typedef {import("./chart.js").Point} Point */

/**
 * @typedef {object} Facts
 * @property {number} low
 * @property {number} high
 * @property {boolean} flat several values, all equal
 * @property {{iteration: number, value: number}|null} best the first of equals; null if no direction is better
 */

/**
 * @param {Point[]} points of all runs
 * @param {string} [better] up, down or none
 * @returns {Facts|null} null without points
 */
export function factsOf(points, better) {
  if (!points.length) return null;
  let [lowest] = points;
  let [highest] = points;
  for (const point of points) {
    if (point[2] < lowest[2]) lowest = point;
    if (point[2] > highest[2]) highest = point;
  }
  const [low, high] = [lowest[2], highest[2]];
  const best = low === high ? undefined : { up: highest, down: lowest }[better ?? ""];
  return {
    low,
    high,
    flat: low === high && points.length > 1,
    best: best ? { iteration: best[0], value: best[2] } : null,
  };
}

/**
 * @param {HTMLElement} place
 * @param {Facts|null} facts
 * @param {object} options
 * @param {(value: number) => string} options.format
 * @param {(iteration: number) => string|null} options.address of the attempts behind the best value; null: the range
 *   is shown instead
 * @param {boolean} options.limit whether the chart has a dashed limit
 */
export function showFacts(place, facts, { format, address, limit }) {
  if (!facts) return;
  const { best, low, high, flat } = facts;
  const href = best && address(best.iteration);
  const [from, to] = [format(low), format(high)];
  const range = flat ? `constant at ${from}` : from === to ? from : `${from} to ${to}`;
  const key = best && href ? `${href} ${best.value}` : range;
  if (place.dataset.facts === key) return; // drawn again, for instance with another smoothing
  place.dataset.facts = key;
  place.replaceChildren(
    ...(best && href
      ? [
          "best ",
          html("b", { class: "number" }, [format(best.value)]),
          " at iteration ",
          html("a", { href }, [String(best.iteration)]),
        ]
      : [html("span", { class: "number" }, [range])]),
    limit ? " · dashed: limit" : "",
  );
}
