// @ts-check
/** Search box over all settings of the launch form. It finds those without effect, too, with the reason. */

import { setText } from "../ui/dom.js";

const root = document.querySelector("[data-launch]");
const input = root?.querySelector("[data-find]");
const status = root?.querySelector("[data-found]");
const openAll = root?.querySelector("[data-open-all]");
const groups = /** @type {HTMLDetailsElement[]} */ ([...(root?.querySelectorAll("details.settings") ?? [])]);
/** @type {Set<HTMLDetailsElement> | null} groups that were open before the search */
let openBefore = null;

/** Text that a row is found by. @param {Element} row */
function words(row) {
  const parts = [...row.querySelectorAll("label, .help")].map((part) => part.textContent ?? "");
  return `${row.getAttribute("data-setting") ?? ""} ${row.getAttribute("data-words") ?? ""} ${parts.join(" ")}`.toLowerCase();
}

/** @param {string} text */
function search(text) {
  const wanted = text.toLowerCase().split(/\s+/).filter(Boolean);
  root?.classList.toggle("searching", wanted.length > 0);
  if (!wanted.length) {
    for (const group of groups) group.open = openBefore?.has(group) ?? group.open;
    openBefore = null;
    if (status) setText(status, "");
    return;
  }
  openBefore ??= new Set(groups.filter((group) => group.open));
  let [found, all] = [0, 0];
  for (const row of root?.querySelectorAll(".setting") ?? []) {
    const text = words(row);
    const fits = wanted.every((word) => text.includes(word));
    row.classList.toggle("found", fits);
    all += 1;
    found += Number(fits);
  }
  for (const group of groups) group.open = Boolean(group.querySelector(".found"));
  if (status)
    setText(status, found ? `${found} of ${all} settings match.` : "No setting matches. Search for another word.");
}

input?.addEventListener("input", (event) => {
  event.stopPropagation(); // it is no setting: nothing has to be checked
  if (input instanceof HTMLInputElement) search(input.value.trim());
});
input?.addEventListener("change", (event) => event.stopPropagation());
input?.addEventListener("keydown", (event) => {
  if (!(event instanceof KeyboardEvent) || !(input instanceof HTMLInputElement)) return;
  if (event.key === "Enter") event.preventDefault();
  if (event.key === "Escape" && input.value) {
    input.value = "";
    search("");
  }
});

openAll?.addEventListener("click", () => {
  const open = groups.some((group) => !group.open);
  for (const group of groups) group.open = open;
  setText(openAll, open ? "Close all" : "Open all");
});
