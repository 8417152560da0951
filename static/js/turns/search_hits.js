// @ts-check
/** Words of the explorer's search in the texts of turns, marked without changing their nodes. */

const NAME = "found";

/**
 * Pattern of words or phrases, whatever their case and the punctuation between the words of a phrase; as
 * webapp/explorer/excerpts.py.
 * @param {string[][]} phrases each as its words
 */
export function hitPattern(phrases) {
  const escaped = (/** @type {string} */ word) => word.replace(/[\\^$.*+?()[\]{}|]/g, "\\$&");
  const between = phrases
    .map((words) => words.map(escaped).join("[^\\p{L}\\p{N}]+"))
    .sort((one, other) => other.length - one.length);
  return new RegExp(`(?<![\\p{L}\\p{N}])(?:${between.join("|")})(?![\\p{L}\\p{N}])`, "giu");
}

export class SearchHits {
  /** @param {string[][]} phrases nothing is marked without any */
  constructor(phrases) {
    this.pattern = phrases.length && typeof CSS !== "undefined" && CSS.highlights ? hitPattern(phrases) : null;
  }

  /** Whether a text contains a hit. @param {Element} text */
  isIn(text) {
    return this.pattern !== null && (text.textContent ?? "").search(this.pattern) >= 0;
  }

  /** Mark all hits in some texts; earlier marks go. @param {Iterable<Element>} texts */
  mark(texts) {
    if (!this.pattern) return;
    const ranges = [...texts].flatMap((text) => this.#ranges(text, /** @type {RegExp} */ (this.pattern)));
    CSS.highlights.set(NAME, new Highlight(...ranges));
  }

  /**
   * A hit may begin in one text node and end in another, at the edge of a claim.
   * @param {Element} text
   * @param {RegExp} pattern
   */
  #ranges(text, pattern) {
    /** @type {Array<{node: Node, start: number}>} */ const nodes = [];
    const walker = document.createTreeWalker(text, NodeFilter.SHOW_TEXT);
    for (let start = 0; walker.nextNode(); start += walker.currentNode.textContent?.length ?? 0)
      nodes.push({ node: walker.currentNode, start });
    const place = (/** @type {number} */ at) => {
      const found = nodes.findLast(({ start }) => start <= at) ?? nodes[0];
      return /** @type {const} */ ([found.node, at - found.start]);
    };
    return [...(text.textContent ?? "").matchAll(pattern)].map((hit) => {
      const range = document.createRange();
      range.setStart(...place(hit.index));
      range.setEnd(...place(hit.index + hit[0].length));
      return range;
    });
  }
}
