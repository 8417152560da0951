// @ts-check
/**
 * Trajectory explorer: marks invalid fields, moves between rows with j and k, updates the counts of a live run and
 * offers new results. The server renders the list; htmx swaps it in.
 */

import { countAll } from "./explorer_counts.js";
import { fetchJson } from "../ui/fetch_json.js";
import { describe, onKey } from "../ui/shortcuts.js";
import { need, setText } from "../ui/dom.js";
import { percent, plural, signed } from "../ui/formatting.js";

/** @typedef {import("./explorer_counts.js").Counts} Counts */
/** @typedef {import("./explorer_counts.js").Facts} Facts */

const FETCH_INTERVAL = 8_000;
const ANNOUNCE_INTERVAL = 5_000;
const MAX_RECENT = 600;
const form = /** @type {HTMLFormElement} */ (need(document, "[data-filters]"));
/** @type {Counts|null} */ let counts = null;
/** Most recent events: a list in flight may have been rendered before them. @type {import("../types.js").Event[]} */
let recent = [];
let renderedCount = 0;
let timer = 0;
let fetching = 0;

/** Read the counts of the last rendered list. */
function readRendered() {
  /** @type {Counts|null} */ const rendered = JSON.parse(
    document.getElementById("explorer-counts")?.textContent ?? "null",
  );
  renderedCount = rendered?.now.found ?? 0;
  start(rendered);
}

/** @param {Counts|null} rendered */
function start(rendered) {
  counts = rendered && countAll(rendered, recent);
  if (counts && !counts.by_itself && counts.seq > (rendered?.seq ?? 0)) fetchSoon();
  else showSoon();
}

/** @param {Facts} facts */
function factsWords(facts) {
  const found = facts.found.toLocaleString("en");
  if (facts.more) return `More than ${found} found · narrow the filters to see their results`;
  const parts = [`${found} found`];
  if (facts.ended > 0) parts.push(`${percent(facts.success / facts.ended)} solved`);
  if (facts.rewarded > 0) parts.push(`mean reward ${signed(facts.reward / facts.rewarded)}`);
  return parts.join(" · ");
}

function show() {
  timer = 0;
  if (!counts) return;
  const facts = document.querySelector("[data-facts]");
  if (facts) setText(facts, factsWords(counts.now));
  const offer = document.querySelector("[data-new]");
  if (!(offer instanceof HTMLElement)) return;
  const fresh = counts.now.found - renderedCount;
  offer.hidden = fresh <= 0;
  if (fresh > 0) setText(offer, `${plural(fresh, "new one", "new ones")}: show`);
}

/** Rate-limited so that the text can be read or spoken. */
function showSoon() {
  timer ||= window.setTimeout(show, ANNOUNCE_INTERVAL);
}

/** Fetch counts that only the server can compute, at most once per interval. */
function fetchSoon() {
  fetching ||= window.setTimeout(
    async () => {
      const before = counts;
      const now = await fetchJson(`${form.dataset.counts}${location.search}`);
      fetching = 0;
      if (!now || before !== counts) return; // the list was replaced meanwhile and brought its own counts
      start(now);
      show();
    },
    FETCH_INTERVAL * (0.75 + Math.random() / 2),
  );
}

document.addEventListener("runevents", (event) => {
  if (!counts) return;
  const { detail } = /** @type {CustomEvent} */ (event);
  recent = [...recent, ...detail].slice(-MAX_RECENT);
  counts = countAll(counts, detail);
  if (counts.by_itself) showSoon();
  else fetchSoon();
});
document.addEventListener("runreloaded", () => {
  recent = [];
  if (counts) fetchSoon();
});

/** Mark invalid fields for assistive technology. */
function mark() {
  for (const slot of form.querySelectorAll(".field-error")) {
    const field = document.getElementById(slot.id.replace(/-error$/, ""));
    if (slot.textContent?.trim()) field?.setAttribute("aria-invalid", "true");
    else field?.removeAttribute("aria-invalid");
  }
}

/** After history navigation: reset the fields to the query of the address. */
function refill() {
  const query = new URLSearchParams(location.search);
  for (const slot of form.querySelectorAll(".field-error")) slot.textContent = "";
  for (const field of form.elements) {
    if (
      (field instanceof HTMLInputElement || field instanceof HTMLSelectElement) &&
      field.name &&
      field.type !== "hidden"
    ) {
      const exact = /^iteration_m/.test(field.name) ? query.get("iteration") : null;
      const index = field.name === "group_number" ? query.get("group") : null; // from 0, in earlier links
      field.value = query.get(field.name) ?? exact ?? (index && String(Number(index) + 1)) ?? "";
    }
  }
  mark();
}

/** Whether the numbers of what was found are folded away: kept when the list is replaced. */
let folded = false;
document.addEventListener(
  "toggle",
  (event) => {
    if (event.target instanceof HTMLDetailsElement && event.target.matches(".facets") && event.target.isConnected)
      folded = !event.target.open;
  },
  true,
);

document.addEventListener("htmx:afterSettle", () => {
  if (folded) document.querySelector("details.facets")?.removeAttribute("open");
  mark();
  readRendered();
});
document.addEventListener("htmx:historyRestore", () => {
  refill();
  readRendered();
});

/** @param {1|-1} way */
function walk(way) {
  const links = /** @type {HTMLElement[]} */ ([...document.querySelectorAll("[data-row]")]);
  const at = links.indexOf(/** @type {HTMLElement} */ (document.activeElement));
  const next = at < 0 ? (way > 0 ? 0 : links.length - 1) : at + way;
  links[next]?.focus();
  return links.length > 0;
}

describe("Trajectories", [
  ["j k", "next, previous trajectory"],
  ["Enter", "open it"],
  ["/", "search"],
]);
onKey((key) => {
  if (key === "j") return walk(1);
  if (key === "k") return walk(-1);
  if (key !== "/") return false;
  const text = document.getElementById("text");
  text?.focus();
  return text !== null;
});
readRendered();
document.documentElement.classList.add("explorer-ready");
