// @ts-check
/** The notice of a requested rewind, until the trainer has answered. */

const notice = document.querySelector("[data-waiting-rewind]");

/** @param {import("../types.js").SettingsChange[]} answers */
function take(answers) {
  const request = notice instanceof HTMLElement && notice.dataset.waitingRewind;
  if (answers.some((answer) => answer.request === request)) notice?.remove();
}

document.addEventListener("runevents", (message) => {
  const events = /** @type {CustomEvent<import("../types.js").Event[]>} */ (message).detail;
  take(/** @type {any[]} */ (events.filter((event) => event.type === "settings_changed")));
});
document.addEventListener("runreloaded", (message) => {
  take(/** @type {CustomEvent<import("../types.js").Snapshot>} */ (message).detail.changes);
});
