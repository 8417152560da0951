// @ts-check
/** Tokens of an attempt in reading order: shades, search, words and code. Pure functions, no DOM. */

import { percent, plural, short, signed } from "../ui/formatting.js";
import { END, SILENT, silentName, visibleText } from "./token_legend.js";

/** @typedef {{kind: string, name: string, turn: number, start: number, tokens: number, sampled: boolean, in_loss: boolean, restarts: boolean}} Segment */
/** @typedef {"logprob"|"difference"|"ratio"|"entropy"|"advantage"|"share"} Value */
/** @typedef {Partial<Record<Value, (number|null)[]>>} Values numbers that are unknown for every token are absent */
/** @typedef {Values & {segments: Segment[], texts: string[], ids: number[], clipped: number[], retokenised: number[], computed_from?: number}} Reading `computed_from`: iteration of the weights, unless the tokens were recorded */
/** @typedef {"kind"|"loss"|"retokenised"|Value} Mode */
/** @typedef {{turn: number, sampled: boolean, restarts: boolean, appended: boolean, segments: Segment[], start: number, end: number}} Part adjacent segments of one turn that were all read or all sampled; `appended`: behind a response, and before another context or the end */

/** Thresholds between shades, weakest first, of a number's distance from what it usually is. */
const BOUNDS = {
  logprob: [0.105, 0.69, 1.61, 3], // probabilities of 90, 50, 20 and 5 %
  difference: [0.02, 0.1, 0.5, 1],
  ratio: [0.05, 0.2, 0.5, 1], // of its logarithm
  entropy: [0.1, 0.5, 1, 2],
};
const SHARES = [0.05, 0.25, 0.5, 0.75]; // of the largest one

/** Titles with units, and whether a sign is shown. @type {Record<Mode, string>} */
const TITLES = {
  kind: "What each token belongs to; sampled tokens are underlined",
  loss: "Tokens in the loss of the update",
  logprob: "Probability of the token when it was sampled; shades begin below 90, 50, 20 and 5%",
  difference:
    "Trainer's minus sampler's log-probability; shades begin at 0.02, 0.1, 0.5 and 1 nats; underlined: likelier in the trainer",
  ratio:
    "Importance ratio in the last optimiser step; shades begin at 5, 22, 65 and 170% off 1; underlined above 1, overlined below; clipped tokens are struck out",
  entropy: "Entropy of the choice; shades begin at 0.1, 0.5, 1 and 2 nats",
  advantage: "Advantage, relative to the largest; underlined: made likelier, overlined: made less likely",
  share: "Share of the attempt's loss, relative to the largest",
  retokenised: "Tokens that become different ones when the text is tokenised again",
};

/** Titles of the modes that differ for tokens computed from a checkpoint afterwards. @type {Partial<Record<Mode, string>>} */
const COMPUTED_TITLES = {
  loss: "Tokens that the loss of the update contained, by the trainer's rules",
  logprob: "Probability under the checkpoint's weights; shades begin below 90, 50, 20 and 5%",
  entropy: "Entropy under the checkpoint's weights; shades begin at 0.1, 0.5, 1 and 2 nats",
};

/** Title of a mode. @param {Reading} reading @param {Mode} mode */
export function titleOf(reading, mode) {
  return (reading.computed_from === undefined ? undefined : COMPUTED_TITLES[mode]) ?? TITLES[mode];
}

/** Largest absolute number; 0 if there is none. @param {(number|null)[]|undefined} values */
export function largest(values) {
  return (values ?? []).reduce((/** @type {number} */ most, value) => Math.max(most, Math.abs(value ?? 0)), 0);
}

/**
 * Shade of a token: level 0 (none) to 4 (strongest), and its sign.
 * @param {Reading} reading
 * @param {number} at
 * @param {Mode} mode
 * @param {{most: number, segment: Segment, retokenised: Set<number>}} known `most`: the largest absolute number
 * @returns {{level: number, sign: ""|"+"|"−"}}
 */
export function shadeOf(reading, at, mode, { most, segment, retokenised }) {
  if (mode === "kind") return { level: 0, sign: "" };
  if (mode === "loss") return { level: segment.in_loss ? 3 : 0, sign: "" };
  if (mode === "retokenised") return { level: retokenised.has(at) ? 4 : 0, sign: "" };
  const value = reading[mode]?.[at] ?? null;
  if (value === null) return { level: 0, sign: "" };
  if (mode === "advantage" || mode === "share") {
    const level = most > 0 ? SHARES.filter((share) => Math.abs(value) >= share * most).length : 0;
    return { level, sign: mode === "share" || level === 0 ? "" : value > 0 ? "+" : "−" };
  }
  const distance = mode === "ratio" ? Math.log(Math.max(value, 1e-9)) : value;
  const level = BOUNDS[mode].filter((bound) => Math.abs(distance) >= bound).length;
  const signs = mode === "difference" || mode === "ratio";
  return { level, sign: !signs || level === 0 ? "" : distance > 0 ? "+" : "−" };
}

/** Modes for which there is something to see. @param {Reading} reading @returns {Set<Mode>} */
export function modesOf(reading) {
  /** @type {Set<Mode>} */
  const modes = new Set(["kind"]);
  if (reading.segments.some((segment) => segment.in_loss)) modes.add("loss");
  for (const value of /** @type {const} */ (["logprob", "difference", "ratio", "entropy", "advantage", "share"]))
    if (reading[value]) modes.add(value);
  if (reading.retokenised.length) modes.add("retokenised");
  return modes;
}

/** @param {Segment[]} segments @returns {Part[]} */
export function partsOf(segments) {
  /** @type {Part[]} */
  const parts = [];
  for (const segment of segments) {
    const last = parts.at(-1);
    const end = segment.start + segment.tokens;
    if (last && last.turn === segment.turn && last.sampled === segment.sampled && !segment.restarts) {
      last.segments.push(segment);
      last.end = end;
    } else {
      const { turn, sampled, restarts, start } = segment;
      parts.push({ turn, sampled, restarts, appended: false, segments: [segment], start, end });
    }
  }
  for (const [at, part] of parts.entries())
    part.appended = !part.sampled && at > 0 && parts[at - 1].sampled && (parts[at + 1]?.restarts ?? true);
  return parts;
}

/** @param {Part} part */
export function partTitle(part) {
  const count = plural(part.end - part.start, "token");
  if (part.appended) return `After the response · ${count} appended`;
  const verb = part.sampled ? "written" : part.restarts ? "read, from an empty context" : "read";
  return `Turn ${part.turn + 1} · ${count} ${verb}`;
}

/** Segment of a token. @param {Segment[]} segments @param {number} at */
export function segmentAt(segments, at) {
  let low = 0;
  let high = segments.length - 1;
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (segments[middle].start <= at) low = middle;
    else high = middle - 1;
  }
  return segments[low];
}

/**
 * Runs of tokens that contain a text, or that have these ids one after another.
 * @param {Reading} reading
 * @param {string} query
 * @param {"text"|"ids"} by
 * @returns {Array<[number, number]>} first token, and the one after the last
 */
export function search(reading, query, by) {
  /** @type {Array<[number, number]>} */
  const found = [];
  if (by === "ids") {
    const ids = (query.match(/\d+/g) ?? []).map(Number);
    if (!ids.length) return found;
    for (let at = 0; at + ids.length <= reading.ids.length; at += 1)
      if (ids.every((id, index) => reading.ids[at + index] === id)) found.push([at, at + ids.length]);
    return found;
  }
  if (!query) return found;
  const joined = reading.texts.join("");
  const lower = joined.toLowerCase();
  const folds = lower.length === joined.length; // some capitals have small letters of another length
  const [whole, wanted] = folds ? [lower, query.toLowerCase()] : [joined, query];
  /** @type {number[]} */
  const ends = [];
  let length = 0;
  for (const text of reading.texts) {
    length += text.length;
    ends.push(length);
  }
  let token = 0;
  for (let at = whole.indexOf(wanted); at >= 0; at = whole.indexOf(wanted, at + wanted.length)) {
    while (ends[token] <= at) token += 1;
    let last = token;
    while (ends[last] < at + wanted.length) last += 1;
    found.push([token, last + 1]);
  }
  return found;
}

/**
 * Full description of a token.
 * @param {Reading} reading
 * @param {number} at
 */
export function describe(reading, at) {
  const segment = segmentAt(reading.segments, at);
  const text = reading.texts[at];
  const name =
    silentName(text, segment.sampled && at === segment.start + segment.tokens - 1) ||
    `“${visibleText(text).trimEnd() || "␣".repeat(text.length)}”`;
  const value = (/** @type {Value} */ name) => reading[name]?.[at] ?? null;
  const parts = [name, `id ${reading.ids[at]}`, segment.sampled ? "sampled" : segment.name.toLowerCase()];
  if (segment.in_loss) parts.push("in the loss");
  else if (reading.segments.some((one) => one.in_loss)) parts.push("not in the loss");
  const logprob = value("logprob");
  const difference = value("difference");
  if (logprob !== null) {
    const chance = Math.exp(logprob);
    parts.push(`probability ${chance < 0.001 ? `${short(chance * 100)}%` : percent(chance)}`);
    parts.push(`log-probability ${short(logprob)} nats`);
  }
  if (logprob !== null && difference !== null)
    parts.push(`in the trainer ${short(logprob + difference)} (${signedShort(difference)})`);
  const ratio = value("ratio");
  if (ratio !== null) parts.push(`ratio ${short(ratio)}${reading.clipped.includes(at) ? ", clipped" : ""}`);
  const entropy = value("entropy");
  if (entropy !== null) parts.push(`entropy ${short(entropy)} nats`);
  const advantage = value("advantage");
  if (advantage !== null) parts.push(`advantage ${signedShort(advantage)}`);
  const share = value("share");
  if (share !== null) parts.push(`${percent(share)} of the attempt's loss`);
  if (reading.retokenised.includes(at)) parts.push("a different token when the text is tokenised again");
  parts.push(`token ${at + 1} of ${reading.ids.length}`);
  return parts.join(" · ");
}

/** @param {number} value */
function signedShort(value) {
  return Math.abs(value) < 0.01 ? short(value) : signed(value);
}

/** Shown text of a token that has none. @param {Reading} reading @param {number} at @param {boolean} last of its response */
export function shownText(reading, at, last) {
  const text = reading.texts[at];
  const silent = silentName(text, last);
  return silent ? { text: last && !text ? END : SILENT, silent } : { text: visibleText(text), silent: "" };
}

/**
 * Python code that builds the ids again with transformers: what was read from its text, what was sampled from its ids.
 * @param {Reading} reading
 * @param {string} model
 */
export function pythonCode(reading, model) {
  const lines = [
    "from transformers import AutoTokenizer",
    "",
    `MODEL = ${JSON.stringify(model)}${model ? "" : "  # set this to the model's folder or id"}`,
    "tokenizer = AutoTokenizer.from_pretrained(MODEL)",
    "ids = []",
  ];
  /** @type {number[]} */
  let expected = [];
  const check = () => {
    if (expected.length) lines.push(`assert ids == ${JSON.stringify(expected)}`);
  };
  for (const part of partsOf(reading.segments)) {
    const own = reading.ids.slice(part.start, part.end);
    if (part.restarts && part.start) {
      check();
      lines.push("", "ids = []");
      expected = [];
    }
    expected.push(...own);
    const text = reading.texts.slice(part.start, part.end).join("");
    const what = part.sampled
      ? JSON.stringify(own)
      : `tokenizer.encode(${JSON.stringify(text)}, add_special_tokens=False)`;
    lines.push(`ids += ${what}  # ${partTitle(part)}`);
  }
  check();
  return `${lines.join("\n")}\n`;
}
