// @ts-check
/** Embedded player: start position, autoplay, and keyboard shortcuts while it has the focus. */

import { onKey } from "../ui/shortcuts.js";
import { Player } from "./player.js";
import { openingIndex } from "./mistakes.js";
import { fromAddress, toAddress } from "./positions.js";
import { need } from "../ui/dom.js";

const requested = document.body.dataset.themeWanted;
if (requested) document.documentElement.dataset.theme = requested;

const data = JSON.parse(document.getElementById("trajectory")?.textContent ?? "null");
const back = document.querySelector("[data-back]");
const player = new Player(need(document, "[data-player]"), {
  onMove: (position) => {
    if (back instanceof HTMLAnchorElement) back.search = toAddress(position);
  },
});
const calm = window.matchMedia("(prefers-reduced-motion: reduce)").matches;
const plays = document.body.dataset.autoplay !== undefined && !calm;
const start = new URLSearchParams(document.body.dataset.start);
player.load(data, {
  at: (positions) => (start.has("turn") || plays ? fromAddress(positions, start) : openingIndex(data, positions)),
});
onKey((key) => player.key(key));
if (plays) player.play();
document.documentElement.classList.add("ready");
