// @ts-check
/**
 * Brush of the explorer's distribution of rewards: two handles (range inputs) by mouse and keyboard, and dragging over
 * the bars. A chosen range goes into the fields `reward_min` and `reward_max` of the form, whose change reloads the
 * list.
 */

import { number } from "../ui/formatting.js";
import { setText } from "../ui/dom.js";

/**
 * @typedef {object} Brush
 * @property {HTMLElement} host
 * @property {HTMLInputElement} low
 * @property {HTMLInputElement} high
 * @property {number} start
 * @property {number} step
 */

/** Parts of the brush that an element belongs to. @param {EventTarget|null} target @returns {Brush|null} */
function brushOf(target) {
  const host = target instanceof Element ? target.closest("[data-brush]") : null;
  const low = host?.querySelector("[data-low]");
  const high = host?.querySelector("[data-high]");
  if (!(host instanceof HTMLElement) || !(low instanceof HTMLInputElement) || !(high instanceof HTMLInputElement))
    return null;
  return { host, low, high, start: Number(host.dataset.start), step: Number(host.dataset.step) };
}

/** Reward at an edge between bars. @param {Brush} brush @param {HTMLInputElement} handle */
function edge(brush, handle) {
  return Number((brush.start + Number(handle.value) * brush.step).toPrecision(10));
}

/** Show the range in words and in the bars. @param {Brush} brush */
function show(brush) {
  const [from, to] = [Number(brush.low.value), Number(brush.high.value)];
  const all = from === 0 && to === Number(brush.high.max);
  for (const handle of [brush.low, brush.high]) handle.setAttribute("aria-valuetext", number(edge(brush, handle)));
  const words = brush.host.querySelector("[data-brush-words]");
  if (words)
    setText(words, all ? "Drag to filter" : `${number(edge(brush, brush.low))} to ${number(edge(brush, brush.high))}`);
  const width = 100 / Number(brush.high.max);
  for (const bar of brush.host.querySelectorAll(".bar")) {
    const middle = (Number(bar.getAttribute("x")) + width / 2) / width;
    bar.classList.toggle("inside", middle > from && middle < Math.max(to, from + 1));
  }
}

/** Filter by the range. @param {Brush} brush */
function commit(brush) {
  const fields = [document.getElementById("reward_min"), document.getElementById("reward_max")];
  const values = [
    Number(brush.low.value) === 0 ? "" : String(edge(brush, brush.low)),
    brush.high.value === brush.high.max ? "" : String(edge(brush, brush.high)),
  ];
  fields.forEach((field, index) => {
    if (field instanceof HTMLInputElement) field.value = values[index];
  });
  fields[0]?.dispatchEvent(new Event("change", { bubbles: true }));
}

document.addEventListener("input", (event) => {
  const brush = brushOf(event.target);
  if (!brush) return;
  const crossed = Number(brush.low.value) >= Number(brush.high.value); // at least one bar stays between the handles
  if (crossed && event.target === brush.low) brush.low.value = String(Number(brush.high.value) - 1);
  else if (crossed) brush.high.value = String(Number(brush.low.value) + 1);
  show(brush);
});
document.addEventListener("change", (event) => {
  const brush = brushOf(event.target);
  if (brush) commit(brush);
});

/** Step under the pointer, between bars. @param {Brush} brush @param {Element} bars @param {number} x */
function stepAt(brush, bars, x) {
  const box = bars.getBoundingClientRect();
  return Math.max(0, Math.min(1, (x - box.left) / box.width)) * Number(brush.high.max);
}

document.addEventListener("pointerdown", (event) => {
  const bars = event.target instanceof Element ? event.target.closest("[data-bars]") : null;
  const brush = brushOf(bars);
  if (!bars || !brush || event.button !== 0) return;
  event.preventDefault();
  const from = stepAt(brush, bars, event.clientX);
  const drag = (/** @type {PointerEvent} */ move) => {
    const to = stepAt(brush, bars, move.clientX);
    const first = Math.min(Math.floor(Math.min(from, to)), Number(brush.high.max) - 1);
    brush.low.value = String(first);
    brush.high.value = String(Math.max(Math.ceil(Math.max(from, to)), first + 1));
    show(brush);
  };
  const controller = new AbortController();
  const end = () => {
    controller.abort();
    commit(brush);
  };
  document.addEventListener("pointermove", drag, { signal: controller.signal });
  document.addEventListener("pointerup", end, { signal: controller.signal });
  document.addEventListener("pointercancel", () => controller.abort(), { signal: controller.signal });
  drag(event);
});

function showAll() {
  for (const host of document.querySelectorAll("[data-brush]")) {
    const brush = brushOf(host);
    if (brush) show(brush);
  }
}
document.addEventListener("htmx:afterSettle", showAll);
showAll();
