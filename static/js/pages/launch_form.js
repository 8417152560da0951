// @ts-check
/**
 * Launch form: marks changed and wrong settings, hides those without effect, counts them by group, keeps changes when
 * another preset is chosen, shows that a launch is under way.
 */

import { copy } from "../ui/clipboard.js";
import { setText } from "../ui/dom.js";

const form = document.querySelector("[data-launch]");
const launchButton = form?.querySelector("[data-launch-button]");

/** @param {Element} row @returns {HTMLInputElement|HTMLSelectElement|HTMLTextAreaElement|null} */
function fieldOf(row) {
  const field = row.querySelector("input:not([type=hidden]), select, textarea");
  return field instanceof HTMLInputElement || field instanceof HTMLSelectElement || field instanceof HTMLTextAreaElement
    ? field
    : null;
}

/** Mark whether the row's value differs from its start. @param {Element} row */
function mark(row) {
  const field = fieldOf(row);
  const isSwitch = field instanceof HTMLInputElement && field.type === "checkbox";
  const value = isSwitch ? (field.checked ? "on" : "") : field?.value.trim();
  row.classList.toggle("differs", value !== row.getAttribute("data-default"));
}

/** Update the numbers of changed and wrong settings on each group. */
function count() {
  for (const group of form?.querySelectorAll("details.settings") ?? []) {
    const changed = group.querySelectorAll("[data-setting].differs").length;
    const wrong = group.querySelectorAll(".error:not(:empty)").length;
    const [changedBadge, wrongBadge] = [group.querySelector("[data-changed]"), group.querySelector("[data-wrong]")];
    if (changedBadge) setText(changedBadge, changed ? `${changed} changed` : "");
    if (wrongBadge) setText(wrongBadge, wrong ? `${wrong} error${wrong > 1 ? "s" : ""}` : "");
  }
}

/** Show the result of the last check: errors at their fields, and which settings have no effect. */
function applyState() {
  const text = document.getElementById("launch-state")?.textContent;
  if (!form || !text) return;
  /** @type {{errors: Record<string, string>, reasons: Record<string, string>}} */
  const state = JSON.parse(text);
  for (const slot of form.querySelectorAll(".error")) {
    const id = slot.id.replace(/-error$/, "");
    setText(slot, state.errors[id] ?? "");
    const field = document.getElementById(id);
    if (state.errors[id]) field?.setAttribute("aria-invalid", "true");
    else field?.removeAttribute("aria-invalid");
  }
  for (const row of form.querySelectorAll("[data-setting]")) {
    const reason = state.reasons[row.getAttribute("data-setting") ?? ""];
    const slot = row.querySelector("[data-reason]");
    if (slot) setText(slot, reason ?? "");
    const wrong = row.querySelector(".error:not(:empty)");
    const used = row.contains(document.activeElement);
    row.classList.toggle("inactive", Boolean(reason) && !wrong && !used && !row.classList.contains("differs"));
  }
  const word = document.getElementById("check")?.getAttribute("data-launch-word");
  if (launchButton && word) setText(launchButton, word);
  count();
  keepInView();
}

/** Scroll if the bar covers the field in use or its error: the bar grows with the number of errors. */
function keepInView() {
  const row = document.activeElement?.closest(".setting");
  const bar = form?.querySelector(".launch-bar");
  if (!row || !bar || !form?.contains(row)) return;
  const hidden = row.getBoundingClientRect().bottom + 12 - bar.getBoundingClientRect().top;
  if (hidden > 0 && row.getBoundingClientRect().top > hidden) window.scrollBy({ top: hidden });
}

/**
 * Bring a field into view, in a group that is closed or by a link to a setting that has no effect.
 * @param {string} id
 */
function reveal(id) {
  const field = document.getElementById(id);
  if (!field || !form?.contains(field)) return;
  field.closest("details")?.setAttribute("open", "");
  field.closest(".setting")?.classList.remove("inactive");
  field.scrollIntoView({ block: "center" });
  field.focus({ preventScroll: true });
}

/** Fetch the shown exports again. */
function refreshExports() {
  if (document.querySelector("[data-export][open]"))
    document.querySelector("[data-export]")?.dispatchEvent(new Event("refresh"));
}

/** Keep the cards of models and the setting equal: a card fills the setting in, and the setting chooses its card. */
function matchModel(/** @type {EventTarget | null} */ target) {
  const setting = document.getElementById("f-policy-model");
  if (!(target instanceof HTMLInputElement) || !(setting instanceof HTMLInputElement)) return;
  const radios = [...(form?.querySelectorAll("input[name=model_card]") ?? [])].filter(
    (radio) => radio instanceof HTMLInputElement,
  );
  if (target.name === "model_card") {
    if (!target.value) reveal(setting.id);
    else setting.value = target.value;
    const row = setting.closest("[data-setting]");
    if (row) mark(row);
  } else if (target === setting) {
    const card =
      radios.find((radio) => radio.value && radio.value === setting.value.trim()) ??
      radios.find((radio) => !radio.value);
    if (card) card.checked = true;
  }
}

form?.addEventListener("input", (event) => {
  matchModel(event.target);
  const row = event.target instanceof Element ? event.target.closest("[data-setting]") : null;
  if (row) mark(row);
  count();
});

let installed = document.getElementById("model-poll")?.dataset.installed;

/** Check the form again once a model is installed or deleted: the button says whether it downloads one. */
function noticeModels() {
  const now = document.getElementById("model-poll")?.dataset.installed;
  if (now === installed) return;
  installed = now;
  form?.dispatchEvent(new Event("change"));
}

document.addEventListener("htmx:afterSettle", (event) => {
  noticeModels();
  const target = event.target instanceof Element ? event.target : null;
  if (target?.id === "check" || target?.id === "launch-facts") {
    applyState();
    refreshExports();
  }
  const isNew = target?.id === "environment-settings" || target?.id === "variant-budgets"; // settings, budgets or both
  if (isNew) form?.dispatchEvent(new Event("change"));
});

for (const details of document.querySelectorAll("[data-export]")) details.addEventListener("toggle", refreshExports);

form?.addEventListener("submit", () => {
  if (!(launchButton instanceof HTMLElement)) return;
  launchButton.setAttribute("aria-busy", "true");
  launchButton.textContent = "Launching …";
  window.setTimeout(() => launchButton.setAttribute("disabled", ""));
});

window.addEventListener("pageshow", (event) => {
  if (!event.persisted || !launchButton) return;
  launchButton.removeAttribute("disabled");
  launchButton.removeAttribute("aria-busy");
  applyState();
});

document.addEventListener("click", (event) => {
  const target = event.target instanceof Element ? event.target : null;
  const button = target?.closest("[data-copy-text]");
  const text = button && document.getElementById(button.getAttribute("data-copy-text") ?? "")?.textContent;
  if (text) copy(text, "Copied.");
  const link = target?.closest("#check a[href^='#'], #launch-facts a[href^='#'], a[data-reveal]");
  if (link) {
    event.preventDefault();
    reveal((link.getAttribute("href") ?? "").slice(1));
  }
  const choice = target?.closest("a[data-keep]");
  if (choice instanceof HTMLAnchorElement) keepChanges(choice);
  const all = target?.closest("[data-repeat-all]");
  if (all) repeatAll(all.getAttribute("data-repeat-all") ?? "1");
});

/** Take the changed essentials along to another preset. @param {HTMLAnchorElement} link */
function keepChanges(link) {
  const address = new URL(link.href);
  for (const row of form?.querySelectorAll(".essentials [data-setting].differs") ?? []) {
    const field = fieldOf(row);
    if (field && field.type !== "checkbox" && field.name !== "algorithm.group_filter")
      address.searchParams.set(field.name, field.value);
  }
  link.href = address.href;
}

/** Choose every algorithm and a number of seeds. @param {string} seeds */
function repeatAll(seeds) {
  const panel = form?.querySelector("[data-repeat]");
  for (const box of panel?.querySelectorAll("input[name=arms]") ?? [])
    if (box instanceof HTMLInputElement) box.checked = true;
  const select = panel?.querySelector("select[name=seeds]");
  if (!(select instanceof HTMLSelectElement)) return;
  select.value = seeds;
  select.dispatchEvent(new Event("change", { bubbles: true }));
}

const wrong = form?.querySelector(".setting [aria-invalid=true]");
if (wrong instanceof HTMLElement) reveal(wrong.id);
