// @ts-check
/**
 * Texts of a turn: the parts of a response besides its thought and actions, and further fields. Mirrors
 * webapp/trajectories/turn_text.py.
 */

import { plural } from "./formatting.js";

/** @typedef {import("../types.js").Turn} Turn */

const THINK_END = "</think>",
  ANSWER = "<answer>",
  ANSWER_END = "</answer>";
const TAGS = /<\/?(?:think|answer)>|<\|im_(?:start|end)\|>/g;
const ACTION_SEPARATOR = "||";

/**
 * The whole response without its thought, lines that are the text of a call, and a response that is the name of the
 * only action: the turn shows these elsewhere. White space within the text is kept.
 * @param {Pick<Turn, "response"|"thought"|"actions">} turn
 */
export function responseText({ response, thought, actions }) {
  let text = response;
  const at = thought ? text.indexOf(thought) : -1;
  if (at >= 0)
    text = text.slice(0, at).replace(/<think>\s*$/, "") + text.slice(at + thought.length).replace(/^\s*<\/think>/, "");
  for (const action of actions) {
    if (action.call) text = `\n${text}\n`.replace(`\n${action.text}\n`, "\n").slice(1, -1);
  }
  text = text.replace(/^[\r\n]+|[\r\n]+$/g, "");
  const only = actions.length === 1 ? actions[0] : null;
  return only && [only.text, only.name].includes(text.trim()) ? "" : text;
}

/**
 * Indented JSON, or JSON on one line where nesting would multiply the text; mirrors webapp/core/output_budget.py.
 * @param {Record<string, unknown>} value
 */
function jsonText(value) {
  const compact = JSON.stringify(value);
  const indented = JSON.stringify(value, null, 2);
  return indented.length > Math.max(100_000, 4 * compact.length) ? compact : indented;
}

/** Characters of further fields that a page shows; as in webapp/trajectories/turn_text.py. */
const MAX_EXTRA = 8000;

/**
 * Further fields that a recorder added to a turn, as indented JSON; empty without any. Tool calls that the actions show
 * are left out.
 * @param {Record<string, unknown>|null|undefined} extra
 * @param {import("../types.js").ActionRecord[]} actions
 */
export function extraText(extra, actions) {
  const shown = actions.some((record) => record.call);
  const fields = Object.entries(extra ?? {}).filter(([name]) => !shown || name !== "tool_calls");
  if (!fields.length) return "";
  const characters = [...jsonText(Object.fromEntries(fields))];
  if (characters.length <= MAX_EXTRA) return characters.join("");
  return `${characters.slice(0, MAX_EXTRA).join("")}…\n${(characters.length - MAX_EXTRA).toLocaleString("en")} more characters are in the export.`;
}

/**
 * Parts of a response of our own trainer that neither the thought nor the actions of its turn show: text between
 * thought and answer, actions beyond the limit of a turn, and text after the answer; all after the thought where no
 * answer was read.
 * @param {Pick<Turn, "response"|"thought"|"answer"|"actions"|"format_valid"|"folded_tokens">} turn
 * @returns {Array<{text: string, label: string}>} label: its length, in tokens where they are known, else in characters
 */
export function foldedParts(turn) {
  /** @type {Array<{text: string, label: string}>} */ const parts = [];
  for (const [start, end, place] of unshown(turn)) {
    const text = turn.response.slice(start, end).trim();
    if (!text) continue;
    const tokens = turn.folded_tokens?.[parts.length];
    const length = tokens ? plural(tokens, "more token") : plural([...text].length, "more character");
    parts.push({ text, label: `… ${length} ${place}` });
  }
  return parts;
}

/**
 * @param {Parameters<typeof foldedParts>[0]} turn
 * @returns {Array<[start: number, end: number, place: string]>} in the order of the response
 */
function unshown({ response, thought, answer, actions, format_valid: valid }) {
  if (!thought && valid === false) return [];
  const whole = response.length;
  const called = actions.some((action) => action.call);
  const border = called ? null : /<\/think>\s*<answer>/.exec(response);
  const closed =
    border && response.includes(ANSWER_END, border.index + border[0].length)
      ? border.index
      : response.indexOf(THINK_END);
  let rest = 0,
    opened = 0,
    begin = 0;
  if (thought || (closed >= 0 && !response.slice(0, closed).replace(TAGS, "").trim())) {
    if (closed < 0) return [];
    rest = closed + THINK_END.length;
    opened = response.indexOf(ANSWER, rest);
    begin = opened + ANSWER.length;
  }
  const end = opened < 0 ? -1 : response.indexOf(ANSWER_END, begin);
  if (end < 0 || !(answer || actions.length)) return [[rest, whole, rest ? "after the thought" : "in the response"]];
  /** @type {Array<[number, number, string]>} */ const parts = [[rest, opened, "between thought and answer"]];
  if (actions.length && !called)
    parts.push([endOfActions(response, begin, end, actions.length), end, "in the answer, beyond the turn's limit"]);
  return [...parts, [end + ANSWER_END.length, whole, "after the answer"]];
}

/**
 * Where the first actions of an answer end; its end if it has no more.
 * @param {string} response
 * @param {number} begin
 * @param {number} end of the answer
 * @param {number} count
 */
function endOfActions(response, begin, end, count) {
  let at = begin;
  for (const piece of response.slice(begin, end).split(ACTION_SEPARATOR)) {
    if (piece.replace(TAGS, "").trim() && !count--) return at;
    at += piece.length + ACTION_SEPARATOR.length;
  }
  return end;
}
