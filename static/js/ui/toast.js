// @ts-check
/** Short status messages. */

import { html } from "./dom.js";

const VISIBLE_MS = 2600;
let timer = 0;

/** Show a message briefly; screen readers announce it. @param {string} message */
export function toast(message) {
  document.querySelector(".toast")?.remove();
  window.clearTimeout(timer);
  document.body.append(html("div", { class: "toast", role: "status" }, [message]));
  timer = window.setTimeout(() => document.querySelector(".toast")?.remove(), VISIBLE_MS);
}
