// @ts-check
/** Header of a run's page: state, phase, pace, progress bar, and the state of the connection. */

import { need, setText } from "../ui/dom.js";
import { STATES, paceText, phaseText, progress, restText } from "../ui/formatting.js";

/** @typedef {import("../types.js").Snapshot} Snapshot */
/** @typedef {"live"|"connecting"|"offline"|"refused"} Connection */

const CONNECTION_WORDS = {
  live: "Updates arrive every few seconds only: the message service is unavailable.",
  refused: "Live updates were rejected: log in again.",
  connecting: "Reconnecting … nothing is lost.",
  offline: "Offline. Nothing is lost: the page catches up when the network is back.",
};

/**
 * @param {HTMLElement} root
 * @param {Snapshot} state
 * @param {Partial<Snapshot>} drawn state that the page shows
 */
export function showHeader(root, state, drawn) {
  if (state.state !== drawn.state) {
    const word = need(root, "[data-state]");
    word.dataset.state = state.state;
    setText(word, STATES[state.state] ?? state.state);
    for (const button of root.querySelectorAll("[data-when]")) {
      /** @type {HTMLElement} */ (button).hidden = !(button.getAttribute("data-when") ?? "")
        .split(" ")
        .includes(state.state);
    }
    if (drawn.state) for (const done of document.querySelectorAll("main > p.note.success")) done.remove(); // of a request
  }
  const running = state.state === "running" || state.state === "starting" || state.state.endsWith("ing");
  const words = running ? phaseText(state.phase, state.run) : restText(state.state, state.run);
  if (words) for (const name of ["phase", "progress"]) setText(need(root, `[data-${name}]`), words);
  setText(need(root, "[data-pace]"), paceText(state.phase, state.run.device, state.state));
  const bar = /** @type {HTMLProgressElement} */ (root.querySelector("[data-progress]"));
  bar.value = progress(state.phase, state.run, state.state);
  showTitle(root, state);
  const changed = state.alarm !== drawn.alarm || state.faults !== drawn.faults;
  if (changed) showCondition(root, conditionOf(state));
  if (changed || state.state !== drawn.state) showIcon(state);
}

/** Labels of conditions, as webapp/runs/condition.py words them. */
const CONDITIONS = /** @type {Record<string, string>} */ ({ watch: "At risk", trapped: "Trapped", sick: "Sick" });

/** @typedef {{state: string, since: number}} Condition */

/**
 * The worst trouble of a run: trapped, then sick, then at risk.
 * @param {Pick<Snapshot, "alarm"|"faults">} state
 * @returns {Condition|null}
 */
export function conditionOf({ alarm, faults }) {
  if (faults.length && alarm?.state !== "trapped")
    return { state: "sick", since: Math.min(...faults.map((fault) => fault.since)) };
  return alarm && CONDITIONS[alarm.state] ? { state: alarm.state, since: alarm.iteration } : null;
}

/** @param {HTMLElement} root @param {Condition|null} condition */
function showCondition(root, condition) {
  const chip = /** @type {HTMLAnchorElement} */ (need(root, "[data-condition]"));
  chip.hidden = !condition;
  if (!condition) return;
  chip.dataset.condition = condition.state;
  chip.hash = condition.state === "sick" ? "faults-title" : "trap-title";
  setText(chip, `${CONDITIONS[condition.state]} since iteration ${condition.since}`);
}

/** Title of the browser's tab: "⚠ Trapped · 12/200 · Curves · NAME". @param {HTMLElement} root @param {Snapshot} state */
function showTitle(root, { state, phase, run, alarm, faults }) {
  const { tab = "", title = "" } = root.dataset;
  const condition = conditionOf({ alarm, faults });
  const parts = condition ? [`⚠ ${CONDITIONS[condition.state]}`] : [];
  if (hasEnded({ state }) || state === "paused" || state === "queued") parts.push(STATES[state]);
  else if (state === "running" && run.iterations) parts.push(`${phase?.iteration ?? 0}/${run.iterations}`);
  const words = [...parts, tab, title].join(" · ");
  if (document.title !== words) document.title = words;
}

/** Icon of the browser's tab: a variant for trouble and for each state at rest. @param {Snapshot} state */
function showIcon({ state, alarm, faults }) {
  const icons = JSON.parse(need(document, "#icons").textContent ?? "");
  const condition = conditionOf({ alarm, faults })?.state ?? "";
  const trouble = condition === "sick" ? "watch" : condition;
  const icon = icons[trouble || (state === "stopped" ? "finished" : state)] ?? icons[""];
  const link = /** @type {HTMLLinkElement} */ (need(document, 'link[rel="icon"]'));
  if (link.getAttribute("href") !== icon) link.setAttribute("href", icon);
}

/**
 * @param {HTMLElement} root
 * @param {Snapshot} state
 * @param {{connection: Connection, slow: boolean}} link slow: the server polls, because its message service is
 *   unavailable
 */
export function showConnection(root, state, { connection, slow }) {
  root.dataset.link = connection;
  const note = need(root, "[data-connection]");
  note.hidden = (connection === "live" && !slow) || hasEnded(state);
  setText(note, CONNECTION_WORDS[connection]);
}

/** @param {Pick<Snapshot, "state">} state */
export function hasEnded(state) {
  return ["finished", "failed", "cancelled", "stopped"].includes(state?.state);
}
