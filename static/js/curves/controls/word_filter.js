// @ts-check
/** The filter of metrics. Pure functions, no DOM. */

/**
 * Whether a word of the text begins with this: "eval" does not find "retrieval".
 * @param {string} text
 * @param {string} beginning
 */
export function beginsWord(text, beginning) {
  for (let at = text.indexOf(beginning); at >= 0; at = text.indexOf(beginning, at + 1)) {
    if (at === 0 || !/[\p{L}\p{N}]/u.test(text[at - 1])) return true;
  }
  return false;
}
