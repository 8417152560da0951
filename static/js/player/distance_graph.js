// @ts-check
/**
 * Graph under the scrubber: optimal distance at every position (or success probability under random dynamics), turn
 * borders, and the position where the puzzle became unsolvable.
 */

import { chances, distances } from "./positions.js";
import { svg } from "../ui/dom.js";
import { plural } from "../ui/formatting.js";

/** @typedef {import("./positions.js").Position} Position */

const HEIGHT = 34;

/**
 * @param {Element} host
 * @param {Position[]} positions
 * @param {{lost: number, success: boolean|null, marks: Array<{index: number, kind: string}>}} options lost: index of
 *   the first unsolvable position, or −1; marks: mistakes and the positions after them
 * @returns {string} text alternative; "" without a solver
 */
export function drawGraph(host, positions, { lost, success, marks }) {
  const last = Math.max(1, positions.length - 1);
  const known = distances(positions);
  const counts = known.some((point) => point);
  const points = counts ? known : chances(positions);
  const most = counts ? Math.max(1, ...known.map((point) => point?.distance ?? 0)) : 1;
  const x = (/** @type {number} */ index) => (index / last) * 100;
  const y = (/** @type {number} */ distance) => HEIGHT - 5 - (distance / most) * (HEIGHT - 12);
  const picture = svg("svg", { viewBox: `0 0 100 ${HEIGHT}`, preserveAspectRatio: "none", "aria-hidden": "true" });
  picture.append(svg("path", { class: "base", d: `M0 ${HEIGHT - 5}H100` }));
  positions.forEach((position, index) => {
    if (position.action < 0 && index > 0)
      picture.append(svg("path", { class: "border", d: `M${x(index)} 0V${HEIGHT}` }));
  });
  let path = "";
  let gap = true;
  for (const point of points) {
    if (point) path += `${gap ? "M" : "L"}${x(point.index).toFixed(2)} ${y(point.distance).toFixed(2)}`;
    gap = !point;
  }
  if (path) picture.append(svg("path", { class: "distance", d: path }));
  if (lost >= 0) {
    picture.append(svg("rect", { class: "lost-zone", x: x(lost), y: 0, width: 100 - x(lost), height: HEIGHT }));
    picture.append(svg("path", { class: "lost", d: `M${x(lost)} 0V${HEIGHT}` }));
  }
  if (success) picture.append(svg("path", { class: "won", d: `M100 0V${HEIGHT}` }));
  for (const { index, kind } of marks) {
    const at = points[index]?.distance ?? 0;
    picture.append(svg("path", { class: `mistake-dot ${kind}`, d: `M${x(index).toFixed(2)} ${y(at).toFixed(2)}h0` })); // a dot: the ends are round
  }
  host.replaceChildren(picture);
  if (!path) return "";
  const line = counts
    ? `Line: actions still needed (best play), at most ${plural(most, "action")}.`
    : "Line: success probability of the best play, 0 to 100%.";
  return [line, ...(lost >= 0 ? ["Red: unsolvable."] : []), ...(marks.length ? ["Dots: mistakes."] : [])].join(" ");
}
