// @ts-check
/**
 * Dialog with one chart over the whole window: y limits, further metrics, pin, link and files. Which chart is open is
 * kept in the address, so that the link opens the same one.
 */

import { showLegend } from "./chart_legend.js";
import { csvOf } from "./csv.js";
import { download, renderImage } from "./export.js";
import { svgOf } from "./export_svg.js";
import { MAX_METRICS, isPinned, keyOf, store, toggled } from "../saved_charts.js";
import { typedFactor, typedUnit } from "../units.js";
import { copy } from "../../ui/clipboard.js";
import { html, need, setText } from "../../ui/dom.js";

/** @typedef {import("../chart_lines.js").Plan} Plan */
/** @typedef {import("../chart_page.js").Card} Card */
/** @typedef {import("../chart_page.js").ChartPage} ChartPage */
/** @typedef {import("./export.js").Caption} Caption */

/**
 * Connect the dialog to a page of charts.
 * @param {ChartPage} board
 * @param {HTMLDialogElement} dialog
 * @param {object} options
 * @param {string} options.subtitle of saved pictures: the run, or the runs
 * @param {(names: string[]) => string|null} [options.csv] address of all values; without it those of the drawn points
 *   are saved
 */
export function bindEnlarged(board, dialog, { subtitle, csv }) {
  const place = need(dialog, "[data-large]");
  const low = /** @type {HTMLInputElement} */ (need(dialog, "[data-low]"));
  const high = /** @type {HTMLInputElement} */ (need(dialog, "[data-high]"));
  const problem = need(dialog, "[data-problem]");
  const more = /** @type {HTMLSelectElement} */ (need(dialog, "[data-more-metrics]"));
  const own = /** @type {HTMLInputElement} */ (need(dialog, "[data-own-axes]"));
  const pin = need(dialog, "[data-pin-large]");
  /** @type {Card|null} */
  let card = null;

  /** @param {Plan} plan */
  function open(plan) {
    if (card) board.remove(card);
    const root = html(
      "section",
      {
        class: "chart large",
        "data-metrics": JSON.stringify(plan.names),
        "data-own": plan.own,
      },
      [
        html("div", { class: "chart-head" }, [html("span", { class: "value", "data-value": true })]),
        html("div", { "data-plot": true }),
      ],
    );
    place.replaceChildren(root);
    if (!dialog.open) {
      if (more.options.length < 2) fillChoices(more, board);
      dialog.showModal();
    }
    card = board.add(root, { large: true });
    root.addEventListener("drawn", legend);
    describe();
    toAddress();
    /** @type {HTMLElement} */ (need(root, "[data-plot]")).focus();
  }

  /** @returns {Plan} */
  const plan = () => /** @type {Card} */ (card).plan;
  const first = () => board.catalog[plan().names[0]];
  const titleOf = (/** @type {string} */ name) => board.catalog[name]?.title ?? name;

  function describe() {
    const { names } = plan();
    setText(need(dialog, "h2"), names.map(titleOf).join(" · "));
    need(dialog, "[data-meaning]").replaceChildren(
      ...names.map((name) =>
        html("p", {}, [
          names.length > 1 ? html("b", {}, [`${titleOf(name)}: `]) : "",
          `${board.catalog[name]?.meaning ?? ""} `,
          html("code", {}, [name]),
        ]),
      ),
    );
    need(dialog, "[data-chips]").replaceChildren(
      ...(names.length < 2
        ? []
        : names.map((name) => {
            const button = html("button", { class: "chip", type: "button", "aria-label": `Remove ${titleOf(name)}` }, [
              titleOf(name),
              " ✕",
            ]);
            button.addEventListener("click", () => change({ names: names.filter((other) => other !== name) }));
            return button;
          })),
    );
    more.value = "";
    more.disabled = names.length >= MAX_METRICS;
    for (const option of more.options) option.hidden = names.includes(option.value);
    own.checked = plan().own;
    need(dialog, "[data-own-label]").hidden = names.length < 2;
    const pinned = isPinned(board.saved, names);
    setText(pin, pinned ? "Unpin" : "Pin");
    pin.setAttribute("aria-pressed", String(pinned));
    const limits = board.saved.limits[keyOf(names)];
    const factor = typedFactor(first()?.unit ?? "");
    low.value = typed(limits?.low, factor);
    high.value = typed(limits?.high, factor);
    const unit = typedUnit(first()?.unit ?? "");
    setText(need(dialog, "[data-limit-unit]"), unit);
    problem.hidden = true;
  }

  function legend() {
    const lines = (card?.chart.lines ?? []).filter((line) => !line.quiet);
    showLegend(need(dialog, "[data-legend]"), lines.length > 1 ? lines : []);
  }

  /** @param {Partial<Plan>} changed */
  function change(changed) {
    open({ ...plan(), ...changed });
  }

  function limit() {
    const factor = typedFactor(first()?.unit ?? "");
    const ends = { low: number(low.value, factor), high: number(high.value, factor) };
    const wrong = ends.low !== null && ends.high !== null && ends.low >= ends.high;
    problem.hidden = !wrong;
    if (wrong) return;
    const limits = { ...board.saved.limits };
    if (ends.low === null && ends.high === null) delete limits[keyOf(plan().names)];
    else limits[keyOf(plan().names)] = ends;
    board.saved = { ...board.saved, limits };
    store(board.saved);
    board.redraw();
  }

  function toAddress() {
    const address = new URLSearchParams(location.search);
    for (const name of ["chart", "axes", "range"]) address.delete(name);
    if (card) address.set("chart", plan().names.join(","));
    if (card?.plan.own) address.set("axes", "own");
    if (card && board.range) address.set("range", `${board.range.low}~${board.range.high}`);
    history.replaceState(null, "", `${location.pathname}${address.size ? `?${address}` : ""}${location.hash}`);
  }

  /** @returns {Caption} */
  function caption() {
    const lines = card?.chart.lines.filter((line) => !line.quiet) ?? [];
    const title = plan().names.map(titleOf).join(" · ");
    const averaged = lines.some((line) => line.spread) ? ", mean ± standard deviation over seeds" : "";
    return { title, subtitle: `${subtitle}${averaged}`, legend: lines.length > 1 ? lines : [] };
  }
  const fileName = (/** @type {string} */ ending) => `${plan().names.join("-").replaceAll("/", "-")}.${ending}`;

  board.onEnlarge = open;
  dialog.addEventListener("close", () => {
    if (card) board.remove(card);
    card = null;
    toAddress();
  });
  board.root.addEventListener("zoomed", () => card && toAddress());
  need(dialog, "[data-close]").addEventListener("click", () => dialog.close());
  for (const field of [low, high]) field.addEventListener("input", limit);
  need(dialog, "[data-automatic]").addEventListener("click", () => {
    low.value = high.value = "";
    limit();
  });
  more.addEventListener("change", () => more.value && change({ names: [...plan().names, more.value] }));
  own.addEventListener("change", () => change({ own: own.checked }));
  pin.addEventListener("click", () => {
    board.saved = toggled(board.saved, { names: plan().names, own: plan().own });
    store(board.saved);
    document.dispatchEvent(new CustomEvent("pinschanged"));
    describe();
    board.announce(isPinned(board.saved, plan().names) ? "Pinned" : "No longer pinned");
  });
  need(dialog, "[data-link]").addEventListener("click", () => {
    toAddress();
    void copy(location.href, "Link to this chart copied");
  });
  need(dialog, "[data-png]").addEventListener("click", () => {
    void renderImage(card?.chart.plot, caption()).then((blob) => blob && download(blob, fileName("png")));
  });
  need(dialog, "[data-svg]").addEventListener(
    "click",
    () => card?.chart.plot && download(svgOf(card.chart, caption()), fileName("svg")),
  );
  need(dialog, "[data-csv]").addEventListener("click", () => {
    const address = csv?.(plan().names);
    if (address) location.assign(address);
    else if (card) download(new Blob([csvOf(card.chart.lines, board.axis)], { type: "text/csv" }), fileName("csv"));
  });
  const asked =
    new URLSearchParams(location.search)
      .get("chart")
      ?.split(",")
      .filter((name) => name in board.catalog) ?? [];
  const axes = new URLSearchParams(location.search).get("axes");
  if (asked.length) open({ names: asked.slice(0, MAX_METRICS), own: axes === "own" });
}

/** @param {HTMLSelectElement} select @param {ChartPage} board */
function fillChoices(select, board) {
  /** @type {Map<string, HTMLElement>} */
  const groups = new Map();
  for (const [name, { title, section }] of Object.entries(board.catalog)) {
    const group = groups.get(section) ?? html("optgroup", { label: section });
    group.append(html("option", { value: name }, [title]));
    groups.set(section, group);
  }
  select.append(...groups.values());
}

/** A typed limit as a value of the metric; null if there is none. @param {string} text @param {number} factor */
function number(text, factor) {
  return text.trim() === "" || !Number.isFinite(Number(text)) ? null : Number(text) * factor;
}

/** @param {number|null|undefined} value @param {number} factor */
function typed(value, factor) {
  return value === null || value === undefined ? "" : String(Number((value / factor).toPrecision(8)));
}
