// @ts-check
/**
 * An unfinished turn: its response as it is streamed, written out evenly between two messages of the stream.
 */

import { html, setText } from "../ui/dom.js";
import { plural } from "../ui/formatting.js";

/** Milliseconds in which new text is written; the stream sends about twelve messages a second. */
const LONGEST = 400;

/**
 * Thought and answer of an unfinished response.
 * @param {string} text
 * @returns {{thought: string, answer: string|null, rest: string}} answer is null until its tag opens; rest: text after
 *   it
 */
export function splitResponse(text) {
  const body = text.replace(/^\s*<think>/, "");
  const end = body.indexOf("</think>");
  const begin = body.indexOf("<answer>");
  const cut = end >= 0 ? end : begin;
  if (cut < 0) return { thought: body.replace(/<\/?[a-z]*$/, "").trimStart(), answer: null, rest: "" };
  const written = begin >= 0 ? body.slice(begin + 8) : body.slice(cut + 8); // the call of a tool has no <answer>
  const closed = begin >= 0 ? written.indexOf("</answer>") : -1;
  const answer = closed >= 0 ? written.slice(0, closed) : written.replace(/<\/?[a-z]*>?$/, "");
  return {
    thought: body.slice(0, cut).trim(),
    answer: answer.trim(),
    rest: closed >= 0 ? written.slice(closed + 9).trim() : "",
  };
}

/**
 * Length of the text that is shown. Never behind the stream: with each message all text of the earlier ones is shown,
 * and new text is complete when the next message is due.
 * @param {{from: number, to: number, began: number, lasts: number}} step lengths before and with the message;
 *   milliseconds
 * @param {number} now milliseconds
 */
export function shownLength({ from, to, began, lasts }, now) {
  const share = lasts > 0 ? Math.min(1, Math.max(0, (now - began) / lasts)) : 1;
  return from + Math.round((to - from) * share);
}

/** List item of an unfinished turn. */
export class TypingTurn {
  /**
   * @param {number} index of the turn
   * @param {() => void} changed called after each change of the shown text
   */
  constructor(index, changed) {
    this.turn = index;
    this.changed = changed;
    this.text = "";
    this.step = { from: 0, to: 0, began: 0, lasts: 0 };
    this.frame = 0;
    this.reducedMotion = window.matchMedia("(prefers-reduced-motion: reduce)");
    this.typed = html("p", { class: "thought", "data-typed": true });
    this.answer = html("p", { class: "typed-answer", "data-answer": true, hidden: true });
    this.rest = html("p", { class: "soft small", "data-rest": true, hidden: true });
    this.item = html(
      "li",
      { class: "turn typing", "data-turn": index, "aria-label": `Turn ${index + 1}, being written` },
      [
        html("div", { class: "turn-head" }, [
          html("span", { class: "turn-number" }, [`Turn ${index + 1}`]),
          html("span", { class: "soft small" }, ["being written"]),
        ]),
        this.typed,
        this.answer,
        this.rest,
      ],
    );
  }

  /** @param {string} text the whole response so far */
  show(text) {
    const now = performance.now();
    const before = this.text;
    const from = text.startsWith(before) ? before.length : text.length;
    const since = now - this.step.began;
    const lasts = !before || this.reducedMotion.matches ? 0 : Math.min(LONGEST, since);
    this.text = text;
    this.step = { from, to: text.length, began: now, lasts };
    this.#write();
  }

  /** Remove the item and stop writing. */
  remove() {
    window.cancelAnimationFrame(this.frame);
    this.frame = 0;
    this.item.remove();
  }

  #write() {
    let length = shownLength(this.step, performance.now());
    if (/[\uD800-\uDBFF]/.test(this.text[length - 1] ?? "")) length += 1; // not half of a character
    const { thought, answer, rest } = splitResponse(this.text.slice(0, length));
    setText(this.typed, thought);
    this.typed.classList.toggle("writing", answer === null);
    this.answer.hidden = answer === null;
    setText(this.answer, answer ?? "");
    this.rest.hidden = !rest;
    setText(this.rest, rest ? `… ${plural([...rest].length, "more character")} after the answer` : "");
    this.changed();
    if (this.frame) window.cancelAnimationFrame(this.frame);
    this.frame = length < this.text.length ? window.requestAnimationFrame(() => this.#write()) : 0;
  }
}
