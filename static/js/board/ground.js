// @ts-check
/** The ground of a grid: floor, walls, targets, holes and goals. */

import { svg } from "../ui/dom.js";

/** @typedef {{x: number, y: number}} Cell */

/** What lies on the floor of a cell, by name. @type {Record<string, (cell: Cell) => SVGElement[]>} */
export const FIXTURES = {
  target: ({ x, y }) => [
    svg("circle", { class: "target", cx: x + 0.5, cy: y + 0.5, r: 0.36 }),
    svg("circle", { class: "target-dot", cx: x + 0.5, cy: y + 0.5, r: 0.1 }),
  ],
  hole: ({ x, y }) => [
    svg("ellipse", { class: "hole", cx: x + 0.5, cy: y + 0.52, rx: 0.37, ry: 0.34 }),
    svg("path", { class: "hole-edge", d: `M${x + 0.2} ${y + 0.4}a.37 .34 0 0 1 .6 0` }),
  ],
  goal: ({ x, y }) => [
    svg("path", { class: "pole", d: `M${x + 0.32} ${y + 0.86}v-.7` }),
    svg("path", { class: "goal", d: `M${x + 0.34} ${y + 0.16}h.42l-.12 .15 .12 .15h-.42z` }),
  ],
};

/**
 * The ground in few nodes: one path per kind, the floor cut into the wall with rounded corners.
 * @param {string[][]} ground
 */
export function drawGround(ground) {
  /** @type {Record<string, Cell[]>} */
  const cells = {};
  ground.forEach((row, y) => row.forEach((name, x) => (cells[name] ??= []).push({ x, y })));
  const squares = (/** @type {Cell[]} */ list, inset = 0) =>
    list.map(({ x, y }) => `M${x + inset} ${y + inset}h${1 - 2 * inset}v${1 - 2 * inset}h${2 * inset - 1}z`).join("");
  const group = svg("g", { class: "ground" });
  const open = Object.entries(cells)
    .filter(([name]) => name !== "wall")
    .flatMap(([, list]) => list);
  group.append(svg("path", { class: "floor", d: squares(open, 0.06) + joins(open) }));
  group.append(
    svg("path", {
      class: "floor-alt",
      d: squares(
        open.filter(({ x, y }) => (x + y) % 2 === 1),
        0.05,
      ),
    }),
  );
  if (cells.wall)
    group.append(
      svg("path", {
        class: "bricks",
        d: cells.wall
          .map(
            ({ x, y }) =>
              `M${x} ${y + 0.5}h1M${x + (y % 2 ? 0.25 : 0.5)} ${y}v.5M${x + (y % 2 ? 0.75 : 0.25)} ${y + 0.5}v.5`,
          )
          .join(""),
      }),
    );
  if (cells.ice)
    group.append(
      svg("path", {
        class: "glint",
        d: cells.ice.map(({ x, y }) => `M${x + 0.18} ${y + 0.42}l.24 -.24M${x + 0.2} ${y + 0.6}l.4 -.4`).join(""),
      }),
    );
  for (const [name, draw] of Object.entries(FIXTURES))
    group.append(...(cells[name] ?? []).flatMap((cell) => draw(cell)));
  return group;
}

/**
 * Strips that join neighbouring floor cells, so that only the outline of the whole floor is rounded.
 * @param {Cell[]} open
 */
function joins(open) {
  const cells = new Set(open.map(({ x, y }) => `${x},${y}`));
  return open
    .map(
      ({ x, y }) =>
        (cells.has(`${x + 1},${y}`) ? `M${x + 0.5} ${y + 0.06}h1v.88h-1z` : "") +
        (cells.has(`${x},${y + 1}`) ? `M${x + 0.06} ${y + 0.5}h.88v1h-.88z` : "") +
        (cells.has(`${x + 1},${y}`) && cells.has(`${x},${y + 1}`) && cells.has(`${x + 1},${y + 1}`)
          ? `M${x + 0.5} ${y + 0.5}h1v1h-1z`
          : ""),
    )
    .join("");
}
