// @ts-check
/** Pinned charts at the top of the page. The chart in its section stays where it is. */

import { showLegend } from "./chart_legend.js";
import { chartCard, showPinned } from "../chart_card.js";
import { isPinned, keyOf, store, toggled } from "../saved_charts.js";
import { need } from "../../ui/dom.js";

/** @typedef {import("../chart_lines.js").Plan} Plan */
/** @typedef {import("../chart_page.js").Card} Card */
/** @typedef {import("../chart_page.js").ChartPage} ChartPage */

/**
 * @param {ChartPage} board
 * @param {HTMLElement} section its [data-pins] takes the charts; the toolbar shows it while something is pinned
 */
export function bindPins(board, section) {
  const list = need(section, "[data-pins]");
  /** @type {Map<string, Card>} */
  const pinned = new Map();

  board.root.addEventListener("click", (event) => {
    const button = event.target instanceof Element && event.target.closest("[data-pin]");
    const root = button ? button.closest(".chart") : null;
    const card = root && board.cardOf.get(root);
    if (card) toggle(card.plan);
  });
  document.addEventListener("pinschanged", arrange);
  arrange();

  /** @param {Plan} plan */
  function toggle({ names, own }) {
    board.saved = toggled(board.saved, { names, own });
    store(board.saved);
    arrange();
    board.announce(isPinned(board.saved, names) ? "Pinned: the chart is at the top of the page" : "No longer pinned");
  }

  function arrange() {
    for (const [key, card] of pinned) {
      if (board.saved.pins.some((pin) => keyOf(pin.names) === key && pin.own === card.plan.own)) continue;
      const neighbour = card.root.nextElementSibling ?? card.root.previousElementSibling;
      const focused = card.root.contains(document.activeElement);
      board.remove(card);
      card.root.remove();
      pinned.delete(key);
      if (focused) /** @type {HTMLElement|null|undefined} */ (neighbour?.querySelector("[data-pin]"))?.focus();
    }
    for (const { names, own } of board.saved.pins) {
      const known = names.every((name) => name in board.catalog);
      if (known && !pinned.has(keyOf(names))) pinned.set(keyOf(names), pin({ names, own }));
    }
    for (const card of board.cards) showPinned(card.root, isPinned(board.saved, card.plan.names));
    document.dispatchEvent(new CustomEvent("chartspinned"));
  }

  /** @param {Plan} plan */
  function pin(plan) {
    const root = chartCard(plan, board.catalog);
    list.append(root);
    const card = board.add(root);
    if (plan.names.length > 1) {
      const legend = document.createElement("ul");
      legend.className = "chart-legend small";
      need(root, "[data-facts]").replaceWith(legend);
      root.addEventListener("drawn", () =>
        showLegend(
          legend,
          card.chart.lines.filter((line) => !line.quiet),
        ),
      );
    }
    return card;
  }
}
