// @ts-check
/** Shortcuts of every page: help, the command palette, and `g` with a second key to go to another page. */

import { describe, onKey, openHelp, takesText } from "./shortcuts.js";

/** @typedef {{key: string, title: string, href: string}} Place */

const SECOND_KEY_MS = 1200;

/** Pages that the reader may open, as the server listed them. @returns {Place[]} */
export function places() {
  return JSON.parse(document.getElementById("site-places")?.textContent ?? "[]");
}

const keyed = places().filter((place) => place.key);
let prefixAt = -SECOND_KEY_MS;

/** @param {KeyboardEvent} event */
function isPlain(event) {
  const modified = event.ctrlKey || event.metaKey || event.altKey;
  return !event.defaultPrevented && !modified && !takesText(event.target) && !document.querySelector("dialog[open]");
}

// Before the page's own shortcuts, so that the second key of “g r” is never taken for one of them.
document.addEventListener(
  "keydown",
  (event) => {
    if (!isPlain(event) || event.key === "Shift") return;
    const second = event.timeStamp - prefixAt < SECOND_KEY_MS; // of the events: a busy page handles them late
    prefixAt = -SECOND_KEY_MS;
    if (second) {
      event.preventDefault();
      const place = keyed.find(({ key }) => key === event.key);
      if (place) location.assign(place.href);
    } else if (event.key === "g" && keyed.length && !document.querySelector('[data-keys~="g"]')) {
      event.preventDefault();
      prefixAt = event.timeStamp;
    }
  },
  { capture: true },
);

onKey((key) => {
  if (key === "?") openHelp();
  return key === "?";
});

if (keyed.length) {
  describe(
    "Go to",
    keyed.map(({ key, title }) => [`g ${key}`, title]),
  );
  describe("Everywhere", [
    ["Ctrl K", "search, pages and actions (⌘ K on a Mac)"],
    ["?", "this help"],
  ]);
} else {
  describe("Everywhere", [["?", "this help"]]);
}
