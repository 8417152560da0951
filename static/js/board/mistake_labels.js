// @ts-check
/**
 * A mistake on boards without cells: the arm that was pulled, the element of a page that was used, the line of a text
 * with the wrong answer, each with its glyph, and what was better. Pictures show the same
 * (webapp/trajectories/render/mistake_label.py).
 */

import { html } from "../ui/dom.js";
import { actionNodes, fillSearch, scrollTo } from "./web_page_board.js";

/** @typedef {import("../types.js").Mark} Mark */
/** @typedef {import("../types.js").ArmsBoard} ArmsBoard */

const MAX_SHOWN = 80;

/**
 * @param {HTMLElement} host
 * @param {ArmsBoard} board
 * @param {Mark} mark
 */
export function labelArms(host, board, mark) {
  const nodes = [...host.querySelectorAll(".arm")];
  const of = (/** @type {string|undefined} */ name) => nodes[board.arms.findIndex((arm) => arm.name === name)];
  label(of(mark.played), mark);
  better(of(mark.better[0]));
}

/**
 * @param {HTMLElement} host with the page on which the decision was made
 * @param {Mark} mark
 */
export function labelPage(host, mark) {
  const played = actionNodes(host, mark.played)[0];
  const best = mark.better[0] ? actionNodes(host, mark.better[0])[0] : undefined;
  if (played === best)
    fillSearch(played, mark.played); // another search: the better words stand below
  else if (best) fillSearch(best, mark.better[0]);
  label(played, mark);
  if (best && best !== played) better(best);
  else if (mark.better[0]) host.querySelector(".page-view")?.append(note(mark.better[0]));
  if (played) scrollTo(host, played);
}

/**
 * @param {HTMLElement} host with the text after the answer
 * @param {Mark} mark
 */
export function labelText(host, mark) {
  const node = host.querySelector(".numbers-rest") ?? host.querySelector("pre");
  const lines = (node?.textContent ?? "").split("\n");
  const at = faultLine(lines, mark.played);
  const line = html("span", { class: "fault-line" }, [at < 0 ? short(mark.played) : lines[at]]);
  label(line, mark);
  const board = host.querySelector(".numbers-board") ?? host;
  if (node && at >= 0) {
    const rest = lines
      .slice(at + 1)
      .map((text) => `\n${text}`)
      .join("");
    node.replaceChildren(
      lines
        .slice(0, at)
        .map((text) => `${text}\n`)
        .join(""),
      line,
      rest,
    );
  } else {
    board.append(html("p", { class: "numbers-rest" }, [line]));
  }
  if (mark.better[0]) board.append(note(mark.better[0]));
}

/**
 * Index of the last line with what was answered; −1 if the text does not show it.
 * @param {string[]} lines
 * @param {string} played
 */
export function faultLine(lines, played) {
  const start = played.trim().slice(0, MAX_SHOWN);
  return start ? lines.findLastIndex((line) => line.includes(start)) : -1;
}

/**
 * @param {Element|undefined} node
 * @param {Mark} mark
 */
function label(node, mark) {
  node?.classList.add("mistaken", mark.kind);
  node?.append(
    html("b", { class: `mistake-badge ${mark.kind}`, title: mark.sentence }, [
      html("span", { "aria-hidden": "true" }, [mark.glyph]),
      html("span", { class: "visually-hidden" }, [` ${mark.kind}`]),
    ]),
  );
}

/** @param {Element|undefined} node */
function better(node) {
  node?.classList.add("better");
  node?.append(html("b", { class: "better-badge" }, ["better"]));
}

/** @param {string} action */
function note(action) {
  return html("p", { class: "better-note" }, [html("b", { class: "better-badge" }, ["better"]), ` ${short(action)}`]);
}

/** @param {string} text */
function short(text) {
  return text.length > MAX_SHOWN ? `${text.slice(0, MAX_SHOWN)}…` : text;
}
