// @ts-check
/**
 * Mistakes of a trajectory in the player: where they are, where a lost attempt opens, and their list. The server finds
 * and words them (webapp/trajectories/mistakes).
 */

import { html } from "../ui/dom.js";
import { indexOf, lostIndex, toAddress } from "./positions.js";

/** @typedef {import("../types.js").Trajectory} Trajectory */
/** @typedef {import("../types.js").Mark} Mark */
/** @typedef {import("./positions.js").Position} Position */

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
 * List the mistakes as links, with the sentence of the one that is shown.
 * @param {HTMLElement} host
 * @param {Trajectory|null} trajectory
 * @param {Mark|null} current
 */
export function showMistakes(host, trajectory, current) {
  const marks = trajectory?.marks ?? [];
  const key = JSON.stringify([marks, current]);
  if (host.dataset.key === key) return;
  host.dataset.key = key;
  host.hidden = !marks.length;
  host.replaceChildren(
    html("b", {}, [marks.length === 1 ? "Mistake" : "Mistakes"]),
    " ",
    ...marks.flatMap((mark, index) => [...(index ? [" "] : []), link(mark, mark === current)]),
    html("span", { class: "mistake-sentence" }, [current?.sentence ?? ""]),
  );
}

/**
 * @param {Mark} mark
 * @param {boolean} here
 */
function link(mark, here) {
  return html(
    "a",
    { ...linkTo(mark), class: `mistake-link ${mark.kind}`, title: mark.sentence, "aria-current": here ? "step" : null },
    [
      `${mark.turn + 1}.${mark.action + 1} ${mark.played.length > 14 ? `${mark.played.slice(0, 13)}…` : mark.played} `,
      html("b", { "aria-hidden": "true" }, [mark.glyph]),
      html("span", { class: "visually-hidden" }, [mark.kind]),
    ],
  );
}

/**
 * Fill the card of the verdict; hide it where there is none.
 * @param {HTMLElement} host
 * @param {Trajectory|null} trajectory
 */
export function showVerdict(host, trajectory) {
  const verdict = trajectory?.verdict ?? null;
  const text = verdict?.sentence ?? "";
  host.hidden = !verdict;
  if (!verdict || host.textContent?.trim() === text) return;
  host.replaceChildren(html("a", linkTo(verdict), [text]));
}
