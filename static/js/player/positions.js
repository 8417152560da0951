// @ts-check
/**
 * A trajectory as a line of positions one can step along: each turn's start, then each of its actions. Pure functions;
 * inside, turns and actions count from 0; in addresses and words from 1, where action 0 is the turn's start.
 */

/** @typedef {import("../live/types.js").Trajectory} Trajectory */
/** @typedef {import("../live/types.js").Turn} Turn */
/** @typedef {import("../live/types.js").Board} Board */
/** @typedef {import("../live/types.js").Hint} Hint */
/** @typedef {import("../live/types.js").ActionRecord} ActionRecord */

/**
 * @typedef {object} Step
 * @property {number} turn index of the turn
 * @property {number} action −1 at the turn's start, else index of the action just taken
 * @property {ActionRecord|null} record that action
 * @property {Board} board after it
 * @property {Hint|null} hint the solver's advice in this position
 */

/**
 * All positions of what is known so far. A trajectory without turns has one: its initial state.
 * @param {Trajectory} trajectory
 * @returns {Step[]}
 */
export function steps(trajectory) {
  let board = trajectory.board;
  let hint = trajectory.hint ?? null;
  /** @type {Step[]} */
  const list = [];
  for (const turn of trajectory.turns) {
    list.push({ turn: turn.turn, action: -1, record: null, board, hint });
    turn.actions.forEach((record, action) => {
      board = record.board ?? board;
      hint = record.status === "executed" ? record.hint ?? null : hint;
      list.push({ turn: turn.turn, action, record, board, hint });
    });
  }
  if (!list.length) list.push({ turn: 0, action: -1, record: null, board, hint });
  return list;
}

/**
 * The index of a position; the nearest one before it when it does not exist.
 * @param {Step[]} list
 * @param {number} turn from 0
 * @param {number} action from 0; −1 is the turn's start
 */
export function indexOf(list, turn, action) {
  let found = 0;
  list.forEach((step, index) => {
    if (step.turn < turn || (step.turn === turn && step.action <= action)) found = index;
  });
  return found;
}

/**
 * The position an address names. `?turn=2&action=3` is the third action of the second turn; nothing is the beginning.
 * @param {Step[]} list
 * @param {URLSearchParams} query
 */
export function fromAddress(list, query) {
  const turn = Number.parseInt(query.get("turn") ?? "1", 10);
  const action = Number.parseInt(query.get("action") ?? "0", 10);
  return indexOf(list, Number.isFinite(turn) ? Math.max(1, turn) - 1 : 0, Number.isFinite(action) ? Math.max(0, action) - 1 : -1);
}

/**
 * The query of a position's permalink.
 * @param {Step} step
 */
export function toAddress(step) {
  return step.action < 0 ? `?turn=${step.turn + 1}` : `?turn=${step.turn + 1}&action=${step.action + 1}`;
}

/**
 * The start of the turn before or after a position; from inside a turn, "before" is its own start.
 * @param {Step[]} list
 * @param {number} index
 * @param {1|-1} way
 */
export function turnStep(list, index, way) {
  for (let at = index + way; at >= 0 && at < list.length; at += way) if (list[at].action < 0) return at;
  return way > 0 ? list.length - 1 : 0;
}

/**
 * The distances of the solver as points of a small graph; positions it cannot judge are gaps.
 * @param {Step[]} list
 * @returns {Array<{index: number, distance: number}|null>}
 */
export function distances(list) {
  return list.map((step, index) =>
    step.hint && step.hint.distance !== null && step.hint.distance !== undefined && step.hint.solvable !== "no"
      ? { index, distance: step.hint.distance } : null);
}

/**
 * The best play's chance of success, 0 to 1, where the dynamics are random and no distance can be told.
 * @param {Step[]} list
 * @returns {Array<{index: number, distance: number}|null>}
 */
export function chances(list) {
  return list.map((step, index) =>
    step.board.kind !== "arms" && step.hint?.value !== null && step.hint?.value !== undefined ? { index, distance: step.hint.value } : null);
}

/**
 * The first position from which nothing can be won, by the record or by the hints; −1 when there is none.
 * @param {Trajectory} trajectory
 * @param {Step[]} list
 */
export function lostIndex(trajectory, list) {
  if (trajectory.lost_at) {
    const { turn, action } = trajectory.lost_at;
    return list.findIndex((step) => step.turn === turn && step.action === action);
  }
  return list.findIndex((step) => step.hint?.solvable === "no");
}

/**
 * Rewards up to and including a position: of its turn's actions so far, and of the whole trajectory.
 * @param {Trajectory} trajectory
 * @param {Step} step
 */
export function rewardSoFar(trajectory, step) {
  let total = 0;
  for (const turn of trajectory.turns) {
    if (turn.turn < step.turn) total += turn.reward;
    if (turn.turn !== step.turn) continue;
    if (step.action >= turn.actions.length - 1 && (step.action >= 0 || !turn.actions.length)) total += turn.reward;
    else turn.actions.slice(0, step.action + 1).forEach((record) => (total += record.reward ?? 0));
  }
  return total;
}

/** Executed actions up to a position. @param {Step[]} list @param {number} index */
export function actionsTaken(list, index) {
  return list.slice(0, index + 1).filter((step) => step.record?.status === "executed").length;
}
