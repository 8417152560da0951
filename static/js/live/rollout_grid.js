// @ts-check
/**
 * The wall: a grid of the rollout's trajectories, one cell each, in one SVG with keyboard navigation.
 */

import { svg } from "../ui/dom.js";
import { memberWords, number } from "../ui/formatting.js";

/** @typedef {import("../types.js").Wall} Wall */
/** @typedef {import("../types.js").Member} Member */
/** @typedef {import("../types.js").WallGroup} WallGroup */

/** Width in drawing units; one unit is about one pixel in the page's left column. */
export const WIDTH = 280;
const LABEL = 22;
const BAR = 46;

/**
 * Cell layout. Groups are rows; groups of one are laid out like text, row after row.
 * @param {number} groups
 * @param {number} size members per group
 * @returns {{cell: number, pitch: number, columns: number, flow: boolean, height: number, left: number}}
 */
export function layout(groups, size) {
  if (size <= 1) {
    const columns = Math.max(16, Math.ceil(Math.sqrt(groups * 2)));
    const pitch = WIDTH / columns;
    return { cell: pitch - gap(pitch), pitch, columns, flow: true, height: Math.max(1, Math.ceil(groups / columns)) * pitch, left: 0 };
  }
  const pitch = Math.min(17, (WIDTH - LABEL - BAR - 10) / size);
  const row = Math.max(pitch, 6);
  return { cell: Math.min(pitch, row) - gap(pitch), pitch: row, columns: size, flow: false, height: groups * row, left: LABEL };
}

/** @param {number} pitch */
function gap(pitch) {
  return pitch > 9 ? 2 : pitch > 5 ? 1 : 0.5;
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
  const dot = member.format_error && s > 5 ? `M${s * 0.72} ${s * 0.28}m-${s * 0.13} 0a${s * 0.13} ${s * 0.13} 0 1 0 ${s * 0.26} 0a${s * 0.13} ${s * 0.13} 0 1 0 -${s * 0.26} 0Z` : "";
  if (member.status === "failed" && s > 5) {
    const [a, b, w] = [s * 0.22, s * 0.78, s * 0.1];
    return `${frame}M${a} ${b - w}L${b - w} ${a}L${b} ${a + w}L${a + w} ${b}Z${dot}`;
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
   * @param {{onPick: (member: Member) => void, onHover: (member: Member|null, cell: Element|null) => void, announce: (words: string) => void}} options
   */
  constructor(host, { onPick, onHover, announce }) {
    this.host = host;
    this.onPick = onPick;
    this.onHover = onHover;
    this.announce = announce;
    /** @type {Wall|null} */ this.wall = null;
    this.shape = "";
    this.turns = 1;
    /** @type {Array<Array<{node: SVGElement, key: string}>>} */ this.cells = [];
    /** @type {Array<{node: SVGElement, key: string}>} */ this.bars = [];
    this.row = 0;
    this.column = 0;
    /** @type {string|null} */ this.picked = null;
    this.#listen();
  }

  /**
   * @param {Wall|null} wall
   * @param {{groups: number, size: number, turns: number, picked: string|null}} options groups and size of the complete rollout
   */
  show(wall, { groups, size, turns, picked }) {
    this.turns = turns;
    const shape = `${groups}×${size}`;
    if (shape !== this.shape) this.#build(groups, size, shape);
    this.wall = wall;
    const widest = Math.max(1e-9, ...(wall?.groups ?? []).map((group) => group.std ?? 0));
    for (let row = 0; row < this.cells.length; row++) {
      const group = wall?.groups.find((candidate) => candidate.group === row) ?? null;
      this.cells[row].forEach((cell, column) => this.#paint(cell, group?.members[column] ?? null));
      if (this.bars[row]) this.#bar(this.bars[row], group, widest);
    }
    if (picked !== this.picked) {
      this.picked = picked;
      this.#markPicked();
    }
  }

  /** @param {number} groups @param {number} size @param {string} shape */
  #build(groups, size, shape) {
    const plan = layout(groups, size);
    this.shape = shape;
    this.plan = plan;
    this.cells = [];
    this.bars = [];
    this.picked = null;
    const picture = svg("svg", {
      viewBox: `-2 -2 ${WIDTH + 4} ${plan.height + 4}`, class: "wall-cells", role: "grid", tabindex: "0",
      "aria-label": `Rollouts: ${groups} initial states, ${size} each. Arrow keys move, Enter shows one.`,
    });
    for (let row = 0; row < groups; row++) {
      const y = plan.flow ? 0 : row * plan.pitch;
      const line = svg("g", { role: "row" });
      if (!plan.flow && plan.pitch >= 9) {
        const label = svg("text", { class: "row-label", x: LABEL - 8, y: y + plan.pitch / 2 });
        label.textContent = String(row);
        line.append(label);
      }
      this.cells.push(Array.from({ length: size }, (_, column) => {
        const x = plan.flow ? (row % plan.columns) * plan.pitch : plan.left + column * this.#columnPitch(size);
        const top = plan.flow ? Math.floor(row / plan.columns) * plan.pitch : y + (plan.pitch - plan.cell) / 2;
        const node = svg("g", { role: "gridcell", class: "cell waiting", transform: `translate(${x} ${top})`, id: `cell-${row}-${column}`, "data-row": row, "data-column": column }, [
          svg("rect", { class: "hit", width: plan.cell, height: plan.cell, rx: Math.min(2.5, plan.cell / 5) }), svg("path", { class: "shape", "fill-rule": "evenodd" }),
        ]);
        line.append(node);
        return { node, key: "" };
      }));
      if (!plan.flow) this.bars.push({ node: this.#barNode(y, plan.pitch, line), key: "" });
      picture.append(line);
    }
    this.host.replaceChildren(picture);
    this.row = Math.min(this.row, Math.max(0, groups - 1));
    this.column = Math.min(this.column, Math.max(0, size - 1));
  }

  /** @param {number} size */
  #columnPitch(size) {
    return Math.min(17, (WIDTH - LABEL - BAR - 10) / size);
  }

  /** @param {number} y @param {number} pitch @param {SVGElement} line */
  #barNode(y, pitch, line) {
    const [x, height] = [WIDTH - BAR, Math.min(6, pitch - 2)];
    const node = svg("g", { class: "bar" }, [
      svg("rect", { class: "spread-track", x, y: y + (pitch - height) / 2, width: BAR, height, rx: height / 2 }),
      svg("rect", { class: "spread", x, y: y + (pitch - height) / 2, width: 0, height, rx: height / 2 }),
      svg("title", {}),
    ]);
    line.append(node);
    return node;
  }

  /** @param {{node: SVGElement, key: string}} cell @param {Member|null} member */
  #paint(cell, member) {
    const key = member ? `${member.id} ${member.status} ${member.turns} ${member.format_error}` : "-";
    if (key === cell.key) return;
    cell.key = key;
    const cellMember = member ?? { id: "", slug: "", turns: 0, status: /** @type {const} */ ("waiting"), format_error: false };
    cell.node.querySelector(".shape")?.setAttribute("d", cellPath(cellMember, this.turns, this.plan?.cell ?? 8));
    for (const status of ["waiting", "playing", "success", "failed"]) cell.node.classList.toggle(status, status === cellMember.status);
    cell.node.setAttribute("aria-label", `Group ${cell.node.dataset.row}, trajectory ${cell.node.dataset.column}: ${memberWords(cellMember)}`);
  }

  /** @param {{node: SVGElement, key: string}} bar @param {WallGroup|null} group @param {number} widest */
  #bar(bar, group, widest) {
    const std = group?.std ?? null;
    const key = `${std} ${group?.kept} ${widest}`;
    if (key === bar.key) return;
    bar.key = key;
    bar.node.querySelector(".spread")?.setAttribute("width", std === null ? "0" : (BAR * Math.min(1, std / widest)).toFixed(1));
    bar.node.classList.toggle("kept", group?.kept === true);
    bar.node.classList.toggle("left", group?.kept === false);
    const title = bar.node.querySelector("title");
    if (title) {
      title.textContent = std === null ? "Not scored yet"
        : `Reward ${number(group?.mean ?? 0)} on average, std ${number(std)}: ${group?.kept ? "the update learns from it" : "left out of the update"}`;
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
    const moves = /** @type {Record<string, [number, number]>} */ (this.plan.flow
      ? { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [-across, 0], ArrowDown: [across, 0] }
      : { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] });
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
