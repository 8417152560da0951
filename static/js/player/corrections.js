// @ts-check
/** A thought with its false claims put right, as far as the claims say what is true. Pure functions. */

/** @typedef {import("../types.js").Claim} Claim */

/**
 * Correct the false claims of a thought that name one cell. The others stay, for the reader to correct.
 * @param {string} thought
 * @param {Claim[]} claims
 * @returns {{text: string, start: number, end: number}} start, end: what to select, in UTF-16 units: the first claim
 *   that is still false, otherwise the first correction
 */
export function corrected(thought, claims) {
  const characters = [...thought]; // claims count code points
  const wrong = claims.filter((claim) => !claim.true).sort((a, b) => a.start - b.start);
  let [text, end] = ["", 0];
  /** @type {Array<{start: number, end: number, open: boolean}>} */
  const places = [];
  for (const claim of wrong) {
    if (claim.start < end || claim.end > characters.length) continue;
    text += characters.slice(end, claim.start).join("");
    const words = characters.slice(claim.start, claim.end).join("");
    const right = correction(words, claim);
    places.push({ start: text.length, end: text.length + (right ?? words).length, open: right === null });
    text += right ?? words;
    end = claim.end;
  }
  text += characters.slice(end).join("");
  const chosen = places.find((place) => place.open) ?? places[0] ?? { start: 0, end: 0 };
  return { text, start: chosen.start, end: chosen.end };
}

/**
 * The words of a false claim with the true position; null if they do not name one cell by row and column from 1, or if
 * the thing is in several cells.
 * @param {string} words
 * @param {Claim} claim
 */
function correction(words, claim) {
  if (claim.cells?.length !== 1 || claim.actual_cells?.length !== 1 || /col.*row/is.test(words)) return null;
  const numbers = [...words.matchAll(/\d+/g)];
  const named = claim.cells[0].map((index) => index + 1);
  if (numbers.length !== 2 || numbers.some((match, index) => Number(match[0]) !== named[index])) return null;
  let number = 0;
  const [row, column] = claim.actual_cells[0];
  return words.replace(/\d+/g, () => String((number++ ? column : row) + 1));
}
