// @ts-check
/**
 * Draws a web page from its data: address, last action, buttons, links, choices and paragraphs. It is a picture of what
 * the policy saw: nothing on it can be clicked.
 */

import { html } from "../ui/dom.js";

/** @typedef {import("../types.js").PageBoard} PageBoard */
/** @typedef {import("../types.js").PageItem} PageItem */
/** @typedef {import("../types.js").PageSection} PageSection */

const SEARCH = "search[keywords]";

/**
 * Text alternative of a page.
 * @param {PageBoard} board
 */
export function describePage(board) {
  const chosen = board.sections.flatMap((section) => section.items.filter((item) => item.chosen).map((item) => `${section.title} ${item.text}`.trim()));
  return `Page: ${board.title}${chosen.length ? `. Chosen: ${chosen.join(", ")}` : ""}.`;
}

/**
 * Normalise an action as the environment parses it: case and spaces are ignored.
 * @param {string} action
 */
export function sameAction(action) {
  return action.trim().toLowerCase().replace(/\s+/g, " ").replace(/\[ /, "[").replace(/ \]$/, "]");
}

/**
 * @param {PageBoard} board
 * @returns {HTMLElement}
 */
export function drawPage(board) {
  const last = board.last ? sameAction(board.last) : "";
  return html("div", { class: "page-view" }, [
    html("div", { class: "page-bar" }, [
      html("span", { class: "page-address" }, [board.address]),
      ...(board.last ? [html("code", { class: "page-last", title: "The action that led here" }, [board.last])] : []),
    ]),
    html("p", { class: "page-title" }, [board.title]),
    ...board.sections.map((section) => drawSection(section, last)),
  ]);
}

/**
 * Mark the solver's next action and scroll it into view.
 * @param {HTMLElement} host
 * @param {string} action
 */
export function markAction(host, action) {
  const target = sameAction(action);
  const isSearch = target.startsWith("search[");
  for (const node of host.querySelectorAll("[data-action]")) {
    const nodeAction = node.getAttribute("data-action") ?? "";
    if (nodeAction !== target && !(isSearch && nodeAction === SEARCH)) continue;
    node.classList.add("advised");
    if (isSearch) node.querySelector(".page-words")?.replaceChildren(target.slice(7, -1));
    const item = /** @type {HTMLElement} */ (node);
    const hidden = item.offsetTop + item.offsetHeight - host.clientHeight;
    if (hidden > host.scrollTop) host.scrollTop = hidden + 12;
  }
}

/** Remove the marks. @param {HTMLElement} host */
export function clearMarks(host) {
  for (const node of host.querySelectorAll(".advised")) node.classList.remove("advised");
  for (const node of host.querySelectorAll(".page-words")) node.replaceChildren();
}

/**
 * @param {PageSection} section
 * @param {string} last
 */
function drawSection(section, last) {
  const title = section.title ? [html("span", { class: "page-heading" }, [section.title])] : [];
  const items = section.items.map((item) => drawItem(item, section.layout, last));
  return html("div", { class: "page-part", "data-layout": section.layout }, [...title, ...items]);
}

/**
 * @param {PageItem} item
 * @param {PageSection["layout"]} layout
 * @param {string} last
 */
function drawItem(item, layout, last) {
  const classes = ["page-item"];
  if (item.chosen) classes.push("chosen");
  if (item.action && sameAction(item.action) === last) classes.push("last");
  const attributes = { class: classes.join(" "), "data-action": item.action || null };
  if (item.action === SEARCH) {
    return html("span", { ...attributes, class: "page-item page-search" }, [html("span", { class: "page-words" }), html("b", {}, [item.text])]);
  }
  const mark = item.chosen ? [html("span", { class: "visually-hidden" }, ["chosen: "])] : [];
  const detail = item.detail ? [html("span", { class: "page-detail" }, [item.detail])] : [];
  return html(layout === "text" || layout === "note" ? "p" : "span", attributes, [...mark, html("span", {}, [item.text]), ...detail]);
}
