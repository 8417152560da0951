// @ts-check
/**
 * Echo Trap panel next to the stage: state, signals as sparklines with their limits, rewinds and past alarms. Renders
 * the same text as webapp/runs/echo_trap.py.
 */

import { html, need, setText, svg } from "../ui/dom.js";

/** @typedef {import("../types.js").Snapshot} Snapshot */

const WIDTH = 120;
const HEIGHT = 26;
const NOTHING = "Nothing to judge";
/** @type {Record<string, string>} */
const WORDS = {
  unknown: "No data yet",
  no_signal: NOTHING,
  not_recorded: NOTHING,
  too_short: NOTHING,
  healthy: "Healthy",
  watch: "At risk",
  trapped: "Trapped",
};
const ENDED = ["stopped", "finished", "failed", "cancelled"];
const OUTCOME_METRICS = ["reward/mean", "success/rate"];
const EARLY_METRICS = ["reward/in_group_std", "entropy/mean", "policy/grad_norm"];
const PARTIAL_SIGNALS = ["reward", "success", "template", "format", "echo", "information", "claims"];
const UNKNOWN = "The first iterations will show whether thoughts and rewards stay different.";
const FEW = "There are too few iterations to compare yet.";
const NO_SIGNAL = "The rewards within groups have not differed for a window of iterations: no group teaches anything.";
const TOO_SHORT = "The run ended before there were enough iterations to compare.";

/** @type {Array<keyof Snapshot>} */
const SHOWN = ["evidence", "curves", "alarms", "rewinds", "state"];

/** @typedef {Pick<Snapshot, "alarm"|"evidence"|"curves"|"state"> & {run: Pick<Snapshot["run"], "recorded">}} Judged */

/**
 * @param {Snapshot} state
 * @param {Partial<Snapshot>} drawn state that the panel shows
 */
export function showEchoTrap(state, drawn) {
  const panel = need(document, "[data-trap]");
  if (state.evidence !== drawn.evidence || state.state !== drawn.state)
    for (const row of panel.querySelectorAll("[data-sign]")) showSign(/** @type {HTMLElement} */ (row), state);
  if (drawn.seq === undefined || SHOWN.every((part) => state[part] === drawn[part])) return;
  const level = levelOf(state);
  setText(need(panel, "[data-trap-words]"), messageOf(state, level, signsOf(panel)));
  if (level === panel.dataset.trap && state.alarms === drawn.alarms && state.rewinds === drawn.rewinds) return;
  if (level !== panel.dataset.trap)
    /** @type {HTMLDetailsElement} */ (need(panel, "[data-trap-more]")).open = opensAt(level);
  panel.dataset.trap = level;
  const trouble = level === "watch" || level === "trapped";
  const place = need(document, `[data-trap-place="${trouble ? "trouble" : "healthy"}"]`);
  if (panel.parentElement !== place) place.append(panel);
  const remedy = /** @type {HTMLElement|null} */ (panel.querySelector("[data-trap-remedy]"));
  if (remedy) remedy.hidden = !trouble;
  setText(need(panel, "[data-trap-word]"), WORDS[level]);
  setText(need(panel, "[data-trap-since]"), state.alarm ? `since iteration ${state.alarm.iteration}` : "");
  for (const text of /** @type {NodeListOf<HTMLElement>} */ (panel.querySelectorAll("[data-meaning]"))) {
    text.hidden = text.dataset.meaning !== level;
  }
  need(panel, "[data-rewinds]").replaceChildren(...state.rewinds.map((rewind) => html("li", {}, [rewindText(rewind)])));
  need(panel, "[data-past]").replaceChildren(
    ...state.alarms.map((alarm) => past(alarm, panel.dataset.trajectories ?? "")).reverse(),
  );
  need(panel, "[data-no-past]").hidden = state.alarms.length > 0;
}

/** Whether the details are open in this state: they say what to do. @param {string} level */
function opensAt(level) {
  return level === "watch" || level === "trapped" || level === "not_recorded";
}

/** Titles of the signals by key, as the page lists them. @param {Element} panel */
function signsOf(panel) {
  const rows = /** @type {HTMLElement[]} */ ([...panel.querySelectorAll(".signs [data-sign]")]);
  return Object.fromEntries(
    rows.map((row) => {
      const title = row.querySelector(".sign-name")?.textContent ?? "";
      return [row.dataset.sign ?? "", { title, bad: row.dataset.bad ?? "" }];
    }),
  );
}

/**
 * State to show: that of the last alarm, or whether there is anything to judge, decided as in webapp/runs/echo_trap.py.
 * @param {Judged} snapshot
 */
export function levelOf({ alarm, evidence, curves, run, state }) {
  if (alarm?.state === "watch" || alarm?.state === "trapped") return alarm.state;
  const learning = evidence.learning?.at(-1);
  if (learning && crossed("below", learning[1], learning[2])) return "no_signal";
  const shown = (/** @type {[string, unknown[]]} */ [key, points]) =>
    points.length > 0 && !PARTIAL_SIGNALS.includes(key);
  if (alarm?.state === "healthy" || Object.entries(evidence).some(shown)) return "healthy";
  if (run.recorded && !recorded(curves, EARLY_METRICS).length) return "not_recorded";
  return ENDED.includes(state) ? "too_short" : "unknown";
}

/** Those of the metrics that have values. @param {Snapshot["curves"]} curves @param {string[]} names */
function recorded(curves, names) {
  return names.filter((name) => curves[name]?.length);
}

/**
 * The evidence for the state in a sentence, as webapp/runs/echo_trap.py writes it.
 * @param {Judged} snapshot
 * @param {string} level
 * @param {Record<string, {title: string, bad: string}>} signs titles of the signals, in order, and their bad sides
 */
export function messageOf({ alarm, evidence, curves, run }, level, signs) {
  if (level === "no_signal") return NO_SIGNAL;
  if (level === "too_short") return TOO_SHORT;
  if (level === "not_recorded") {
    const outcomes = recorded(curves, OUTCOME_METRICS);
    if (!outcomes.length) return `The run recorded none of ${listed([...OUTCOME_METRICS, ...EARLY_METRICS])}.`;
    return `The run recorded ${listed(outcomes)}, but none of ${listed(EARLY_METRICS)}, in which a collapse shows early.`;
  }
  if (alarm) return alarm.message;
  if (level === "unknown") return run.recorded ? FEW : UNKNOWN;
  const judged = Object.keys(signs).filter((key) => key !== "learning" && evidence[key]?.length);
  const isCrossed = (/** @type {string} */ key) => {
    const [, value, limit] = evidence[key][evidence[key].length - 1];
    return crossed(signs[key].bad, value, limit);
  };
  const named = (/** @type {string[]} */ keys) => keys.map((key) => signs[key].title.toLowerCase());
  const beyond = named(judged.filter(isCrossed));
  const calm = named(judged.filter((key) => !isCrossed(key)));
  const sentence = `No sign of a collapse in ${listed(calm.length ? calm : ["the learning signal"])}.`;
  return beyond.length ? `${sentence} Beyond its limit now, which is no alarm yet: ${listed(beyond)}.` : sentence;
}

/** A list in words, e.g. "a, b and c". @param {string[]} items */
function listed(items) {
  return items.length > 1 ? `${items.slice(0, -1).join(", ")} and ${items[items.length - 1]}` : items[0];
}

/**
 * Intervals of watch and trapped for charts, computed as in webapp/runs/echo_trap.py.
 * @param {Snapshot["alarms"]} alarms
 * @returns {import("../curves/overlays.js").Band[]}
 */
export function alarmBands(alarms) {
  const standing = alarms.filter((alarm) => !alarm.undone);
  return standing.flatMap(({ state, iteration }, index) => {
    const next = standing[index + 1];
    return state === "healthy"
      ? []
      : [{ state, from: iteration, to: Math.max(iteration, (next?.iteration ?? iteration) - 1), open: !next }];
  });
}

/** @param {import("../types.js").Rewind} rewind */
function rewindText({ number, from_iteration, to_iteration, changes }) {
  const changed = Object.entries(changes)
    .map(([name, value]) => `${name} = ${value}`)
    .join(", ");
  return `Rewound from iteration ${from_iteration} to ${to_iteration} (rewind ${number})${changed ? `; changed ${changed}` : ""}.`;
}

/** @param {import("../types.js").PastAlarm} alarm @param {string} trajectories */
function past({ state, iteration, message, undone }, trajectories) {
  const head = html("b", {}, [`Iteration ${iteration}: ${state}`]);
  const parts = undone
    ? [head, " ", html("span", { class: "tag" }, ["undone by a rewind"])]
    : [html("a", { href: `${trajectories}?iteration=${iteration}` }, [head])];
  return html("li", { class: undone ? "undone" : null }, [...parts, ` ${message}`]);
}

/** @param {HTMLElement} row @param {Snapshot} state */
function showSign(row, state) {
  const points = state.evidence[row.dataset.sign ?? ""] ?? [];
  const { bad = "", unit = "" } = row.dataset;
  const newest = points[points.length - 1];
  row.classList.toggle("crossed", Boolean(newest) && crossed(bad, newest[1], newest[2]));
  const words = row.querySelector("[data-sign-words]"); // the line of a healthy run has curves only
  if (words)
    setText(
      words,
      newest
        ? `${asText(unit, newest[1])}, limit ${bad === "beyond" ? "±" : ""}${asText(unit, newest[2])}`
        : state.run.recorded || ENDED.includes(state.state)
          ? "no data"
          : "no data yet",
    );
  row.querySelector("[data-sign-curve]")?.replaceChildren(...curve(points, bad));
}

/** @param {string} bad @param {number} value @param {number} limit */
export function crossed(bad, value, limit) {
  if (bad === "below") return value < limit;
  if (bad === "from") return value >= limit;
  if (bad === "above") return value > limit;
  return Math.abs(value) > limit;
}

/** @param {string} unit @param {number} value */
export function asText(unit, value) {
  const text =
    unit === "share"
      ? `${Math.round(100 * value)}%`
      : unit === "times"
        ? `${Math.round(value)}`
        : (Math.round(10 * value) / 10).toFixed(1);
  return text.replace("-", "−");
}

/**
 * Sparkline of a signal with its dashed limit.
 * @param {Array<[number, number, number]>} points
 * @param {string} bad
 */
function curve(points, bad) {
  if (points.length < 2) return [];
  const mirrored = bad === "beyond" ? points.map(([, , limit]) => -limit) : [];
  const all = [...points.flatMap(([, value, limit]) => [value, limit]), ...mirrored];
  const low = Math.min(...all);
  const high = Math.max(...all);
  const first = points[0][0];
  const span = points[points.length - 1][0] - first || 1;
  const x = (/** @type {number} */ at) => (((at - first) / span) * WIDTH).toFixed(1);
  const y = (/** @type {number} */ value) =>
    (HEIGHT - 3 - ((value - low) / (high - low || 1)) * (HEIGHT - 6)).toFixed(1);
  const path = (/** @type {(point: [number, number, number]) => number} */ read) =>
    points.map((point, index) => `${index ? "L" : "M"}${x(point[0])} ${y(read(point))}`).join("");
  const limits = [path(([, , limit]) => limit), ...(mirrored.length ? [path(([, , limit]) => -limit)] : [])];
  return [
    ...limits.map((d) => svg("path", { class: "limit", d })),
    svg("path", { class: "value", d: path(([, value]) => value) }),
  ];
}
