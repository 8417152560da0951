// @ts-check
/** The element of one chart, from the template of the page. */

import { need, setText, visibleText } from "../ui/dom.js";

/** @typedef {import("./chart_lines.js").Metric} Metric */
/** @typedef {import("./chart_lines.js").Plan} Plan */

const IN_EVERY_VALUE = ["share", "bytes", "%"];

/**
 * @param {Plan} plan
 * @param {Record<string, Metric>} catalog
 * @returns {HTMLElement}
 */
export function chartCard({ names, own }, catalog) {
  const template = /** @type {HTMLTemplateElement} */ (need(document, "template[data-chart]"));
  const root = /** @type {HTMLElement} */ (need(template.content, ".chart").cloneNode(true));
  const title = names.map((name) => catalog[name]?.title ?? name).join(" · ");
  if (names.length === 1) root.dataset.metric = names[0];
  else root.dataset.metrics = JSON.stringify(names);
  if (own) root.dataset.own = "";
  const head = need(root, "h3");
  setText(head, title);
  head.title = names.map((name) => catalog[name]?.meaning || name).join("\n");
  const unit = names.length === 1 ? (catalog[names[0]]?.unit ?? "") : "";
  if (unit && !IN_EVERY_VALUE.includes(unit)) {
    const soft = document.createElement("span");
    soft.className = "soft";
    soft.textContent = `, ${unit}`;
    head.append(soft);
  }
  need(root, "[data-enlarge]").setAttribute("aria-label", visibleText(`Enlarge ${title}`));
  need(root, "[data-pin]").setAttribute("aria-label", visibleText(`Pin ${title}`));
  return root;
}

/** @param {HTMLElement} root of a chart @param {boolean} pinned */
export function showPinned(root, pinned) {
  const button = root.querySelector("[data-pin]");
  if (!(button instanceof HTMLElement)) return; // at the top of the page
  button.setAttribute("aria-pressed", String(pinned));
  button.title = pinned ? "Unpin" : "Pin to the top";
}
