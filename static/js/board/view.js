// @ts-check
/**
 * The part of a grid that a board shows. Outer walls are cropped to half a cell around everything else, where the
 * coordinates stand; webapp/trajectories/render/view.py crops pictures in the same way.
 */

import { svg } from "../ui/dom.js";

/** @typedef {{x: number, y: number}} Cell */
/**
 * In cells; x and y may lie half a cell outside of the grid.
 * @typedef {{x: number, y: number, width: number, height: number}} View
 */

/** Width of the frame in cells. */
export const FRAME = 0.5;

/**
 * The view of a grid: all cells that are not wall, with the frame. It depends on the walls only, so it is the same at
 * every step of a trajectory.
 * @param {string[][]} ground names of the cells, "wall" among them
 * @param {Cell[]} [also] cells to show in any case
 * @returns {View}
 */
export function viewOf(ground, also = []) {
  const open = ground.flatMap((row, y) => row.flatMap((name, x) => (name === "wall" ? [] : [{ x, y }])));
  const all = ground.flatMap((row, y) => row.map((_, x) => ({ x, y })));
  const cells = [...(open.length ? open : all.length ? all : [{ x: 0, y: 0 }]), ...also];
  const [left, top] = [Math.min(...cells.map(({ x }) => x)), Math.min(...cells.map(({ y }) => y))];
  const [right, bottom] = [Math.max(...cells.map(({ x }) => x)) + 1, Math.max(...cells.map(({ y }) => y)) + 1];
  return { x: left - FRAME, y: top - FRAME, width: right - left + 2 * FRAME, height: bottom - top + 2 * FRAME };
}

/** Value of the SVG attribute. @param {View} view */
export function viewBox({ x, y, width, height }) {
  return `${x} ${y} ${width} ${height}`;
}

/** Whether a view contains a whole cell. @param {View} view @param {Cell} cell */
export function contains(view, { x, y }) {
  return x >= view.x && y >= view.y && x + 1 <= view.x + view.width && y + 1 <= view.y + view.height;
}

/**
 * Row and column numbers in the frame: of the whole grid and from 1, as thoughts and claims count.
 * @param {View} view
 */
export function drawCoordinates({ x, y, width, height }) {
  const group = svg("g", { class: "coordinates" });
  const label = (/** @type {number} */ at, /** @type {number} */ down, /** @type {number} */ number) => {
    const node = svg("text", {
      x: at,
      y: down,
      "font-size": 0.27,
      "text-anchor": "middle",
      "dominant-baseline": "central",
    });
    node.textContent = String(number);
    group.append(node);
  };
  for (let column = Math.ceil(x); column + 1 <= x + width; column++) label(column + 0.5, y + FRAME / 2, column + 1);
  for (let row = Math.ceil(y); row + 1 <= y + height; row++) label(x + FRAME / 2, row + 0.5, row + 1);
  return group;
}
