// @ts-check
/** SVG and HTML nodes without markup strings, and access to elements of a template. */

const SVG = "http://www.w3.org/2000/svg";

/**
 * @param {string} name
 * @param {Record<string, string|number>} [attributes]
 * @param {Element[]} [children]
 * @returns {SVGElement}
 */
export function svg(name, attributes = {}, children = []) {
  const node = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, String(value));
  node.append(...children);
  return node;
}

/**
 * @param {string} name
 * @param {Record<string, string|number|boolean|null|undefined>} [attributes] false, null and undefined omit the
 *   attribute
 * @param {Array<Node|string>} [children]
 * @returns {HTMLElement}
 */
export function html(name, attributes = {}, children = []) {
  const node = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (value === false || value === null || value === undefined) continue;
    node.setAttribute(key, value === true ? "" : String(value));
  }
  node.append(...children.map((child) => (typeof child === "string" ? visibleText(child) : child)));
  return node;
}

/**
 * A text whose bidirectional controls, such as U+202E, are shown as their numbers: they would reorder the words around
 * them. As webapp/core/middleware/bidi.py does in the markup of the server.
 * @param {string} text
 */
export function visibleText(text) {
  return text.replace(
    /[\u202a-\u202e\u2066-\u2069]/g,
    (control) => `[U+${control.charCodeAt(0).toString(16).toUpperCase()}]`,
  );
}

/**
 * The element of a selector. Throws if the template does not contain it.
 * @param {ParentNode} root
 * @param {string} selector
 * @returns {HTMLElement}
 */
export function need(root, selector) {
  const node = root.querySelector(selector);
  if (!(node instanceof HTMLElement)) throw new Error(`the page has no ${selector}`);
  return node;
}

/**
 * Set text only if it changed, so that selections and screen readers are not disturbed.
 * @param {Element} node
 * @param {string} text
 */
export function setText(node, text) {
  const shown = visibleText(text);
  if (node.textContent !== shown) node.textContent = shown;
}
