// @ts-check
/** Popover with the board of the wall's cell under the pointer. */

import { BoardView } from "../board/board.js";
import { positionsOf } from "../player/positions.js";
import { need, setText } from "../ui/dom.js";
import { fetchJson } from "../ui/fetch_json.js";
import { memberText, place } from "../ui/formatting.js";

/** @typedef {import("../types.js").Trajectory} Trajectory */
/** @typedef {import("../types.js").Member} Member */

const DELAY_MS = 140;
const GAP = 10; // pixels between the popover and the card
const CACHE_SIZE = 16; // users browse one group at a time

export class Thumbnail {
  /** @param {HTMLElement} popover contains a `.board` and a paragraph */
  constructor(popover) {
    this.popover = popover;
    this.board = new BoardView(need(popover, ".board"));
    /** @type {Map<string, {key: string, data: Trajectory}>} */ this.cache = new Map();
    this.timer = 0;
  }

  /**
   * Show a trajectory next to its cell after a short delay; null hides the popover.
   * @param {Member|null} member
   * @param {Element|null} cell
   * @param {{group: number, member: number}|null} at
   */
  show(member, cell, at) {
    window.clearTimeout(this.timer);
    if (!member?.slug || !cell) {
      this.popover.hidden = true;
      return;
    }
    this.timer = window.setTimeout(async () => {
      const trajectory = await this.#trajectory(member);
      if (!trajectory) return;
      const positions = positionsOf(trajectory);
      this.board.show(positions[positions.length - 1].board);
      setText(need(this.popover, "p"), `${at ? `${place(at.group, at.member)}: ` : ""}${memberText(member)}`);
      this.popover.hidden = false;
      this.#dock(cell);
    }, DELAY_MS);
  }

  /** Place the popover next to the card of the wall, so that all cells stay visible. @param {Element} cell */
  #dock(cell) {
    const card = (cell.closest(".panel") ?? cell).getBoundingClientRect();
    const { width, height } = this.popover.getBoundingClientRect();
    const beside = card.left > width + GAP ? card.left - width - GAP : card.right + GAP;
    const fits = beside + width <= window.innerWidth;
    const top = fits ? cell.getBoundingClientRect().top - height / 3 : card.top - height - GAP;
    this.popover.style.left = `${fits ? beside : card.left}px`;
    this.popover.style.top = `${Math.max(8, Math.min(top, window.innerHeight - height - 8))}px`;
  }

  /** @param {Member} member @returns {Promise<Trajectory|null>} */
  async #trajectory(member) {
    const key = `${member.turns} ${member.status}`;
    const cached = this.cache.get(member.id);
    if (cached?.key === key) return cached.data;
    const data = await fetchJson(`/t/${member.slug}.json`);
    if (!data) return null;
    this.cache.set(member.id, { key, data });
    if (this.cache.size > CACHE_SIZE) this.cache.delete(/** @type {string} */ (this.cache.keys().next().value));
    return data;
  }
}
