// @ts-check
/** Attempts at the same puzzle next to each other: boards driven by one scrubber, action by action. */

import { BoardView } from "../board/board.js";
import { showMistake } from "../board/mistake_overlay.js";
import { markAt } from "../player/mistakes.js";
import { positionsOf } from "../player/positions.js";
import { need, setText } from "../ui/dom.js";
import { plural } from "../ui/formatting.js";

/** @typedef {import("../types.js").Trajectory} Trajectory */
/**
 * @typedef {{trajectory: Trajectory, positions: import("../player/positions.js").Position[], board: BoardView, thought: HTMLElement}} Play
 */

/** @type {Trajectory[]} */
const data = JSON.parse(document.getElementById("plays")?.textContent ?? "[]");
const scrub = /** @type {HTMLInputElement} */ (need(document, "[data-scrub]"));
const where = need(document, "[data-where]");
const solver = /** @type {HTMLInputElement} */ (need(document, "[data-solver]"));

const plays = [...document.querySelectorAll("[data-slug]")].flatMap((node) => {
  const trajectory = data.find((candidate) => candidate.slug === node.getAttribute("data-slug"));
  if (!trajectory) return [];
  const board = new BoardView(need(node, "[data-board]"));
  // one position per action plus the start: a turn begins where the last action ended
  const positions = positionsOf(trajectory).filter((position, index) => index === 0 || position.action >= 0);
  return [/** @type {Play} */ ({ trajectory, positions, board, thought: need(node, "[data-thought]") })];
});
const last = Math.max(0, ...plays.map((play) => play.positions.length - 1));

/** @param {number} index @param {boolean} animate */
function show(index, animate) {
  for (const { trajectory, positions, board, thought } of plays) {
    const position = positions[Math.min(index, positions.length - 1)];
    board.show(position.board, { animate });
    const mark = markAt(trajectory, position);
    if (mark) showMistake(board, mark, positions[positions.indexOf(position) - 1]?.board ?? null);
    else if (solver.checked) board.advise(position.hint?.actions ?? []);
    const turn = trajectory.turns.find((candidate) => candidate.turn === position.turn);
    setText(thought, turn ? turn.thought || turn.response : "");
  }
  scrub.value = String(index);
  const words = index === 0 ? "the beginning" : `after ${plural(index, "action")}`;
  scrub.setAttribute("aria-valuetext", words);
  setText(where, `${words}, at most ${last}`);
}

/** @param {number} way */
function position(way) {
  show(Math.max(0, Math.min(last, Number(scrub.value) + way)), true);
}

scrub.max = String(last);
scrub.addEventListener("input", () => show(Number(scrub.value), false));
solver.addEventListener("change", () => show(Number(scrub.value), false));
solver.closest("label")?.toggleAttribute("hidden", !plays.some(({ positions }) => positions.some(({ hint }) => hint)));
need(document, "[data-back]").addEventListener("click", () => position(-1));
need(document, "[data-forward]").addEventListener("click", () => position(1));
show(0, false);
