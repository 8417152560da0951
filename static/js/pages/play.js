// @ts-check
/**
 * Play page of an environment: keys press the page's buttons, boards are drawn and animated. Rules, budgets and texts
 * come from the server with every action.
 */

import { BoardView } from "../board/board.js";
import { pushedPath, walkedPath } from "../player/filmstrip.js";
import { copy } from "../ui/clipboard.js";
import { describe, onKey } from "../ui/shortcuts.js";
import { setText, svg } from "../ui/dom.js";

/**
 * @typedef {{board: import("../types.js").Board, taken: number, last: {name: string, actual: string|null}|null, advice: string|null, status: string, over: boolean, ghost?: import("../player/filmstrip.js").Way}} Game
 */

const MOST_WAITING = 8;

/** Keys pressed while an action is in flight; processed in order. @type {string[]} */
let waiting = [];
let busy = false;
let taken = 0;
/** @type {BoardView|null} */ let view = null;

/** @returns {Game|null} */
function read() {
  const node = document.getElementById("play-data");
  return node?.textContent ? JSON.parse(node.textContent) : null;
}

/** @param {boolean} speak whether to announce the text */
function show(speak) {
  const game = read();
  const host = document.getElementById("play-board");
  if (!game) return;
  if (host && (!view || view.host !== host)) view = new BoardView(host);
  if (host && view) {
    const from = view.player();
    const board = game.board.kind === "text" && game.board.grid ? game.board.grid : game.board; // the page itself has the words
    view.show(board, { animate: speak && game.taken === taken + 1 });
    if (game.last?.actual && from && game.taken === taken + 1) view.slip(from, game.last.name, game.last.actual);
    if (game.advice) view.ghost(game.advice);
    showRival(view, game.ghost ?? []);
  }
  taken = game.taken;
  const status = document.querySelector("[data-play-status]");
  if (speak && status) setText(status, game.status);
  if (game.over) waiting = [];
}

/** The agent's way so far, below the pieces. @type {SVGElement|null} */
let rival = null;

/** @param {BoardView} board @param {import("../player/filmstrip.js").Way} way of the agent, up to where it is */
function showRival(board, way) {
  rival?.remove();
  const at = way[way.length - 1]?.player;
  if (!at || way.length < 2) return;
  rival = svg("g", { class: "rival" }, [
    svg("path", { class: "rival-push", d: pushedPath(way, way.length) }),
    svg("path", { class: "rival-way", d: walkedPath(way, way.length) }),
    svg("circle", { class: "rival-place", cx: at[0] + 0.5, cy: at[1] + 0.5, r: 0.3 }),
  ]);
  board.pieces?.before(rival);
}

/**
 * Press the button of that key.
 * @param {string} key
 * @returns {boolean} whether there is such a button
 */
function press(key) {
  const requested = key.length === 1 ? key.toLowerCase() : key;
  for (const node of document.querySelectorAll("#game [data-keys]")) {
    if (!(node.getAttribute("data-keys") ?? "").split(" ").includes(requested)) continue;
    if (node instanceof HTMLButtonElement && node.disabled) return true;
    if (busy) {
      if (waiting.length < MOST_WAITING) waiting.push(key);
    } else {
      /** @type {HTMLElement} */ (node).click();
    }
    return true;
  }
  return false;
}

describe("Play", [
  ["← ↑ → ↓", "an action, where it is a direction (also w a s d)"],
  ["1 2 3", "an action by its number"],
  ["r", "restart"],
  ["h", "hint"],
  ["n", "another puzzle"],
]);
onKey(press);
document.addEventListener("htmx:beforeRequest", () => {
  busy = true;
});
document.addEventListener("htmx:afterRequest", (event) => {
  const answer = /** @type {CustomEvent} */ (event).detail;
  if (answer.successful) return;
  busy = false;
  waiting = [];
  const status = document.querySelector("#game .game-said, #game .outcome");
  if (status) setText(status, "The site did not respond. Your actions so far are kept: try again.");
});
document.addEventListener("htmx:afterSettle", () => {
  busy = false;
  show(true);
  const next = waiting.shift();
  if (next !== undefined) press(next);
});
document.addEventListener("click", (event) => {
  const link = event.target instanceof Element ? event.target.closest("[data-copy]") : null;
  if (!(link instanceof HTMLAnchorElement)) return;
  event.preventDefault();
  copy(link.href, link.getAttribute("data-copy") ?? "");
});
/** A cell of a Sudoku begins the answer that writes into it. */
document.addEventListener("click", (event) => {
  const grid = event.target instanceof Element ? event.target.closest("#play-board svg.theme-sudoku") : null;
  const answer = document.getElementById("play-typed");
  const matrix = grid instanceof SVGGraphicsElement ? grid.getScreenCTM() : null;
  if (!matrix || !(answer instanceof HTMLInputElement) || answer.disabled) return;
  const { x, y } = new DOMPoint(event.clientX, event.clientY).matrixTransform(matrix.inverse());
  const rows = view?.board?.kind === "grid" ? view.board.rows : [];
  if (rows[Math.floor(y)]?.[Math.floor(x)] === undefined) return;
  answer.value = `r${Math.floor(y) + 1}c${Math.floor(x) + 1}=`;
  answer.focus();
});
show(false);
