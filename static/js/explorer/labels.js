// @ts-check
/**
 * Labels of attempts for the saved view or scanner that is open: two buttons in each row, and the keys y and n for the
 * selected row. Without JavaScript the buttons send their form.
 */

import { toast } from "../ui/toast.js";

/** @typedef {"yes"|"no"|"none"} Answer */

/** The last row that had the focus. @type {Element|null} */
let last = null;
/** Labels are sent one after the other, so that the last answer counts all of them. */
let queue = Promise.resolve();

const form = () => /** @type {HTMLFormElement|null} */ (document.querySelector("[data-label-form]"));

/** Row of the attempt that the keys label; null before one is selected. */
function selected() {
  const row = document.querySelector(".trajectories tr[data-selected]") ?? last;
  return row?.isConnected ? row : null;
}

/** @param {Element} row @returns {HTMLButtonElement[]} */
const buttonsOf = (row) => [...row.querySelectorAll("button")].filter((button) => button.dataset.answer);

/** Answer of a row. @param {Element} row */
function answerOf(row) {
  const pressed = buttonsOf(row).find((button) => button.getAttribute("aria-pressed") === "true");
  return /** @type {Answer} */ (pressed?.dataset.answer ?? "none");
}

/** Show an answer; the pressed button takes it back. @param {Element} row @param {Answer} answer */
function show(row, answer) {
  for (const button of buttonsOf(row)) {
    const pressed = button.dataset.answer === answer;
    button.setAttribute("aria-pressed", String(pressed));
    button.value = pressed ? "none" : (button.dataset.answer ?? "");
    button.title = pressed ? "by you" : "";
  }
}

/** @param {Element} row @param {Answer} answer */
function label(row, answer) {
  const before = answerOf(row);
  show(row, answer);
  queue = queue.then(() => send(row, before, answer));
}

/** @param {Element} row @param {Answer} before @param {Answer} answer */
async function send(row, before, answer) {
  const body = new FormData(form() ?? undefined);
  body.set("answer", answer);
  const address = buttonsOf(row)[0].formAction;
  const response = await fetch(address, { method: "POST", body, headers: { "X-Fragment": "1" } }).catch(() => null);
  const summary = document.querySelector("[data-label-summary]");
  if (response?.ok && !response.redirected) {
    const text = await response.text();
    if (summary) summary.innerHTML = text; // rendered by this site's template, which escapes
    return;
  }
  show(row, before);
  toast(response?.redirected ? "Log in again." : "The label was not saved. Try again.");
}

/**
 * Label the selected attempt and select the next one; without a selected attempt select the first one.
 * @param {string} key
 * @returns whether it is a key of the labels
 */
export function labelKey(key) {
  const answer = /** @type {Record<string, Answer>} */ ({ y: "yes", n: "no" })[key];
  if (!answer || !form()) return false;
  const row = selected();
  if (row) label(row, answer);
  const next = row ? row.nextElementSibling : document.querySelector(".trajectories tbody tr");
  const link = /** @type {HTMLElement|null|undefined} */ (next?.querySelector("[data-row]"));
  link?.focus();
  link?.scrollIntoView({ block: "nearest" });
  return true;
}

document.addEventListener("focusin", ({ target }) => {
  const row = target instanceof Element ? target.closest(".trajectories tbody tr") : null;
  last = row ?? last;
});

document.addEventListener("submit", (event) => {
  const button = event.submitter;
  const row = button?.closest("tr");
  if (event.target !== form() || !(button instanceof HTMLButtonElement) || !row) return;
  event.preventDefault();
  label(row, /** @type {Answer} */ (button.value));
});
