// @ts-check
/**
 * Share panel of a player: the form for a link to the current position, and the dialog with the embed HTML. The
 * position is read from the address, which the player keeps up to date.
 */

import { copy } from "../ui/clipboard.js";

const START = document.querySelector("[data-start]")?.getAttribute("data-start") ?? "";

/** Current position, counted from 1 as in addresses. @returns {URLSearchParams} */
function position() {
  const here = new URLSearchParams(location.search);
  return here.has("turn") ? here : new URLSearchParams(START);
}

/** @param {HTMLFormElement} form */
function fillForm(form) {
  const here = position();
  for (const name of ["turn", "action"]) {
    const field = form.elements.namedItem(name);
    if (field instanceof HTMLInputElement) field.value = here.get(name) ?? "";
  }
  const ends = form.elements.namedItem("ends");
  const until = form.querySelector("[data-until]");
  if (!(ends instanceof HTMLSelectElement) || !until) return;
  const asked = ends.value === "date";
  until.classList.toggle("unasked", !asked);
  const field = until.querySelector("input");
  if (field) field.required = asked;
}

const form = document.querySelector("[data-share-form]");
if (form instanceof HTMLFormElement) {
  fillForm(form);
  form.addEventListener("change", () => fillForm(form));
  form.addEventListener("submit", () => fillForm(form));
}

/** Open the share panel and scroll to it. */
function openShare() {
  const panel = document.getElementById("share");
  if (!(panel instanceof HTMLDetailsElement)) return;
  panel.open = true;
  panel.scrollIntoView({ block: "nearest" });
  panel.querySelector("summary")?.focus({ preventScroll: true });
}

const dialog = document.querySelector("dialog[data-embed]");
const code = dialog?.querySelector("[data-embed-code]");
const plain = code instanceof HTMLTextAreaElement ? code.value : "";

/** @param {string} selector */
function ticked(selector) {
  const box = dialog?.querySelector(selector);
  return box instanceof HTMLInputElement && box.checked;
}

/** Put the chosen options into the frame's address. */
function writeCode() {
  if (!(code instanceof HTMLTextAreaElement)) return;
  const options = new URLSearchParams();
  const here = position();
  if (ticked("[data-embed-here]")) {
    for (const name of ["turn", "action"]) if (here.has(name)) options.set(name, here.get(name) ?? "");
  }
  if (ticked("[data-embed-autoplay]")) options.set("autoplay", "1");
  const query = options.toString().replaceAll("&", "&amp;");
  code.value = plain.replace(/src="([^"?]*)"/, (_, address) => `src="${address}${query ? `?${query}` : ""}"`);
}

function openEmbed() {
  if (!(dialog instanceof HTMLDialogElement)) return;
  writeCode();
  dialog.showModal();
}

dialog?.addEventListener("change", writeCode);
document.addEventListener("click", (event) => {
  const target = /** @type {Element} */ (event.target);
  if (target.closest("[data-open-share]")) {
    event.preventDefault();
    openShare();
  }
  if (target.closest("[data-open-embed]")) openEmbed();
  if (target.closest("[data-copy-embed]") && code instanceof HTMLTextAreaElement) void copy(code.value, "HTML copied");
});
if (location.hash === "#share" || location.hash === "#share-inside") openShare();
if (location.hash === "#embed") openEmbed();
