// @ts-check
/**
 * Draws a page of a site from its data: where it lies, how one came to it, its buttons, links, choices and paragraphs.
 * Nothing on it can be clicked: it is a picture of what the policy saw. No rules of any shop live here.
 */

import { html } from "../ui/dom.js";

/** @typedef {import("../live/types.js").PageBoard} PageBoard */
/** @typedef {import("../live/types.js").PageItem} PageItem */
/** @typedef {import("../live/types.js").PageSection} PageSection */

const SEARCH = "search[keywords]";

/**
 * The page in words, for those who do not see it.
 * @param {PageBoard} board
 */
export function describePage(board) {
  const chosen = board.sections.flatMap((section) => section.items.filter((item) => item.chosen).map((item) => `${section.title} ${item.text}`.trim()));
  return `Page: ${board.title}${chosen.length ? `. Chosen: ${chosen.join(", ")}` : ""}.`;
}

/**
 * Actions are compared as the environment reads them: in any case, with any spaces.
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
 * Mark what the solver would do next, and bring it into sight.
 * @param {HTMLElement} host
 * @param {string} action
 */
export function markAction(host, action) {
  const wanted = sameAction(action);
  const isSearch = wanted.startsWith("search[");
  for (const node of host.querySelectorAll("[data-action]")) {
    const known = node.getAttribute("data-action") ?? "";
    if (known !== wanted && !(isSearch && known === SEARCH)) continue;
    node.classList.add("advised");
    if (isSearch) node.querySelector(".page-words")?.replaceChildren(wanted.slice(7, -1));
    const item = /** @type {HTMLElement} */ (node);
    const hidden = item.offsetTop + item.offsetHeight - host.clientHeight;
    if (hidden > host.scrollTop) host.scrollTop = hidden + 12;
  }
}

/** Take those marks away. @param {HTMLElement} host */
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
