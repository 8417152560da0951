// @ts-check
/** Header of a run's page: state, phase, pace, progress bar, and the state of the connection. */

import { need, setText } from "../ui/dom.js";
import { STATES, paceWords, phaseWords, progress } from "../ui/formatting.js";

/** @typedef {import("../types.js").Snapshot} Snapshot */
/** @typedef {"live"|"connecting"|"refused"} Connection */

const CONNECTION_WORDS = {
  live: "Updates arrive every few seconds only: the message service is unavailable.",
  refused: "Live updates were rejected: log in again.",
  connecting: "Reconnecting … nothing is lost.",
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
      /** @type {HTMLElement} */ (button).hidden = !(button.getAttribute("data-when") ?? "").split(" ").includes(state.state);
    }
  }
  const running = state.state === "running" || state.state === "starting" || state.state.endsWith("ing");
  if (running) setText(need(root, "[data-phase]"), phaseWords(state.phase, state.run.iterations));
  setText(need(root, "[data-pace]"), paceWords(state.phase, state.run.device, state.state));
  const bar = /** @type {HTMLProgressElement} */ (root.querySelector("[data-progress]"));
  bar.value = progress(state.phase, state.run.iterations, state.state);
}

/**
 * @param {HTMLElement} root
 * @param {Snapshot} state
 * @param {{connection: Connection, slow: boolean}} link slow: the server polls, because its message service is unavailable
 */
export function showConnection(root, state, { connection, slow }) {
  const note = need(root, "[data-connection]");
  const ended = ["finished", "failed", "cancelled", "stopped"].includes(state?.state);
  note.hidden = (connection === "live" && !slow) || ended;
  setText(note, CONNECTION_WORDS[connection]);
}
