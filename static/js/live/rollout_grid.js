// @ts-check
/**
 * The wall: a grid of the rollout's trajectories, one cell each, in one SVG with keyboard navigation.
 */

import { svg } from "../ui/dom.js";
import { memberText, number, ordinal } from "../ui/formatting.js";

/** @typedef {import("../types.js").Wall} Wall */
/** @typedef {import("../types.js").Member} Member */
/** @typedef {import("../types.js").WallGroup} WallGroup */

/** Pixels from one cell to the next; webapp/pages/runs/live_layout.py reserves the height that follows from it. */
export const PITCH = 30;
/** Cells of a line in that reserve. */
const COLUMNS = 8;
const GAP = 2;
const LABEL = 24;
const BAR = { least: 30, most: 180 };
const GROUP_GAP = 6; // between groups of several lines
const EDGE = 3; // room for the outline of the picked cell

/**
 * Cell layout in pixels. Groups are rows, of several lines where they are wider than the card; groups of one are laid
 * out like text, row after row.
 * @param {number} groups
 * @param {number} size members per group
 * @param {number} width of the card
 * @returns {{cell: number, columns: number, flow: boolean, row: number, height: number, left: number, bar: number}}
 *   row: height of a group; bar: width of its bar
 */
export function layout(groups, size, width) {
  const cell = PITCH - GAP;
  if (size <= 1) {
    const columns = Math.max(4, Math.floor(width / PITCH));
    return {
      cell,
      columns,
      flow: true,
      row: PITCH,
      height: Math.max(1, Math.ceil(groups / columns)) * PITCH,
      left: 0,
      bar: 0,
    };
  }
  const columns = Math.min(size, Math.max(4, Math.floor((width - LABEL - BAR.least - 8) / PITCH)));
  const lines = Math.ceil(size / columns);
  const row = lines * PITCH + (lines > 1 ? GROUP_GAP : 0);
  const bar = Math.max(0, Math.min(BAR.most, width - LABEL - columns * PITCH - 8));
  return { cell, columns, flow: false, row, height: groups * row, left: LABEL, bar };
}

/**
 * Outline of a cell: one shape per status, readable without colour.
 * @param {Member} member
 * @param {number} turns maximum number of turns of a trajectory
 * @param {number} s size
 */
export function cellPath(member, turns, s) {
  const r = Math.min(2.5, s / 5);
  const frame = `M${r} 0H${s - r}Q${s} 0 ${s} ${r}V${s - r}Q${s} ${s} ${s - r} ${s}H${r}Q0 ${s} 0 ${s - r}V${r}Q0 0 ${r} 0Z`;
  const dot =
    member.format_error && s > 5
      ? `M${s * 0.72} ${s * 0.28}m-${s * 0.13} 0a${s * 0.13} ${s * 0.13} 0 1 0 ${s * 0.26} 0a${s * 0.13} ${s * 0.13} 0 1 0 -${s * 0.26} 0Z`
      : "";
  if (member.status === "success" && s > 5) {
    const at = (/** @type {number} */ x, /** @type {number} */ y) => `${(x * s).toFixed(2)} ${(y * s).toFixed(2)}`;
    return `${frame}M${at(0.29, 0.53)}L${at(0.36, 0.46)}L${at(0.45, 0.55)}L${at(0.65, 0.35)}L${at(0.72, 0.42)}L${at(0.45, 0.69)}Z${dot}`;
  }
  if (member.status === "interrupted" && s > 5) {
    const [a, b, w] = [s * 0.3, s * 0.7, s * 0.12];
    return `${frame}M${a - w} ${a}V${b}H${a + w}V${a}ZM${b - w} ${a}V${b}H${b + w}V${a}Z${dot}`;
  }
  if (member.status === "playing") {
    const filled = s * Math.min(1, Math.max(0.2, member.turns / Math.max(1, turns)));
    return `M0 ${s - filled}H${s}V${s - r}Q${s} ${s} ${s - r} ${s}H${r}Q0 ${s} 0 ${s - r}Z${dot}`;
  }
  return frame + dot;
}

export class RolloutGrid {
  /**
   * @param {HTMLElement} host
   * @param {{onPick: (member: Member) => void, onHover: (member: Member|null, cell: Element|null) => void, announce: (words: string) => void}}
   *   options
   */
  constructor(host, { onPick, onHover, announce }) {
    this.host = host;
    /** What an initial state is called: "puzzle", or "task" in other trainers' runs. */
    this.noun = "puzzle";
    this.onPick = onPick;
    this.onHover = onHover;
    this.announce = announce;
    /** @type {Wall|null} */ this.wall = null;
    this.shape = "";
    this.turns = 1;
    /** @type {Array<Array<{node: SVGElement, key: string}>>} */ this.cells = [];
    /** @type {Array<{node: SVGElement, key: string}>} */ this.bars = [];
    /** @type {SVGElement[]} */ this.lines = [];
    this.row = 0;
    this.column = 0;
    /** @type {string|null} */ this.picked = null;
    /** @type {Parameters<RolloutGrid["show"]>|null} */ this.shown = null;
    this.#listen();
    new ResizeObserver(() => this.shown && this.show(...this.shown)).observe(host);
  }

  /**
   * @param {Wall|null} wall
   * @param {{groups: number, size: number, turns: number, picked: string|null, learning: Set<number>}} options groups
   *   and size of the complete rollout; learning: groups that the update computes now
   */
  show(wall, { groups, size, turns, picked, learning }) {
    this.shown = [wall, { groups, size, turns, picked, learning }];
    this.turns = turns;
    const width = Math.max(200, this.host.clientWidth - 2 * EDGE);
    const shape = `${groups}×${size} ${width}`;
    if (shape !== this.shape) this.#build(groups, size, width, shape);
    this.wall = wall;
    this.host.classList.toggle("unscored", this.noun === "task" && !wall?.groups.some(({ std }) => std !== null));
    const widest = Math.max(1e-9, ...(wall?.groups ?? []).map((group) => group.std ?? 0));
    for (let row = 0; row < this.cells.length; row++) {
      const group = wall?.groups.find((candidate) => candidate.group === row) ?? null;
      this.cells[row].forEach((cell, column) => this.#paint(cell, group?.members[column] ?? null));
      if (this.bars[row]) this.#bar(this.bars[row], group, widest);
      this.lines[row].classList.toggle("learning", learning.has(row));
    }
    if (picked !== this.picked) {
      this.picked = picked;
      this.#markPicked();
    }
  }

  /** @param {number} groups @param {number} size @param {number} width @param {string} shape */
  #build(groups, size, width, shape) {
    const plan = layout(groups, size, width);
    this.shape = shape;
    this.plan = plan;
    this.cells = [];
    this.bars = [];
    this.lines = [];
    this.picked = null;
    const [across, down] = [width + 2 * EDGE, plan.height + 2 * EDGE];
    const picture = svg("svg", {
      viewBox: `${-EDGE} ${-EDGE} ${across} ${down}`,
      width: across,
      height: down,
      class: "wall-cells",
      role: "grid",
      tabindex: "0",
      "aria-label": `${groups} ${this.noun}s${size > 1 ? `, ${size} attempts each` : ""}. Arrow keys move, Enter shows an attempt.`,
    });
    for (let row = 0; row < groups; row++) {
      const y = plan.flow ? 0 : row * plan.row;
      const line = svg("g", { role: "row" });
      if (!plan.flow) {
        const label = svg("text", { class: "row-label", x: LABEL - 7, y: y + plan.cell / 2 });
        label.textContent = String(ordinal(row));
        line.append(label);
      }
      this.cells.push(
        Array.from({ length: size }, (_, column) => {
          const place = plan.flow ? row : column;
          const [x, top] = [plan.left + (place % plan.columns) * PITCH, y + Math.floor(place / plan.columns) * PITCH];
          const node = svg(
            "g",
            {
              role: "gridcell",
              class: "cell waiting",
              transform: `translate(${x} ${top})`,
              id: `cell-${row}-${column}`,
              "data-row": row,
              "data-column": column,
            },
            [
              svg("rect", { class: "hit", width: plan.cell, height: plan.cell, rx: 3 }),
              svg("path", { class: "shape", "fill-rule": "evenodd" }),
            ],
          );
          line.append(node);
          return { node, key: "" };
        }),
      );
      if (!plan.flow) this.bars.push({ node: this.#barNode(plan, y, line), key: "" });
      this.lines.push(line);
      picture.append(line);
    }
    this.host.replaceChildren(picture);
    if (!plan.flow && plan.columns < Math.min(size, COLUMNS))
      this.host.previousElementSibling?.setAttribute("height", String(down)); // more lines than the page has reserved
    this.row = Math.min(this.row, Math.max(0, groups - 1));
    this.column = Math.min(this.column, Math.max(0, size - 1));
  }

  /** @param {ReturnType<typeof layout>} plan @param {number} y @param {SVGElement} line */
  #barNode({ cell, columns, left, bar }, y, line) {
    const [x, height] = [left + columns * PITCH + 8, 7];
    const place = { x, y: y + (cell - height) / 2, height, rx: height / 2 };
    const node = svg("g", { class: "bar" }, [
      svg("rect", { class: "spread-track", ...place, width: bar }),
      svg("rect", { class: "spread", ...place, width: 0 }),
      svg("title", {}),
    ]);
    line.append(node);
    return node;
  }

  /** @param {{node: SVGElement, key: string}} cell @param {Member|null} member */
  #paint(cell, member) {
    const key = member ? `${member.id} ${member.status} ${member.turns} ${member.format_error}` : "-";
    if (key === cell.key) return;
    const seen = member !== null && cell.key.startsWith(`${member.id} `); // it was played before these eyes
    cell.node.classList.toggle("news", seen && member.status === "success");
    cell.key = key;
    const cellMember = member ?? {
      id: "",
      slug: "",
      turns: 0,
      status: /** @type {const} */ ("waiting"),
      format_error: false,
    };
    cell.node
      .querySelector(".shape")
      ?.setAttribute("d", cellPath(cellMember, this.turns, this.plan?.cell ?? PITCH - GAP));
    for (const status of ["waiting", "playing", "success", "failed", "interrupted", "unknown"])
      cell.node.classList.toggle(status, status === cellMember.status);
    cell.node.setAttribute(
      "aria-label",
      `${this.#place(Number(cell.node.dataset.row), Number(cell.node.dataset.column))}: ${memberText(cellMember)}`,
    );
  }

  /** @param {number} row @param {number} column */
  #place(row, column) {
    return this.plan?.flow
      ? `${this.noun === "task" ? "Task" : "Puzzle"} ${ordinal(row)}`
      : `Group ${ordinal(row)}, attempt ${ordinal(column)}`;
  }

  /** @param {{node: SVGElement, key: string}} bar @param {WallGroup|null} group @param {number} widest */
  #bar(bar, group, widest) {
    const std = group?.std ?? null;
    const key = `${std} ${group?.kept} ${widest}`;
    if (key === bar.key) return;
    bar.key = key;
    bar.node
      .querySelector(".spread")
      ?.setAttribute("width", std === null ? "0" : ((this.plan?.bar ?? 0) * Math.min(1, std / widest)).toFixed(1));
    bar.node.classList.toggle("kept", group?.kept === true);
    bar.node.classList.toggle("left", group?.kept === false);
    const title = bar.node.querySelector("title");
    if (title) {
      title.textContent =
        std === null
          ? "Not scored yet"
          : `Mean reward ${number(group?.mean ?? 0)}, spread ${number(std)}: ${group?.kept ? "kept, the update learns from it" : "dropped from the update"}`;
    }
  }

  #markPicked() {
    const place = this.#find(this.picked);
    for (const node of this.host.querySelectorAll(".cell.picked")) node.classList.remove("picked");
    if (place) this.cells[place.row][place.column].node.classList.add("picked");
  }

  /** @param {string|null} id */
  #find(id) {
    for (const group of this.wall?.groups ?? []) {
      const column = group.members.findIndex((member) => member.id === id);
      if (column >= 0 && this.cells[group.group]?.[column]) return { row: group.group, column };
    }
    return null;
  }

  /** @param {EventTarget|null} target */
  #memberAt(target) {
    const cell = target instanceof Element ? target.closest(".cell") : null;
    if (!(cell instanceof SVGElement)) return { cell: null, member: null };
    return { cell, member: this.#member(Number(cell.dataset.row), Number(cell.dataset.column)) };
  }

  /** @param {number} row @param {number} column */
  #member(row, column) {
    return this.wall?.groups.find((group) => group.group === row)?.members[column] ?? null;
  }

  #listen() {
    this.host.addEventListener("click", (event) => {
      const { cell, member } = this.#memberAt(event.target);
      if (!cell || !member) return;
      [this.row, this.column] = [Number(cell.dataset.row), Number(cell.dataset.column)];
      const focused = document.activeElement;
      if (event.detail && (focused instanceof SVGElement || focused instanceof HTMLElement)) focused.blur(); // keys go to the player
      this.onPick(member);
    });
    this.host.addEventListener("pointerover", (event) => {
      const { cell, member } = this.#memberAt(event.target);
      this.onHover(member, cell);
    });
    this.host.addEventListener("pointerleave", () => this.onHover(null, null));
    this.host.addEventListener("focusin", () => this.#focusCell(false));
    this.host.addEventListener("focusout", () => {
      this.host.querySelector(".cell.focus")?.classList.remove("focus");
      this.onHover(null, null);
    });
    this.host.addEventListener("keydown", (event) => this.#key(event));
  }

  /** @param {KeyboardEvent} event */
  #key(event) {
    if (event.metaKey || event.ctrlKey || event.altKey || !this.cells.length || !this.plan) return;
    const across = this.plan.flow ? this.plan.columns : 1;
    const moves = /** @type {Record<string, [number, number]>} */ (
      this.plan.flow
        ? { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [-across, 0], ArrowDown: [across, 0] }
        : { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] }
    );
    const move = moves[event.key];
    if (move) {
      this.row = Math.max(0, Math.min(this.cells.length - 1, this.row + move[0]));
      this.column = Math.max(0, Math.min(this.cells[0].length - 1, this.column + move[1]));
      this.#focusCell(true);
    } else if (event.key === "Enter" || event.key === " ") {
      const member = this.#member(this.row, this.column);
      if (member) this.onPick(member);
    } else return;
    event.preventDefault();
    event.stopPropagation();
  }

  /** @param {boolean} speak */
  #focusCell(speak) {
    this.host.querySelector(".cell.focus")?.classList.remove("focus");
    const cell = this.cells[this.row]?.[this.column]?.node;
    if (!cell) return;
    cell.classList.add("focus");
    this.host.firstElementChild?.setAttribute("aria-activedescendant", cell.id);
    if (!speak) return;
    this.announce(cell.getAttribute("aria-label") ?? "");
    this.onHover(this.#member(this.row, this.column), cell);
  }
}
