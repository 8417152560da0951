// @ts-check
/**
 * A Rubik's cube around its net: the six faces with their letters, and the cube itself with the three faces that are
 * seen from above, in the corner that the net leaves free.
 */

import { svg } from "../ui/dom.js";

/** @typedef {import("../types.js").GridBoard} GridBoard */
/** @typedef {[number, number]} Point */

/** Row and column of each face in the net, in faces. @type {Array<[string, number, number]>} */
const FACES = [
  ["U", 0, 1],
  ["L", 1, 0],
  ["F", 1, 1],
  ["R", 1, 2],
  ["B", 1, 3],
  ["D", 2, 1],
];
/** How the edges of the cube lie in the picture: to the right, to the back and down; their sum fills the free corner. */
const [RIGHT, BACK, DOWN] = /** @type {Point[]} */ ([
  [0.5, 0.25],
  [0.5, -0.25],
  [0, 0.55],
]);
/** The faces that are seen, each from a corner along two edges. @type {Array<[string, Point, Point, Point]>} */
const SEEN = [
  ["U", BACK, RIGHT, [-BACK[0], -BACK[1]]],
  ["F", [0, 0], RIGHT, DOWN],
  ["R", RIGHT, BACK, DOWN],
];

/** @param {GridBoard} board the net, of three faces by four */
export function drawCube({ rows, legend }) {
  const size = rows.length / 3;
  const sticker = (/** @type {number} */ row, /** @type {number} */ column) =>
    legend?.[rows[row]?.[column]]?.tone ?? "";
  const group = svg("g", { class: "cube" });
  for (const [name, row, column] of FACES) {
    const [x, y] = [column * size, row * size];
    group.append(
      svg("rect", { class: "face", x: x + 0.01, y: y + 0.01, width: size - 0.02, height: size - 0.02, rx: 0.16 }),
    );
    const [left, top] = name === "U" || name === "D" ? [x - 0.24, y + size / 2] : [x + size / 2, y - 0.2];
    if (name !== "F") group.append(letter(name, left, top));
  }
  const scale = size * 0.86;
  const at = /** @type {Point} */ ([2.58 * size, 0.2 * size - 0.2]);
  for (const [name, corner, across, along] of SEEN) {
    const [, row, column] = FACES.find(([face]) => face === name) ?? FACES[0];
    for (let line = 0; line < size; line++) {
      for (let place = 0; place < size; place++) {
        const points = [
          [place, line],
          [place + 1, line],
          [place + 1, line + 1],
          [place, line + 1],
        ].map(([u, v]) =>
          [0, 1]
            .map((axis) => at[axis] + scale * (corner[axis] + (across[axis] * u + along[axis] * v) / size))
            .map((value) => value.toFixed(3))
            .join(" "),
        );
        const tone = sticker(row * size + line, column * size + place);
        group.append(svg("path", { class: `tone sticker ${tone}`, d: `M${points.join("L")}z` }));
      }
    }
  }
  return group;
}

/** @param {string} name @param {number} x @param {number} y */
function letter(name, x, y) {
  const node = svg("text", {
    class: "face-name",
    x,
    y,
    "font-size": 0.26,
    "text-anchor": "middle",
    "dominant-baseline": "central",
  });
  node.textContent = name;
  return node;
}
