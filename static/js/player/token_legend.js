// @ts-check
/** Names, shades and legend of token statistics. Pure functions, no DOM. */

import { percent, short, signed } from "../ui/formatting.js";

/** @typedef {import("../types.js").Token} Token */
/** @typedef {import("../types.js").TokenTurn} TokenTurn */
/** @typedef {"p"|"entropy"|"advantage"} Measure */
/** @typedef {{level: number, sign: ""|"+"|"−"}} Shade level 0 (none) to 4 (strongest) */

/** Thresholds between shades, weakest first. */
const BOUNDS = { p: [0.9, 0.5, 0.2, 0.05], entropy: [0.1, 0.5, 1, 2] };
/** Thresholds for advantages, as shares of the largest one in the trajectory. */
const SHARES = [0.05, 0.25, 0.5, 0.75];

/** Symbol of the end-of-response token, which has no text. */
export const END = "∎";

/** Symbol of a token that shows nothing itself: part of a character, or an invisible one. */
export const SILENT = "▫";
const INVISIBLE = /^[\p{Default_Ignorable_Code_Point}\p{Cf}]+$/u;

/**
 * Displayed text of a token: line ends and tabs are visible, and concatenated tokens give the response.
 * @param {string} text
 */
export function visibleText(text) {
  return text.replaceAll("\r", "␍").replaceAll("\n", "↵\n").replaceAll("\t", "⇥\t");
}

/**
 * Name of a token that would otherwise show nothing; empty for others. Joined emoji, for example, contain tokens of one
 * joiner.
 * @param {string} text
 * @param {boolean} last whether it is the last one of its response
 */
export function silentName(text, last) {
  if (!text) return last ? "End of the response" : "Part of a character";
  if (!INVISIBLE.test(text)) return "";
  return [...text]
    .map((sign) => `U+${(sign.codePointAt(0) ?? 0).toString(16).toUpperCase().padStart(4, "0")}`)
    .join(" ");
}

/**
 * Largest absolute advantage; 0 if there is none.
 * @param {TokenTurn[]} turns
 */
export function maxAdvantage(turns) {
  let most = 0;
  for (const turn of turns) for (const token of turn.tokens) most = Math.max(most, Math.abs(token.advantage ?? 0));
  return most;
}

/**
 * @param {Token} token
 * @param {Measure} measure
 * @param {number} most the trajectory's largest advantage
 * @returns {Shade}
 */
export function shade(token, measure, most) {
  if (measure === "p") return { level: BOUNDS.p.filter((bound) => token.p < bound).length, sign: "" };
  if (measure === "entropy")
    return { level: BOUNDS.entropy.filter((bound) => (token.entropy ?? 0) >= bound).length, sign: "" };
  const value = token.advantage ?? 0;
  const level = most > 0 ? SHARES.filter((share) => Math.abs(value) >= share * most).length : 0;
  return { level, sign: level === 0 ? "" : value > 0 ? "+" : "−" };
}

/**
 * Legend entries in display order.
 * @param {Measure} measure
 * @param {number} most the trajectory's largest advantage
 * @returns {Array<Shade & {words: string}>}
 */
export function legendEntries(measure, most) {
  if (measure === "p") {
    const words = ["≥ 90%", "50 to 90%", "20 to 50%", "5 to 20%", "< 5%"];
    return words.map((text, level) => ({ level, sign: "", words: text }));
  }
  if (measure === "entropy") {
    const words = ["< 0.1", "0.1 to 0.5", "0.5 to 1", "1 to 2", "≥ 2"];
    return words.map((text, level) => ({ level, sign: "", words: text }));
  }
  if (most === 0) return [{ level: 0, sign: "", words: "0" }];
  const bounds = SHARES.map((share) => short(Number((share * most).toPrecision(2))));
  const up = bounds.map((bound, index) => ({
    level: index + 1,
    sign: /** @type {const} */ ("+"),
    words: `≥ +${bound}`,
  }));
  const down = bounds.map((bound, index) => ({
    level: index + 1,
    sign: /** @type {const} */ ("−"),
    words: `≤ −${bound}`,
  }));
  return [...down.reverse(), { level: 0, sign: "", words: "about 0" }, ...up];
}

/** Legend titles with units. */
export const TITLES = {
  p: "Probability with which the token was drawn; the stronger the shade, the less likely",
  entropy: "Entropy of the choice, nats; the stronger the shade, the less decided",
  advantage: "Advantage in the update, no unit; underlined: made likelier, overlined: made less likely",
};

/**
 * Full description of a token.
 * @param {Token} token
 * @param {{index: number, count: number, turn: number}} place counted from 0
 */
export function describeToken(token, { index, count, turn }) {
  const name =
    silentName(token.text, index === count - 1) ||
    `“${visibleText(token.text).trimEnd() || "␣".repeat(token.text.length)}”`;
  const parts = [
    name,
    `probability ${token.p < 0.001 ? `${short(token.p * 100)}%` : percent(token.p)}`,
    `log-probability ${short(token.logprob)} nats`,
    ...(token.entropy === null ? [] : [`entropy ${short(token.entropy)} nats`]),
    ...(token.advantage === null
      ? []
      : [`advantage ${Math.abs(token.advantage) < 0.01 ? short(token.advantage) : signed(token.advantage)}`]),
    `token ${index + 1} of ${count} in turn ${turn + 1}`,
    `id ${token.id}`,
  ];
  return parts.join(" · ");
}
