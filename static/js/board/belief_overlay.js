// @ts-check
/**
 * Where a thought misplaces things: translucent things over the board of the state, each with a dotted line to where it
 * is. What the thought places correctly is on the board already.
 */

import { FIXTURES } from "./ground.js";
import { drawBox, drawPlayer } from "./pieces.js";
import { svg } from "../ui/dom.js";

/** @typedef {import("../types.js").Claim} Claim */

/** How the thing of a kind of claim is drawn in the cell at the origin. @type {Record<string, () => SVGElement[]>} */
const THINGS = {
  own_position: () => [drawPlayer()],
  box_position: () => [drawBox()],
  target_position: () => FIXTURES.target({ x: 0, y: 0 }),
  goal_position: () => FIXTURES.goal({ x: 0, y: 0 }),
  hole_position: () => FIXTURES.hole({ x: 0, y: 0 }),
};

/**
 * The claims that place a thing where it is not, and name a cell of the board.
 * @param {Claim[]} claims
 */
export function misplaced(claims) {
  return claims.filter((claim) => isMisplaced(claim) && claim.cells?.length);
}

/** @param {Claim} claim */
function isMisplaced(claim) {
  return !claim.true && thing(claim) in THINGS;
}

/**
 * The kind of position that a claim states: a distance (`placed`) puts a thing into a cell, too.
 * @param {Claim} claim
 */
function thing(claim) {
  return claim.placed ?? claim.kind ?? "";
}

/**
 * @param {Claim[]} claims of `misplaced`
 * @returns {SVGElement[]} in units of a cell
 */
export function drawBeliefs(claims) {
  return claims.flatMap((claim) =>
    (claim.cells ?? []).flatMap(([row, column]) => {
      const drawn = svg("g", { class: "belief" }, THINGS[thing(claim)]());
      drawn.style.transform = `translate(${column}px, ${row}px)`;
      const [actual] = [...(claim.actual_cells ?? [])].sort(
        (a, b) => distance(a, row, column) - distance(b, row, column),
      );
      if (!actual) return [drawn];
      const line = `M${column + 0.5} ${row + 0.5}L${actual[1] + 0.5} ${actual[0] + 0.5}`;
      return [svg("path", { class: "belief-line", d: line }), drawn];
    }),
  );
}

/**
 * @param {[number, number]} cell
 * @param {number} row
 * @param {number} column
 */
function distance([y, x], row, column) {
  return Math.abs(y - row) + Math.abs(x - column);
}

/**
 * What the translucent things are, in words, with the places off the board, which cannot be drawn; empty if the thought
 * misplaces nothing.
 * @param {Claim[]} claims of a thought
 */
export function beliefText(claims) {
  const wrong = claims.filter(isMisplaced);
  if (!wrong.length) return "";
  const off = wrong.filter((claim) => !claim.cells?.length).length;
  const sentences = [
    off < wrong.length ? "Translucent: where the thought sees it." : "",
    off ? `The thought names ${off > 1 ? "places" : "a place"} off the board.` : "",
    `In truth, ${[...new Set(wrong.map((claim) => claim.actual).filter(Boolean))].join("; ")}.`,
  ];
  return sentences.filter(Boolean).join(" ");
}
