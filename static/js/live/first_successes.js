// @ts-check
/** The note of the live page when an evaluation solves puzzles for the first time. An earlier one remains until then. */

const note = document.querySelector("[data-first-successes]");

/** @param {HTMLElement} note */
async function load(note) {
  const answer = await fetch(note.dataset.firstSuccesses ?? "", { headers: { "X-Fragment": "1" } }).catch(() => null);
  if (answer?.status !== 200) return; // offline, or nothing was solved for the first time
  const parsed = new DOMParser().parseFromString(await answer.text(), "text/html");
  note.replaceChildren(...parsed.body.childNodes);
}

if (note instanceof HTMLElement) {
  document.addEventListener("runevents", (event) => {
    const events = /** @type {CustomEvent<import("../types.js").Event[]>} */ (event).detail;
    if (events.some(({ type }) => type === "evaluation")) void load(note);
  });
  document.addEventListener("runreloaded", () => void load(note));
}
