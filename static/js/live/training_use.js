// @ts-check
/** Bar of an iteration's attempts by training use: how many the update learnt from, and why not from the others. */

import { plural } from "../ui/formatting.js";

/** @typedef {import("../types.js").TrainingUse} TrainingUse */

/**
 * @param {HTMLElement} panel data-training-use: a JSON object of labels by training use, in order; data-explorer: the
 *   address of the explorer
 * @param {TrainingUse|null} use
 */
export function showTrainingUse(panel, use) {
  const parts = use ? partsOf(use, JSON.parse(panel.dataset.trainingUse ?? "{}")) : [];
  const total = parts.reduce((sum, part) => sum + part.count, 0);
  panel.hidden = !use || !total;
  if (!use || !total) return;
  const heading = document.createElement("h2");
  heading.textContent = `Iteration ${use.iteration} learnt from ${use.counts.trained ?? 0} of ${plural(total, "attempt")}`;
  const bar = document.createElement("div");
  bar.className = "use-bar";
  bar.setAttribute("aria-hidden", "true"); // the list says the same
  const list = document.createElement("ul");
  list.className = "use-list";
  for (const { key, label, count } of parts) {
    const piece = document.createElement("span");
    piece.dataset.use = key;
    piece.style.flexGrow = String(count);
    bar.append(piece);
    const item = document.createElement("li");
    item.dataset.use = key;
    const link = document.createElement("a");
    link.href = `${panel.dataset.explorer}?iteration=${use.iteration}&split=train&training_use=${key}`;
    link.textContent = `${count} ${label.toLowerCase()}`;
    item.append(link);
    list.append(item);
  }
  panel.replaceChildren(heading, bar, list);
}

/**
 * @param {TrainingUse} use
 * @param {Record<string, string>} labels
 * @returns {Array<{key: string, label: string, count: number}>} those that occur, in the order of the labels
 */
export function partsOf(use, labels) {
  return Object.entries(labels)
    .map(([key, label]) => ({ key, label, count: use.counts[key] ?? 0 }))
    .filter((part) => part.count > 0);
}
