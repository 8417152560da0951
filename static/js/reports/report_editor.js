// @ts-check
/** The editor of a report: preview while writing, formatting, pasted links, and the picker of embeds. */

import { need, setText } from "../ui/dom.js";
import { readings, showBlocks } from "./report_blocks.js";

const PREVIEW_DELAY = 400;
const SEARCH_DELAY = 250;
const form = /** @type {HTMLFormElement} */ (need(document, "[data-editor]"));
const text = /** @type {HTMLTextAreaElement} */ (need(form, "textarea"));
const preview = need(form, "[data-preview-body]");
const state = need(form, "[data-preview-state]");
const dialog = /** @type {HTMLDialogElement} */ (need(document, "dialog[data-insert]"));
const search = /** @type {HTMLInputElement} */ (need(dialog, "[data-insert-search]"));
const results = need(dialog, "[data-insert-results]");
const saved = new FormData(form); // with a text that the browser has kept, hence:
for (const field of /** @type {NodeListOf<HTMLInputElement|HTMLTextAreaElement>} */ (
  form.querySelectorAll("input[name=title], textarea")
))
  saved.set(field.name, field.defaultValue);
let timer = 0;
let searchTimer = 0;
let newest = 0;
let run = "";
let leaving = false;

/** Replace the selection, so that the browser's undo knows of it. @param {string} words */
function type(words) {
  text.focus();
  if (!document.execCommand("insertText", false, words)) {
    text.setRangeText(words, text.selectionStart, text.selectionEnd, "end");
    text.dispatchEvent(new Event("input", { bubbles: true }));
  }
}

/** Put a mark on both sides of the selection. @param {string} mark */
function wrap(mark) {
  const { selectionStart: start, selectionEnd: end } = text;
  type(mark + text.value.slice(start, end) + mark);
  if (start === end) text.setSelectionRange(start + mark.length, start + mark.length);
}

/** Begin each selected line with the prefix. @param {string} mark */
function prefix(mark) {
  const start = text.value.lastIndexOf("\n", text.selectionStart - 1) + 1;
  const next = text.value.indexOf("\n", text.selectionEnd);
  const end = next < 0 ? text.value.length : next;
  const lines = text.value.slice(start, end).split("\n");
  text.setSelectionRange(start, end);
  type(lines.map((line) => mark + line).join("\n"));
}

/** The selection as a link; the cursor goes where the address belongs. */
function link() {
  const words = text.value.slice(text.selectionStart, text.selectionEnd) || "text";
  type(`[${words}](address)`);
  const end = text.selectionEnd - 1;
  text.setSelectionRange(end - "address".length, end);
}

/** An address on a line of its own, with an empty line on both sides. @param {string} address */
function put(address) {
  const before = text.value.slice(0, text.selectionStart);
  const after = text.value.slice(text.selectionEnd);
  const head = before === "" || before.endsWith("\n\n") ? "" : before.endsWith("\n") ? "\n" : "\n\n";
  const tail = after.startsWith("\n\n") ? "" : after.startsWith("\n") ? "\n" : "\n\n";
  type(head + address + tail);
}

async function showPreview() {
  const number = (newest += 1);
  const data = new FormData(form);
  try {
    const response = await fetch(form.dataset.preview ?? "", { method: "POST", body: data });
    if (number !== newest) return;
    if (response.ok && !response.redirected) {
      showBlocks(preview, await response.text());
      setText(state, "Preview");
    } else {
      setText(
        state,
        response.status === 422
          ? await response.text()
          : "The preview is not available. Log in again in another tab; your text stays here.",
      );
    }
  } catch {
    setText(state, "No connection: the preview follows when it is back. Your text stays here.");
  }
}

async function find() {
  const asked = `${search.value}\n${run}`;
  const address = `${dialog.dataset.address}?${new URLSearchParams({ q: search.value, ...(run ? { run } : {}) })}`;
  try {
    const response = await fetch(address);
    if (asked !== `${search.value}\n${run}`) return;
    if (response.ok && !response.redirected) results.innerHTML = await response.text();
    else setText(results, "The search did not work. Try again.");
  } catch {
    setText(results, "No connection.");
  }
}

/** Whether anything would be lost: `data-unsaved` is on a form whose text the server has refused. */
const changed = () =>
  form.dataset.unsaved !== undefined || [...new FormData(form)].some(([name, value]) => saved.get(name) !== value);

text.addEventListener("input", () => {
  window.clearTimeout(timer);
  timer = window.setTimeout(() => void showPreview(), PREVIEW_DELAY);
});
text.addEventListener("keydown", (event) => {
  if (!(event.ctrlKey || event.metaKey) || event.altKey || event.shiftKey) return;
  const mark = { b: "**", i: "*" }[event.key.toLowerCase()];
  if (event.key === "Enter") form.requestSubmit();
  else if (mark) wrap(mark);
  else return;
  event.preventDefault();
});
text.addEventListener("paste", (event) => {
  const words = (event.clipboardData?.getData("text/plain") ?? "").trim();
  const selected = text.value.slice(text.selectionStart, text.selectionEnd);
  if (!selected || selected.includes("\n") || !/^https?:\/\/\S+$/.test(words)) return;
  event.preventDefault();
  type(`[${selected}](${words})`);
});
form.addEventListener("click", (event) => {
  const button = event.target instanceof Element ? event.target.closest("button") : null;
  if (!button) return;
  if (button.dataset.wrap) wrap(button.dataset.wrap);
  else if (button.dataset.prefix) prefix(button.dataset.prefix);
  else if (button.dataset.link !== undefined) link();
  else if (button.dataset.openInsert !== undefined) {
    run = "";
    search.value = "";
    dialog.showModal();
    search.focus();
    void find();
  }
});
search.addEventListener("input", () => {
  window.clearTimeout(searchTimer);
  searchTimer = window.setTimeout(() => void find(), SEARCH_DELAY);
});
results.addEventListener("click", (event) => {
  const button = event.target instanceof Element ? event.target.closest("button") : null;
  if (!button) return;
  if (button.dataset.put) {
    dialog.close();
    put(button.dataset.put);
  } else if (button.dataset.run !== undefined) {
    run = button.dataset.run;
    search.value = "";
    search.focus();
    void find();
  }
});
form.addEventListener("submit", () => {
  leaving = true;
});
window.addEventListener("pageshow", () => {
  leaving = false;
});
window.addEventListener("beforeunload", (event) => {
  if (!leaving && changed()) event.preventDefault();
});
readings(preview);
if (text.value !== text.defaultValue) void showPreview(); // the browser kept a text that was not saved
