// @ts-check
/** Page of one trajectory: player at the position of the address, with its keyboard shortcuts. */

import { copy } from "../ui/clipboard.js";
import { onKey, openHelp } from "../ui/shortcuts.js";
import { Player } from "./player.js";
import { fromAddress, toAddress } from "./positions.js";
import { need } from "../ui/dom.js";

const data = JSON.parse(document.getElementById("trajectory")?.textContent ?? "null");
let moved = false;
const player = new Player(need(document, "[data-player]"), {
  onMove: (position) => {
    if (moved) history.replaceState(null, "", location.pathname + toAddress(position));
  },
});
const asked = new URLSearchParams(location.search);
const start = asked.has("turn") ? asked : new URLSearchParams(document.querySelector("[data-start]")?.getAttribute("data-start") ?? "");
player.load(data, { at: (positions) => fromAddress(positions, start) });
moved = true;

function permalink() {
  return location.origin + location.pathname + toAddress(player.positions[player.index]);
}

/** @param {string} selector */
function follow(selector) {
  const link = document.querySelector(selector);
  if (!(link instanceof HTMLAnchorElement)) return false;
  location.href = link.href;
  return true;
}

document.addEventListener("click", (event) => {
  const target = /** @type {Element} */ (event.target);
  if (target.closest("[data-copy]")) void copy(permalink(), "Link to this position copied");
  const share = target.closest("[data-copy-share]")?.parentElement?.querySelector("input");
  if (share instanceof HTMLInputElement) void copy(share.value, "Share link copied");
});

onKey((key) => {
  switch (key) {
    case "[": return follow("[data-previous]");
    case "]": return follow("[data-next]");
    case "g": return follow("[data-group]");
    case "c":
      void copy(permalink(), "Link to this position copied");
      return true;
    case "?":
      openHelp();
      return true;
    default: return player.key(key);
  }
});
document.documentElement.classList.add("ready");
