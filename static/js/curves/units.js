// @ts-check
/** Values of a metric and ticks of its axis as text, by the metric's unit. Pure functions. */

import { percent, short } from "../ui/formatting.js";

const BYTES = ["B", "KiB", "MiB", "GiB", "TiB"];

/** A number of bytes: "1.5 GiB". @param {number} count */
export function bytes(count) {
  let size = Math.abs(count);
  let at = 0;
  while (size >= 1024 && at < BYTES.length - 1) {
    size /= 1024;
    at += 1;
  }
  return `${count < 0 ? "−" : ""}${at ? size.toFixed(1) : Math.round(size)} ${BYTES[at]}`;
}

/**
 * Text of a value in the header of a chart.
 * @param {string} unit
 * @returns {(value: number) => string}
 */
export function formatOf(unit) {
  if (unit === "share") return percent;
  if (unit === "bytes") return bytes;
  return unit === "%" ? (value) => `${value.toFixed(1)}%` : short;
}

/**
 * Labels of an axis, all with the same number of decimals: "1.0" next to "1.5".
 * @param {string} unit
 * @param {Array<number|null>} ticks null: a tick without a label
 */
export function tickTexts(unit, ticks) {
  if (unit === "bytes") return byteTicks(ticks);
  const factor = unit === "share" ? 100 : 1;
  const ending = unit === "share" || unit === "%" ? "%" : "";
  const values = ticks.map((tick) => (tick === null ? null : Number((tick * factor).toPrecision(6))));
  const shown = values.filter((value) => value !== null);
  const sizes = shown.filter((value) => value !== 0).map(Math.abs);
  const plain = sizes.every((size) => size >= 0.001 && size < 1000);
  const digits = plain ? Math.max(0, ...shown.map((value) => (String(value).split(".")[1] ?? "").length)) : 0;
  return values.map((value) => {
    if (value === null) return "";
    return (plain ? value.toFixed(digits).replace("-", "−") : short(value)) + ending;
  });
}

/** Ticks are round in decimal units: as many decimals as tell them apart. @param {Array<number|null>} ticks */
function byteTicks(ticks) {
  const shown = ticks.filter((tick) => tick !== null);
  const largest = Math.max(1, ...shown.map(Math.abs));
  const at = Math.min(BYTES.length - 1, Math.floor(Math.log2(largest) / 10));
  const sizes = shown.map((tick) => tick / 1024 ** at);
  const step = Math.min(...sizes.slice(1).map((size, index) => Math.abs(size - sizes[index])), largest);
  const digits = sizes.every(Number.isInteger) ? 0 : Math.max(0, Math.min(3, Math.ceil(-Math.log10(step))));
  return ticks.map((tick) =>
    tick === null ? "" : `${(tick / 1024 ** at).toFixed(digits).replace("-", "−")} ${BYTES[at]}`,
  );
}

/** The unit of a y limit that a person types: shares are typed in percent. @param {string} unit */
export function typedUnit(unit) {
  return unit === "share" || unit === "%" ? "%" : unit === "bytes" ? "GiB" : unit;
}

/** Factor from a typed limit to the metric's values. @param {string} unit */
export function typedFactor(unit) {
  return unit === "share" ? 0.01 : unit === "bytes" ? 1024 ** 3 : 1;
}
