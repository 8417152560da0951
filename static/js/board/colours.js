// @ts-check
/** Colours of the style sheet as canvases take them. Which colour stands for what is decided by those who ask. */

/** Colours of the present theme by property. @type {Map<string, string>} */
const known = new Map();
document.addEventListener("themechange", () => known.clear());

/**
 * Read from an element, for the property itself may say `light-dark(…)`.
 * @param {string} name of a custom property
 */
export function css(name) {
  const found = known.get(name);
  if (found) return found;
  const probe = document.createElement("i");
  probe.style.color = `var(${name})`;
  document.body.append(probe);
  const { color } = getComputedStyle(probe);
  probe.remove();
  known.set(name, color);
  return color;
}
