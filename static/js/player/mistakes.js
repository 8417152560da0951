// @ts-check
/**
 * Mistakes of a trajectory in the player: where they are, where a lost attempt opens, and the move list. The server finds
 * and words them (webapp/trajectories/mistakes).
 */

import { html } from "../ui/dom.js";
import { indexOf, lostIndex, toAddress } from "./positions.js";
import { signed } from "../ui/formatting.js";

/** @typedef {import("../types.js").Trajectory} Trajectory */
/** @typedef {import("../types.js").Mark} Mark */
/** @typedef {import("./positions.js").Position} Position */

/** Characters of a move in the move list. */
const MAX_MOVE = 24;

/**
 * The mark of a position's action, if it is a mistake.
 * @param {Trajectory|null} trajectory
 * @param {Position|undefined} position
 * @returns {Mark|null}
 */
export function markAt(trajectory, position) {
  if (!position || position.action < 0) return null;
  return (
    (trajectory?.marks ?? []).find((mark) => mark.turn === position.turn && mark.action === position.action) ?? null
  );
}

/**
 * Indices of the positions after mistakes, in order. Without a solver's marks, the position that lost the attempt.
 * @param {Trajectory|null} trajectory
 * @param {Position[]} positions
 */
export function mistakeIndices(trajectory, positions) {
  if (!trajectory) return [];
  const marked = (trajectory.marks ?? []).map((mark) => indexOf(positions, mark.turn, mark.action));
  const lost = trajectory.lost_at ? [lostIndex(trajectory, positions)] : [];
  return [...new Set([...marked, ...lost])].filter((index) => index >= 0).sort((a, b) => a - b);
}

/**
 * The next or previous mistake from a position; its own index if there is none that way.
 * @param {number[]} indices
 * @param {number} index
 * @param {1|-1} way
 */
export function nextMistake(indices, index, way) {
  const found = way > 0 ? indices.find((at) => at > index) : indices.filter((at) => at < index).pop();
  return found ?? index;
}

/**
 * Where the player opens without a position in the address: at the verdict of a lost attempt, else at the start.
 * @param {Trajectory} trajectory
 * @param {Position[]} positions
 */
export function openingIndex(trajectory, positions) {
  if (trajectory.verdict) return indexOf(positions, trajectory.verdict.turn, trajectory.verdict.action);
  return trajectory.success === false && trajectory.lost_at ? Math.max(0, lostIndex(trajectory, positions)) : 0;
}

/**
 * The attributes of a link to a position of the same player.
 * @param {{turn: number, action: number}} place
 */
export function linkTo(place) {
  return { href: toAddress(place), "data-goto": `${place.turn} ${place.action}` };
}

/**
 * Index of the position that such a link names; −1 for other elements.
 * @param {Element} target
 * @param {Position[]} positions
 */
export function linkedIndex(target, positions) {
  const place = target.closest("[data-goto]")?.getAttribute("data-goto");
  if (!place) return -1;
  const [turn, action] = place.split(" ").map(Number);
  return indexOf(positions, turn, action);
}

/**
 * A turn as a row of the move list: its number, its moves with the glyphs of mistakes, and its reward.
 * @param {number} number of the turn, from 0
 * @param {import("../types.js").Turn|undefined} turn undefined while it is being written
 * @param {Mark[]} marks of the trajectory
 */
export function turnRow(number, turn, marks) {
  const moves = (turn?.actions ?? []).flatMap((record, action) => {
    const mark = marks.find((candidate) => candidate.turn === number && candidate.action === action);
    const name = record.call?.tool || (record.name ?? record.text);
    return [
      ...(action ? [", "] : []),
      html("span", { class: record.status === "executed" ? null : "unused" }, [shorten(name)]),
      ...(mark ? [html("b", { class: mark.kind, title: mark.sentence }, [` ${mark.glyph}`])] : []),
    ];
  });
  return html("button", { class: "tab", type: "button", "data-tab": number }, [
    html("span", { class: "visually-hidden" }, ["Turn "]),
    html("span", { class: "tab-number" }, [String(number + 1)]),
    html("span", { class: "tab-moves" }, moves),
    html("span", { class: "tab-reward number" }, [turn && Object.keys(turn.terms).length ? signed(turn.reward) : ""]),
  ]);
}

/** @param {string} move */
function shorten(move) {
  return move.length > MAX_MOVE ? `${move.slice(0, MAX_MOVE - 1)}…` : move;
}

/**
 * Fill the line of the verdict: the mistake of the position, or else what decided the attempt, as a link to it. Hidden
 * where there is neither.
 * @param {HTMLElement} host
 * @param {Trajectory|null} trajectory
 * @param {Mark|null} mark of the position
 */
export function showVerdict(host, trajectory, mark) {
  const verdict = mark ?? trajectory?.verdict ?? null;
  const text = verdict?.sentence ?? "";
  host.hidden = !verdict;
  host.classList.toggle("inaccuracy", mark?.kind === "inaccuracy");
  if (!verdict || host.dataset.shown === text) return;
  host.dataset.shown = text;
  const [, place = "", what = text, rest = ""] = /^(Turn [^:]*: )?([^.]*\.)(.*)$/su.exec(text) ?? [];
  host.replaceChildren(html("a", linkTo(verdict), [place, html("em", {}, [what]), rest]));
}
