// @ts-check
/** Toolbar of a page of charts. Its state is kept in the address. */

import { groupLabel, groupsOf } from "../chart_lines.js";
import { ChartSection } from "../chart_sections.js";
import { showLegend } from "./chart_legend.js";
import { bindEnlarged } from "./enlarged_chart.js";
import { bindPins } from "./pinned_charts.js";
import { beginsWord } from "./word_filter.js";
import { need } from "../../ui/dom.js";

/** @typedef {import("../chart.js").Axis} Axis */
/** @typedef {import("../chart_page.js").ChartPage} ChartPage */

/**
 * Connect everything around the charts of this page: pins, toolbar and the dialog of one large chart.
 * @param {ChartPage} board
 * @param {Parameters<typeof bindEnlarged>[2]} options
 */
export function bindTools(board, options) {
  bindPins(board, need(board.root, "[data-pinned]"));
  bindToolbar(board, document);
  bindEnlarged(board, /** @type {HTMLDialogElement} */ (need(document, "[data-chart-dialog]")), options);
  need(document, "[data-combine]").addEventListener("click", () => {
    board.onEnlarge({ names: [Object.keys(board.catalog)[0]], own: false });
    need(document, "[data-more-metrics]").focus();
  });
}

/**
 * The sections of the page: all metrics but those at its top.
 * @param {ChartPage} board
 * @param {Document} page
 */
function sectionsOf(board, page) {
  const top = new Set([...page.querySelectorAll("[data-overview] [data-metric]")].map(metricOf));
  /** @type {Map<string, string[]>} */
  const names = new Map();
  for (const [name, { key }] of Object.entries(board.catalog)) {
    if (top.has(name)) continue;
    const others = names.get(key);
    if (others) others.push(name);
    else names.set(key, [name]);
  }
  return [...page.querySelectorAll("details[data-section]")].map((root) => {
    const key = root.getAttribute("data-section") ?? "";
    return new ChartSection(board, /** @type {HTMLDetailsElement} */ (root), names.get(key) ?? []);
  });
}

/** @param {Element} root of a chart */
function metricOf(root) {
  return root.getAttribute("data-metric") ?? "";
}

/**
 * Connect the toolbar: smoothing, axis, logarithmic scale, averages, filter, zoom. Its state is kept in the address.
 * @param {ChartPage} board
 * @param {Document} page
 */
function bindToolbar(board, page) {
  const smoothing = /** @type {HTMLInputElement} */ (need(page, "[data-smoothing]"));
  const log = /** @type {HTMLInputElement} */ (need(page, "[data-log]"));
  const axis = /** @type {HTMLSelectElement} */ (need(page, "[data-axis]"));
  const filter = /** @type {HTMLInputElement} */ (need(page, "[data-filter]"));
  const whole = need(page, "[data-whole]");
  const average = page.querySelector("[data-average]");
  const address = new URLSearchParams(location.search);

  const averaged = () => average instanceof HTMLInputElement && average.checked;
  function saveToAddress() {
    const now = new URLSearchParams(location.search);
    const values = {
      smoothing: smoothing.value === "0.6" ? "" : smoothing.value,
      x: axis.value === "iteration" ? "" : axis.value,
      log: log.checked ? "1" : "",
      metric: filter.value.trim(),
      seeds: averaged() ? "mean" : "",
    };
    for (const [name, value] of Object.entries(values)) {
      if (value) now.set(name, value);
      else now.delete(name);
    }
    history.replaceState(null, "", `${location.pathname}${now.size ? `?${now}` : ""}${location.hash}`);
  }
  const tops = /** @type {HTMLElement[]} */ ([...page.querySelectorAll("[data-overview], [data-pinned]")]);
  const sections = sectionsOf(board, page);
  /** @returns {number} metrics that match */
  function applyFilter() {
    const words = filter.value.trim().toLowerCase().split(/\s+/).filter(Boolean);
    const matches = (/** @type {string} */ name) => {
      const text = `${name} ${board.catalog[name].title}`.toLowerCase();
      return words.every((word) => beginsWord(text, word));
    };
    for (const top of tops) {
      const charts = [...top.querySelectorAll(".chart")].flatMap((root) => board.cardOf.get(root) ?? []);
      for (const { root, plan } of charts) root.hidden = !plan.names.some(matches);
      top.hidden = charts.every(({ root }) => root.hidden);
    }
    for (const section of sections) section.filter(words.length ? matches : null);
    const count = Object.keys(board.catalog).filter(matches).length;
    need(page, "[data-none]").hidden = count > 0;
    return count;
  }
  const initial = Number(address.get("smoothing") ?? "0.6");
  if (initial >= 0 && initial < 1) smoothing.value = String(initial);
  const tokens = /** @type {HTMLOptionElement} */ (need(axis, "option[value=tokens]"));
  /** Trainers that send no numbers of tokens have no such axis. */
  function offerTokens() {
    tokens.disabled = tokens.hidden = board.extent.tokens === 0;
  }
  offerTokens();
  axis.addEventListener("focus", offerTokens); // the first may have come since
  const chosen = axis.querySelector(`option[value="${CSS.escape(address.get("x") ?? "")}"]:not(:disabled)`);
  if (chosen instanceof HTMLOptionElement) axis.value = chosen.value;
  log.checked = address.get("log") === "1";
  filter.value = address.get("metric") ?? "";
  applyFilter();
  function applyAverage() {
    board.set({ average: averaged() });
    const list = page.querySelector("[data-seed-legend]");
    if (!(list instanceof HTMLElement)) return;
    list.hidden = !averaged();
    showLegend(
      list,
      groupsOf(
        board.sources.filter((source) => source.shown),
        true,
      ).map((group) => ({ ...group[0], label: groupLabel(group) })),
    );
  }
  if (average instanceof HTMLInputElement) {
    average.checked = board.canAverage && address.get("seeds") === "mean";
    average.addEventListener("change", () => {
      applyAverage();
      saveToAddress();
    });
    board.root.addEventListener("sourceschanged", applyAverage);
  }
  board.set({ smoothing: Number(smoothing.value), log: log.checked });
  applyAverage();
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
  page.addEventListener("chartspinned", () => applyFilter());
  board.root.addEventListener("zoomed", (event) => {
    whole.hidden = /** @type {CustomEvent} */ (event).detail === null;
  });
  const [low, high] = (address.get("range") ?? "").split("~").map(Number);
  if (high > low) board.zoom({ low, high });
}
