// @ts-check
/** Mean ± standard deviation of a metric over runs that differ in their seed. Pure functions. */

/** @typedef {import("./chart.js").Point} Point */

/**
 * Iteration by iteration, over the runs that have begun and not ended there. A run's value between two of its points is
 * interpolated: long curves keep a few points of each bucket, and other ones in each run.
 * @param {Point[][]} curves one per run, in order of iteration
 * @returns {{points: Point[], deviations: number[]}} deviations: of a sample, 0 for a single run
 */
export function meanOf(curves) {
  const iterations = [...new Set(curves.flatMap((points) => points.map(([at]) => at)))].sort((a, b) => a - b);
  /** @type {Point[]} */
  const points = [];
  const deviations = [];
  const ats = curves.map(() => 0);
  for (const iteration of iterations) {
    const found = curves.flatMap((curve, run) => {
      while (ats[run] < curve.length - 1 && curve[ats[run]][0] < iteration) ats[run] += 1;
      const place = interpolated(curve, ats[run], iteration);
      return place ? [place] : [];
    });
    const mean = average(found.map(([, y]) => y));
    const squares = found.reduce((sum, [, y]) => sum + (y - mean) ** 2, 0);
    points.push([iteration, average(found.map(([x]) => x)), mean]);
    deviations.push(found.length > 1 ? Math.sqrt(squares / (found.length - 1)) : 0);
  }
  return { points, deviations };
}

/**
 * Place on the axis and value at an iteration; null outside of the curve.
 * @param {Point[]} curve
 * @param {number} at index of the first point not before the iteration
 * @param {number} iteration
 * @returns {[number, number]|null}
 */
function interpolated(curve, at, iteration) {
  const after = curve[at];
  if (!after || after[0] < iteration) return null;
  if (after[0] === iteration) return [after[1], after[2]];
  const before = curve[at - 1];
  if (!before) return null;
  const share = (iteration - before[0]) / (after[0] - before[0]);
  return [before[1] + share * (after[1] - before[1]), before[2] + share * (after[2] - before[2])];
}

/** @param {number[]} values */
function average(values) {
  return values.reduce((sum, value) => sum + value, 0) / values.length;
}
