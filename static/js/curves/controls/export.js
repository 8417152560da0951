// @ts-check
/** A chart as an image file, with its title and legend, and the download of files. */

import { css } from "../../board/colours.js";

const MARGIN = 14;
const HEAD = 42;

/**
 * @typedef {{title: string, subtitle: string, legend: Array<{label: string, color: string, dash?: number[]}>}} Caption
 */

/**
 * Render a chart with background, title, legend, plot and axes.
 * @param {any} plot of uPlot
 * @param {Caption} caption
 * @returns {Promise<Blob|null>}
 */
export function renderImage(plot, { title, subtitle, legend }) {
  if (!plot) return Promise.resolve(null);
  const source = /** @type {HTMLCanvasElement} */ (plot.ctx.canvas);
  const scale = devicePixelRatio;
  const foot = legend.length ? 20 * Math.ceil(legend.length / 2) : 0;
  const canvas = document.createElement("canvas");
  canvas.width = source.width + 2 * MARGIN * scale;
  canvas.height = source.height + (2 * MARGIN + HEAD + foot) * scale;
  const context = /** @type {CanvasRenderingContext2D} */ (canvas.getContext("2d"));
  context.fillStyle = css("--panel");
  context.fillRect(0, 0, canvas.width, canvas.height);
  context.scale(scale, scale);
  context.fillStyle = css("--ink");
  context.font = "600 13px system-ui, sans-serif";
  context.fillText(title, MARGIN, MARGIN + 12);
  context.font = "11px system-ui, sans-serif";
  context.fillStyle = css("--soft");
  context.fillText(subtitle, MARGIN, MARGIN + 28, source.width / scale);
  context.drawImage(source, MARGIN, MARGIN + HEAD, source.width / scale, source.height / scale);
  context.font = "11px system-ui, sans-serif";
  legend.forEach(({ label, color, dash }, index) => {
    const x = MARGIN + (index % 2) * (source.width / scale / 2);
    const y = MARGIN + HEAD + source.height / scale + 16 + 20 * Math.floor(index / 2);
    context.strokeStyle = css(color);
    context.lineWidth = 2;
    context.setLineDash(dash ?? []);
    context.beginPath();
    context.moveTo(x, y - 4);
    context.lineTo(x + 22, y - 4);
    context.stroke();
    context.fillStyle = css("--soft");
    context.fillText(label, x + 28, y, source.width / scale / 2 - 34);
  });
  return new Promise((done) => canvas.toBlob(done, "image/png"));
}

/** @param {Blob} blob @param {string} name */
export function download(blob, name) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(blob);
  link.download = name;
  link.click();
  window.setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}
