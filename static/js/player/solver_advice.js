// @ts-check
/**
 * Solver advice for a position as text: best action, the unsolvable point, and the comparison with optimal play. Pure
 * functions, no DOM.
 */

import { lostIndex } from "./positions.js";
import { number, percent, plural } from "../ui/formatting.js";

/** @typedef {import("../types.js").Trajectory} Trajectory */
/** @typedef {import("../types.js").Hint} Hint */
/** @typedef {import("./positions.js").Position} Position */

/**
 * @param {Trajectory} trajectory
 * @param {Position[]} positions
 * @param {number} index the position
 * @returns {string} "" without a solver
 */
export function advice(trajectory, positions, index) {
  const position = positions[index];
  const hint = position.hint;
  if (position.board.kind === "arms") return hint ? aboutArms(trajectory, hint) : "";
  const lost = lostIndex(trajectory, positions);
  if (lost >= 0 && index >= lost) {
    if (trajectory.verdict) return ""; // which says so
    const reason = trajectory.lost_at?.reason ?? hint?.reason ?? "it can no longer be won";
    const at = positions[lost];
    const since = at.action < 0 ? "from the beginning" : `since turn ${at.turn + 1}, action ${at.action + 1}`;
    return `Lost ${since}: ${reason}.`;
  }
  if (!hint) return "";
  if (hint.distance === 0) return "Solved.";
  const answers = position.board.kind === "text" && !(Number(hint.distance) > 1); // else a call of a tool comes first
  if (answers && hint.actions?.length && hint.solvable !== "unknown") return `A correct answer: ${hint.actions[0]}.`;
  if (hint.solvable === "unknown")
    return hint.reason ? `No solver advice: ${hint.reason}.` : "No solver advice: its search budget was exceeded.";
  const next = hint.actions?.length ? `, next ${hint.actions.join(" or ")}` : "";
  if (hint.distance !== null && hint.distance !== undefined) {
    return `Best play: ${plural(hint.distance, "action")} to go${next}. ${comparison(trajectory, positions, index)}`.trim();
  }
  if (hint.value !== null && hint.value !== undefined)
    return `Best play wins ${percent(hint.value)} of the time from here${next}.`;
  return "";
}

/**
 * Optimal play from a position compared with the trajectory: "Optimal from here: 4 actions; this attempt used 7."
 * @param {Trajectory} trajectory
 * @param {Position[]} positions
 * @param {number} index
 */
export function comparison(trajectory, positions, index) {
  const distance = positions[index].hint?.distance;
  if (!distance || trajectory.success === null || trajectory.success === undefined) return "";
  const used = positions.slice(index + 1).filter((position) => position.record?.status === "executed").length;
  const from = positions.slice(0, index + 1).some((position) => position.record?.status === "executed")
    ? "here"
    : "the start";
  const optimal = `Optimal from ${from}: ${plural(distance, "action")}`;
  const ran = { turns: "turns", actions: "actions" }[trajectory.end ?? ""];
  if (!trajectory.success && !used && ran) {
    const sentence = `Still solvable in ${plural(distance, "move")}, but the agent ran out of ${ran}.`;
    return trajectory.verdict?.sentence === sentence ? "" : sentence; // the verdict is above
  }
  if (!trajectory.success) return `${optimal}; this attempt used ${used} and did not solve it.`;
  return used === distance ? `${optimal}, as in this attempt.` : `${optimal}; this attempt used ${used}.`;
}

/**
 * @param {Trajectory} trajectory
 * @param {Hint} hint
 */
function aboutArms(trajectory, hint) {
  const best = (hint.actions?.length ? hint : trajectory.hint) ?? {};
  const names = best.actions?.join(" or ") ?? "";
  const worth =
    best.value === null || best.value === undefined ? "" : `, which pays ${number(best.value)} points on average`;
  if (hint.actions?.length) return `Best arm: ${names}${worth}.`;
  if (hint.solvable === "no")
    return names
      ? `Not the best arm. The best one was ${names}${worth}.`
      : `Lost: ${hint.reason ?? "not the best arm"}.`;
  return names ? `The best arm was pulled: ${names}${worth}.` : "The best arm was pulled.";
}
