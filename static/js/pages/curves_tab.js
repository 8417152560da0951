// @ts-check
/** Curves tab of a run: charts, alarm and checkpoint marks, live values. */

import { catalogOf } from "../curves/catalog.js";
import { trajectoryFilter, ChartPage } from "../curves/chart_page.js";
import { namesOf } from "../curves/chart_lines.js";
import { bindTools } from "../curves/controls/toolbar.js";
import { need, setText } from "../ui/dom.js";

/** @typedef {import("../types.js").Event} Event */

const root = document.querySelector("[data-curves]");

/** @param {HTMLElement} root */
function start(root) {
  const slug = root.dataset.run ?? "";
  const status = need(document, "[data-curve-words]");
  const catalog = catalogOf(JSON.parse(need(document, "#metric-catalog").textContent ?? "[]"));
  const board = new ChartPage(
    root,
    [{ slug, label: "Value", color: `--run-${need(document, "[data-run]").dataset.colour}`, shown: true }],
    catalog,
    {
      announce: (words) => setText(status, words),
      address: (name, iteration) => `${root.dataset.trajectories}?${trajectoryFilter(name, iteration)}`,
    },
  );
  board.marks = JSON.parse(document.getElementById("marks")?.textContent ?? "null");
  bindTools(board, {
    subtitle: root.dataset.title ?? "",
    csv: (names) => `${root.dataset.csv}?${new URLSearchParams(names.map((name) => ["names", name]))}`,
  });
  const known = new Set(namesOf({ names: Object.keys(catalog), own: false }, catalog));
  document.addEventListener("runevents", (message) => {
    for (const event of /** @type {CustomEvent<Event[]>} */ (message).detail) take(board, slug, event, known);
  });
  document.addEventListener("runreloaded", () => location.reload()); // a new attempt replaces points and marks
}

/**
 * @param {ChartPage} board
 * @param {string} slug
 * @param {Event} event
 * @param {Set<string>} known metrics of the page
 */
function take(board, slug, event, known) {
  const { bands, checkpoints, changes } = board.marks;
  const open = bands.find((band) => band.open);
  switch (event.type) {
    case "metrics":
      board.append(slug, /** @type {any} */ (event));
      if (Object.keys(event.values).some((name) => !known.has(name))) need(document, "[data-more]").hidden = false;
      break;
    case "alarm": {
      if (open && open.state === event.state && open.from === event.iteration) break; // already part of the rendered page
      const closed = bands.map((band) =>
        band === open ? { ...band, to: Math.max(band.from, event.iteration - 1), open: false } : band,
      );
      const opened =
        event.state === "healthy"
          ? []
          : [{ state: event.state, from: event.iteration, to: event.iteration, open: true }];
      board.marks = { ...board.marks, bands: [...closed, ...opened] };
      board.announce(`Echo Trap watch, iteration ${event.iteration}: ${event.state}`);
      board.redraw();
      break;
    }
    case "checkpoint":
      board.marks = {
        ...board.marks,
        checkpoints: [...checkpoints.filter((at) => at !== event.iteration), event.iteration],
      };
      board.redraw();
      break;
    case "checkpoint_removed":
      board.marks = { ...board.marks, checkpoints: checkpoints.filter((at) => at !== event.iteration) };
      board.redraw();
      break;
    case "settings_changed":
      if (event.refused) break;
      board.marks = { ...board.marks, changes: [...changes, /** @type {any} */ (event)] };
      board.redraw();
      break;
    default:
  }
}

if (root instanceof HTMLElement) start(root);
else {
  document.addEventListener("runevents", (message) => {
    // the page was opened before the first iteration finished
    if (/** @type {CustomEvent<Event[]>} */ (message).detail.some((event) => event.type === "metrics"))
      location.reload();
  });
}
