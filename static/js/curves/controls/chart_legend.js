// @ts-check
/** Legend of a chart: a sample of each line, and its name. */

import { html } from "../../ui/dom.js";

/**
 * Replace the items of a list.
 * @param {HTMLElement} list
 * @param {Array<{label: string, color: string, dash?: number[]}>} lines
 */
export function showLegend(list, lines) {
  list.replaceChildren(
    ...lines.map((line) => {
      const item = html("li", {}, [line.label]);
      item.style.setProperty("--line-color", `var(${line.color})`);
      item.classList.toggle("dashed", Boolean(line.dash?.length));
      return item;
    }),
  );
}
