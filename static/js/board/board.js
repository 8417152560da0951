// @ts-check
/**
 * Draws a board from its data: grids with a theme or a legend, a bandit's arms, web pages, plain text. Matches old and
 * new pieces, reuses their nodes and slides them. Boards are data: no game rules here.
 */

import { drawBeliefs } from "./belief_overlay.js";
import { drawGround } from "./ground.js";
import { describeLegend, drawSign, drawTones, readLegend } from "./legend.js";
import { drawNumbers } from "./labelled_numbers.js";
import { drawBox, drawLever, drawPlayer } from "./pieces.js";
import { contains, drawCoordinates, viewBox, viewOf } from "./view.js";
import { clearMarks, describePage, drawPage, lightItems, markAction } from "./web_page_board.js";
import { html, svg } from "../ui/dom.js";

/** @typedef {import("../types.js").Board} Board */
/** @typedef {import("../types.js").GridBoard} GridBoard */
/** @typedef {import("../types.js").ArmsBoard} ArmsBoard */
/** @typedef {import("../types.js").PageBoard} PageBoard */
/** @typedef {import("../types.js").Claim} Claim */
/** @typedef {{x: number, y: number}} Cell */
/** @typedef {{cell: Cell, on: boolean}} Piece */

/**
 * Meaning of each character of a theme: ground below, piece above.
 * @type {Record<string, Record<string, [string, string]>>}
 */
const THEMES = {
  sokoban: {
    "#": ["wall", ""],
    " ": ["floor", ""],
    ".": ["target", ""],
    $: ["floor", "box"],
    "*": ["target", "box"],
    "@": ["floor", "player"],
    "+": ["target", "player"],
  },
  frozen_lake: {
    " ": ["ice", ""],
    O: ["hole", ""],
    G: ["goal", ""],
    "@": ["ice", "player"],
    X: ["hole", "player"],
    "+": ["goal", "player"],
  },
};

const NAMES = { sokoban: "Sokoban board", frozen_lake: "Frozen lake" };

/** Unit vectors of the directions, for the arrows over a grid. @type {Record<string, Cell>} */
const DIRECTIONS = { up: { x: 0, y: -1 }, down: { x: 0, y: 1 }, left: { x: -1, y: 0 }, right: { x: 1, y: 0 } };

/** Number of boards drawn on this page: gives each its own marker id. */
let drawn = 0;

/**
 * Split a grid into ground (comparable text) and pieces; pieces of a legend by their character.
 * @param {GridBoard} board
 * @returns {{ground: string[][], boxes: Piece[], players: Piece[], signs: Record<string, Piece[]>}}
 */
export function parseGrid(board) {
  if (hasLegend(board)) return readLegend(board);
  const theme = THEMES[board.theme] ?? {};
  /** @type {Piece[]} */ const boxes = [];
  /** @type {Piece[]} */ const players = [];
  const ground = board.rows.map((row, y) =>
    [...row].map((character, x) => {
      const [below, above] = theme[character] ?? ["floor", ""];
      const piece = { cell: { x, y }, on: below !== "floor" && below !== "ice" };
      if (above === "box") boxes.push(piece);
      if (above === "player") players.push(piece);
      return below;
    }),
  );
  return { ground, boxes, players, signs: {} };
}

/** Few boards are cubes: other pages do not load their drawing. @param {SVGElement} picture @param {GridBoard} board */
async function addCube(picture, board) {
  const { drawCube } = await import("./cube.js");
  picture.querySelector(".ground")?.after(drawCube(board));
}

/** Cell of the player, if the board is a grid with one. @param {Board|undefined} board @returns {Cell|null} */
export function playerOf(board) {
  return board?.kind === "grid" ? (parseGrid(board).players[0]?.cell ?? null) : null;
}

/**
 * Whether the board is drawn by its own legend; boards of a built-in theme are not.
 * @param {GridBoard} board
 */
function hasLegend(board) {
  return Boolean(board.legend) && !THEMES[board.theme];
}

/**
 * Match new pieces to old ones: unmoved pieces first, then the nearest.
 * @param {Cell[]} before
 * @param {Cell[]} after
 * @returns {number[]} for each new piece the index of the old one, or −1
 */
export function matchPieces(before, after) {
  const free = new Set(before.keys());
  const result = after.map((cell) => {
    for (const index of free) {
      if (before[index].x === cell.x && before[index].y === cell.y) {
        free.delete(index);
        return index;
      }
    }
    return -1;
  });
  after.forEach((cell, at) => {
    if (result[at] >= 0) return;
    let best = -1;
    let least = Infinity;
    for (const index of free) {
      const distance = Math.abs(before[index].x - cell.x) + Math.abs(before[index].y - cell.y);
      if (distance < least) [best, least] = [index, distance];
    }
    if (best >= 0) free.delete(best);
    result[at] = best;
  });
  return result;
}

/**
 * Text alternative of a board. Rows and columns are counted from 1, walls included.
 * @param {Board} board
 * @returns {string}
 */
export function describeBoard(board) {
  if (board.kind === "text") return board.grid ? "A question with its grid" : "The state as text";
  if (board.kind === "page") return describePage(board);
  if (board.kind === "arms") {
    return `Bandit: ${board.arms.map((arm) => `${arm.name}, ${arm.pulls} pulls, ${arm.total.toFixed(2)} in all`).join("; ")}`;
  }
  const { ground, boxes, players } = parseGrid(board);
  const place = (/** @type {Cell} */ cell) => `row ${cell.y + 1}, column ${cell.x + 1}`;
  const title = NAMES[/** @type {keyof typeof NAMES} */ (board.theme)] ?? "Board";
  const parts = [`${title}, ${ground.length} rows by ${ground[0]?.length ?? 0} columns`];
  if (hasLegend(board)) return `${[...parts, ...describeLegend(board, place)].join(". ")}.`;
  for (const { cell } of players) parts.push(`player at ${place(cell)}`);
  for (const { cell, on } of boxes) parts.push(`box at ${place(cell)}${on ? " on a target" : ""}`);
  for (const [name, word] of [
    ["target", "target"],
    ["hole", "hole"],
    ["goal", "goal"],
  ]) {
    ground.forEach((row, y) =>
      row.forEach((below, x) => {
        if (below === name) parts.push(`${word} at ${place({ x, y })}`);
      }),
    );
  }
  return `${parts.join(". ")}.`;
}

/** One drawn board. `show` may be called with any board at any time. */
export class BoardView {
  /** @param {HTMLElement} host an empty element with the class "board" */
  constructor(host) {
    this.host = host;
    this.host.setAttribute("role", "img");
    /** @type {Board|null} */ this.board = null;
    this.head = `arrow-head-${++drawn}`;
    this.key = "";
    /** @type {SVGElement|null} */ this.pieces = null;
    /** @type {SVGElement|null} marks above the pieces, in cells */ this.overlay = null;
    /** @type {SVGElement|null} marks below the pieces, in cells */ this.trail = null;
    /** @type {SVGElement|null} */ this.picture = null;
    /** @type {string[][]} */ this.ground = [];
    /** @type {Array<{node: SVGElement, cell: Cell}>} */ this.boxes = [];
    /** @type {Array<{node: SVGElement, cell: Cell}>} */ this.players = [];
    /** @type {Record<string, Array<{node: SVGElement, cell: Cell}>>} */ this.signs = {};
  }

  /**
   * @param {Board|null} board
   * @param {{animate?: boolean}} [options] animate: slide the pieces from their present cells
   */
  show(board, { animate = false } = {}) {
    if (!board) {
      this.host.replaceChildren();
      this.key = "";
      this.board = null;
      this.host.classList.remove("page-board", "text-board");
      this.host.setAttribute("aria-label", "No board yet");
      return;
    }
    if (board.kind === "grid" && (THEMES[board.theme] || board.legend)) this.#grid(board, animate);
    else if (board.kind === "arms") this.#arms(board);
    else if (board.kind === "page") this.#page(board);
    else if (board.kind === "text") this.#text(board.text, board.grid);
    else this.#text(board.rows.join("\n"));
    this.host.classList.toggle("page-board", board.kind === "page");
    this.host.classList.toggle("text-board", board.kind === "text");
    this.host.setAttribute("role", ["page", "text"].includes(board.kind) ? "group" : "img"); // their text is readable as it is
    this.board = board;
    this.host.setAttribute("aria-label", describeBoard(board));
  }

  /** Cell of the player on a grid, if any. @returns {Cell|null} */
  player() {
    return this.players[0]?.cell ?? null;
  }

  /** Remove arrows and marks. */
  clearArrows() {
    this.overlay?.replaceChildren();
    this.trail?.replaceChildren();
    clearMarks(this.host);
    this.#look([]);
  }

  /**
   * Light what a claim is about, and where a misplaced thing really is, in place of the arrows, until the next `show`.
   * @param {Claim} claim
   */
  light(claim) {
    this.clearArrows();
    const state = claim.true ? "right" : "wrong";
    const marks = claim.marks ?? [];
    if (this.board?.kind === "arms") {
      const names = this.board.arms.map((arm) => arm.name);
      this.host.querySelectorAll(".arm").forEach((node, index) => {
        node.classList.remove("advised");
        if (marks.includes(names[index])) node.classList.add("lit", state);
      });
    }
    if (this.board?.kind === "page") lightItems(this.host, marks, state);
    const frame = (/** @type {[number, number]} */ [row, column], /** @type {string} */ name) =>
      this.overlay?.append(
        svg("rect", { class: `lit ${name}`, x: column + 0.05, y: row + 0.05, width: 0.9, height: 0.9, rx: 0.12 }),
      );
    this.#look([...(claim.cells ?? []), ...(claim.actual_cells ?? [])].map(([y, x]) => ({ x, y })));
    for (const cell of claim.cells ?? []) frame(cell, state);
    for (const cell of claim.actual_cells ?? []) frame(cell, "actual");
  }

  /**
   * Draw what a thought misplaces, until the next `show`.
   * @param {Claim[]} claims of `misplaced`, about the state that is shown
   */
  believe(claims) {
    if (!claims.length) return;
    this.#look(claims.flatMap((claim) => claim.cells ?? []).map(([y, x]) => ({ x, y })));
    this.trail?.append(...drawBeliefs(claims));
  }

  /**
   * Show the best actions: an arrow per direction, a mark at an arm, a mark at the first element to use on a page.
   * @param {string[]} actions
   */
  advise(actions) {
    if (this.board?.kind === "page") actions = actions.slice(0, 1);
    if (this.board?.kind === "arms") {
      const names = this.board.arms.map((arm) => arm.name);
      this.host
        .querySelectorAll(".arm")
        .forEach((node, index) => node.classList.toggle("advised", actions.includes(names[index])));
      return;
    }
    for (const action of actions) this.ghost(action);
  }

  /**
   * Show the best action: a dashed arrow from the player, or a mark at an element of a page.
   * @param {string} direction or the action of a page
   */
  ghost(direction) {
    if (this.board?.kind === "page") {
      markAction(this.host, direction);
      return;
    }
    const from = this.player();
    const step = DIRECTIONS[direction.toLowerCase()];
    if (!from || !step || !this.overlay) return;
    this.overlay.append(arrow(line(from, step, 0.3, 1.05), "ghost", this.head));
  }

  /** Draw the way of the player below the pieces. @param {Cell[]} cells in order; repeated ones count once */
  walk(cells) {
    const way = cells.filter(({ x, y }, at) => !at || x !== cells[at - 1].x || y !== cells[at - 1].y);
    if (way.length < 2 || !this.trail) return;
    this.trail.prepend(
      svg("path", { class: "way", d: `M${way.map(({ x, y }) => `${x + 0.5} ${y + 0.5}`).join("L")}` }),
    );
  }

  /**
   * Show a slip: the intended direction dashed, and an arrow to where the player went.
   * @param {Cell} from
   * @param {string} intendedName
   * @param {string} actual
   */
  slip(from, intendedName, actual) {
    const intended = DIRECTIONS[intendedName.toLowerCase()];
    const real = DIRECTIONS[actual.toLowerCase()];
    if (!intended || !real || !this.trail) return;
    const [x, y] = [from.x + 0.5, from.y + 0.5];
    const rows = this.board?.kind === "grid" ? this.board.rows : [];
    const inside = rows[from.y + real.y]?.[from.x + real.x] !== undefined; // otherwise it slipped against the edge
    const reach = inside ? 0.62 : 0.34; // up to the player, which stands there now
    const bend = `M${x} ${y}Q${x + intended.x * 0.75} ${y + intended.y * 0.75} ${x + real.x * reach + intended.x * 0.22} ${y + real.y * reach + intended.y * 0.22}`;
    this.trail.append(arrow(line(from, intended, 0, 0.85), "wanted", this.head), arrow(bend, "slipped", this.head));
  }

  /**
   * @param {GridBoard} board
   * @param {boolean} animate
   */
  #grid(board, animate) {
    const { ground, boxes, players, signs } = parseGrid(board);
    const legend = hasLegend(board) ? (board.legend ?? {}) : null;
    const key = `${board.theme}\n${ground.map((row) => row.join()).join("\n")}`;
    if (key !== this.key) {
      this.key = key;
      this.#forget();
      this.ground = ground;
      this.trail = svg("g", { class: "arrows" });
      this.pieces = svg("g", { class: "pieces" });
      this.overlay = svg("g", { class: "arrows" });
      this.picture = svg(
        "svg",
        { class: `grid ${legend ? `legend theme-${board.theme}` : board.theme}`, "aria-hidden": "true" },
        [
          defs(this.head),
          drawGround(ground),
          ...(legend ? [drawTones(ground, legend, board.theme)] : []),
          svg("g", { class: "coordinates" }),
          this.trail,
          this.pieces,
          this.overlay,
        ],
      );
      this.host.replaceChildren(this.picture);
      if (board.theme === "rubiks_cube") void addCube(this.picture, board);
      animate = false;
    }
    this.clearArrows();
    this.pieces?.classList.toggle("still", !animate);
    this.boxes = this.#place(this.boxes, boxes, drawBox);
    const drawn = legend ?? {};
    for (const sign of new Set([...Object.keys(this.signs), ...Object.keys(signs)])) {
      this.signs[sign] = this.#place(this.signs[sign] ?? [], signs[sign] ?? [], () => drawSign(drawn[sign]));
    }
    this.players = this.#place(this.players, players, drawPlayer);
  }

  /** Show the cropped grid, and these cells of the grid even if they were cropped. @param {Cell[]} cells */
  #look(cells) {
    const { picture, ground } = this;
    if (!picture) return;
    const cropped = viewOf(ground);
    const hidden = cells.filter(({ x, y }) => ground[y]?.[x] !== undefined && !contains(cropped, { x, y }));
    const view = hidden.length ? viewOf(ground, hidden) : cropped;
    if (picture.getAttribute("viewBox") === viewBox(view)) return;
    picture.setAttribute("viewBox", viewBox(view));
    picture.querySelector(".coordinates")?.replaceWith(drawCoordinates(view));
  }

  /**
   * @param {Array<{node: SVGElement, cell: Cell}>} old
   * @param {Piece[]} targets
   * @param {() => SVGElement} draw
   */
  #place(old, targets, draw) {
    const pairs = matchPieces(
      old.map((piece) => piece.cell),
      targets.map((piece) => piece.cell),
    );
    const reused = new Set(pairs);
    old.forEach((piece, index) => reused.has(index) || piece.node.remove());
    return targets.map(({ cell, on }, at) => {
      const previous = pairs[at] >= 0 ? old[pairs[at]] : null;
      const node = previous ? previous.node : draw();
      if (!previous) this.pieces?.append(node);
      node.style.transform = `translate(${cell.x}px, ${cell.y}px)`;
      node.classList.toggle("on", on);
      if (previous && (previous.cell.x !== cell.x || previous.cell.y !== cell.y)) {
        node.dataset.faces =
          cell.x > previous.cell.x
            ? "right"
            : cell.x < previous.cell.x
              ? "left"
              : cell.y < previous.cell.y
                ? "up"
                : "down";
      }
      return { node, cell };
    });
  }

  /** @param {ArmsBoard} board */
  #arms(board) {
    const key = `arms ${board.arms.map((arm) => arm.name).join()}`;
    if (key !== this.key) {
      this.key = key;
      this.#forget();
      this.host.replaceChildren(
        html(
          "div",
          { class: "arms", "aria-hidden": "true" },
          board.arms.map((arm) =>
            html("div", { class: "arm" }, [
              drawLever(),
              html("b", {}, [arm.name]),
              html("span", { class: "pulls" }),
              html("span", { class: "paid" }),
            ]),
          ),
        ),
      );
    }
    clearMarks(this.host);
    board.arms.forEach((arm, index) => {
      const node = this.host.querySelectorAll(".arm")[index];
      node.classList.toggle("pulled", arm.pulls > 0);
      node.querySelector(".pulls")?.replaceChildren(arm.pulls === 1 ? "1 pull" : `${arm.pulls} pulls`);
      node
        .querySelector(".paid")
        ?.replaceChildren(arm.last === null || arm.last === undefined ? "not tried" : `paid ${arm.last.toFixed(2)}`);
    });
  }

  /** @param {PageBoard} board */
  #page(board) {
    const key = `page ${JSON.stringify(board)}`;
    if (key === this.key) {
      this.clearArrows();
      return;
    }
    this.#text("");
    this.key = key;
    this.host.replaceChildren(drawPage(board));
    this.host.scrollTop = 0;
  }

  /** @param {string} text @param {GridBoard|null} [grid] */
  #text(text, grid) {
    this.key = "";
    this.#forget();
    const words = drawNumbers(text) ?? html("pre", {}, [text]);
    const beside = html("div", { class: "question-grid" });
    if (grid) new BoardView(beside).show(grid);
    this.host.replaceChildren(grid ? html("div", { class: "question-board" }, [beside, words]) : words);
  }

  /** Discard the pieces: the next board has another shape. */
  #forget() {
    this.boxes = [];
    this.players = [];
    this.signs = {};
    this.pieces = null;
    this.overlay = null;
    this.trail = null;
    this.picture = null;
  }
}

/**
 * @param {Cell} from
 * @param {Cell} step
 * @param {number} near
 * @param {number} far
 */
function line(from, step, near, far) {
  const [x, y] = [from.x + 0.5, from.y + 0.5];
  return `M${x + step.x * near} ${y + step.y * near}L${x + step.x * far} ${y + step.y * far}`;
}

/**
 * @param {string} path
 * @param {string} name
 * @param {string} head id of the marker
 */
function arrow(path, name, head) {
  return svg("path", { d: path, class: `arrow ${name}`, "marker-end": `url(#${head})` });
}

/** @param {string} head */
function defs(head) {
  return svg("defs", {}, [
    svg(
      "marker",
      {
        id: head,
        viewBox: "0 0 10 10",
        refX: 6,
        refY: 5,
        markerWidth: 3.4,
        markerHeight: 3.4,
        orient: "auto-start-reverse",
      },
      [svg("path", { d: "M1 1L9 5L1 9z", fill: "context-stroke" })],
    ),
  ]);
}
