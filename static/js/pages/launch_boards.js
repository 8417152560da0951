// @ts-check
/** Pictures of the environments on the launch page: their sample boards, fetched after the page. */

import { BoardView } from "../board/board.js";
import { html } from "../ui/dom.js";
import { fetchJson } from "../ui/fetch_json.js";

const samples = (await fetchJson("/runs/new/boards.json")) ?? {};
for (const host of document.querySelectorAll("[data-board]")) {
  const sample = samples[host.getAttribute("data-board") ?? ""];
  if (!(host instanceof HTMLElement) || !sample) continue;
  if (sample.board) new BoardView(host).show(sample.board);
  else host.replaceWith(html("span", { class: "env-text" }, [sample.text]));
}
