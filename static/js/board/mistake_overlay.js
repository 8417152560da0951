// @ts-check
/**
 * A mistake drawn on the board. Over a grid: frame and glyph at the box or player, dashed arrow of the better move from
 * where the player stood. Pictures show the same (webapp/trajectories/render/grid.py).
 */

import { svg } from "../ui/dom.js";
import { labelArms, labelPage, labelText } from "./mistake_labels.js";

/** @typedef {import("../types.js").Board} Board */
/** @typedef {import("../types.js").Mark} Mark */

/** @type {Record<string, [number, number]>} */
const STEPS = { up: [0, -1], down: [0, 1], left: [-1, 0], right: [1, 0] };
const RADIUS = 0.24;

/**
 * Draw the mark on the board that is shown, until its next `show`. A page gives way to the one on which the decision
 * was made, which has the element that was used.
 * @param {import("./board.js").BoardView} view
 * @param {Mark} mark
 * @param {Board|null} [before] the board before the action
 */
export function showMistake(view, mark, before = null) {
  if (view.board?.kind === "page" && before?.kind === "page") view.show(before);
  const { board, host } = view;
  if (board?.kind === "grid") drawOnGrid(view, mark);
  else if (board?.kind === "arms") labelArms(host, board, mark);
  else if (board?.kind === "page") labelPage(host, mark);
  else if (board) labelText(host, mark);
  const name = mark.kind[0].toUpperCase() + mark.kind.slice(1);
  const shown = (host.getAttribute("aria-label") ?? "").replace(/\.?$/, ".");
  host.setAttribute("aria-label", `${shown} ${name}: ${mark.sentence}`);
}

/**
 * The better move starts where the player stood: a dotted circle, if it is no longer there.
 * @param {import("./board.js").BoardView} view
 * @param {Mark} mark
 */
function drawOnGrid(view, mark) {
  const { overlay } = view;
  const player = view.player();
  if (!overlay) return;
  for (const [row, column] of mark.cells) {
    overlay.append(
      svg("rect", {
        class: `mistake-frame ${mark.kind}`,
        x: column + 0.05,
        y: row + 0.05,
        width: 0.9,
        height: 0.9,
        rx: 0.12,
      }),
    );
  }
  const step = STEPS[mark.better[0]?.toLowerCase() ?? ""];
  if (step && mark.origin.length === 2) {
    const [y, x] = [mark.origin[0] + 0.5, mark.origin[1] + 0.5];
    const moved = player && (player.x + 0.5 !== x || player.y + 0.5 !== y);
    if (moved) overlay.append(svg("circle", { class: "better-origin", cx: x, cy: y, r: 0.28 }));
    overlay.append(...betterMove(x, y, step));
  }
  for (const [row, column] of mark.cells) overlay.append(glyph(mark, column + 0.86, Math.max(row + 0.14, RADIUS)));
}

/**
 * A light line below a dark one, so that it is seen on any ground and in both themes.
 * @param {number} x
 * @param {number} y
 * @param {[number, number]} step
 */
function betterMove(x, y, [dx, dy]) {
  const line = `M${x + dx * 0.36} ${y + dy * 0.36}L${x + dx * 0.86} ${y + dy * 0.86}`;
  const [tip, back, wing] = [1.06, 0.82, 0.17];
  const head = `M${x + dx * tip} ${y + dy * tip}L${x + dx * back - dy * wing} ${y + dy * back + dx * wing}L${x + dx * back + dy * wing} ${y + dy * back - dx * wing}z`;
  return ["below", "above"].map((layer) =>
    svg("g", { class: `better-move ${layer}` }, [
      svg("path", { class: "shaft", d: line }),
      svg("path", { class: "head", d: head }),
    ]),
  );
}

/**
 * @param {Mark} mark
 * @param {number} x
 * @param {number} y
 */
function glyph(mark, x, y) {
  const text = svg("text", { x, y, "font-size": mark.glyph.length > 1 ? 0.27 : 0.33 });
  text.textContent = mark.glyph;
  return svg("g", { class: `mistake-glyph ${mark.kind}` }, [svg("circle", { cx: x, cy: y, r: RADIUS }), text]);
}
