// @ts-check
/**
 * Draws a web page from its data: address, last action, buttons, links, choices and paragraphs. It is a picture of what
 * the policy saw: nothing on it can be clicked.
 */

import { html, setText } from "../ui/dom.js";

/** @typedef {import("../types.js").PageBoard} PageBoard */
/** @typedef {import("../types.js").PageItem} PageItem */
/** @typedef {import("../types.js").PageSection} PageSection */

const SEARCH = "search[keywords]";

/**
 * Text alternative of a page.
 * @param {PageBoard} board
 */
export function describePage(board) {
  const chosen = board.sections.flatMap((section) =>
    section.items.filter((item) => item.chosen).map((item) => `${section.title} ${item.text}`.trim()),
  );
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
  for (const node of actionNodes(host, action)) {
    node.classList.add("advised");
    fillSearch(node, action);
    scrollTo(host, node);
  }
}

/**
 * The elements of the page that an action uses.
 * @param {HTMLElement} host
 * @param {string} action
 */
export function actionNodes(host, action) {
  const target = sameAction(action);
  const names = target.startsWith("search[") ? [target, SEARCH] : [target];
  return /** @type {HTMLElement[]} */ ([...host.querySelectorAll("[data-action]")]).filter((node) =>
    names.includes(node.getAttribute("data-action") ?? ""),
  );
}

/**
 * Show the words of a search in its field; nothing for other actions.
 * @param {Element|undefined} node
 * @param {string} action
 */
export function fillSearch(node, action) {
  const target = sameAction(action);
  const words = node?.querySelector(".page-words");
  if (words && target.startsWith("search[")) setText(words, target.slice(7, -1));
}

/**
 * Scroll down to an element that is below the visible part of the page.
 * @param {HTMLElement} host
 * @param {HTMLElement} node
 */
export function scrollTo(host, node) {
  const hidden = node.offsetTop + node.offsetHeight - host.clientHeight;
  if (hidden > host.scrollTop) host.scrollTop = hidden + 12;
}

/**
 * Light the elements with these texts, and scroll the first one into view.
 * @param {HTMLElement} host
 * @param {string[]} texts in any case
 * @param {"right"|"wrong"} state
 */
export function lightItems(host, texts, state) {
  const wanted = new Set(texts.map((text) => text.toLowerCase()));
  const lit = [...host.querySelectorAll("[data-text]")].filter((node) =>
    wanted.has(node.getAttribute("data-text") ?? ""),
  );
  for (const node of lit) node.classList.add("lit", state);
  const first = lit[0];
  if (!(first instanceof HTMLElement)) return;
  if (first.offsetTop < host.scrollTop || first.offsetTop + first.offsetHeight > host.scrollTop + host.clientHeight) {
    host.scrollTop = Math.max(0, first.offsetTop - 40);
  }
}

/** Remove the marks of arms and pages. @param {HTMLElement} host */
export function clearMarks(host) {
  for (const node of host.querySelectorAll(".mistake-badge, .better-badge, .better-note")) node.remove();
  for (const node of host.querySelectorAll(".mistaken, .better"))
    node.classList.remove("mistaken", "better", "inaccuracy", "mistake", "blunder");
  for (const node of host.querySelectorAll(".lit")) node.classList.remove("lit", "right", "wrong");
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
  const attributes = {
    class: classes.join(" "),
    "data-action": item.action || null,
    "data-text": item.text.toLowerCase(),
  };
  if (item.action === SEARCH) {
    return html("span", { ...attributes, class: "page-item page-search" }, [
      html("span", { class: "page-words" }),
      html("b", {}, [item.text]),
    ]);
  }
  const mark = item.chosen ? [html("span", { class: "visually-hidden" }, ["chosen: "])] : [];
  const detail = item.detail ? [html("span", { class: "page-detail" }, [item.detail])] : [];
  return html(layout === "text" || layout === "note" ? "p" : "span", attributes, [
    ...mark,
    html("span", {}, [item.text]),
    ...detail,
  ]);
}
