// @ts-check
/** Overlaid curves of several runs: visible runs and links of points. */

import { catalogOf } from "../curves/catalog.js";
import { trajectoryFilter, ChartPage } from "../curves/chart_page.js";
import { bindTools } from "../curves/controls/toolbar.js";
import { need, setText } from "../ui/dom.js";

const REFRESH = 15_000;
const root = document.querySelector("[data-curves]");

/** @param {HTMLElement} root */
function start(root) {
  /** @type {import("../curves/chart_lines.js").Source[]} */
  const sources = JSON.parse(document.getElementById("sources")?.textContent ?? "[]");
  const status = need(document, "[data-curve-words]");
  const catalog = catalogOf(JSON.parse(need(document, "#metric-catalog").textContent ?? "[]"));
  const board = new ChartPage(root, sources, catalog, {
    announce: (words) => setText(status, words),
    address: (name, iteration) => {
      const shown = sources.filter((source) => source.shown);
      return shown.length === 1 ? `/runs/${shown[0].slug}/trajectories?${trajectoryFilter(name, iteration)}` : null; // ambiguous with several runs
    },
  });
  bindTools(board, { subtitle: sources.map((source) => source.label).join(", ") });
  for (const box of document.querySelectorAll("input[data-source]")) {
    box.addEventListener("change", () => {
      for (const source of sources) {
        if (source.slug === box.getAttribute("data-source"))
          source.shown = /** @type {HTMLInputElement} */ (box).checked;
      }
      board.redraw();
      root.dispatchEvent(new CustomEvent("sourceschanged"));
    });
  }
  if (root.dataset.active !== undefined) window.setInterval(() => document.hidden || board.refresh(), REFRESH);
}

if (root instanceof HTMLElement) start(root);
