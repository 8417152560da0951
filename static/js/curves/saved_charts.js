// @ts-check
/** Pinned charts and y limits of this browser, for all runs. */

/** @typedef {import("./chart.js").Limits} Limits */
/** A pinned chart: its metrics, and whether each has its own axis. @typedef {{names: string[], own: boolean}} Pin */
/** @typedef {{pins: Pin[], limits: Record<string, Limits>}} Saved */

const KEY = "curves";
const MAX_PINS = 24;
export const MAX_METRICS = 8;

/** Key of a chart among the pins and limits. @param {string[]} names */
export function keyOf(names) {
  return names.join("+");
}

/**
 * What is stored; parts that are not in its format are left out.
 * @param {string|null} text
 * @returns {Saved}
 */
export function parse(text) {
  /** @type {any} */
  let stored = null;
  try {
    stored = JSON.parse(text ?? "null");
  } catch {
    /* nothing usable is stored */
  }
  const pins = Array.isArray(stored?.pins) ? stored.pins : [];
  const limits = stored?.limits && typeof stored.limits === "object" ? Object.entries(stored.limits) : [];
  const strings = (/** @type {any} */ names) =>
    Array.isArray(names) && names.length > 0 && names.every((name) => typeof name === "string");
  return {
    pins: pins
      .filter((/** @type {any} */ pin) => strings(pin?.names))
      .slice(0, MAX_PINS)
      .map((/** @type {any} */ pin) => ({ names: pin.names.slice(0, MAX_METRICS), own: pin.own === true })),
    limits: Object.fromEntries(
      limits.map(([key, ends]) => [key, { low: finite(ends?.low), high: finite(ends?.high) }]),
    ),
  };
}

/** @param {any} value */
function finite(value) {
  return typeof value === "number" && Number.isFinite(value) ? value : null;
}

/** @returns {Saved} */
export function load() {
  try {
    return parse(localStorage.getItem(KEY));
  } catch {
    return parse(null); // the browser keeps nothing for this site
  }
}

/** @param {Saved} saved */
export function store(saved) {
  try {
    localStorage.setItem(KEY, JSON.stringify(saved));
  } catch {
    /* they last until the page is left */
  }
}

/** @param {Saved} saved @param {string[]} names */
export function isPinned(saved, names) {
  return saved.pins.some((pin) => keyOf(pin.names) === keyOf(names));
}

/** With the chart pinned, or without it if it is. @param {Saved} saved @param {Pin} pin @returns {Saved} */
export function toggled(saved, pin) {
  const others = saved.pins.filter((other) => keyOf(other.names) !== keyOf(pin.names));
  const pins = others.length < saved.pins.length ? others : [...others, pin].slice(-MAX_PINS);
  return { ...saved, pins };
}
