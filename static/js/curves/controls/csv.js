// @ts-check
/** The points of a chart as CSV. Pure functions, no DOM. */

/** @typedef {import("../chart.js").Line} Line */

/**
 * The points of the drawn lines: one row per place on the axis and line.
 * @param {Line[]} lines
 * @param {string} axis
 */
export function csvOf(lines, axis) {
  const cell = (/** @type {string} */ text) =>
    `"${(/^[=+\-@\t\r]/.test(text) ? `'${text}` : text).replaceAll('"', '""')}"`; // spreadsheets run formulas
  const head = ["line", "iteration", ...(axis === "iteration" ? [] : [axis]), "value", "low", "high"].join(",");
  const rows = lines.flatMap((line) => {
    const ends = new Map(
      [...(line.intervals ?? []), ...(line.spread ?? [])].map(([x, low, high]) => [x, `${low},${high}`]),
    );
    return line.points.map(([at, x, value]) =>
      [cell(line.label), at, ...(axis === "iteration" ? [] : [x]), value, ends.get(x) ?? ","].join(","),
    );
  });
  return [head, ...rows, ""].join("\n");
}
