// @ts-check
/** Echo meter of the live page: loaded after the page, and again when an iteration has been trained. */

const PAUSE = 4000; // iterations of small policies take less than a second, and many may watch them

const panel = document.querySelector("[data-echo]");
let waiting = false;

/** @param {HTMLElement} panel */
async function load(panel) {
  waiting = false;
  const answer = await fetch(panel.dataset.echo ?? "").catch(() => null);
  if (answer?.status === 204) panel.hidden = true; // nothing to count
  if (answer?.status !== 200) return; // offline: what is shown stays
  const parsed = new DOMParser().parseFromString(await answer.text(), "text/html");
  panel.replaceChildren(...parsed.body.childNodes);
  panel.hidden = false;
}

if (panel instanceof HTMLElement) {
  document.addEventListener("runevents", (event) => {
    const events = /** @type {CustomEvent<import("../types.js").Event[]>} */ (event).detail;
    if (waiting || !events.some(({ type }) => type === "metrics")) return;
    waiting = true;
    window.setTimeout(() => void load(panel), PAUSE * (1 + Math.random()));
  });
  document.addEventListener("runreloaded", () => void load(panel));
  void load(panel);
}
