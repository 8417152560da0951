// @ts-check
/**
 * A page of charts with a shared zoom, axis and smoothing: fetches buckets for the charts in view and appends live values.
 * Memory is bounded: only buckets are stored, for the whole range and for the zoomed range.
 */

import { Chart } from "./chart.js";
import { download, renderImage } from "./export.js";
import { fetchJson } from "../ui/fetch_json.js";
import { compress } from "./series.js";
import { need } from "../ui/dom.js";
import { percent, short } from "../ui/formatting.js";

/** @typedef {import("./chart.js").Point} Point */
/** @typedef {import("./chart.js").Axis} Axis */
/** @typedef {import("./chart.js").Range} Range */
/** @typedef {import("./chart.js").Line} Line */
/** @typedef {{iteration: number[], x?: number[], value: number[]}} Column */
/** @typedef {{stride: number, points: Record<string, Record<string, Point[]>>}} Cut run → metric → points */
/** @typedef {{slug: string, label: string, color: string, dash?: number[], shown: boolean}} Source */
/** @typedef {{root: HTMLElement, name: string, partners: Record<string, string>, unit: string, chart: Chart, whole: Cut|null, part: Cut|null, visible: boolean}} Card */

const MAX_POINTS = 1200;
const FETCH_DELAY = 60;

/**
 * Explorer query for the trajectories behind one point of a metric.
 * @param {string} name
 * @param {number} iteration
 */
export function trajectoryFilter(name, iteration) {
  const [family, suite] = name.split("/");
  return `iteration=${iteration}&${family === "eval" ? `split=eval&suite=${encodeURIComponent(suite)}` : "split=train"}`;
}

export class ChartPage {
  /**
   * @param {HTMLElement} root contains [data-metric] cards; its data-curves is the address of the buckets
   * @param {Source[]} sources
   * @param {object} options
   * @param {(card: Card, iteration: number) => string|null} options.address link target of a point
   * @param {(words: string) => void} options.announce
   */
  constructor(root, sources, { address, announce }) {
    this.root = root;
    this.sources = sources;
    this.announce = announce;
    /** @type {Axis} */ this.axis = "iteration";
    /** @type {Range} */ this.range = null;
    this.smoothing = 0.6;
    this.log = false;
    /** @type {import("./overlays.js").Marks} */ this.marks = { bands: [], checkpoints: [] };
    this.timer = 0;
    this.drawing = 0;
    this.generation = 0;
    this.cards = [...root.querySelectorAll("[data-metric]")].map((node) => this.#card(/** @type {HTMLElement} */ (node), address));
    /** @type {Set<Card>} */ this.dirty = new Set();
    const seen = new IntersectionObserver((entries) => {
      for (const entry of entries) {
        const card = this.cards.find((card) => card.root === entry.target);
        if (!card) continue;
        card.visible = entry.isIntersecting;
        if (card.visible) this.#redraw(card);
      }
      this.#fetchSoon();
    }, { rootMargin: "200px" });
    for (const card of this.cards) seen.observe(card.root);
  }

  /**
   * @param {HTMLElement} root
   * @param {(card: Card, iteration: number) => string|null} address
   * @returns {Card}
   */
  #card(root, address) {
    const unit = root.dataset.unit ?? "";
    const share = unit === "share";
    /** @type {Card} */
    const card = {
      root, unit, name: root.dataset.metric ?? "", partners: JSON.parse(root.dataset.partners ?? "{}"),
      whole: null, part: null, visible: false,
      chart: new Chart(root, {
        share, height: 150, format: share ? percent : short, announce: this.announce, onRange: (range) => this.zoom(range),
        onPick: (iteration, event) => {
          const href = address(card, iteration);
          if (!href) return;
          if (event.ctrlKey || event.metaKey) window.open(href, "_blank", "noopener");
          else location.assign(href);
        },
      }),
    };
    root.querySelector("[data-png]")?.addEventListener("click", () => {
      void renderImage(card.chart.plot, root.querySelector("h3")?.textContent ?? card.name, this.#legend(card))
        .then((blob) => blob && download(blob, `${card.name.replaceAll("/", "-")}.png`));
    });
    return card;
  }

  /** @param {Card} card */
  #legend(card) {
    const lines = card.chart.lines.filter((line) => !line.quiet);
    return lines.length > 1 ? lines.map((line) => ({ label: line.label, color: line.color, dash: line.dash })) : [];
  }

  /** Change axis, smoothing or the logarithmic scale. @param {{axis?: Axis, smoothing?: number, log?: boolean}} settings */
  set({ axis, smoothing, log }) {
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
    if (range === this.range || (range && this.range && range.low === this.range.low && range.high === this.range.high)) return;
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
    const x = this.axis === "tokens" ? event.tokens : this.axis === "seconds" ? event.seconds : event.iteration;
    for (const card of this.cards) {
      for (const cut of [card.whole, card.part]) {
        if (!cut || (cut === card.part && this.range && x > this.range.high)) continue;
        for (const name of [card.name, ...Object.values(card.partners)]) {
          if (!(name in event.values)) continue;
          const points = (cut.points[slug] ??= {})[name] ?? [];
          cut.points[slug][name] = bounded(cut, [...points.filter(([at]) => at !== event.iteration), [event.iteration, x, event.values[name]]]);
        }
      }
      if (card.name in event.values && card.visible) this.#redraw(card);
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
    const query = new URLSearchParams({ x: this.axis });
    for (const card of missing) for (const name of [card.name, ...Object.values(card.partners)]) query.append("names", name);
    if (this.range) {
      query.set("from", String(this.range.low));
      query.set("to", String(this.range.high));
    }
    const { generation, axis, range } = this;
    const address = this.root.dataset.curves ?? "";
    const data = await fetchJson(`${address}${address.includes("?") ? "&" : "?"}${query}`);
    if (generation !== this.generation || axis !== this.axis || range !== this.range) return;
    if (!data) {
      this.announce("The curves could not be fetched; retrying.");
      window.setTimeout(() => this.#fetchSoon(), 4000);
      return;
    }
    for (const card of missing) {
      const names = [card.name, ...Object.values(card.partners)];
      card[part ? "part" : "whole"] = { stride: data.stride, points: pointsOf(data.runs, names) };
      this.#redraw(card);
    }
    if (again) this.#fetchSoon();
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
    const lines = this.sources.filter((source) => source.shown).flatMap((source) => this.#lines(card, cut, source));
    const { chart } = card;
    chart.axis = card.root.dataset.axis = this.axis;
    chart.range = this.range;
    chart.smoothing = this.smoothing;
    chart.log = this.log && lines.every((line) => line.points.every(([, , value]) => value > 0));
    chart.marks = this.marks;
    chart.show(lines);
  }

  /** @param {Card} card @param {Cut} cut @param {Source} source @returns {Line[]} */
  #lines(card, cut, source) {
    const own = cut.points[source.slug] ?? {};
    const points = own[card.name] ?? [];
    const { label, color, dash } = source;
    /** @type {Line} */
    const line = { label, color, dash, points, dots: card.name.startsWith("eval/") };
    const { low, high, limit } = card.partners;
    if (low && high) {
      const highs = new Map((own[high] ?? []).map(([at, , value]) => [at, value]));
      line.intervals = (own[low] ?? []).flatMap(([at, x, value]) => (highs.has(at) ? [[x, value, /** @type {number} */ (highs.get(at))]] : []));
    }
    const bounds = limit ? own[limit] ?? [] : [];
    if (!bounds.length || this.sources.length > 1) return [line];
    /** @type {Line[]} */
    const limits = [{ label: "Limit", color: "--bad", dash: [5, 3], points: bounds, plain: true, quiet: true }];
    if (card.root.dataset.bad === "beyond") {
      limits.push({ ...limits[0], label: "Lower limit", points: bounds.map(([at, x, value]) => [at, x, -value]) });
    }
    return [line, ...limits];
  }
}

/**
 * @param {Record<string, Record<string, Column>>} runs
 * @param {string[]} names
 * @returns {Record<string, Record<string, Point[]>>}
 */
function pointsOf(runs, names) {
  return Object.fromEntries(Object.entries(runs).map(([slug, curves]) => [slug, Object.fromEntries(names.map((name) => {
    const column = curves[name];
    return [name, column ? column.iteration.map((at, index) => /** @type {Point} */ ([at, column.x ? column.x[index] : at, column.value[index]])) : []];
  }))]));
}

/** @param {Cut} cut @param {Point[]} points @returns {Point[]} */
function bounded(cut, points) {
  let buckets = cut.stride > 0 ? compress(points, cut.stride, 1, 2) : points;
  while (buckets.length > MAX_POINTS) {
    cut.stride = cut.stride > 0 ? cut.stride * 2 : (points[points.length - 1][1] - points[0][1]) / (MAX_POINTS / 4) || 1;
    buckets = compress(points, cut.stride, 1, 2);
  }
  return buckets;
}

/**
 * Connect the toolbar: smoothing, axis, logarithmic scale, filter, zoom. Its state is kept in the address.
 * @param {ChartPage} board
 * @param {ParentNode} page
 */
export function bindToolbar(board, page) {
  const smoothing = /** @type {HTMLInputElement} */ (need(page, "[data-smoothing]"));
  const log = /** @type {HTMLInputElement} */ (need(page, "[data-log]"));
  const axis = /** @type {HTMLSelectElement} */ (need(page, "[data-axis]"));
  const filter = /** @type {HTMLInputElement} */ (need(page, "[data-filter]"));
  const whole = need(page, "[data-whole]");
  const address = new URLSearchParams(location.search);

  function saveToAddress() {
    const now = new URLSearchParams(location.search);
    const values = { smoothing: smoothing.value === "0.6" ? "" : smoothing.value, x: axis.value === "iteration" ? "" : axis.value, log: log.checked ? "1" : "", metric: filter.value.trim() };
    for (const [name, value] of Object.entries(values)) {
      if (value) now.set(name, value);
      else now.delete(name);
    }
    history.replaceState(null, "", `${location.pathname}${now.size ? "?" + now : ""}${location.hash}`);
  }
  function applyFilter() {
    const words = filter.value.trim().toLowerCase().split(/\s+/).filter(Boolean);
    let count = 0;
    for (const card of board.cards) {
      const text = `${card.name} ${card.root.querySelector("h3")?.textContent ?? ""}`.toLowerCase();
      card.root.hidden = !words.every((word) => text.includes(word));
      if (!card.root.hidden) count += 1;
    }
    for (const section of page.querySelectorAll("[data-section]")) {
      /** @type {HTMLElement} */ (section).hidden = !section.querySelector("[data-metric]:not([hidden])");
    }
    need(page, "[data-none]").hidden = count > 0;
    return count;
  }
  const initial = Number(address.get("smoothing") ?? "0.6");
  if (initial >= 0 && initial < 1) smoothing.value = String(initial);
  if (["iteration", "tokens", "seconds"].includes(address.get("x") ?? "")) axis.value = /** @type {string} */ (address.get("x"));
  log.checked = address.get("log") === "1";
  filter.value = address.get("metric") ?? "";
  applyFilter();
  board.set({ smoothing: Number(smoothing.value), log: log.checked });
  board.set({ axis: /** @type {Axis} */ (axis.value) });
  smoothing.addEventListener("input", () => board.set({ smoothing: Number(smoothing.value) }));
  smoothing.addEventListener("change", saveToAddress);
  log.addEventListener("change", () => {
    board.set({ log: log.checked });
    saveToAddress();
  });
  axis.addEventListener("change", () => {
    board.set({ axis: /** @type {Axis} */ (axis.value) });
    saveToAddress();
  });
  filter.addEventListener("input", () => {
    const count = applyFilter();
    board.announce(`${count} ${count === 1 ? "metric" : "metrics"}`);
    saveToAddress();
  });
  whole.addEventListener("click", () => board.zoom(null));
  board.root.addEventListener("zoomed", (event) => {
    whole.hidden = /** @type {CustomEvent} */ (event).detail === null;
  });
}
