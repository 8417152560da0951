// @ts-check
/** The page of one trajectory, by permalink or shared: the player at the position the address names, and its keys. */

import { copy, onKey, openHelp } from "../ui/shortcuts.js";
import { Player } from "./player.js";
import { fromAddress, toAddress } from "./positions.js";
import { need } from "../ui/dom.js";

const data = JSON.parse(document.getElementById("trajectory")?.textContent ?? "null");
let moved = false;
const player = new Player(need(document, "[data-player]"), {
  onMove: (step) => {
    if (moved) history.replaceState(null, "", location.pathname + toAddress(step));
  },
});
const asked = new URLSearchParams(location.search);
const start = asked.has("turn") ? asked : new URLSearchParams(document.querySelector("[data-start]")?.getAttribute("data-start") ?? "");
player.load(data, { at: (steps) => fromAddress(steps, start) });
moved = true;

function permalink() {
  return location.origin + location.pathname + toAddress(player.steps[player.index]);
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
