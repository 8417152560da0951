// @ts-check
/** The curves tab of a run: its charts, its alarms and checkpoints as marks, and what arrives while one looks. */

import { behind, CurveBoard, tools } from "./chart_page.js";
import { need, setText } from "../ui/dom.js";

/** @typedef {import("../live/types.js").Event} Event */

const root = document.querySelector("[data-curves]");

/** @param {HTMLElement} root */
function start(root) {
  const slug = root.dataset.run ?? "";
  const status = need(document, "[data-curve-words]");
  const board = new CurveBoard(root, [{ slug, label: "Value", color: "--accent", shown: true }], {
    say: (words) => setText(status, words),
    address: ({ name }, iteration) => `${root.dataset.trajectories}?${behind(name, iteration)}`,
  });
  board.marks = JSON.parse(document.getElementById("marks")?.textContent ?? "null");
  tools(board, document);
  document.addEventListener("runevents", (message) => {
    for (const event of /** @type {CustomEvent<Event[]>} */ (message).detail) take(board, slug, event);
  });
  document.addEventListener("runreloaded", () => location.reload()); // another attempt: other points, other marks
}

/** @param {CurveBoard} board @param {string} slug @param {Event} event */
function take(board, slug, event) {
  const { bands, checkpoints } = board.marks;
  const open = bands.find((band) => band.open);
  switch (event.type) {
    case "metrics":
      board.append(slug, /** @type {any} */ (event));
      for (const name of Object.keys(event.values)) if (!known(board, name)) need(document, "[data-more]").hidden = false;
      break;
    case "alarm": {
      if (open && open.state === event.state && open.from === event.iteration) break; // the page was made after it was told
      const closed = bands.map((band) => (band === open ? { ...band, to: Math.max(band.from, event.iteration - 1), open: false } : band));
      const opened = event.state === "healthy" ? [] : [{ state: event.state, from: event.iteration, to: event.iteration, open: true }];
      board.marks = { checkpoints, bands: [...closed, ...opened] };
      board.say(`Echo Trap watch, iteration ${event.iteration}: ${event.state}`);
      board.redraw();
      break;
    }
    case "checkpoint":
      board.marks = { bands, checkpoints: [...checkpoints.filter((at) => at !== event.iteration), event.iteration] };
      board.redraw();
      break;
    case "checkpoint_removed":
      board.marks = { bands, checkpoints: checkpoints.filter((at) => at !== event.iteration) };
      board.redraw();
      break;
    default:
  }
}

/** @param {CurveBoard} board @param {string} name */
function known(board, name) {
  return board.cards.some((card) => card.name === name || Object.values(card.partners).includes(name));
}

if (root instanceof HTMLElement) start(root);
else {
  document.addEventListener("runevents", (message) => { // the page was opened before the first iteration had ended
    if (/** @type {CustomEvent<Event[]>} */ (message).detail.some((event) => event.type === "metrics")) location.reload();
  });
}
