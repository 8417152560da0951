// @ts-check
/**
 * Positions of a trajectory: the start of each turn, then each of its actions. Pure functions. Turns and actions count
 * from 0 here, and from 1 in addresses and texts, where action 0 is the start of the turn. Mirrored by
 * webapp/trajectories/positions.py.
 */

/** @typedef {import("../types.js").Trajectory} Trajectory */
/** @typedef {import("../types.js").Turn} Turn */
/** @typedef {import("../types.js").Board} Board */
/** @typedef {import("../types.js").Hint} Hint */
/** @typedef {import("../types.js").ActionRecord} ActionRecord */

/**
 * @typedef {object} Position
 * @property {number} turn index of the turn
 * @property {number} action −1 at the start of the turn, otherwise index of the last action
 * @property {ActionRecord|null} record that action
 * @property {Board} board after it
 * @property {Hint|null} hint the solver's advice in this position
 */

/**
 * All positions so far. A trajectory without turns has one: its initial state.
 * @param {Trajectory} trajectory
 * @returns {Position[]}
 */
export function positionsOf(trajectory) {
  let board = trajectory.board;
  let hint = trajectory.hint ?? null;
  /** @type {Position[]} */
  const list = [];
  for (const turn of trajectory.turns) {
    if (trajectory.recorded) board = turn.board ?? board;
    list.push({ turn: turn.turn, action: -1, record: null, board: shownBoard(trajectory, turn, board), hint });
    turn.actions.forEach((record, action) => {
      board = record.board ?? board;
      hint = record.status === "executed" ? (record.hint ?? null) : hint;
      list.push({ turn: turn.turn, action, record, board: shownBoard(trajectory, turn, board), hint });
    });
  }
  if (!list.length) list.push({ turn: 0, action: -1, record: null, board, hint });
  return list;
}

/**
 * Other trainers' runs often have no boards: then it is the state of the turn as text, unless an image takes its place.
 * @param {Trajectory} trajectory
 * @param {Turn} turn
 * @param {Board} board
 * @returns {Board}
 */
function shownBoard(trajectory, turn, board) {
  const empty = board.kind === "text" && !board.text.trim();
  if (!trajectory.recorded || !empty || turn.images?.length) return board;
  return { kind: "text", text: turn.state };
}

/**
 * Index of a position, or of the nearest one before it.
 * @param {Position[]} list
 * @param {number} turn from 0
 * @param {number} action from 0; −1 is the turn's start
 */
export function indexOf(list, turn, action) {
  let nearest = 0;
  list.forEach((position, index) => {
    if (position.turn < turn || (position.turn === turn && position.action <= action)) nearest = index;
  });
  return nearest;
}

/**
 * Index of the position in an address. `?turn=2&action=3` is the third action of the second turn; the default is the
 * start.
 * @param {Position[]} list
 * @param {URLSearchParams} query
 */
export function fromAddress(list, query) {
  const turn = Number.parseInt(query.get("turn") ?? "1", 10);
  const action = Number.parseInt(query.get("action") ?? "0", 10);
  return indexOf(
    list,
    Number.isFinite(turn) ? Math.max(1, turn) - 1 : 0,
    Number.isFinite(action) ? Math.max(0, action) - 1 : -1,
  );
}

/**
 * Query of a position's permalink.
 * @param {{turn: number, action: number}} position
 */
export function toAddress(position) {
  return position.action < 0
    ? `?turn=${position.turn + 1}`
    : `?turn=${position.turn + 1}&action=${position.action + 1}`;
}

/**
 * Start of the previous or next turn; from inside a turn, the previous one is its own start.
 * @param {Position[]} list
 * @param {number} index
 * @param {1|-1} way
 */
export function turnStart(list, index, way) {
  for (let at = index + way; at >= 0 && at < list.length; at += way) if (list[at].action < 0) return at;
  return way > 0 ? list.length - 1 : 0;
}

/**
 * Solver distances as points of a graph; null where the solver has no result.
 * @param {Position[]} list
 * @returns {Array<{index: number, distance: number}|null>}
 */
export function distances(list) {
  return list.map((position, index) =>
    position.hint &&
    position.hint.distance !== null &&
    position.hint.distance !== undefined &&
    position.hint.solvable !== "no"
      ? { index, distance: position.hint.distance }
      : null,
  );
}

/**
 * Optimal success probability, 0 to 1, for random dynamics, where distances are undefined.
 * @param {Position[]} list
 * @returns {Array<{index: number, distance: number}|null>}
 */
export function chances(list) {
  return list.map((position, index) =>
    position.board.kind !== "arms" && position.hint?.value !== null && position.hint?.value !== undefined
      ? { index, distance: position.hint.value }
      : null,
  );
}

/**
 * First unsolvable position, by the record or by the hints; −1 if there is none.
 * @param {Trajectory} trajectory
 * @param {Position[]} list
 */
export function lostIndex(trajectory, list) {
  if (trajectory.lost_at) {
    const { turn, action } = trajectory.lost_at;
    return list.findIndex((position) => position.turn === turn && position.action === action);
  }
  return list.findIndex((position) => position.hint?.solvable === "no");
}

/**
 * Total reward up to and including a position.
 * @param {Trajectory} trajectory
 * @param {Position} position
 */
export function rewardSoFar(trajectory, position) {
  let total = 0;
  for (const turn of trajectory.turns) {
    if (turn.turn < position.turn) total += turn.reward;
    if (turn.turn !== position.turn) continue;
    if (position.action >= turn.actions.length - 1 && (position.action >= 0 || !turn.actions.length))
      total += turn.reward;
    else turn.actions.slice(0, position.action + 1).forEach((record) => (total += record.reward ?? 0));
  }
  return total;
}

/** Executed actions up to a position. @param {Position[]} list @param {number} index */
export function actionsTaken(list, index) {
  return list.slice(0, index + 1).filter((position) => position.record?.status === "executed").length;
}
