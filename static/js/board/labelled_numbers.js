// @ts-check
/** Draws a text state whose first lines are names with numbers, such as Countdown's target and numbers, as tiles. */

import { html } from "../ui/dom.js";

const LINE = /^([A-Za-z]+) +(-?\d+(?: -?\d+)*)$/;

/**
 * The rows of tiles, and the rest of the text below them; null for any other text.
 * @param {string} text
 * @returns {{rows: Array<{name: string, numbers: string[]}>, rest: string}|null}
 */
export function readNumbers(text) {
  const lines = text.split("\n");
  const rows = [];
  for (let found; (found = LINE.exec(lines[0] ?? "")); lines.shift())
    rows.push({ name: found[1], numbers: found[2].split(" ") });
  return rows.length ? { rows, rest: lines.join("\n").trim() } : null;
}

/**
 * @param {string} text
 * @returns {HTMLElement|null} null for a text without such lines
 */
export function drawNumbers(text) {
  const found = readNumbers(text);
  return (
    found &&
    html("div", { class: "numbers-board" }, [
      ...found.rows.map(({ name, numbers }) =>
        html("p", { class: "number-row" }, [
          html("span", {}, [name]),
          ...numbers.flatMap((number) => [" ", html("b", { class: "number-tile" }, [number])]),
        ]),
      ),
      ...(found.rest ? [html("p", { class: "numbers-rest" }, [found.rest])] : []),
    ])
  );
}
