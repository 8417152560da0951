// @ts-check
/**
 * Verdicts on the attempts that end on the stage: the server judges an attempt when it is over, so they are fetched
 * then.
 */

import { fetchJson } from "../ui/fetch_json.js";
import { setText } from "../ui/dom.js";
import { outcome, signed } from "../ui/formatting.js";

/** @typedef {import("../types.js").Trajectory} Trajectory */
/** @typedef {Pick<Trajectory, "marks"|"verdict">} Judgement */

/** Attempts whose judgement is kept. */
const KEPT = 8;
/** Milliseconds after a failed request until the attempt may be asked for again. */
const RETRY_MS = 5000;

export class Verdicts {
  /** @param {() => void} changed called when a judgement has arrived */
  constructor(changed) {
    this.changed = changed;
    /** @type {Map<string, Judgement|null>} by slug; null while it is fetched */ this.known = new Map();
    /** @type {WeakMap<Trajectory, Trajectory>} */ this.joined = new WeakMap();
  }

  /**
   * The attempt with its judgement, if that is known; the same object for the same attempt.
   * @param {Trajectory} trajectory
   */
  join(trajectory) {
    if (trajectory.success !== false || trajectory.verdict || !trajectory.slug || trajectory.end === "interrupted")
      return trajectory;
    const found = this.known.get(trajectory.slug);
    if (found === undefined) void this.#fetch(trajectory.slug);
    if (!found) return trajectory;
    const joined = this.joined.get(trajectory) ?? { ...trajectory, ...found };
    this.joined.set(trajectory, joined);
    return joined;
  }

  /** @param {string} slug */
  async #fetch(slug) {
    this.known.set(slug, null);
    for (const old of [...this.known.keys()].slice(0, -KEPT)) this.known.delete(old);
    const data = await fetchJson(`/t/${slug}.json`);
    if (!data) {
      window.setTimeout(() => this.known.delete(slug), RETRY_MS);
      return;
    }
    this.known.set(slug, { marks: data.marks ?? [], verdict: data.verdict ?? null });
    this.changed();
  }
}

/**
 * How the attempt on the stage ended, in a few words; its verdict is beside the board.
 * @param {HTMLElement} node
 * @param {Trajectory} trajectory
 * @param {boolean} over
 */
export function showOutcome(node, trajectory, over) {
  node.className =
    over && typeof trajectory.success === "boolean"
      ? trajectory.success
        ? "outcome good"
        : "outcome bad"
      : "outcome soft";
  const actions = trajectory.turns
    .flatMap((turn) => turn.actions)
    .filter((action) => action.status === "executed").length;
  const unseen = (trajectory.turns_left_out ?? 0) + (trajectory.turns_not_stored ?? 0);
  const words = outcome({ ...trajectory, turns: trajectory.turns.length + unseen, actions });
  setText(
    node,
    over
      ? words.charAt(0).toUpperCase() +
          words.slice(1) +
          (trajectory.total_reward == null ? "" : ` · ${signed(trajectory.total_reward)}`)
      : "Playing",
  );
}
