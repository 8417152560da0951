// @ts-check
/** Page of an initial state: its board, and the filmstrip of the iterations. */

import { BoardView } from "../board/board.js";
import { Filmstrip } from "./filmstrip.js";
import { describe, onKey } from "../ui/shortcuts.js";

const start = document.querySelector("[data-start]");
if (start instanceof HTMLElement)
  new BoardView(start).show(JSON.parse(document.getElementById("start")?.textContent ?? "null"));

const strip = document.querySelector("[data-film]");
if (strip instanceof HTMLElement && strip.querySelector("[data-scrub]")) {
  const motion = window.matchMedia("(prefers-reduced-motion: reduce)");
  const film = new Filmstrip(strip, JSON.parse(document.getElementById("film")?.textContent ?? "[]"), {
    still: () => motion.matches,
  });
  describe("Filmstrip", [
    ["← →", "one action back, forward"],
    ["Home End", "start, end"],
    ["space", "play, pause"],
  ]);
  onKey((key) => film.key(key));
}
document.documentElement.classList.add("ready");
