// @ts-check
/** Grid of tasks by iterations: draws only what is in view, so that a hundred thousand cells scroll. */

import { need, setText } from "../ui/dom.js";
import { fetchJson } from "../ui/fetch_json.js";
import { number, ordinal, percent, plural } from "../ui/formatting.js";

/** Index of the iteration, group, attempts that ended, attempts that succeeded, mean reward. @typedef {[number, number, number, number, number|null]} Cell */
/** @typedef {{environment: string, seed: string, cells: Cell[]}} Task */
/** @typedef {{iterations: number[], tasks: Task[], left_out: {tasks: number, iterations: number}}} Grid */

export const SIZE = { cell: 16, gap: 2, left: 56, top: 22 };
const SHADES = 20; // colours of shares above 0
const TICK = 64; // pixels between two labels of iterations

/** Share of the attempts that succeeded; null for none that ended. @param {Cell} cell */
function share(cell) {
  return cell[2] ? cell[3] / cell[2] : null;
}

/** @param {Task} task @returns {number[]} */
function sharesOf(task) {
  return task.cells.map(share).filter((value) => value !== null);
}

/**
 * Tasks in an order: learnt first (by the first iteration in which most attempts succeeded), hardest first (by their mean),
 * forgotten most (by the fall from the best to the last), or by seed.
 * @param {Task[]} tasks
 * @param {string} order
 * @returns {Task[]}
 */
export function ordered(tasks, order) {
  /** @type {Record<string, (task: Task) => number>} */
  const keys = {
    learnt: (task) => task.cells.find((cell) => (share(cell) ?? 0) > 0.5)?.[0] ?? Number.POSITIVE_INFINITY,
    hard: (task) => {
      const shares = sharesOf(task);
      return shares.reduce((sum, value) => sum + value, 0) / (shares.length || 1);
    },
    forgotten: (task) => (sharesOf(task).at(-1) ?? 0) - Math.max(0, ...sharesOf(task)),
    seed: (task) => Number(task.seed),
  };
  const key = keys[order] ?? keys.seed;
  return tasks
    .map((task) => ({ task, key: key(task) }))
    .sort((a, b) => (a.key < b.key ? -1 : a.key > b.key ? 1 : 0))
    .map(({ task }) => task);
}

/**
 * Row and column at a position in the whole grid; null outside the cells.
 * @param {{x: number, y: number}} place
 * @param {{rows: number, columns: number}} shape
 */
export function cellAt({ x, y }, { rows, columns }) {
  const row = Math.floor((y - SIZE.top) / SIZE.cell);
  const column = Math.floor((x - SIZE.left) / SIZE.cell);
  return row >= 0 && row < rows && column >= 0 && column < columns ? { row, column } : null;
}

/** @param {Task} task @param {number} column @param {number[]} iterations @param {string} noun */
export function wordsOf(task, column, iterations, noun) {
  const where = `${noun} with seed ${task.seed}, iteration ${iterations[column]}`;
  const cell = task.cells.find((one) => one[0] === column);
  if (!cell) return `${where}: not played.`;
  const reward = cell[4] === null ? "" : `, mean reward ${number(cell[4])}`;
  if (!cell[2]) return `${where}: no attempt has ended with a known success${reward}.`;
  return `${where}: ${cell[3]} of ${plural(cell[2], "attempt")} succeeded (${percent(cell[3] / cell[2])})${reward}.`;
}

class TaskGrid {
  /** @param {HTMLElement} panel @param {Grid} grid */
  constructor(panel, grid) {
    this.panel = panel;
    this.grid = grid;
    this.tasks = grid.tasks;
    this.box = need(panel, "[data-grid-box]");
    this.space = need(panel, "[data-grid-space]");
    this.canvas = /** @type {HTMLCanvasElement} */ (need(panel, "[data-grid-canvas]"));
    this.words = need(panel, "[data-grid-words]");
    this.order = /** @type {HTMLSelectElement} */ (need(panel, "[data-grid-order]"));
    this.picked = { row: 0, column: grid.iterations.length - 1 };
    this.waiting = false;
    /** @type {Map<Task, Cell[]>} */ this.byColumn = new Map();
    /** @type {{shades: string[], unsolved: string, ink: string, soft: string, panel: string}|null} */ this.theme =
      null;
    this.order.addEventListener("change", () => this.sort());
    this.box.addEventListener("scroll", () => this.schedule(), { passive: true });
    this.box.addEventListener("keydown", (event) => this.#key(event));
    this.canvas.addEventListener("pointermove", (event) => this.#point(event));
    this.canvas.addEventListener("click", (event) => this.#point(event) && this.#open());
    new ResizeObserver(() => this.schedule()).observe(this.box);
    const repaint = () => {
      this.theme = null;
      this.schedule();
    };
    window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", repaint);
    new MutationObserver(repaint).observe(document.documentElement, { attributes: true }); // the theme that is chosen
    this.sort();
  }

  get shape() {
    return { rows: this.tasks.length, columns: this.grid.iterations.length };
  }

  sort() {
    this.tasks = ordered(this.grid.tasks, this.order.value);
    const { rows, columns } = this.shape;
    this.space.style.width = `${SIZE.left + columns * SIZE.cell + SIZE.cell}px`;
    this.space.style.height = `${SIZE.top + rows * SIZE.cell + SIZE.gap}px`;
    this.schedule();
    this.#say();
  }

  schedule() {
    if (this.waiting) return;
    this.waiting = true;
    requestAnimationFrame(() => {
      this.waiting = false;
      this.#draw();
    });
  }

  /** Cells of a task by column, made once. @param {Task} task @returns {Cell[]} */
  columns(task) {
    const known = this.byColumn.get(task);
    if (known) return known;
    /** @type {Cell[]} */
    const cells = [];
    for (const cell of task.cells) cells[cell[0]] = cell;
    this.byColumn.set(task, cells);
    return cells;
  }

  /** Colours of the theme, read once: reading a style in every frame would take longer than drawing. */
  colours() {
    if (this.theme) return this.theme;
    const probe = document.createElement("span");
    this.panel.append(probe);
    const read = (/** @type {string} */ value) => {
      probe.style.color = value;
      return getComputedStyle(probe).color;
    };
    const mixed = (/** @type {number} */ level) =>
      read(`color-mix(in srgb, var(--solved) ${15 + (85 * (level + 1)) / SHADES}%, var(--unsolved))`);
    this.theme = {
      shades: Array.from({ length: SHADES }, (_, level) => mixed(level)),
      unsolved: read("var(--unsolved)"),
      ink: read("var(--ink)"),
      soft: read("var(--soft)"),
      panel: read("var(--panel)"),
    };
    probe.remove();
    return this.theme;
  }

  #draw() {
    const { clientWidth: width, clientHeight: height, scrollLeft, scrollTop } = this.box;
    const ratio = window.devicePixelRatio || 1;
    if (this.canvas.width !== width * ratio || this.canvas.height !== height * ratio) {
      this.canvas.width = width * ratio;
      this.canvas.height = height * ratio;
      this.canvas.style.width = `${width}px`;
      this.canvas.style.height = `${height}px`;
    }
    const context = this.canvas.getContext("2d");
    if (!context) return;
    const { shades, unsolved, ink, soft, panel } = this.colours();
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.clearRect(0, 0, width, height);
    const { rows, columns } = this.shape;
    const first = Math.max(0, Math.floor(scrollTop / SIZE.cell));
    const last = Math.min(rows, Math.ceil((scrollTop + height) / SIZE.cell));
    const from = Math.max(0, Math.floor(scrollLeft / SIZE.cell));
    const to = Math.min(columns, Math.ceil((scrollLeft + width) / SIZE.cell));
    const side = SIZE.cell - SIZE.gap;
    for (let row = first; row < last; row += 1) {
      const y = SIZE.top + row * SIZE.cell - scrollTop;
      const played = this.columns(this.tasks[row]);
      for (let column = from; column < to; column += 1) {
        const cell = played[column];
        if (!cell) continue;
        const value = share(cell);
        context.fillStyle = value ? shades[Math.ceil(value * SHADES) - 1] : unsolved;
        context.fillRect(SIZE.left + column * SIZE.cell - scrollLeft, y, side, side);
      }
    }
    context.fillStyle = panel;
    context.fillRect(0, 0, width, SIZE.top);
    context.fillRect(0, 0, SIZE.left - SIZE.gap, height);
    context.fillStyle = soft;
    context.font = `12px ${getComputedStyle(this.panel).fontFamily}`;
    context.textBaseline = "middle";
    context.textAlign = "right";
    for (let row = first; row < last; row += 1) {
      const y = SIZE.top + row * SIZE.cell + side / 2 - scrollTop;
      if (y > SIZE.top + 4) context.fillText(String(ordinal(row)), SIZE.left - 8, y);
    }
    context.textAlign = "center";
    const step = Math.ceil(TICK / SIZE.cell);
    for (let column = Math.ceil(from / step) * step; column < to; column += step) {
      const x = SIZE.left + column * SIZE.cell + side / 2 - scrollLeft;
      if (x > SIZE.left) context.fillText(String(this.grid.iterations[column]), x, SIZE.top / 2);
    }
    context.strokeStyle = ink;
    context.lineWidth = 1.5;
    const x = SIZE.left + this.picked.column * SIZE.cell - scrollLeft;
    const y = SIZE.top + this.picked.row * SIZE.cell - scrollTop;
    if (x >= SIZE.left && y >= SIZE.top) context.strokeRect(x - 1, y - 1, side + 2, side + 2);
  }

  /** @param {PointerEvent|MouseEvent} event @returns {boolean} whether it is at a cell */
  #point(event) {
    const edge = this.canvas.getBoundingClientRect();
    const inside = { x: event.clientX - edge.left, y: event.clientY - edge.top };
    if (inside.x < SIZE.left || inside.y < SIZE.top) return false;
    const place = { x: inside.x + this.box.scrollLeft, y: inside.y + this.box.scrollTop };
    const found = cellAt(place, this.shape);
    if (!found) return false;
    this.#pick(found);
    return true;
  }

  /** @param {{row: number, column: number}} cell */
  #pick(cell) {
    if (cell.row === this.picked.row && cell.column === this.picked.column) return;
    this.picked = cell;
    this.#say();
    this.schedule();
  }

  #say() {
    const task = this.tasks[this.picked.row];
    const left = this.grid.left_out;
    const beyond = left.tasks ? ` ${plural(left.tasks, this.panel.dataset.noun ?? "task")} more are not shown.` : "";
    const noun = this.panel.dataset.noun ?? "task";
    const words = task ? wordsOf(task, this.picked.column, this.grid.iterations, noun) : "";
    setText(this.words, `${words.charAt(0).toUpperCase()}${words.slice(1)}${beyond}`);
  }

  #open() {
    const task = this.tasks[this.picked.row];
    const cell = task?.cells.find((one) => one[0] === this.picked.column);
    if (!cell) return;
    const { explorer = "", split = "", suite = "" } = this.panel.dataset;
    const query = new URLSearchParams({
      iteration: String(this.grid.iterations[cell[0]]),
      split,
      ...(suite ? { suite } : {}),
      group_number: String(cell[1] + 1),
    });
    location.assign(`${explorer}?${query}`);
  }

  /** @param {KeyboardEvent} event */
  #key(event) {
    const steps = /** @type {Record<string, [number, number]>} */ ({
      ArrowUp: [-1, 0],
      ArrowDown: [1, 0],
      ArrowLeft: [0, -1],
      ArrowRight: [0, 1],
    });
    if (event.key === "Enter") return this.#open();
    const step = steps[event.key];
    if (!step) return;
    event.preventDefault();
    const { rows, columns } = this.shape;
    const row = Math.min(rows - 1, Math.max(0, this.picked.row + step[0]));
    const column = Math.min(columns - 1, Math.max(0, this.picked.column + step[1]));
    this.#pick({ row, column });
    const x = SIZE.left + column * SIZE.cell;
    const y = SIZE.top + row * SIZE.cell;
    const { box } = this;
    if (x - box.scrollLeft < SIZE.left) box.scrollLeft = x - SIZE.left;
    if (x + SIZE.cell - box.scrollLeft > box.clientWidth) box.scrollLeft = x + SIZE.cell - box.clientWidth;
    if (y - box.scrollTop < SIZE.top) box.scrollTop = y - SIZE.top;
    if (y + SIZE.cell - box.scrollTop > box.clientHeight) box.scrollTop = y + SIZE.cell - box.clientHeight;
  }
}

if (typeof document !== "undefined") {
  const panel = document.querySelector("[data-task-grid]");
  if (panel instanceof HTMLElement) {
    void fetchJson(panel.dataset.taskGrid ?? "").then((grid) => {
      if (grid) new TaskGrid(panel, grid);
      else setText(need(panel, "[data-grid-words]"), "The grid could not be loaded: reload the page.");
    });
  }
}
