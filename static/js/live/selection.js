// @ts-check
/**
 * Selects the trajectory on the live page's stage: the newest, or the pinned one. Fetches it if necessary.
 */

import { fetchJson } from "../ui/fetch_json.js";
import { locate, reduceAll } from "./reducer.js";

/** @typedef {import("../types.js").Snapshot} Snapshot */
/** @typedef {import("../types.js").Trajectory} Trajectory */
/** @typedef {import("../types.js").Event} Event */
/** @typedef {import("../types.js").Board} Board */
/** @typedef {import("../types.js").Hint} Hint */

/** Milliseconds a finished trajectory stays before the next one is followed. */
const LINGER_MS = 2600;

/**
 * The next trajectory to follow: unfinished and with the fewest turns; groups take turns.
 * @param {Snapshot} state
 * @param {number} turn number of choices made so far
 */
export function nextToFollow(state, turn) {
  const open = (state.wall?.groups ?? []).flatMap((group) => {
    const candidates = group.members
      .map((member, index) => ({ group: group.group, index, member }))
      .filter(({ member }) => member.status === "waiting" || member.status === "playing");
    candidates.sort((a, b) => a.member.turns - b.member.turns);
    return candidates.length ? [candidates] : [];
  });
  if (!open.length) return null;
  const least = Math.min(...open.map((candidates) => candidates[0].member.turns));
  const best = open.filter((candidates) => candidates[0].member.turns === least);
  return best[turn % best.length][0];
}

export class Selection {
  /**
   * @param {{get: () => Snapshot, set: (state: Snapshot) => void, watch: (id: string) => void, settled: () => boolean}}
   *   page
   */
  constructor(page) {
    this.page = page;
    /** @type {"follow"|"pinned"} */ this.mode = "follow";
    /** @type {Map<number, {board: Board, hint: Hint|null}>} */ this.starts = new Map();
    this.wallKey = "";
    this.choices = 0;
    this.restedSince = 0;
    /** @type {{slug: string, events: Event[]}|null} */ this.pending = null;
  }

  /** Record start boards, and events of a trajectory that is being fetched. @param {Event} event */
  note(event) {
    if (event.type === "group_started") {
      const key = `${event.iteration} ${event.split}`;
      if (key !== this.wallKey) this.starts.clear();
      this.wallKey = key;
      this.starts.set(event.group, { board: event.board, hint: event.hint ?? null });
    }
    if (this.pending && (event.type === "turn" || event.type === "trajectory_finished"))
      this.pending.events.push(event);
  }

  /** Follow the newest trajectory. */
  follow() {
    this.mode = "follow";
    this.restedSince = 0;
  }

  /** Pin a trajectory. @param {string} slug @param {string} id */
  async pin(slug, id) {
    this.mode = "pinned";
    await this.#fetch(slug, id);
  }

  /** Let the current trajectory count as shown to its end. */
  rest() {
    this.restedSince = 1;
  }

  /** Pin a trajectory that is on the stage already. @param {Trajectory} trajectory */
  hold(trajectory) {
    this.mode = "pinned";
    this.pending = null;
    this.#put(trajectory);
  }

  /** In follow mode, advance once the current trajectory was shown to its end. Called on every frame. */
  tick() {
    if (this.mode !== "follow" || this.pending) return;
    const state = this.page.get();
    const stage = state.stage;
    const over =
      !stage ||
      Boolean(stage.end) ||
      (stage.success !== null && stage.success !== undefined) ||
      !locate(state.wall, stage.id);
    if (!over) {
      this.restedSince = 0;
      return;
    }
    if (stage && !this.restedSince) {
      if (this.page.settled()) this.restedSince = Date.now();
      return;
    }
    if (stage && Date.now() - this.restedSince < LINGER_MS) return;
    const next = nextToFollow(state, this.choices);
    if (!next) return;
    this.choices += 1;
    this.restedSince = 0;
    const start = this.starts.get(next.group);
    if (start && next.member.turns === 0) {
      const recorded = state.run.recorded ? { recorded: true } : {};
      this.#put({
        id: next.member.id,
        slug: next.member.slug,
        group: next.group,
        member: next.index,
        ...start,
        ...recorded,
        turns: [],
      });
    } else if (next.member.slug) void this.#fetch(next.member.slug, next.member.id);
  }

  /** @param {Trajectory} trajectory */
  #put(trajectory) {
    this.page.set({ ...this.page.get(), stage: trajectory });
    this.page.watch(trajectory.id);
  }

  /** @param {string} slug @param {string} id */
  async #fetch(slug, id) {
    const pending = { slug, events: /** @type {Event[]} */ ([]) };
    this.pending = pending;
    const trajectory = await fetchJson(`/t/${slug}.json`);
    if (this.pending !== pending) return;
    this.pending = null;
    if (!trajectory) return;
    this.#put({ ...trajectory, id });
    const state = this.page.get();
    this.page.set({ ...reduceAll({ ...state, seq: -1 }, pending.events), ...withoutStage(state) });
  }
}

/**
 * Everything except the stage: events already reduced must not count twice.
 * @param {Snapshot} state
 */
function withoutStage(state) {
  const { stage: _stage, ...rest } = state;
  return rest;
}
