// @ts-check
/** Echo meter of the live page: loaded after the page, and again when an iteration has been trained. */

import { need } from "../ui/dom.js";

const PAUSE = 4000; // iterations of small policies take less than a second, and many may watch them

const panel = need(document, "[data-echo]");
let waiting = false;

async function load() {
  waiting = false;
  const answer = await fetch(panel.dataset.echo ?? "").catch(() => null);
  if (answer?.status === 204) panel.hidden = true; // nothing to count
  if (answer?.status !== 200) return; // offline: what is shown stays
  const parsed = new DOMParser().parseFromString(await answer.text(), "text/html");
  panel.replaceChildren(...parsed.body.childNodes);
  panel.hidden = false;
}

document.addEventListener("runevents", (event) => {
  const events = /** @type {CustomEvent<import("../types.js").Event[]>} */ (event).detail;
  if (waiting || !events.some(({ type }) => type === "metrics")) return;
  waiting = true;
  window.setTimeout(() => void load(), PAUSE * (1 + Math.random()));
});
document.addEventListener("runreloaded", () => void load());
void load();
