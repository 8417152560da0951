// @ts-check
/**
 * The axis of iterations, on which a warm-up has negative ones: a long warm-up is compressed to a quarter of the axis,
 * so that the training after it can be seen. Pure functions.
 */

const WARM_UP = 0.25;
const FEW = 10; // iterations: before, the warm-up takes more than its quarter, so that curves do not jump

/**
 * Factor of negative iterations on an axis from `low` to `high`; 1: all iterations are equally wide.
 * @param {number} low
 * @param {number} high
 */
export function compression(low, high) {
  if (low >= 0 || high <= 0) return 1;
  return Math.min(1, ((Math.max(high, FEW) / -low) * WARM_UP) / (1 - WARM_UP));
}

/**
 * Iterations to label: the first, and round ones from 0 on; null if the axis is not compressed.
 * @param {number} low
 * @param {number} high
 * @param {number} count of labels that fit
 * @returns {number[]|null}
 */
export function labelled(low, high, count) {
  const factor = compression(low, high);
  if (factor === 1) return null;
  const fitting = Math.max(1, (count * high) / (high - factor * low));
  let step = 1;
  for (let at = 0; high / step > fitting; at += 1) step *= [2, 2.5, 2][at % 3];
  return [Math.ceil(low), ...Array.from({ length: Math.floor(high / step) + 1 }, (_, index) => index * step)];
}
