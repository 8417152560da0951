// @ts-check
/** Filmstrip: boards of one initial state at several iterations, moved in step, each with the path walked so far. */

import { BoardView } from "../board/board.js";
import { need, setText, svg } from "../ui/dom.js";
import { plural } from "../ui/formatting.js";

/** @typedef {import("../types.js").Board} Board */
/** @typedef {[number, number]} Place column and row, from 0 */
/** @typedef {{player: Place|null, push: [Place, Place]|null}[]} Way places of a player and pushes, action by action */
/** @typedef {{board: Board, player: Place|null, push: [Place, Place]|null}} Step */

/** Milliseconds per action at 1×. */
const PACE_MS = 480;

/**
 * Outline of the player's way up to a step; empty while it has not moved.
 * @param {Way} steps
 * @param {number} index
 */
export function walkedPath(steps, index) {
  /** @type {Place[]} */
  const way = [];
  for (const { player } of steps.slice(0, index + 1)) {
    const last = way[way.length - 1];
    if (player && (!last || last[0] !== player[0] || last[1] !== player[1])) way.push(player);
  }
  return way.length > 1 ? `M${way.map(middle).join("L")}` : "";
}

/**
 * Outlines of the pushes up to a step.
 * @param {Way} steps
 * @param {number} index
 */
export function pushedPath(steps, index) {
  return steps
    .slice(0, index + 1)
    .map(({ push }) => (push ? `M${middle(push[0])}L${middle(push[1])}` : ""))
    .join("");
}

/** @param {Place} place */
function middle([x, y]) {
  return `${x + 0.5} ${y + 0.5}`;
}

/**
 * Index of the last step of the longest walk.
 * @param {Step[][]} frames
 */
export function lastStep(frames) {
  return Math.max(0, ...frames.map((steps) => steps.length - 1));
}

/**
 * Where the strip stands, in words.
 * @param {number} index
 * @param {number} last
 */
export function whereText(index, last) {
  if (index === 0) return `Initial state, up to ${plural(last, "action")}`;
  return index >= last ? `Whole paths, up to ${plural(last, "action")}` : `After action ${index} of up to ${last}`;
}

/** One board of the strip with its path. */
class Frame {
  /** @param {HTMLElement} host @param {Step[]} steps */
  constructor(host, steps) {
    this.board = new BoardView(host);
    this.steps = steps;
    this.index = -1;
    /** @type {SVGElement|null} */ this.path = null;
  }

  /** @param {number} step @param {boolean} animate */
  show(step, animate) {
    const index = Math.min(step, this.steps.length - 1);
    if (index === this.index) return;
    this.index = index;
    this.board.show(this.steps[index].board, { animate });
    this.path?.remove();
    const walked = walkedPath(this.steps, index);
    const start = this.steps[0].player;
    this.path = svg("g", {}, [
      svg("path", { class: "pushed", d: pushedPath(this.steps, index) }),
      svg("path", { class: "walked", d: walked }),
      ...(walked && start
        ? [svg("circle", { class: "walk-start", cx: start[0] + 0.5, cy: start[1] + 0.5, r: 0.14 })]
        : []),
    ]);
    this.board.pieces?.before(this.path);
  }
}

export class Filmstrip {
  /**
   * @param {HTMLElement} root an element with the markup of templates/trajectories/_filmstrip.html
   * @param {Step[][]} data the steps of each frame; none where the environment has no cells
   * @param {{still: () => boolean}} page still: motion is reduced, nothing plays
   */
  constructor(root, data, { still }) {
    this.root = root;
    this.still = still;
    this.last = lastStep(data);
    this.frames = [...root.querySelectorAll("[data-frame]")].flatMap((node, number) => {
      const host = node.querySelector("[data-board]");
      return host instanceof HTMLElement && data[number]?.length ? [new Frame(host, data[number])] : [];
    });
    this.scrub = /** @type {HTMLInputElement} */ (need(root, "[data-scrub]"));
    this.scrub.max = String(this.last);
    this.index = this.last;
    this.timer = 0;
    this.scrub.addEventListener("input", () => this.take(Number(this.scrub.value)));
    root.addEventListener("click", (event) => {
      const command = /** @type {Element} */ (event.target).closest("[data-do]")?.getAttribute("data-do");
      if (command === "back") this.take(this.index - 1);
      if (command === "forward") this.take(this.index + 1);
      if (command === "play") this.toggle();
    });
    this.go(this.last, false);
  }

  /** @param {number} index @param {boolean} [animate] */
  go(index, animate = true) {
    this.index = Math.max(0, Math.min(index, this.last));
    for (const frame of this.frames) frame.show(this.index, animate);
    const words = whereText(this.index, this.last);
    this.scrub.value = String(this.index);
    this.scrub.setAttribute("aria-valuetext", words);
    setText(need(this.root, "[data-where]"), words);
  }

  /** Move on user input. @param {number} index */
  take(index) {
    this.pause();
    this.go(index, Math.abs(index - this.index) <= 1);
  }

  toggle() {
    if (this.timer) this.pause();
    else if (!this.still()) this.play();
  }

  play() {
    if (this.index >= this.last) this.go(0, false);
    this.#schedule();
    this.#button();
  }

  pause() {
    window.clearTimeout(this.timer);
    this.timer = 0;
    this.#button();
  }

  /**
   * Handle a key of the strip.
   * @param {string} key
   * @returns {boolean} whether the key was handled
   */
  key(key) {
    switch (key) {
      case "ArrowLeft":
        this.take(this.index - 1);
        return true;
      case "ArrowRight":
        this.take(this.index + 1);
        return true;
      case "Home":
        this.take(0);
        return true;
      case "End":
        this.take(this.last);
        return true;
      case " ":
        if (this.still()) return false;
        this.toggle();
        return true;
      default:
        return false;
    }
  }

  #schedule() {
    const speed = Number(/** @type {HTMLSelectElement} */ (need(this.root, "[data-speed]")).value);
    this.timer = window.setTimeout(() => {
      this.go(this.index + 1);
      if (this.index < this.last) this.#schedule();
      else this.pause();
    }, PACE_MS / speed);
  }

  #button() {
    const button = need(this.root, "[data-do=play]");
    button.setAttribute("aria-label", this.timer ? "Pause playback" : "Play");
    button.classList.toggle("is-playing", this.timer !== 0);
  }
}
