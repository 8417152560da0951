// @ts-check
/** Keyboard shortcuts of a page and the dialog that lists them. */

/**
 * Call `handler` for shortcut keys: not typed into a field, without a modifier, no dialog open.
 * @param {(key: string) => boolean} handler returns whether it handled the key
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

/** Open the dialog of keyboard shortcuts. */
export function openHelp() {
  const dialog = document.querySelector("dialog[data-help]");
  if (dialog instanceof HTMLDialogElement) dialog.showModal();
}

document.addEventListener("click", (event) => {
  if (event.target instanceof Element && event.target.closest("[data-open-help]")) openHelp();
});
