// @ts-check
/**
 * Questions to policies on the page of a trajectory: the form follows the position of the player, its text begins with
 * the recorded one, and answers that arrive keep what is unfolded.
 */

import { html, setText } from "../ui/dom.js";
import { onKey, takesText } from "../ui/shortcuts.js";

/** @typedef {import("../types.js").Turn} Turn */

/** @type {import("../types.js").Trajectory} */
const trajectory = JSON.parse(document.getElementById("trajectory")?.textContent ?? "null");
/**
 * Turn → its thought with false positions put right, and what to select in it, in UTF-16 units.
 * @type {Record<string, {text: string, start: number, end: number}>}
 */
const corrections = JSON.parse(document.getElementById("corrections")?.textContent ?? "{}");
let shownTurn = Number(document.querySelector(".turn.current")?.getAttribute("data-turn") ?? 0);
let edited = false; // the text belongs to its turn: the form does not follow the player

/** The field of a name, if the page has the form. @param {string} name @returns {any} */
function field(name) {
  const form = document.querySelector("[data-ask]");
  return form instanceof HTMLFormElement ? form.elements.namedItem(name) : null;
}

/** @returns {Turn|undefined} the turn of the form */
function askedTurn() {
  const at = Number(field("turn")?.value) - 1;
  return trajectory.turns.find((turn) => turn.turn === at);
}

/** Show the turn of the player in the form, unless the reader wrote something for another turn; the button shows it. */
function follow() {
  const turn = field("turn");
  if (!turn) return;
  if (!edited && document.activeElement !== turn) {
    turn.value = String(shownTurn + 1);
    fill();
  }
  const where = document.querySelector("[data-ask-where]");
  if (where) setText(where, `turn ${askedTurn() ? turn.value : shownTurn + 1}`);
}

/** Begin with the recorded text. */
function fill() {
  const text = field("text");
  const change = field("change")?.value;
  if (!text || edited) return;
  const turn = askedTurn();
  const texts = turn ? { thought: turn.thought, answer: turn.answer, state: turn.state } : {};
  text.value = /** @type {Record<string, string>} */ (texts)[change] ?? "";
}

/** Open the form at the turn of the player. */
function openForm() {
  const form = document.getElementById("play-on");
  if (!(form instanceof HTMLDetailsElement)) return false;
  form.open = true;
  follow();
  form.querySelector("summary")?.focus();
  form.scrollIntoView({ block: "nearest" });
  return true;
}

/** Open the form with the thought of a turn, its false claims put right. @param {number} index */
function correct(index) {
  const correction = corrections[index];
  if (!correction || !openForm()) return;
  const { text, start, end } = correction;
  field("turn").value = String(index + 1);
  const kind = document.getElementById("ask-branch");
  if (kind instanceof HTMLInputElement) kind.checked = true;
  field("change").value = "thought";
  const area = /** @type {HTMLTextAreaElement} */ (field("text"));
  area.value = text;
  edited = true;
  area.focus();
  area.setSelectionRange(start, end);
}

/** A button below each thought with a false claim. */
function offerCorrections() {
  for (const turn of Object.keys(corrections)) {
    const thought = document.querySelector(`.turn[data-turn="${turn}"] > .thought`);
    const button = html("button", { class: "button small", type: "button", "data-correct": turn }, [
      "Correct it and play on",
    ]);
    thought?.after(html("p", { class: "correct" }, [button]));
  }
}

/** Inform screen readers of the state of a question when it changes. @type {Map<string, string>} */
const said = new Map();

/** @param {boolean} speak */
function announce(speak) {
  const box = document.querySelector("[data-branch-words]");
  for (const item of document.querySelectorAll("[data-announce]")) {
    const words = item.getAttribute("data-announce") ?? "";
    if (speak && box && said.get(item.id) !== words) setText(box, words);
    said.set(item.id, words);
  }
}

document.addEventListener("playermoved", (event) => {
  shownTurn = /** @type {CustomEvent<{turn: number}>} */ (event).detail.turn;
  follow();
});
document.addEventListener("input", (event) => {
  if (event.target === field("text")) edited = true;
  if (event.target === field("turn")) {
    fill();
    follow();
  }
});
document.addEventListener("change", (event) => {
  if (event.target !== field("change")) return;
  edited = false;
  fill();
});
document.addEventListener("click", (event) => {
  const button = event.target instanceof Element ? event.target.closest("[data-correct]") : null;
  if (button) correct(Number(button.getAttribute("data-correct")));
});
onKey((key) => key === "b" && openForm());

/** Parts that are unfolded in what htmx replaces. @type {string[]} */
let unfolded = [];
document.addEventListener("htmx:beforeSwap", (event) => {
  const { target } = /** @type {CustomEvent<{target: Element}>} */ (event).detail;
  if (!target.matches(".question, #branches")) return;
  unfolded = [...target.querySelectorAll("details[open]:not(.ask)")].map((part) => part.id).filter(Boolean);
});
document.addEventListener("htmx:afterSwap", () => {
  for (const id of unfolded) document.getElementById(id)?.setAttribute("open", "");
  unfolded = [];
});
document.addEventListener("htmx:afterSettle", (event) => {
  announce(true);
  const panel = document.querySelector("#branches[data-asked]");
  const asked = panel && document.getElementById(panel.getAttribute("data-asked") ?? "");
  panel?.removeAttribute("data-asked");
  if (asked) {
    edited = false;
    asked.focus({ preventScroll: true });
    asked.scrollIntoView({ block: "nearest" });
    follow();
  }
  const { target } = /** @type {CustomEvent<{target: Element}>} */ (event).detail;
  const wrong = target?.id === "branches" ? document.querySelector("[data-ask] [aria-invalid=true]") : null;
  if (wrong instanceof HTMLElement && takesText(wrong)) wrong.focus();
});

if (field("text")?.value) edited = true;
offerCorrections();
follow();
announce(false);
document.documentElement.classList.add("branches-ready");
