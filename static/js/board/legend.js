// @ts-check
/**
 * Grids with their own legend: which characters are ground and which are pieces, and how their tones are drawn.
 */

import { svg } from "../ui/dom.js";

/** @typedef {import("../types.js").GridBoard} GridBoard */
/** @typedef {import("../types.js").Sign} Sign */
/** @typedef {{x: number, y: number}} Cell */
/** @typedef {{cell: Cell, on: boolean}} Piece */

/** Font size of a glyph by its number of characters, in cells. */
const SIZES = [0.56, 0.4, 0.34, 0.27];

/**
 * Parse a grid by its legend. Ground is "floor", "wall" or the character itself for other tones; pieces are keyed by
 * character, players are separate.
 * @param {GridBoard} board
 * @returns {{ground: string[][], boxes: Piece[], players: Piece[], signs: Record<string, Piece[]>}}
 */
export function readLegend(board) {
  const legend = board.legend ?? {};
  /** @type {Piece[]} */ const players = [];
  /** @type {Record<string, Piece[]>} */ const signs = {};
  const ground = board.rows.map((row, y) =>
    [...row].map((character, x) => {
      const tone = legend[character]?.tone ?? "floor";
      const piece = { cell: { x, y }, on: false };
      if (tone === "player") players.push(piece);
      if (tone === "piece") (signs[character] ??= []).push(piece);
      if (tone === "player" || tone === "piece") return "floor";
      return (tone === "floor" && !legend[character]?.glyph) || tone === "wall" ? tone : character;
    }),
  );
  return { ground, boxes: [], players, signs };
}

/**
 * Draw the cells whose ground is neither plain floor nor wall.
 * @param {string[][]} ground
 * @param {Record<string, Sign>} legend
 * @param {string} theme of the board: tiles of 2048 have a colour for each power of two
 */
export function drawTones(ground, legend, theme) {
  const group = svg("g", { class: "tones" });
  ground.forEach((row, y) =>
    row.forEach((character, x) => {
      if (character === "floor" || character === "wall") return;
      const { tone = "floor", glyph } = legend[character];
      const level = theme === "2048" && Number(glyph) ? ` level-${Math.min(11, Math.log2(Number(glyph)))}` : "";
      group.append(
        svg("rect", { class: `tone ${tone}${level}`, x: x + 0.05, y: y + 0.05, width: 0.9, height: 0.9, rx: 0.12 }),
      );
      if (glyph) group.append(drawGlyph(glyph, `glyph ${tone}${level}`, x + 0.5, y + 0.5));
    }),
  );
  return group;
}

/**
 * A movable piece: a disc with its glyph.
 * @param {Sign} sign
 */
export function drawSign(sign) {
  const parts = [svg("circle", { class: "disc", cx: 0.5, cy: 0.5, r: 0.34 })];
  if (sign.glyph) parts.push(drawGlyph(sign.glyph, "glyph", 0.5, 0.5));
  return svg("g", { class: "piece sign" }, parts);
}

/**
 * Text alternative: positions of everything except walls and plain floor.
 * @param {GridBoard} board
 * @param {(cell: Cell) => string} place
 * @returns {string[]}
 */
export function describeLegend(board, place) {
  /** @type {string[]} */ const parts = [];
  for (const [character, { name, tone = "floor", glyph }] of Object.entries(board.legend ?? {})) {
    if (tone === "wall" || (tone === "floor" && !glyph)) continue;
    board.rows.forEach((row, y) =>
      [...row].forEach((here, x) => {
        if (here === character) parts.push(`${name} at ${place({ x, y })}`);
      }),
    );
  }
  return parts;
}

/**
 * @param {string} glyph
 * @param {string} name
 * @param {number} x
 * @param {number} y
 */
function drawGlyph(glyph, name, x, y) {
  const size = SIZES[Math.min([...glyph].length, SIZES.length) - 1];
  const node = svg("text", {
    class: name,
    x,
    y,
    "font-size": size,
    "text-anchor": "middle",
    "dominant-baseline": "central",
  });
  node.textContent = glyph;
  return node;
}
