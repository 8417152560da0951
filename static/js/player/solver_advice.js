// @ts-check
/**
 * What the solver has to say about a position, in words: what is best now, when it was lost, and how the trajectory
 * compares with the best play from here. Pure functions, no DOM.
 */

import { lostIndex } from "./positions.js";
import { number, percent, plural } from "../ui/formatting.js";

/** @typedef {import("../live/types.js").Trajectory} Trajectory */
/** @typedef {import("../live/types.js").Hint} Hint */
/** @typedef {import("./positions.js").Step} Step */

/**
 * @param {Trajectory} trajectory
 * @param {Step[]} steps
 * @param {number} index the position
 * @returns {string} "" where there is no solver
 */
export function advice(trajectory, steps, index) {
  const step = steps[index];
  const hint = step.hint;
  if (step.board.kind === "arms") return hint ? aboutArms(trajectory, hint) : "";
  const lost = lostIndex(trajectory, steps);
  if (lost >= 0 && index >= lost) {
    const reason = trajectory.lost_at?.reason ?? hint?.reason ?? "nothing can be won any more";
    const at = steps[lost];
    const since = at.action < 0 ? "from the beginning" : `since turn ${at.turn + 1}, action ${at.action + 1}`;
    return `Lost ${since}: ${reason}.`;
  }
  if (!hint) return "";
  if (hint.distance === 0) return "Solved.";
  if (step.board.kind === "text" && hint.actions?.length && hint.solvable !== "unknown") return `A right answer: ${hint.actions[0]}.`;
  if (hint.solvable === "unknown") return hint.reason ? `The solver does not know: ${hint.reason}.` : "The solver ran out of its budget here.";
  const next = hint.actions?.length ? `, next ${hint.actions.join(" or ")}` : "";
  if (hint.distance !== null && hint.distance !== undefined) {
    return `Best play: ${plural(hint.distance, "action")} to go${next}. ${comparison(trajectory, steps, index)}`.trim();
  }
  if (hint.value !== null && hint.value !== undefined) return `Best play succeeds with ${percent(hint.value)} from here${next}.`;
  return "";
}

/**
 * The best play from a position beside what was done: "Optimal from here: 4 actions; this trajectory used 7."
 * @param {Trajectory} trajectory
 * @param {Step[]} steps
 * @param {number} index
 */
export function comparison(trajectory, steps, index) {
  const distance = steps[index].hint?.distance;
  if (!distance || trajectory.success === null || trajectory.success === undefined) return "";
  const used = steps.slice(index + 1).filter((step) => step.record?.status === "executed").length;
  const from = steps.slice(0, index + 1).some((step) => step.record?.status === "executed") ? "here" : "the start";
  const optimal = `Optimal from ${from}: ${plural(distance, "action")}`;
  if (!trajectory.success) return `${optimal}; this trajectory used ${used} and did not get there.`;
  return used === distance ? `${optimal}, and this trajectory used no more.` : `${optimal}; this trajectory used ${used}.`;
}

/**
 * @param {Trajectory} trajectory
 * @param {Hint} hint
 */
function aboutArms(trajectory, hint) {
  const best = (hint.actions?.length ? hint : trajectory.hint) ?? {};
  const names = best.actions?.join(" or ") ?? "";
  const worth = best.value === null || best.value === undefined ? "" : `, which pays ${number(best.value)} points on average`;
  if (hint.actions?.length) return `Best arm: ${names}${worth}.`;
  if (hint.solvable === "no") return names ? `Not the best arm: that was ${names}${worth}.` : `Lost: ${hint.reason ?? "not the best arm"}.`;
  return names ? `The best arm was pulled: ${names}${worth}.` : "The best arm was pulled.";
}
