// @ts-check
/** Registry of keyboard shortcuts: each page adds its own, the help dialog lists them with those of every page. */

import { html } from "./dom.js";

/** @typedef {[keys: string, does: string]} Shortcut keys separated by spaces, as printed on them */

/** @type {Array<{title: string, shortcuts: Shortcut[]}>} */
const sections = [];

/**
 * List shortcuts in the help dialog.
 * @param {string} title
 * @param {Shortcut[]} shortcuts
 */
export function describe(title, shortcuts) {
  sections.push({ title, shortcuts });
}

/** Whether an element takes letters, so that no key pressed in it is a shortcut. @param {EventTarget|null} target */
export function takesText(target) {
  if (target instanceof HTMLInputElement)
    return !["range", "checkbox", "radio", "button", "submit"].includes(target.type);
  return target instanceof HTMLSelectElement || target instanceof HTMLTextAreaElement;
}

/**
 * Call `handler` for shortcut keys: not typed into a field, without a modifier, no dialog open.
 * @param {(key: string) => boolean} handler returns whether it handled the key
 */
export function onKey(handler) {
  document.addEventListener("keydown", (event) => {
    if (
      event.defaultPrevented ||
      event.ctrlKey ||
      event.metaKey ||
      event.altKey ||
      document.querySelector("dialog[open]")
    )
      return;
    const target = event.target;
    if (takesText(target) || (target instanceof HTMLInputElement && target.type === "radio")) return;
    const presses = target instanceof Element && target.closest("button, summary, a, input[type=checkbox]");
    if (presses && (event.key === " " || event.key === "Enter")) return;
    if (handler(event.key)) event.preventDefault();
  });
}

/** Open the dialog of keyboard shortcuts: those in the page's template, then the registered sections. */
export function openHelp() {
  const dialog = document.querySelector("dialog[data-help]") ?? emptyHelp();
  if (!(dialog instanceof HTMLDialogElement) || dialog.open) return;
  for (const old of dialog.querySelectorAll("[data-help-section]")) old.remove();
  dialog.querySelector("form")?.before(...sections.map(section));
  dialog.showModal();
}

/** @param {{title: string, shortcuts: Shortcut[]}} section */
function section({ title, shortcuts }) {
  const lines = shortcuts.flatMap(([keys, does]) => [
    html(
      "dt",
      {},
      keys.split(" ").flatMap((key) => [html("kbd", {}, [key]), " "]),
    ),
    html("dd", {}, [does]),
  ]);
  return html("section", { "data-help-section": true }, [html("h3", {}, [title]), html("dl", {}, lines)]);
}

function emptyHelp() {
  const close = html("form", { method: "dialog" }, [html("button", { class: "button" }, ["Close"])]);
  const heading = html("h2", { id: "help-title" }, ["Keyboard shortcuts"]);
  const dialog = html("dialog", { "data-help": true, "aria-labelledby": "help-title" }, [heading, close]);
  document.body.append(dialog);
  return dialog;
}

document.addEventListener("click", (event) => {
  if (event.target instanceof Element && event.target.closest("[data-open-help]")) openHelp();
});
