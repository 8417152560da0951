// @ts-check
/** The recorded Echo Trap: plays both runs side by side, by iteration. */

import { BoardView } from "../board/board.js";
import { columnsOf, commonest, standing } from "./replay_iterations.js";
import { html, need, setText, svg } from "../ui/dom.js";
import { signed } from "../ui/formatting.js";
import { describe, onKey } from "../ui/shortcuts.js";

/** @typedef {import("./replay_iterations.js").Replay} Replay */
/** @typedef {import("./replay_iterations.js").ReplayedRun} ReplayedRun */
/** @typedef {import("./replay_iterations.js").ReplayAlarm} ReplayAlarm */
/** @typedef {import("./replay_iterations.js").Cell} Cell an attempt of an iteration */

const STEP = 10; // iterations of Page Up and Page Down
const MOMENT = 6; // iterations between two attempts that are shown while it plays: time to read one
const CELL = 10;

class RunView {
  /** @param {HTMLElement} root @param {ReplayedRun} run @param {Replay} replay @param {() => void} pause */
  constructor(root, run, replay, pause) {
    this.root = root;
    this.run = run;
    this.replay = replay;
    this.board = new BoardView(need(root, "[data-board]"));
    /** @type {Cell[][]} */
    this.columns = [];
    /** @type {number|null} index of the attempt that was clicked */
    this.chosen = null;
    this.wall = /** @type {SVGSVGElement} */ (/** @type {unknown} */ (root.querySelector("[data-wall]")));
    const groups = run.kept[0].length;
    this.wall.setAttribute("viewBox", `0 0 ${groups * CELL} ${run.groupSize * CELL}`);
    this.squares = Array.from({ length: groups }, (_, x) =>
      Array.from({ length: run.groupSize }, (_, y) =>
        svg("rect", { x: x * CELL + 0.7, y: y * CELL + 0.7, width: CELL - 1.4, height: CELL - 1.4, rx: 1.6 }),
      ),
    );
    this.wall.append(...this.squares.flat());
    this.wall.addEventListener("click", (event) => {
      const column = this.squares.findIndex((nodes) => nodes.includes(/** @type {SVGElement} */ (event.target)));
      if (column < 0) return;
      const row = this.squares[column].indexOf(/** @type {SVGElement} */ (event.target));
      pause();
      this.choose(this.columns[column][row].index);
    });
    this.playhead = /** @type {HTMLElement} */ (
      need(root, ".replay-track").appendChild(html("i", { class: "replay-playhead", "aria-hidden": "true" }))
    );
  }

  /** @param {number} iteration @param {boolean} reads whether the attempt changes as well */
  show(iteration, reads) {
    const { run, replay } = this;
    this.columns = columnsOf(run, replay.endings, iteration);
    const cells = this.columns.flat();
    const { ending, count } = commonest(cells, replay.endings);
    setText(need(this.root, "[data-count]"), String(count));
    setText(need(this.root, "[data-ending]"), ending);
    const agreed = this.columns.filter((column) => column.every((cell) => cell.ending === column[0].ending)).length;
    setText(need(this.root, "[data-agreed]"), `All attempts agree at ${agreed} of ${this.columns.length}.`);
    this.wall.setAttribute("aria-label", `${count} of ${cells.length} attempts think “${ending}”.`);
    this.columns.forEach((column, x) => {
      const dropped = run.kept[iteration - 1][column[0].group] === "0";
      column.forEach((cell, y) => {
        const paid = cell.attempt.reward >= 1 ? " paid" : "";
        const ending = cell.ending < replay.endings.length ? `ending-${cell.ending + 1}` : "ending-other";
        this.squares[x][y].setAttribute("class", `${ending}${paid}${dropped ? " dropped" : ""}`);
      });
    });
    this.playhead.style.left = `${(100 * (iteration - 0.5)) / replay.length}%`;
    this.#condition(standing(run.alarms, iteration));
    if (reads) this.choose(null);
    else this.#mark();
  }

  /** Show an attempt; without an index one that thinks as most do. @param {number|null} index */
  choose(index) {
    this.chosen = index;
    const cell = this.#cell();
    const { attempt } = cell;
    const board = attempt.after ?? attempt.before;
    if (board) this.board.show(board, { animate: false });
    setText(need(this.root, "[data-thought]"), attempt.thought);
    setText(
      need(this.root, "[data-attempt]"),
      `Puzzle ${cell.group + 1}, attempt ${(cell.index % this.run.groupSize) + 1}: answered ${attempt.answer || "nothing"}, reward ${signed(attempt.reward)}`,
    );
    this.#mark();
  }

  #cell() {
    const cells = this.columns.flat();
    const { ending } = commonest(cells, this.replay.endings);
    return (
      cells.find(({ index }) => index === this.chosen) ??
      cells.find(({ attempt }) => attempt.ending === ending) ??
      cells[0]
    );
  }

  #mark() {
    this.columns.forEach((column, x) => {
      column.forEach(({ index }, y) => {
        this.squares[x][y].classList.toggle("read", index === this.chosen);
      });
    });
  }

  /** @param {ReplayAlarm|undefined} alarm */
  #condition(alarm) {
    const trouble = alarm && alarm.state !== "healthy" ? alarm : null;
    const badge = need(this.root, "[data-condition]");
    badge.hidden = !trouble;
    if (trouble) {
      badge.dataset.condition = trouble.state;
      setText(need(badge, "[data-label]"), trouble.label);
      setText(need(badge, "[data-since]"), `since ${trouble.iteration}`);
    }
    setText(need(this.root, "[data-alarm]"), alarm?.message ?? "No warning signs.");
  }
}

/** Plays a recording on the page. */
class ReplayPlayer {
  /** @param {HTMLElement} root @param {Replay} replay */
  constructor(root, replay) {
    this.root = root;
    this.replay = replay;
    this.iteration = 0;
    this.playing = false;
    this.perSecond = replay.length / Number(root.dataset.seconds);
    this.slider = /** @type {HTMLInputElement} */ (need(root, "[data-slider]"));
    this.button = need(root, "[data-play]");
    this.views = [...root.querySelectorAll("[data-run]")].map(
      (node, at) => new RunView(/** @type {HTMLElement} */ (node), replay.runs[at], replay, () => this.pause()),
    );
    this.charts = [...root.querySelectorAll("[data-replay-chart]")].map((chart) => ({
      cursor: /** @type {SVGElement} */ (chart.querySelector("svg")?.appendChild(svg("path", { class: "cursor" }))),
      values: [...chart.querySelectorAll("[data-value]")],
    }));
    this.button.addEventListener("click", () => this.toggle());
    this.slider.addEventListener("input", () => this.go(Number(this.slider.value)));
    for (const jump of root.querySelectorAll("[data-jump]"))
      jump.addEventListener("click", () => this.go(Number(/** @type {HTMLElement} */ (jump).dataset.jump)));
    this.#show(Number(root.dataset.start));
  }

  toggle() {
    if (this.playing) this.pause();
    else this.play();
  }

  play() {
    if (this.playing) return;
    if (this.iteration >= this.replay.length) this.#show(1);
    this.playing = true;
    this.#label();
    let reached = this.iteration;
    let last = performance.now();
    const frame = (/** @type {number} */ now) => {
      if (!this.playing) return;
      // the first frame may have begun before play(); a hidden page goes on where it was
      reached += (Math.max(0, Math.min(now - last, 250)) / 1000) * this.perSecond;
      last = now;
      const iteration = Math.min(this.replay.length, Math.floor(reached));
      if (iteration !== this.iteration) this.#show(iteration);
      if (iteration >= this.replay.length) this.pause();
      else requestAnimationFrame(frame);
    };
    requestAnimationFrame(frame);
  }

  pause() {
    if (!this.playing) return;
    this.playing = false;
    this.#label();
  }

  /** Pause at an iteration. @param {number} iteration */
  go(iteration) {
    this.pause();
    this.#show(Math.max(1, Math.min(this.replay.length, iteration)));
  }

  /** @param {string} key */
  key(key) {
    const steps = { ArrowLeft: -1, ArrowRight: 1, PageUp: STEP, PageDown: -STEP };
    if (key === " " || key === "k") this.toggle();
    else if (key === "Home") this.go(1);
    else if (key === "End") this.go(this.replay.length);
    else if (key in steps) this.go(this.iteration + steps[/** @type {keyof typeof steps} */ (key)]);
    else return false;
    return true;
  }

  /** @param {number} iteration */
  #show(iteration) {
    const before = this.iteration;
    this.iteration = iteration;
    const reads = !this.playing || iteration % MOMENT === 0 || iteration === 1;
    for (const view of this.views) view.show(iteration, reads);
    this.charts.forEach(({ cursor, values }, chart) => {
      const x = (1000 * (iteration - 1)) / (this.replay.length - 1);
      cursor.setAttribute("d", `M${x} 0V300`);
      values.forEach((node, line) => {
        setText(node, this.replay.values[chart][line][iteration - 1]);
      });
    });
    this.slider.value = String(iteration);
    this.slider.setAttribute("aria-valuetext", `Iteration ${iteration} of ${this.replay.length}`);
    setText(need(this.root, "[data-counter]"), `iteration ${iteration} of ${this.replay.length}`);
    if (this.playing) this.#announce(before, iteration);
  }

  /** Tell screen readers what the watch said meanwhile. @param {number} before @param {number} iteration */
  #announce(before, iteration) {
    for (const { name, alarms } of this.replay.runs) {
      const alarm = standing(alarms, iteration);
      if (alarm && alarm.iteration > before)
        setText(
          need(this.root, "[data-announce]"),
          `Iteration ${alarm.iteration}, ${name}: ${alarm.label}. ${alarm.message}`,
        );
    }
  }

  #label() {
    const again = this.iteration >= this.replay.length ? "Play again" : "Play";
    this.button.setAttribute("aria-label", this.playing ? "Pause" : again);
    this.root.toggleAttribute("data-playing", this.playing);
  }
}

const root = document.querySelector("[data-replay]");
if (root instanceof HTMLElement) {
  const theme = document.body.dataset.themeWanted;
  if (theme) document.documentElement.dataset.theme = theme;
  const player = new ReplayPlayer(root, JSON.parse(document.getElementById("replay")?.textContent ?? "null"));
  describe("Recording", [
    ["Space", "play or pause"],
    ["← →", "one iteration"],
    ["PgDn PgUp", "ten iterations"],
    ["Home End", "first and last iteration"],
  ]);
  onKey((key) => player.key(key));
  const calm = window.matchMedia("(prefers-reduced-motion: reduce)").matches;
  if (root.dataset.autoplay !== undefined && !calm) player.play();
  document.documentElement.classList.add("ready");
}
