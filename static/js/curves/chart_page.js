// @ts-check
/**
 * A page of charts with a shared zoom, axis and smoothing: fetches buckets for the charts in view and appends live
 * values. Memory is bounded: only buckets are stored, for the whole range and for the zoomed range.
 */

import { Chart } from "./chart.js";
import { showPinned } from "./chart_card.js";
import { factsOf, showFacts } from "./chart_facts.js";
import { groupsOf, linesOf, namesOf } from "./chart_lines.js";
import { isPinned, keyOf, load } from "./saved_charts.js";
import { compress } from "./series.js";
import { formatOf } from "./units.js";
import { fetchJson } from "../ui/fetch_json.js";

/** @typedef {import("./chart.js").Point} Point */
/** @typedef {import("./chart.js").Axis} Axis */
/** @typedef {import("./chart.js").Range} Range */
/** @typedef {import("./chart_lines.js").Metric} Metric */
/** @typedef {import("./chart_lines.js").Plan} Plan */
/** @typedef {import("./chart_lines.js").Source} Source */
/** @typedef {{iteration: number[], x?: number[], value: number[]}} Column */
/** @typedef {{stride: number, points: Record<string, Record<string, Point[]>>}} Cut run → metric → points */
/** @typedef {{root: HTMLElement, plan: Plan, chart: Chart, whole: Cut|null, part: Cut|null, visible: boolean}} Card */

const MAX_POINTS = 1200;
const FETCH_DELAY = 60;
const RETRY = 4000;
/** The answer to a request for another axis, or for points that a rewind has replaced since. */
const OUTDATED = "outdated";

/**
 * Explorer query for the trajectories behind one point of a metric.
 * @param {string} name
 * @param {number} iteration
 */
export function trajectoryFilter(name, iteration) {
  const [family, suite] = name.split("/");
  return `iteration=${iteration}&${family === "eval" ? `split=eval&suite=${encodeURIComponent(suite)}` : "split=train"}`;
}

/** Names of a card's metrics. @param {HTMLElement} root */
function named(root) {
  const { metric, metrics } = root.dataset;
  return metrics ? /** @type {string[]} */ (JSON.parse(metrics)) : [metric ?? ""];
}

export class ChartPage {
  /**
   * @param {HTMLElement} root contains [data-metric] cards; its data-curves is the address of the buckets, its
   *   data-extent the first and last iteration, number of tokens and second of the runs
   * @param {Source[]} sources
   * @param {Record<string, Metric>} catalog all metrics of the runs
   * @param {object} options
   * @param {(name: string, iteration: number) => string|null} options.address link target of a point
   * @param {(words: string) => void} options.announce
   */
  constructor(root, sources, catalog, { address, announce }) {
    this.root = root;
    this.sources = sources;
    this.catalog = catalog;
    this.address = address;
    this.announce = announce;
    this.saved = load();
    /** @type {Axis} */ this.axis = "iteration";
    /** @type {Range} */ this.range = null;
    const { first, ...ends } = { first: 0, ...JSON.parse(root.dataset.extent ?? "{}") };
    /** Iteration at which the charts begin: 0, or below with a warm-up on demonstrations. */ this.first = first;
    /** @type {Record<Axis, number>} */ this.extent = { iteration: 1, tokens: 1, seconds: 1, ...ends };
    this.smoothing = 0.6;
    this.log = false;
    this.average = false;
    /** @type {import("./overlays.js").Marks} */ this.marks = { bands: [], checkpoints: [], changes: [] };
    /** Called to enlarge a chart. @type {(plan: Plan) => void} */ this.onEnlarge = () => {};
    this.timer = 0;
    this.drawing = 0;
    this.generation = 0;
    /** @type {Map<Element, Card>} */ this.cardOf = new Map();
    /** @type {Set<Card>} */ this.dirty = new Set();
    this.seen = new IntersectionObserver(
      (entries) => {
        for (const entry of entries) {
          const card = this.cardOf.get(entry.target);
          if (!card) continue;
          card.visible = entry.isIntersecting;
          if (card.visible) this.#redraw(card);
        }
        this.#fetchSoon();
      },
      { rootMargin: "200px" },
    );
    for (const node of root.querySelectorAll("[data-metric]")) this.add(/** @type {HTMLElement} */ (node));
  }

  /**
   * Draw a chart in an element with [data-metric], or several metrics in one with [data-metrics] and [data-own].
   * @param {HTMLElement} root
   * @param {object} [options]
   * @param {boolean} [options.large] fills its element; Enter opens the trajectories behind the point under the cursor
   * @param {Cut|null} [options.whole] its points, if they were fetched
   * @returns {Card}
   */
  add(root, { large = false, whole = null } = {}) {
    const plan = { names: named(root), own: root.dataset.own !== undefined };
    const unit = this.catalog[plan.names[0]]?.unit ?? "";
    /** @type {Card} */
    const card = {
      root,
      plan,
      whole: whole && cutOf(whole, namesOf(plan, this.catalog)),
      part: null,
      visible: false,
      chart: new Chart(root, {
        unit,
        share: unit === "share",
        height: 0,
        format: formatOf(unit),
        announce: this.announce,
        onRange: (range) => this.zoom(range),
        onEnlarge: large ? undefined : () => this.onEnlarge(card.plan),
        onPick: (iteration, event) => {
          const href = this.address(card.plan.names[0], iteration);
          if (!href) return;
          if (event.ctrlKey || event.metaKey) window.open(href, "_blank", "noopener");
          else location.assign(href);
        },
      }),
    };
    root.querySelector("[data-enlarge]")?.addEventListener("click", () => this.onEnlarge(card.plan));
    showPinned(root, isPinned(this.saved, plan.names));
    this.cardOf.set(root, card);
    this.seen.observe(root);
    return card;
  }

  /** @param {Card} card */
  remove(card) {
    this.seen.unobserve(card.root);
    this.cardOf.delete(card.root);
    this.dirty.delete(card);
    card.chart.destroy();
  }

  get cards() {
    return [...this.cardOf.values()];
  }

  /** Groups of runs that differ in their seed, where at least one has several. */
  get canAverage() {
    return groupsOf(this.sources, true).some((group) => group.length > 1);
  }

  /**
   * Change axis, smoothing, the logarithmic scale, or whether runs that differ in their seed are averaged.
   * @param {{axis?: Axis, smoothing?: number, log?: boolean, average?: boolean}} settings
   */
  set({ axis, smoothing, log, average }) {
    if (average !== undefined) this.average = average;
    if (smoothing !== undefined) this.smoothing = smoothing;
    if (log !== undefined) this.log = log;
    if (axis !== undefined && axis !== this.axis) {
      this.axis = axis;
      this.range = null;
      this.forget();
      return;
    }
    this.redraw();
  }

  /** Zoom to a range of the axis in full resolution; null shows everything. @param {Range} range */
  zoom(range) {
    if (range === this.range || (range && this.range && range.low === this.range.low && range.high === this.range.high))
      return;
    this.range = range;
    for (const card of this.cards) card.part = null;
    this.redraw();
    this.#fetchSoon();
    this.root.dispatchEvent(new CustomEvent("zoomed", { detail: range }));
  }

  /** Discard and refetch everything, after a rewind or when a run was added. */
  forget() {
    this.generation += 1;
    for (const card of this.cards) card.whole = card.part = null;
    this.redraw();
    this.#fetchSoon();
  }

  /** Refetch the charts in view. */
  refresh() {
    for (const card of this.cards) if (card.visible) card.whole = null;
    this.#fetchSoon(false);
  }

  redraw() {
    for (const card of this.cards) if (card.visible) this.#redraw(card);
  }

  /**
   * Append the values of a finished iteration.
   * @param {string} slug
   * @param {{iteration: number, tokens: number, seconds: number, values: Record<string, number>}} event
   */
  append(slug, event) {
    for (const axis of /** @type {Axis[]} */ (["iteration", "tokens", "seconds"]))
      this.extent[axis] = Math.max(this.extent[axis], event[axis]);
    const x = event[this.axis];
    for (const card of this.cards) {
      for (const cut of [card.whole, card.part]) {
        if (!cut || (cut === card.part && this.range && x > this.range.high)) continue;
        for (const name of namesOf(card.plan, this.catalog)) {
          if (!(name in event.values)) continue;
          const points = (cut.points[slug] ??= {})[name] ?? [];
          cut.points[slug][name] = bounded(cut, [
            ...points.filter(([at]) => at !== event.iteration),
            [event.iteration, x, event.values[name]],
          ]);
        }
      }
      if (card.visible) this.#redraw(card);
    }
  }

  #fetchSoon(again = true) {
    window.clearTimeout(this.timer);
    this.timer = window.setTimeout(() => void this.#fetch(again), FETCH_DELAY);
  }

  /** @param {boolean} again also fetch charts that came into view meanwhile */
  async #fetch(again) {
    const part = this.range !== null;
    const missing = this.cards.filter((card) => card.visible && (part ? !card.part : !card.whole));
    if (!missing.length) return;
    const { range } = this;
    const cut = await this.#request(
      missing.flatMap((card) => card.plan.names),
      range,
    );
    if (range !== this.range || cut === OUTDATED) return;
    if (!cut) {
      window.setTimeout(() => this.#fetchSoon(), RETRY);
      return;
    }
    for (const card of missing) {
      card[part ? "part" : "whole"] = cutOf(cut, namesOf(card.plan, this.catalog));
      this.#redraw(card);
    }
    if (again) this.#fetchSoon();
  }

  /**
   * The points of these metrics over the whole axis; null if they could not be fetched.
   * @param {string[]} names
   * @returns {Promise<Cut|null>}
   */
  async fetchWhole(names) {
    const cut = await this.#request(names, null);
    return cut === OUTDATED ? this.fetchWhole(names) : cut;
  }

  /**
   * @param {string[]} names
   * @param {Range} range null: the whole axis, which is extended to the newest point
   * @returns {Promise<Cut|null|typeof OUTDATED>} null if they could not be fetched
   */
  async #request(names, range) {
    const query = new URLSearchParams({ x: this.axis });
    const wanted = namesOf({ names, own: false }, this.catalog);
    for (const name of wanted) query.append("names", name);
    if (range) {
      query.set("from", String(range.low));
      query.set("to", String(range.high));
    }
    const { generation, axis } = this;
    const address = this.root.dataset.curves ?? "";
    const data = await fetchJson(`${address}${address.includes("?") ? "&" : "?"}${query}`);
    if (generation !== this.generation || axis !== this.axis) return OUTDATED;
    if (!data) {
      this.announce("The curves could not be fetched; retrying.");
      return null;
    }
    const points = pointsOf(data.runs, wanted);
    if (!range) this.#extend(points);
    return { stride: data.stride, points };
  }

  /**
   * The axis of all charts reaches from the first point to the newest one.
   * @param {Record<string, Record<string, Point[]>>} points
   */
  #extend(points) {
    const curves = Object.values(points).flatMap((metrics) => Object.values(metrics));
    const last = Math.max(this.extent[this.axis], ...curves.flatMap((curve) => curve.slice(-1)).map(([, x]) => x));
    const first = Math.min(this.first, ...curves.flatMap((curve) => curve.slice(0, 1)).map(([at]) => at));
    if (last === this.extent[this.axis] && first === this.first) return;
    this.extent[this.axis] = last;
    this.first = first;
    this.redraw();
  }

  /** @param {Card} card */
  #redraw(card) {
    this.dirty.add(card);
    if (this.drawing) return;
    this.drawing = window.requestAnimationFrame(() => {
      this.drawing = 0;
      for (const each of this.dirty) this.#draw(each);
      this.dirty.clear();
    });
  }

  /** @param {Card} card */
  #draw(card) {
    const cut = (this.range && card.part) || card.whole;
    if (!cut) return;
    const { average, smoothing } = this;
    const lines = linesOf(card.plan, cut.points, this.sources, this.catalog, { average, smoothing });
    const { chart } = card;
    chart.axis = card.root.dataset.axis = this.axis;
    chart.range = this.range;
    chart.extent = { low: this.axis === "iteration" ? this.first : 0, high: this.extent[this.axis] };
    chart.limits = this.saved.limits[keyOf(card.plan.names)] ?? { low: null, high: null };
    chart.smoothing = smoothing;
    chart.log = this.log && lines.every((line) => line.points.every(([, , value]) => value > 0));
    chart.marks = this.marks;
    chart.show(lines);
    this.#showFacts(card);
    card.root.dispatchEvent(new CustomEvent("drawn"));
  }

  /** Best value or range over the whole run. @param {Card} card */
  #showFacts({ root, plan, whole }) {
    const place = root.querySelector("[data-facts]");
    if (!(place instanceof HTMLElement) || !whole || plan.names.length > 1) return;
    const [name] = plan.names;
    const { better, unit = "", partners } = this.catalog[name] ?? {};
    const shown = this.sources.filter((source) => source.shown);
    const points = shown.flatMap(({ slug }) => whole.points[slug]?.[name] ?? []);
    showFacts(place, factsOf(points, better), {
      format: formatOf(unit),
      address: (iteration) => this.address(name, iteration),
      limit: Boolean(partners?.limit) && this.sources.length === 1,
    });
  }
}

/**
 * @param {Record<string, Record<string, Column>>} runs
 * @param {string[]} names
 * @returns {Record<string, Record<string, Point[]>>}
 */
function pointsOf(runs, names) {
  return Object.fromEntries(
    Object.entries(runs).map(([slug, curves]) => [
      slug,
      Object.fromEntries(
        names.map((name) => {
          const column = curves[name];
          return [
            name,
            column
              ? column.iteration.map(
                  (at, index) => /** @type {Point} */ ([at, column.x ? column.x[index] : at, column.value[index]]),
                )
              : [],
          ];
        }),
      ),
    ]),
  );
}

/** The part of a cut with these metrics, which is appended to on its own. @param {Cut} cut @param {string[]} names @returns {Cut} */
function cutOf({ stride, points }, names) {
  const part = Object.entries(points).map(([slug, curves]) => [
    slug,
    Object.fromEntries(names.map((name) => [name, curves[name] ?? []])),
  ]);
  return { stride, points: Object.fromEntries(part) };
}

/** @param {Cut} cut @param {Point[]} points @returns {Point[]} */
function bounded(cut, points) {
  let buckets = cut.stride > 0 ? compress(points, cut.stride, 1, 2) : points;
  while (buckets.length > MAX_POINTS) {
    cut.stride =
      cut.stride > 0 ? cut.stride * 2 : (points[points.length - 1][1] - points[0][1]) / (MAX_POINTS / 4) || 1;
    buckets = compress(points, cut.stride, 1, 2);
  }
  return buckets;
}
