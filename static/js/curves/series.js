// @ts-check
/** Smoothing, alignment and bucketing of series. Pure functions. */

/** @typedef {Array<[number, number]>} Points */

/**
 * Bias-corrected exponential moving average, weighted by the distance in iterations.
 * @param {number[]} iterations
 * @param {number[]} values
 * @param {number} smoothing 0 (none) to just below 1: weight of the past after one iteration
 * @returns {number[]}
 */
export function smooth(iterations, values, smoothing) {
  if (smoothing <= 0) return values;
  let average = 0;
  let weight = 0;
  let last = iterations[0] ?? 0;
  return values.map((value, index) => {
    const decay = smoothing ** (iterations[index] - last);
    average = average * decay + (1 - smoothing) * value;
    weight = weight * decay + (1 - smoothing);
    last = iterations[index];
    return average / weight;
  });
}

/**
 * Align series on the union of their x values, in uPlot's format: [xs, ys, ys, …] with null where a series has no
 * point.
 * @param {Points[]} series
 * @returns {Array<Array<number|null>>}
 */
export function align(series) {
  const xs = [...new Set(series.flatMap((points) => points.map(([x]) => x)))].sort((a, b) => a - b);
  const at = new Map(xs.map((x, index) => [x, index]));
  return [
    xs,
    ...series.map((points) => {
      /** @type {Array<number|null>} */
      const ys = new Array(xs.length).fill(null);
      for (const [x, y] of points) ys[/** @type {number} */ (at.get(x))] = y;
      return ys;
    }),
  ];
}

/** Maximum number of buckets of a live curve. */
const BUCKETS = 200;

/**
 * Bucket width: the smallest power of two that gives at most that many buckets for iterations 0 to `last`. Same rule as
 * webapp/runs/curves.py.
 * @param {number} last
 */
export function strideOf(last) {
  let stride = 1;
  while (Math.floor(last / stride) >= BUCKETS) stride *= 2;
  return stride;
}

/**
 * Lowest, highest and last point of each bucket, as the server stores them, so that live points can be appended.
 * Compressing again with the same or twice the width gives the same result as compressing once.
 * @template {number[]} P
 * @param {P[]} points in order
 * @param {number} stride bucket width; 0 = keep all points
 * @param {number} [x] index of the value on the axis
 * @param {number} [y] index of the metric's value
 * @returns {P[]}
 */
export function compress(points, stride, x = 0, y = 1) {
  if (stride <= 0) return points;
  /** @type {P[]} */
  const buckets = [];
  let begin = 0;
  while (begin < points.length) {
    const bucket = Math.floor(points[begin][x] / stride);
    let end = begin;
    let low = begin;
    let high = begin;
    while (end < points.length && Math.floor(points[end][x] / stride) === bucket) {
      if (points[end][y] < points[low][y]) low = end;
      if (points[end][y] > points[high][y]) high = end;
      end += 1;
    }
    for (const at of [...new Set([low, high, end - 1])].sort((a, b) => a - b)) buckets.push(points[at]);
    begin = end;
  }
  return buckets;
}
