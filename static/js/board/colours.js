// @ts-check
/** Colours of the style sheet in a form that canvases accept. */

/** Colours of the active theme by property name. @type {Map<string, string>} */
const cache = new Map();
document.addEventListener("themechange", () => cache.clear());

/**
 * Computed on an element, because the property itself may be `light-dark(…)`.
 * @param {string} name of a custom property
 */
export function css(name) {
  const cached = cache.get(name);
  if (cached) return cached;
  const probe = document.createElement("i");
  probe.style.color = `var(${name})`;
  document.body.append(probe);
  const { color } = getComputedStyle(probe);
  probe.remove();
  cache.set(name, color);
  return color;
}
