// @ts-check
/** The player inside somebody else's page: where it starts, whether it plays at once, its keys while it has the focus. */

import { onKey } from "../ui/shortcuts.js";
import { Player } from "./player.js";
import { fromAddress, toAddress } from "./positions.js";
import { need } from "../ui/dom.js";

const wanted = document.body.dataset.themeWanted;
if (wanted) document.documentElement.dataset.theme = wanted;

const data = JSON.parse(document.getElementById("trajectory")?.textContent ?? "null");
const back = document.querySelector("[data-back]");
const player = new Player(need(document, "[data-player]"), {
  onMove: (step) => {
    if (back instanceof HTMLAnchorElement) back.search = toAddress(step);
  },
});
player.load(data, { at: (steps) => fromAddress(steps, new URLSearchParams(document.body.dataset.start)) });
onKey((key) => player.key(key));

const calm = window.matchMedia("(prefers-reduced-motion: reduce)").matches;
if (document.body.dataset.autoplay !== undefined && !calm) player.play();
document.documentElement.classList.add("ready");
