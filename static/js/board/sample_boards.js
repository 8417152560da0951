// @ts-check
/** Sample boards on the environments page. */

import { BoardView } from "./board.js";

const boards = JSON.parse(document.getElementById("boards")?.textContent ?? "{}");
for (const host of document.querySelectorAll("[data-sample]")) {
  new BoardView(/** @type {HTMLElement} */ (host)).show(boards[host.getAttribute("data-sample") ?? ""] ?? null);
}
