// @ts-check
/**
 * The explorer of trajectories: marks wrong fields, walks rows with j and k, and while the run is live counts on and offers
 * what is new. The list itself is the server's; htmx puts it in place.
 */

import { countAll } from "./explorer_counts.js";
import { answer } from "../ui/fetch_json.js";
import { onKey } from "../ui/shortcuts.js";
import { need, setText } from "../ui/dom.js";
import { percent, plural, signed } from "../ui/formatting.js";

/** @typedef {import("./explorer_counts.js").Counts} Counts */
/** @typedef {import("./explorer_counts.js").Facts} Facts */

const ASK_AGAIN = 8_000;
const SPEAK_AGAIN = 5_000;
const RECENT = 600;
const form = /** @type {HTMLFormElement} */ (need(document, "[data-filters]"));
/** @type {Counts|null} */ let counts = null;
/** What came last: a list on its way may have been made before it. @type {import("../live/types.js").Event[]} */
let recent = [];
let shown = 0;
let timer = 0;
let asking = 0;

/** What the server rendered last. */
function read() {
  /** @type {Counts|null} */ const rendered = JSON.parse(document.getElementById("explorer-counts")?.textContent ?? "null");
  shown = rendered?.now.found ?? 0;
  start(rendered);
}

/** @param {Counts|null} rendered */
function start(rendered) {
  counts = rendered && countAll(rendered, recent);
  if (counts && !counts.by_itself && counts.seq > (rendered?.seq ?? 0)) askSoon();
  else showSoon();
}

/** @param {Facts} facts */
function factsWords(facts) {
  const found = facts.found.toLocaleString("en");
  if (facts.more) return `More than ${found} found · narrow the filters to see how they did`;
  if (facts.ended === 0) return `${found} found`;
  return `${found} found · ${percent(facts.success / facts.ended)} solved · mean reward ${signed(facts.reward / facts.ended)}`;
}

function show() {
  timer = 0;
  if (!counts) return;
  const facts = document.querySelector("[data-facts]");
  if (facts) setText(facts, factsWords(counts.now));
  const offer = document.querySelector("[data-new]");
  if (!(offer instanceof HTMLElement)) return;
  const fresh = counts.now.found - shown;
  offer.hidden = fresh <= 0;
  if (fresh > 0) setText(offer, `${plural(fresh, "new one", "new ones")}: show`);
}

/** Not faster than somebody can read, or have it read. */
function showSoon() {
  timer ||= window.setTimeout(show, SPEAK_AGAIN);
}

/** Counts that only the server can make: some time after something happened, once. */
function askSoon() {
  asking ||= window.setTimeout(async () => {
    const before = counts;
    const now = await answer(`${form.dataset.counts}${location.search}`);
    asking = 0;
    if (!now || before !== counts) return; // the list was replaced meanwhile, with counts of its own
    start(now);
    show();
  }, ASK_AGAIN * (0.75 + Math.random() / 2));
}

document.addEventListener("runevents", (event) => {
  if (!counts) return;
  const { detail } = /** @type {CustomEvent} */ (event);
  recent = [...recent, ...detail].slice(-RECENT);
  counts = countAll(counts, detail);
  if (counts.by_itself) showSoon();
  else askSoon();
});
document.addEventListener("runreloaded", () => {
  recent = [];
  if (counts) askSoon();
});

/** Assistive technology is told which fields are wrong. */
function mark() {
  for (const slot of form.querySelectorAll(".field-error")) {
    const field = document.getElementById(slot.id.replace(/-error$/, ""));
    if (slot.textContent?.trim()) field?.setAttribute("aria-invalid", "true");
    else field?.removeAttribute("aria-invalid");
  }
}

/** After "back": the fields say what the address says, and nothing is wrong with it. */
function refill() {
  const asked = new URLSearchParams(location.search);
  for (const slot of form.querySelectorAll(".field-error")) slot.textContent = "";
  for (const field of form.elements) {
    if ((field instanceof HTMLInputElement || field instanceof HTMLSelectElement) && field.name && field.type !== "hidden") {
      const one = /^iteration_m/.test(field.name) ? asked.get("iteration") : null;
      field.value = asked.get(field.name) ?? one ?? "";
    }
  }
  mark();
}

document.addEventListener("htmx:afterSettle", () => {
  mark();
  read();
});
document.addEventListener("htmx:historyRestore", () => {
  refill();
  read();
});

/** @param {1|-1} way */
function walk(way) {
  const links = /** @type {HTMLElement[]} */ ([...document.querySelectorAll("[data-row]")]);
  const at = links.indexOf(/** @type {HTMLElement} */ (document.activeElement));
  const next = at < 0 ? (way > 0 ? 0 : links.length - 1) : at + way;
  links[next]?.focus();
  return links.length > 0;
}

onKey((key) => {
  if (key === "j") return walk(1);
  if (key === "k") return walk(-1);
  if (key !== "/") return false;
  const text = document.getElementById("text");
  text?.focus();
  return text !== null;
});
read();
document.documentElement.classList.add("explorer-ready");
