// @ts-check
/** Page of one trajectory: player at the position of the address, with its keyboard shortcuts. */

import { copy } from "../ui/clipboard.js";
import { onKey } from "../ui/shortcuts.js";
import { Player } from "./player.js";
import { linkedIndex, openingIndex } from "./mistakes.js";
import { fromAddress, toAddress } from "./positions.js";
import { need } from "../ui/dom.js";

const data = JSON.parse(document.getElementById("trajectory")?.textContent ?? "null");
const found = new URLSearchParams(location.search).get("found");
let moved = false;
const player = new Player(need(document, "[data-player]"), {
  onMove: (position) => {
    if (moved) history.replaceState(null, "", location.pathname + withFound(toAddress(position)));
    document.dispatchEvent(new CustomEvent("playermoved", { detail: position }));
  },
});
const asked = new URLSearchParams(location.search);
const start = asked.has("turn")
  ? asked
  : new URLSearchParams(document.querySelector("[data-start]")?.getAttribute("data-start") ?? "");
player.load(data, {
  at: (positions) => (start.has("turn") ? fromAddress(positions, start) : openingIndex(data, positions)),
});
moved = true;

/** The address with what the explorer found, which a permalink leaves out. @param {string} query */
function withFound(query) {
  return found === null ? query : `${query}${query ? "&" : "?"}${new URLSearchParams({ found })}`;
}

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
  const linked =
    target.closest("[data-player]") || event.ctrlKey || event.metaKey || event.shiftKey
      ? -1
      : linkedIndex(target, player.positions);
  if (linked >= 0) {
    event.preventDefault();
    player.take(linked);
  }
  const share = target.closest("[data-copy-share]")?.parentElement?.querySelector("input");
  if (share instanceof HTMLInputElement) void copy(share.value, "Share link copied");
});

onKey((key) => {
  switch (key) {
    case "[":
      return follow("[data-previous]");
    case "]":
      return follow("[data-next]");
    case "G":
      return follow("[data-group]");
    case "c":
      void copy(permalink(), "Link to this position copied");
      return true;
    default:
      return player.key(key);
  }
});
document.documentElement.classList.add("ready");
