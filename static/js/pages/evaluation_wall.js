// @ts-check
/**
 * The wall of the evaluation's puzzles: a slider shows each evaluation in turn, with what is newly solved and newly
 * lost; the film of a puzzle appears beside it under the pointer or the focus.
 */

import { change, frameText } from "./evaluation_frames.js";
import { ordinal } from "../ui/formatting.js";
import { need, setText } from "../ui/dom.js";

/** @typedef {import("./evaluation_frames.js").Frame} Frame */

/** Milliseconds that playing through training takes, and the least for each evaluation. */
const WHOLE_MS = 10_000;
const LEAST_MS = 220;
/** Milliseconds before the film appears, so that passing over cells loads none. */
const FILM_DELAY_MS = 220;
const GAP = 10;

class EvaluationWall {
  /** @param {HTMLElement} root */
  constructor(root) {
    this.root = root;
    const { frames, noun } = JSON.parse(need(document, "#exam-wall-data").textContent ?? "{}");
    /** @type {Frame[]} */ this.frames = frames;
    /** @type {string} */ this.noun = noun;
    this.cells = [...root.querySelectorAll(".exam-cells a")];
    this.slider = /** @type {HTMLInputElement} */ (need(root, "[data-exam-slider]"));
    this.playButton = need(root, "[data-exam-play]");
    this.film = need(root, "[data-exam-film]");
    this.timer = 0;
    this.filmTimer = 0;
    /** @type {Element|null} */ this.pointed = null;
    this.slider.addEventListener("input", () => {
      this.#pause();
      this.show(Number(this.slider.value));
    });
    this.playButton.addEventListener("click", () => (this.timer ? this.#pause() : this.#play()));
    for (const kind of ["pointerover", "focusin"]) root.addEventListener(kind, (event) => this.#point(event.target));
    for (const kind of ["pointerleave", "focusout"]) root.addEventListener(kind, () => this.#point(null));
    root.addEventListener("keydown", (event) => {
      if (event.key === "Escape") this.#point(null);
    });
    this.show(this.frames.length - 1);
  }

  /** @param {number} at index of the evaluation */
  show(at) {
    const [frame, before] = [this.frames[at], this.frames[at - 1]];
    this.slider.value = String(at);
    this.slider.setAttribute("aria-valuetext", frameText(frame, before, this.noun));
    for (const [index, cell] of this.cells.entries())
      cell.className = change(frame[1][index] ?? "–", before?.[1][index]);
    setText(need(this.root, "[data-exam-words]"), frameText(frame, before, this.noun));
  }

  #play() {
    const from = Number(this.slider.value) >= this.frames.length - 1 ? 0 : Number(this.slider.value);
    this.show(from);
    this.timer = window.setInterval(
      () => {
        const next = Number(this.slider.value) + 1;
        if (next < this.frames.length) this.show(next);
        if (next >= this.frames.length - 1) this.#pause();
      },
      Math.max(LEAST_MS, WHOLE_MS / this.frames.length),
    );
    this.#button();
  }

  #pause() {
    window.clearInterval(this.timer);
    this.timer = 0;
    this.#button();
  }

  #button() {
    this.playButton.classList.toggle("is-playing", this.timer > 0);
    this.playButton.setAttribute("aria-label", this.timer ? "Pause" : "Play through training");
  }

  /** Show the film of the puzzle after a moment; of none, hide it. @param {EventTarget|null} target */
  #point(target) {
    const cell = target instanceof Element ? target.closest(".exam-cells a") : null;
    window.clearTimeout(this.filmTimer);
    this.pointed = cell;
    if (!(cell instanceof HTMLElement)) {
      this.film.hidden = true;
      return;
    }
    this.filmTimer = window.setTimeout(() => {
      const picture = /** @type {HTMLImageElement} */ (need(this.film, "img"));
      picture.onload = () => {
        this.film.hidden = this.pointed !== cell;
      };
      picture.src = cell.dataset.film ?? "";
      picture.alt = `Film of puzzle ${ordinal(this.cells.indexOf(cell))}`;
      const [place, around] = [cell.getBoundingClientRect(), this.root.getBoundingClientRect()];
      const width = Math.min(480, around.width);
      this.film.style.left = `${Math.max(0, Math.min(place.left - around.left, around.width - width))}px`;
      this.film.style.top = `${place.bottom - around.top + GAP}px`;
    }, FILM_DELAY_MS);
  }
}

/** A new result replaces the wall with the rest of the page (evaluation_tab.js). */
function start() {
  const root = document.querySelector("[data-exam-wall]");
  if (root instanceof HTMLElement) new EvaluationWall(root);
}

start();
document.addEventListener("htmx:afterSettle", start);
