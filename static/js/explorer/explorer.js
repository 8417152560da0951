// @ts-check
/**
 * Trajectory explorer: marks invalid fields, moves between rows with j and k, updates the counts of a live run and
 * offers new results. The server renders the list; htmx swaps it in.
 */

import { playerKey, showInPane } from "./attempt_pane.js";
import { labelKey } from "./labels.js";
import "./reward_brush.js";
import { fetchJson } from "../ui/fetch_json.js";
import { describe, onKey } from "../ui/shortcuts.js";
import { need, setText } from "../ui/dom.js";
import { plural } from "../ui/formatting.js";

/**
 * What was found up to an event of the run; in words only in answers of the server.
 * @typedef {{seq: number, found: number, words?: string}} Counts
 */

const FETCH_INTERVAL = 5_000;
/** Interval in times of the last answer: a slow count is asked for less often. */
const PAUSE = 20;
const form = /** @type {HTMLFormElement} */ (need(document, "[data-filters]"));
/** @type {Counts|null} null: the run has ended */ let counts = null;
let renderedCount = 0;
/** The newest event that the page knows of. */
let newest = 0;
let interval = FETCH_INTERVAL;
let fetching = 0;

/** Read the counts of the last rendered list. */
function readRendered() {
  counts = JSON.parse(document.getElementById("explorer-counts")?.textContent ?? "null");
  renderedCount = counts?.found ?? 0;
  fetchIfBehind();
}

function show() {
  if (!counts) return;
  const facts = document.querySelector("[data-facts]");
  if (facts && counts.words) setText(facts, counts.words);
  const offer = document.querySelector("[data-new]");
  if (!(offer instanceof HTMLElement)) return;
  const fresh = counts.found - renderedCount;
  offer.hidden = fresh <= 0;
  if (fresh > 0) setText(offer, `${plural(fresh, "new one", "new ones")}: show`);
}

function fetchIfBehind() {
  if (counts && counts.seq < newest) fetchSoon();
}

/** Fetch counts, at most once per interval: the text can be read or spoken meanwhile. */
function fetchSoon() {
  fetching ||= window.setTimeout(
    async () => {
      const before = counts;
      const asked = performance.now();
      const now = await fetchJson(`${form.dataset.counts}${location.search}`);
      interval = Math.max(FETCH_INTERVAL, PAUSE * (performance.now() - asked));
      fetching = 0;
      if (!now) return; // the next event asks again
      if (before === counts) {
        counts = now;
        show();
      } // else the list was replaced meanwhile and brought its own counts
      fetchIfBehind();
    },
    interval * (0.75 + Math.random() / 2),
  );
}

document.addEventListener("runevents", (event) => {
  const { detail } = /** @type {CustomEvent<import("../types.js").Event[]>} */ (event);
  newest = detail[detail.length - 1]?.seq ?? newest;
  fetchIfBehind();
});
document.addEventListener("runreloaded", () => {
  newest = 0; // events may be numbered anew
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
  showInPane();
});
document.addEventListener("htmx:historyRestore", () => {
  refill();
  readRendered();
  showInPane();
});

/** @param {1|-1} way */
function walk(way) {
  const links = /** @type {HTMLElement[]} */ ([...document.querySelectorAll("[data-row]")]);
  const at = links.indexOf(/** @type {HTMLElement} */ (document.activeElement));
  const next = at < 0 ? (way > 0 ? 0 : links.length - 1) : at + way;
  links[next]?.focus();
  links[next]?.scrollIntoView({ block: "nearest" });
  return links.length > 0;
}

describe("Attempts", [
  ["j k", "next, previous attempt"],
  ["Enter", "open it"],
  ["← → space", "step, play the attempt next to the list"],
  ["/", "search"],
  ["y n", "yes, no: label the attempt, while a saved view of the team or a scanner is open"],
]);
onKey((key) => {
  if (labelKey(key)) return true;
  if (key === "j") return walk(1);
  if (key === "k") return walk(-1);
  if (key !== "/") return playerKey(key);
  const text = document.getElementById("text");
  text?.focus();
  return text !== null;
});
readRendered();
showInPane();
document.documentElement.classList.add("explorer-ready");
