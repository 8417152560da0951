// @ts-check
/**
 * Pinned charts: a pin button on each chart, and the section of pinned ones. Charts of several metrics are made here.
 */

import { showLegend } from "./chart_legend.js";
import { isPinned, keyOf, store, toggled } from "../saved_charts.js";
import { html, need } from "../../ui/dom.js";

/** @typedef {import("../chart_page.js").Card} Card */
/** @typedef {import("../chart_page.js").ChartPage} ChartPage */

/**
 * @param {ChartPage} board
 * @param {HTMLElement} section shown while something is pinned; its [data-pins] takes the charts
 */
export function bindPins(board, section) {
  const list = need(section, "[data-pins]");
  /** Where a pinned chart came from. @type {Map<HTMLElement, Comment>} */
  const origins = new Map();
  /** Charts of several metrics. @type {Map<string, Card>} */
  const combined = new Map();
  const singles = board.cards.filter((card) => card.root.querySelector("[data-pin]"));

  for (const card of singles) {
    need(card.root, "[data-pin]").addEventListener("click", () => toggle(card.plan.names, card.plan.own));
  }
  document.addEventListener("pinschanged", arrange);
  arrange();

  /** @param {string[]} names @param {boolean} own */
  function toggle(names, own) {
    board.saved = toggled(board.saved, { names, own });
    store(board.saved);
    arrange();
    board.announce(isPinned(board.saved, names) ? "Pinned: the chart is at the top of the page" : "No longer pinned");
  }

  function arrange() {
    const focused = document.activeElement;
    for (const card of singles) {
      const pinned = isPinned(board.saved, card.plan.names);
      const button = need(card.root, "[data-pin]");
      button.setAttribute("aria-pressed", String(pinned));
      button.title = pinned ? "Unpin" : "Pin to the top";
      const origin = origins.get(card.root);
      if (pinned && !origin) {
        const mark = document.createComment("");
        card.root.replaceWith(mark);
        origins.set(card.root, mark);
      } else if (!pinned && origin) {
        origin.replaceWith(card.root);
        origins.delete(card.root);
      }
    }
    for (const [key, card] of combined) {
      const pin = board.saved.pins.find((pin) => keyOf(pin.names) === key && pin.own === card.plan.own);
      if (pin) continue;
      board.remove(card);
      card.root.remove();
      combined.delete(key);
    }
    for (const { names, own } of board.saved.pins) {
      const known = names.every((name) => name in board.catalog);
      if (!known) continue; // of another run
      const single = names.length === 1 ? singles.find((card) => card.plan.names[0] === names[0]) : undefined;
      const root = single?.root ?? (names.length > 1 ? combine(names, own) : null);
      if (root) list.append(root);
    }
    section.hidden = !list.children.length;
    if (focused instanceof HTMLElement && focused.isConnected) focused.focus({ preventScroll: true });
    document.dispatchEvent(new CustomEvent("chartspinned"));
  }

  /** @param {string[]} names @param {boolean} own */
  function combine(names, own) {
    const existing = combined.get(keyOf(names));
    if (existing) return existing.root;
    const title = names.map((name) => board.catalog[name].title).join(" · ");
    const unpin = html("button", {
      class: "chart-button",
      type: "button",
      "data-pin": true,
      "aria-pressed": "true",
      "aria-label": `Pin ${title}`,
      title: "Unpin",
    });
    const enlarge = html("button", {
      class: "chart-button",
      type: "button",
      "data-enlarge": true,
      "aria-label": `Enlarge ${title}`,
      title: "Enlarge (Enter)",
    });
    const legend = html("ul", { class: "chart-legend small" });
    const root = html("section", { class: "panel chart", "data-metrics": JSON.stringify(names), "data-own": own }, [
      html("div", { class: "chart-head" }, [
        html("h3", {}, [title]),
        html("span", { class: "value", "data-value": true }),
        unpin,
        enlarge,
      ]),
      html("div", { "data-plot": true }),
      legend,
    ]);
    list.append(root);
    const card = board.add(root);
    unpin.addEventListener("click", () => toggle(names, own));
    root.addEventListener("drawn", () =>
      showLegend(
        legend,
        card.chart.lines.filter((line) => !line.quiet),
      ),
    );
    combined.set(keyOf(names), card);
    return root;
  }
}
