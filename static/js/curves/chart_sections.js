// @ts-check
/**
 * Sections of a page of charts. A run may have thousands of metrics: a section fetches and builds its charts a few at a
 * time, the first ones when they come near the window. Nothing happens in a closed section.
 */

import { chartCard } from "./chart_card.js";
import { factsOf } from "./chart_facts.js";
import { formatOf } from "./units.js";
import { html, need, setText } from "../ui/dom.js";
import { plural } from "../ui/formatting.js";

/** @typedef {import("./chart_page.js").Card} Card */
/** @typedef {import("./chart_page.js").ChartPage} ChartPage */
/** @typedef {import("./chart.js").Point} Point */

const AT_ONCE = 24;
const AHEAD = "400px";
const RETRY = 4000;
const VALUES = 12;

/** A grid of charts. The first ones are built when their places come near the window, further ones on request. */
class ChartList {
  /**
   * @param {ChartPage} board
   * @param {HTMLElement} root
   * @param {(name: string, points: Point[]) => boolean} [takes] whether a chart belongs here, given its points
   */
  constructor(board, root, takes = () => true) {
    this.board = board;
    this.root = root;
    this.takes = takes;
    /** @type {string[]} */ this.names = [];
    /** @type {string[]} */ this.waiting = [];
    /** @type {Map<string, Card>} */ this.built = new Map();
    this.building = false;
    this.more = html("button", { class: "button small more-charts", type: "button" });
    this.more.addEventListener("click", () => void this.#buildMore());
    this.seen = new IntersectionObserver((entries) => entries.some((entry) => entry.isIntersecting) && this.#build(), {
      rootMargin: AHEAD,
    });
  }

  /** Show the charts of these metrics, in this order, and no others. @param {string[]} names */
  show(names) {
    const shown = new Set(names);
    for (const [name, card] of this.built) card.root.hidden = !shown.has(name);
    this.names = names;
    this.waiting = names.filter((name) => !this.built.has(name));
    this.#reserve(AT_ONCE - (names.length - this.waiting.length));
  }

  /** Keep places for so many of the next charts, and a button for the others. @param {number} count */
  #reserve(count) {
    this.seen.disconnect();
    for (const place of this.root.querySelectorAll(":scope > .chart-place")) place.remove();
    this.more.remove();
    const places = this.waiting.slice(0, Math.max(0, count)).map(() => html("span", { class: "chart-place" }));
    this.root.append(...places);
    for (const place of places) this.seen.observe(place);
    if (places.length || !this.waiting.length) return;
    const next = Math.min(AT_ONCE, this.waiting.length);
    const others = next < this.waiting.length ? ` of ${this.waiting.length.toLocaleString("en")}` : "";
    setText(this.more, `Show ${next} more${others}`);
    this.root.append(this.more);
  }

  /** @returns {Promise<string[]>} the metrics whose charts were added */
  async #build() {
    if (this.building) return [];
    this.building = true;
    const names = this.waiting.slice(0, AT_ONCE);
    const cut = await this.board.fetchWhole(names);
    this.building = false;
    if (!cut) {
      window.setTimeout(() => this.show(this.names), RETRY);
      return [];
    }
    const added = names.filter((name) => {
      const points = Object.values(cut.points).flatMap((curves) => curves[name] ?? []);
      return !this.built.has(name) && this.takes(name, points);
    });
    const done = new Set(names);
    this.waiting = this.waiting.filter((name) => !done.has(name));
    this.#reserve(0);
    for (const name of added) this.#add(name, cut);
    return added;
  }

  /** The focus moves from the button to the first of the new charts. */
  async #buildMore() {
    this.more.setAttribute("aria-busy", "true");
    const [first] = await this.#build();
    this.more.removeAttribute("aria-busy");
    if (first) need(this.built.get(first)?.root ?? this.root, "[data-plot]").focus({ preventScroll: true });
  }

  /** @param {string} name @param {import("./chart_page.js").Cut} cut */
  #add(name, cut) {
    const root = chartCard({ names: [name], own: false }, this.board.catalog);
    const at = this.names.indexOf(name);
    const later = this.names.slice(at + 1).find((other) => this.built.has(other));
    const next = later ? this.built.get(later)?.root : this.root.querySelector(":scope > .chart-place, .more-charts");
    this.root.insertBefore(root, next ?? null);
    root.hidden = at < 0; // the filter has changed meanwhile
    this.built.set(name, this.board.add(root, { whole: cut }));
  }
}

export class ChartSection {
  /**
   * @param {ChartPage} board
   * @param {HTMLDetailsElement} root
   * @param {string[]} names of its metrics, in order
   */
  constructor(board, root, names) {
    this.board = board;
    this.root = root;
    this.names = names;
    this.shown = names;
    /** Whether it was open before the filter; null without a filter. @type {boolean|null} */ this.wasOpen = null;
    /** Metrics that never change, with their values. @type {Map<string, number>} */ this.constant = new Map();
    this.fold = /** @type {HTMLDetailsElement} */ (need(root, ".flat-metrics"));
    this.charts = new ChartList(board, need(root, ".charts"), (name, points) => !this.#isFlat(name, points));
    this.flat = new ChartList(board, need(this.fold, ".charts"));
    this.filter(null);
  }

  /**
   * Show the metrics that match; null shows all.
   * @param {((name: string) => boolean)|null} matches
   */
  filter(matches) {
    const names = matches ? this.names.filter(matches) : this.names;
    this.shown = names;
    this.root.hidden = !names.length;
    const part = names.length < this.names.length ? `${names.length.toLocaleString("en")} of ` : "";
    setText(need(this.root, "[data-count]"), `${part}${this.names.length.toLocaleString("en")}`);
    if (matches) {
      this.wasOpen ??= this.root.open;
      this.root.open = true;
    } else if (this.wasOpen !== null) {
      this.root.open = this.wasOpen;
      this.fold.open = false;
      this.wasOpen = null;
    }
    this.charts.show(names.filter((name) => !this.constant.has(name)));
    this.#showFlat();
  }

  /** @param {string} name @param {Point[]} points */
  #isFlat(name, points) {
    const facts = factsOf(points);
    if (!facts?.flat) return false;
    this.constant.set(name, facts.low);
    this.#showFlat();
    return true;
  }

  #showFlat() {
    const names = this.shown.filter((name) => this.constant.has(name));
    this.fold.hidden = !names.length;
    if (this.wasOpen !== null) this.fold.open = names.length > 0;
    const values = names.slice(0, VALUES).map((name) => {
      const { title = name, unit = "" } = this.board.catalog[name] ?? {};
      return `${title} ${formatOf(unit)(this.constant.get(name) ?? 0)}`;
    });
    setText(need(this.fold, "[data-flat-count]"), plural(names.length, "flat metric"));
    setText(need(this.fold, "[data-flat-values]"), [...values, ...(names.length > VALUES ? ["…"] : [])].join(" · "));
    this.flat.show(names);
  }
}
