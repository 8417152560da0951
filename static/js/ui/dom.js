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
  node.append(...children);
  return node;
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
  if (node.textContent !== text) node.textContent = text;
}
