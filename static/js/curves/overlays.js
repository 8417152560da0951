// @ts-check
/** Canvas overlays of a chart: alarm bands, checkpoint marks, changes of settings, levels, confidence intervals, spread around a mean. */

import { css } from "../board/colours.js";

/** @typedef {{state: string, from: number, to: number, open?: boolean}} Band in iterations, both ends included */
/** @typedef {{iteration: number, changes: Record<string, string>, rewind_from?: number | null}} Change of settings, by name, from an iteration on, or a rewind */
/** @typedef {{bands: Band[], checkpoints: number[], changes: Change[]}} Marks */

const COLORS = /** @type {Record<string, string>} */ ({ watch: "--warn", trapped: "--bad", warmup: "--soft" });
const HATCH = 7;

/**
 * Bands: watch and the warm-up on demonstrations as a wash, trapped as a striped wash, each with a bar on top.
 * @param {any} plot
 * @param {Marks} marks
 * @param {(iteration: number) => number} place
 */
export function drawBands(plot, marks, place) {
  const context = /** @type {CanvasRenderingContext2D} */ (plot.ctx);
  const { left, top, width, height } = plot.bbox;
  for (const band of marks.bands) {
    const from = Math.max(left, plot.valToPos(place(band.from), "x", true));
    const end = band.open ? left + width : Math.min(left + width, plot.valToPos(place(band.to), "x", true));
    const wide = Math.max(2 * devicePixelRatio, end - from);
    if (end < left || from > left + width) continue;
    context.save();
    context.beginPath();
    context.rect(from, top, wide, height);
    context.clip();
    context.fillStyle = context.strokeStyle = css(COLORS[band.state] ?? "--warn");
    context.globalAlpha = 0.13;
    context.fillRect(from, top, wide, height);
    context.globalAlpha = 0.32;
    if (band.state === "trapped") {
      context.lineWidth = devicePixelRatio;
      context.beginPath();
      for (let at = from - height; at < from + wide; at += HATCH * devicePixelRatio) {
        context.moveTo(at, top + height);
        context.lineTo(at + height, top);
      }
      context.stroke();
    }
    context.globalAlpha = 0.9;
    context.fillRect(from, top, wide, 2 * devicePixelRatio);
    context.restore();
  }
}

/**
 * A small triangle on the axis for each stored checkpoint.
 * @param {any} plot
 * @param {Marks} marks
 * @param {(iteration: number) => number} place
 */
export function drawCheckpoints(plot, marks, place) {
  const context = /** @type {CanvasRenderingContext2D} */ (plot.ctx);
  const { left, top, width, height } = plot.bbox;
  const size = 4 * devicePixelRatio;
  context.save();
  context.fillStyle = css("--soft");
  for (const iteration of marks.checkpoints) {
    const x = plot.valToPos(place(iteration), "x", true);
    if (x < left - 1 || x > left + width + 1) continue;
    context.beginPath();
    context.moveTo(x - size, top + height);
    context.lineTo(x + size, top + height);
    context.lineTo(x, top + height - 1.5 * size);
    context.fill();
  }
  context.restore();
}

/** Short text of a change: "policy_lr 5e-5", "back from 50", or "policy_lr 5e-5 +1" of two. @param {Change} change */
export function changeText({ changes, rewind_from }) {
  const texts = Object.entries(changes).map(([name, value]) => `${name.slice(name.lastIndexOf(".") + 1)} ${value}`);
  if (typeof rewind_from === "number") texts.unshift(`back from ${rewind_from}`);
  return `${texts[0] ?? ""}${texts.length > 1 ? ` +${texts.length - 1}` : ""}`;
}

/**
 * A dashed vertical line where settings change, named at its foot.
 * @param {any} plot
 * @param {Marks} marks
 * @param {(iteration: number) => number} place
 */
export function drawChanges(plot, marks, place) {
  const context = /** @type {CanvasRenderingContext2D} */ (plot.ctx);
  const { left, top, width, height } = plot.bbox;
  const size = 10 * devicePixelRatio;
  context.save();
  context.strokeStyle = context.fillStyle = css("--accent");
  context.lineWidth = devicePixelRatio;
  context.font = `${size}px Inter, system-ui, sans-serif`;
  context.textBaseline = "bottom";
  for (const change of marks.changes) {
    const x = plot.valToPos(place(change.iteration), "x", true);
    if (x < left - 1 || x > left + width + 1) continue;
    context.setLineDash([4 * devicePixelRatio, 3 * devicePixelRatio]);
    context.beginPath();
    context.moveTo(x, top);
    context.lineTo(x, top + height);
    context.stroke();
    const text = changeText(change);
    const before = x + context.measureText(text).width + size > left + width; // no room on the right
    context.textAlign = before ? "right" : "left";
    context.fillText(text, x + (before ? -0.4 : 0.4) * size, top + height - 0.9 * size);
  }
  context.restore();
}

/**
 * A horizontal line over the whole axis, named at its right end.
 * @param {any} plot
 * @param {string} color
 * @param {number} value
 * @param {number[]} dash
 * @param {string} scale key of the vertical axis
 * @param {string} label
 */
export function drawLevel(plot, color, value, dash, scale, label) {
  const context = /** @type {CanvasRenderingContext2D} */ (plot.ctx);
  const { left, top, width, height } = plot.bbox;
  const y = plot.valToPos(value, scale, true);
  if (y < top - 1 || y > top + height + 1) return;
  context.save();
  context.strokeStyle = color;
  context.lineWidth = 1.2 * devicePixelRatio;
  context.setLineDash(dash.map((length) => length * devicePixelRatio));
  context.beginPath();
  context.moveTo(left, y);
  context.lineTo(left + width, y);
  context.stroke();
  const size = 11 * devicePixelRatio;
  context.font = `${size}px Inter, system-ui, sans-serif`;
  context.fillStyle = color;
  context.textAlign = "right";
  const below = y - top < 1.5 * size; // no room above a line at the top
  context.textBaseline = below ? "top" : "bottom";
  context.fillText(label, left + width - 0.4 * size, y + (below ? 0.25 : -0.2) * size);
  context.restore();
}

/**
 * @param {any} plot
 * @param {string} color
 * @param {Array<[number, number, number]>} intervals x, low, high
 * @param {string} scale key of the vertical axis
 */
export function drawIntervals(plot, color, intervals, scale) {
  const context = /** @type {CanvasRenderingContext2D} */ (plot.ctx);
  context.save();
  context.strokeStyle = color;
  context.globalAlpha = 0.55;
  context.lineWidth = devicePixelRatio;
  context.beginPath();
  for (const [x, low, high] of intervals) {
    const at = Math.round(plot.valToPos(x, "x", true));
    context.moveTo(at, plot.valToPos(low, scale, true));
    context.lineTo(at, plot.valToPos(high, scale, true));
  }
  context.stroke();
  context.restore();
}

/**
 * The area between the low and the high end of every place.
 * @param {any} plot
 * @param {string} color
 * @param {Array<[number, number, number]>} spread x, low, high
 * @param {string} scale key of the vertical axis
 */
export function drawSpread(plot, color, spread, scale) {
  const context = /** @type {CanvasRenderingContext2D} */ (plot.ctx);
  const { left, top, width, height } = plot.bbox;
  context.save();
  context.beginPath();
  context.rect(left, top, width, height);
  context.clip();
  context.fillStyle = color;
  context.globalAlpha = 0.18;
  context.beginPath();
  const place = (/** @type {number} */ x, /** @type {number} */ y) =>
    context.lineTo(plot.valToPos(x, "x", true), plot.valToPos(y, scale, true));
  for (const [x, low] of spread) place(x, low);
  for (const [x, , high] of [...spread].reverse()) place(x, high);
  context.fill();
  context.restore();
}
