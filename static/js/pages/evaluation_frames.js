// @ts-check
/** What changed from one evaluation to the next, puzzle by puzzle. Pure functions, no DOM. */

import { evaluatedWhen, plural } from "../ui/formatting.js";

/** @typedef {[iteration: number, solved: string]} Frame a character for each puzzle: 1, 0, or – for not played */

/**
 * What a puzzle did since the evaluation before.
 * @param {string} now
 * @param {string|undefined} before
 * @returns {"news"|"lost"|"won"|"failed"|"none"}
 */
export function change(now, before) {
  if (now === "1") return before === "0" ? "news" : "won";
  if (now === "0") return before === "1" ? "lost" : "failed";
  return "none";
}

/**
 * "After iteration 24: 54 of 96 solved, 12 newly, 4 newly lost."
 * @param {Frame} frame
 * @param {Frame|undefined} before
 * @param {string} noun what the run's pages call a puzzle
 */
export function frameText([iteration, solved], before, noun) {
  const kinds = [...solved].map((sign, index) => change(sign, before?.[1][index]));
  const count = (/** @type {string} */ kind) => kinds.filter((each) => each === kind).length;
  const parts = [`${count("won") + count("news")} of ${plural(solved.replaceAll("–", "").length, noun)} solved`];
  if (before) parts.push(`${count("news")} newly solved`, `${count("lost")} newly lost`);
  const when = evaluatedWhen(iteration);
  return `${when[0].toUpperCase()}${when.slice(1)}: ${parts.join(", ")}`;
}
