// @ts-check
/**
 * Highlight reel of the live page: replays the iteration's most telling attempts on the stage while nothing is played,
 * in updates and while checkpoints are saved. It ends when attempts are played again or the user takes over.
 */

import { fetchJson } from "../ui/fetch_json.js";

/** @typedef {import("../types.js").Snapshot} Snapshot */
/** @typedef {import("../types.js").Trajectory} Trajectory */
/** @typedef {import("../types.js").Highlight} Highlight */

/** Milliseconds that the end of an attempt stays before the next one. */
const LINGER_MS = 1800;
/** Milliseconds that each attempt is shown where motion is reduced. */
const STILL_MS = 8000;
const BETWEEN_ROLLOUTS = ["update", "evaluate", "checkpoint"];

/**
 * The iteration whose highlights may be shown now; null while attempts are being played, or nothing was yet.
 * @param {Snapshot} state
 * @returns {number|null}
 */
export function reelIteration({ state, phase, wall }) {
  if (state !== "running" || !phase || phase.iteration < 1 || !BETWEEN_ROLLOUTS.includes(phase.phase)) return null;
  const open = (wall?.groups ?? []).some((group) =>
    group.members.some(({ status }) => status === "waiting" || status === "playing"),
  );
  return wall && !open ? phase.iteration : null;
}

export class Reel {
  /**
   * @param {string} slug of the run
   * @param {{shownToEnd: () => boolean, still: () => boolean, changed: () => void}} page shownToEnd: the stage stands
   *   at the end of its attempt; still: motion is reduced
   */
  constructor(slug, page) {
    this.slug = slug;
    this.page = page;
    /** @type {{highlight: Highlight, trajectory: Trajectory, number: number, count: number}|null} */ this.current =
      null;
    /** @type {Highlight[]} */ this.highlights = [];
    /** @type {number|null} iteration of the highlights */ this.iteration = null;
    this.next = 0;
    this.since = 0;
    this.loading = false;
  }

  /**
   * Show, advance or end the reel. Called often.
   * @param {number|null} iteration whose highlights may be shown; null: none
   */
  tick(iteration) {
    if (iteration === null) {
      this.stop();
      return;
    }
    if (iteration !== this.iteration) {
      this.stop();
      this.iteration = iteration;
      void this.#fetch(iteration);
      return;
    }
    if (!this.current || this.loading) return;
    const wait = this.page.still() ? STILL_MS : LINGER_MS;
    if (!this.page.still() && !this.page.shownToEnd()) this.since = 0;
    else if (!this.since) this.since = Date.now();
    else if (Date.now() - this.since >= wait) this.advance();
  }

  /** Show the next highlight, after the last one the first again. */
  advance() {
    if (this.highlights.length && !this.loading) void this.#play(this.next);
  }

  /** End the reel; the same iteration's is fetched again if it may continue. */
  stop() {
    this.current = null;
    this.iteration = null;
    this.highlights = [];
  }

  /** @param {number} iteration */
  async #fetch(iteration) {
    const found = await fetchJson(`/runs/${this.slug}/highlights.json?iteration=${iteration}`);
    if (!found || this.iteration !== iteration) return;
    this.highlights = found.highlights;
    if (this.highlights.length) await this.#play(0);
  }

  /** @param {number} index */
  async #play(index) {
    const { highlights, iteration } = this;
    const highlight = highlights[index % highlights.length];
    this.loading = true;
    const trajectory = await fetchJson(`/t/${highlight.slug}.json`);
    this.loading = false;
    if (this.iteration !== iteration || this.highlights !== highlights) return;
    this.next = (index + 1) % highlights.length;
    this.since = 0;
    if (!trajectory) return;
    this.current = {
      highlight,
      trajectory: { ...trajectory, id: highlight.id },
      number: (index % highlights.length) + 1,
      count: highlights.length,
    };
    this.page.changed();
  }
}
