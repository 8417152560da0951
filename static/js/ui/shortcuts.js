// @ts-check
/** Small things every page with a player shares: the keys, the toast, copying. No trajectory and no run is known here. */

import { html } from "./dom.js";

let timer = 0;

/** Say something short to everybody: shown for a moment and read aloud. @param {string} words */
export function toast(words) {
  const old = document.querySelector(".toast");
  old?.remove();
  window.clearTimeout(timer);
  document.body.append(html("div", { class: "toast", role: "status" }, [words]));
  timer = window.setTimeout(() => document.querySelector(".toast")?.remove(), 2600);
}

/** @param {string} address @param {string} words said when it worked */
export async function copy(address, words) {
  try {
    await navigator.clipboard.writeText(address);
    toast(words);
  } catch {
    window.prompt("Copy this link:", address); // browsers hand the clipboard only to secure pages
  }
}

/**
 * Call `handler` for keys that are nobody else's: not typed into a field, no modifier, no open dialog.
 * @param {(key: string) => boolean} handler whether the key was its own
 */
export function onKey(handler) {
  document.addEventListener("keydown", (event) => {
    if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]")) return;
    const target = event.target;
    if (target instanceof HTMLInputElement && target.type !== "range" && target.type !== "checkbox") return;
    if (target instanceof HTMLSelectElement || target instanceof HTMLTextAreaElement) return;
    const presses = target instanceof Element && target.closest("button, summary, a, input[type=checkbox]");
    if (presses && (event.key === " " || event.key === "Enter")) return;
    if (handler(event.key)) event.preventDefault();
  });
}

/** The help dialog of the page. */
export function openHelp() {
  const dialog = document.querySelector("dialog[data-help]");
  if (dialog instanceof HTMLDialogElement) dialog.showModal();
}

document.addEventListener("click", (event) => {
  if (event.target instanceof Element && event.target.closest("[data-open-help]")) openHelp();
});
