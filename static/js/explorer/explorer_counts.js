// @ts-check
/**
 * Reducer of the explorer's counts: `counts at n + events = counts at m`. Pure functions. webapp/explorer/counts.py
 * documents the shape; counts that cannot be derived from events are fetched from the server (`by_itself` false).
 */

/**
 * @typedef {{found: number, ended: number, success: number, reward: number, rewarded: number, more?: boolean}} Facts
 */
/**
 * A trajectory that may still change or match the filters.
 * @typedef {object} OpenTrajectory
 * @property {string} id
 * @property {number} iteration
 * @property {string} split
 * @property {string} suite
 * @property {string} environment
 * @property {number} group
 * @property {boolean|null} kept
 * @property {"waiting"|"playing"|"success"|"failed"|"interrupted"|"unknown"} status
 * @property {number} turns
 * @property {number} actions
 * @property {number|null} tokens
 * @property {number|null} reward null: none was recorded
 * @property {boolean|null} broken
 * @property {string} end
 * @property {object|null} lost
 * @property {string} error
 */
/** @typedef {Array<[number, number|null]>} Windows */
/**
 * @typedef {object} Counts
 * @property {number} seq
 * @property {number} attempt
 * @property {Facts} now
 * @property {boolean} by_itself
 * @property {Record<string, any>} [filters]
 * @property {number} [newest]
 * @property {Facts} [base]
 * @property {OpenTrajectory[]} [open]
 * @property {Windows} [windows]
 */
/** @typedef {Required<Counts>} LiveCounts counts that can be continued from events */
import { endStatus, formatBroken, formatBrokenAtEnd } from "../live/reducer.js";

/** @typedef {import("../types.js").Event} Event */

const MAX_OPEN = 3000;

/** @param {Counts} counts @returns {counts is LiveCounts} */
function isLive(counts) {
  return counts.by_itself;
}

/**
 * @param {Counts} counts
 * @param {Event[]} events in order; events up to counts.seq are skipped
 * @returns {Counts}
 */
export function countAll(counts, events) {
  const fresh = events.filter((event) => event.seq > counts.seq);
  if (fresh.length === 0) return counts;
  const seq = fresh[fresh.length - 1].seq;
  if (!isLive(counts)) return { ...counts, seq };
  if (fresh[0].seq !== counts.seq + 1) return { ...counts, seq, by_itself: false }; // events are missing
  /** @type {LiveCounts} */
  const next = { ...counts, seq, base: { ...counts.base } };
  const open = new Map(counts.open.map((trajectory) => [trajectory.id, trajectory]));
  for (const event of fresh) {
    if (!apply(next, open, event)) return { ...counts, seq, by_itself: false };
  }
  next.open = [...open.values()];
  next.now = total(next);
  return next.open.length > MAX_OPEN ? { ...counts, seq, by_itself: false } : next;
}

/**
 * @param {LiveCounts} counts a mutable copy
 * @param {Map<string, OpenTrajectory>} open a mutable copy
 * @param {Event} event
 * @returns {boolean} false if only the server can apply this event
 */
function apply(counts, open, event) {
  const trajectory = open.get(event.trajectory);
  switch (event.type) {
    case "run_started":
      counts.attempt = event.attempt;
      return event.attempt === 1; // a later attempt replaces trajectories that were already dropped
    case "group_started":
      if (event.iteration > counts.newest) closeFinished(counts, open, event.iteration);
      for (const id of event.members) open.set(id, waiting(event, id));
      return true;
    case "turn":
      if (trajectory) open.set(trajectory.id, withTurn(trajectory, event));
      return trajectory !== undefined;
    case "trajectory_finished":
      if (trajectory) open.set(trajectory.id, withEnd(trajectory, event));
      return trajectory !== undefined;
    case "groups_scored": {
      const kept = new Map(event.groups.map((/** @type {any} */ score) => [score.group, score.kept]));
      for (const each of open.values()) {
        if (each.split === "train" && each.iteration === event.iteration && kept.has(each.group)) {
          open.set(each.id, { ...each, kept: kept.get(each.group) });
        }
      }
      return true;
    }
    case "alarm":
      counts.windows = withAlarm(counts.windows, event.iteration, event.state !== "healthy");
      return !("alarm" in counts.filters) || event.iteration >= counts.newest;
    case "rewound":
      return false; // undoes alarms and, with the next attempt, trajectories
    default:
      return true;
  }
}

/**
 * Start an iteration: add trajectories that can no longer change to the base.
 * @param {LiveCounts} counts
 * @param {Map<string, OpenTrajectory>} open
 * @param {number} iteration
 */
function closeFinished(counts, open, iteration) {
  counts.newest = iteration;
  for (const trajectory of open.values()) {
    const over = ["success", "failed", "interrupted", "unknown"].includes(trajectory.status);
    if (!over || (trajectory.split === "train" && trajectory.kept === null)) continue;
    open.delete(trajectory.id);
    if (matches(counts.filters, counts.windows, trajectory)) addTo(counts.base, trajectory);
  }
}

/** @param {Event} event @param {string} id @returns {OpenTrajectory} */
function waiting(event, id) {
  return {
    id,
    iteration: event.iteration,
    split: event.split,
    suite: event.suite ?? "",
    environment: event.environment,
    group: event.group,
    kept: null,
    status: "waiting",
    turns: 0,
    actions: 0,
    tokens: 0,
    reward: 0,
    broken: false,
    end: "",
    lost: null,
    error: "",
  };
}

/** @param {OpenTrajectory} trajectory @param {Event} event @returns {OpenTrajectory} */
function withTurn(trajectory, event) {
  const executed = event.actions.filter((/** @type {any} */ action) => action.status === "executed").length;
  return {
    ...trajectory,
    status: "playing",
    turns: trajectory.turns + 1,
    actions: trajectory.actions + executed,
    tokens: trajectory.tokens === null || event.tokens == null ? null : trajectory.tokens + event.tokens,
    reward: (trajectory.reward ?? 0) + event.reward,
    broken: formatBroken(trajectory.broken, event),
  };
}

/** @param {OpenTrajectory} trajectory @param {Event} event @returns {OpenTrajectory} */
function withEnd(trajectory, event) {
  return {
    ...trajectory,
    status: endStatus(event),
    end: event.end,
    reward: event.total_reward ?? null,
    turns: event.turns,
    actions: event.actions,
    tokens: event.tokens ?? null,
    broken: formatBrokenAtEnd(trajectory.broken, event),
    error: event.error ?? "",
    lost: event.lost_at ?? null,
  };
}

/** @param {Windows} windows @param {number} iteration @param {boolean} alarm @returns {Windows} */
function withAlarm(windows, iteration, alarm) {
  const last = windows[windows.length - 1];
  const inside = last !== undefined && last[1] === null;
  if (alarm) return inside ? windows : [...windows, [iteration, null]];
  if (!inside) return windows;
  const closed = windows.slice(0, -1);
  return iteration > last[0] ? [...closed, [last[0], iteration]] : closed;
}

/** @param {LiveCounts} counts @returns {Facts} */
function total(counts) {
  const sum = { ...counts.base };
  for (const trajectory of counts.open) if (matches(counts.filters, counts.windows, trajectory)) addTo(sum, trajectory);
  return { ...sum, more: false };
}

/** @param {Facts} facts @param {OpenTrajectory} trajectory */
function addTo(facts, trajectory) {
  facts.found += 1;
  const counted = trajectory.status === "success" || trajectory.status === "failed";
  if (trajectory.reward !== null && (counted || trajectory.status === "unknown")) {
    facts.rewarded += 1;
    facts.reward += trajectory.reward;
  }
  if (!counted) return;
  facts.ended += 1;
  facts.success += trajectory.status === "success" ? 1 : 0;
}

/** @type {Record<string, (trajectory: OpenTrajectory) => boolean>} */
const OUTCOMES = {
  success: (trajectory) => trajectory.status === "success",
  failed: (trajectory) => trajectory.status === "failed",
  lost: (trajectory) => trajectory.status === "failed" && trajectory.lost !== null,
  truncated: (trajectory) => trajectory.status === "failed" && trajectory.end === "truncated",
  error: (trajectory) => trajectory.error !== "",
  interrupted: (trajectory) => trajectory.status === "interrupted",
  unknown: (trajectory) => trajectory.status === "unknown",
  playing: (trajectory) => trajectory.status === "playing",
  waiting: (trajectory) => trajectory.status === "waiting",
};

/**
 * Whether the trajectory matches, by the rules of the server's query.
 * @param {Record<string, any>} filters
 * @param {Windows} windows
 * @param {OpenTrajectory} trajectory
 */
export function matches(filters, windows, trajectory) {
  return Object.entries(filters).every(([name, value]) => {
    const [column, end] = name.split("_");
    if (end === "min" || end === "max") {
      const own = columnValue(trajectory, column);
      return own !== null && (end === "min" ? own >= value : own <= value);
    }
    switch (name) {
      case "outcome":
        return OUTCOMES[value](trajectory);
      case "success":
        return trajectory.status === (value ? "success" : "failed");
      case "format":
        return trajectory.broken === (value === "broken");
      case "alarm":
        return (
          value ===
          windows.some(([from, to]) => trajectory.iteration >= from && (to === null || trajectory.iteration < to))
        );
      default:
        return /** @type {Record<string, any>} */ (trajectory)[name] === value;
    }
  });
}

/** @param {OpenTrajectory} trajectory @param {string} column @returns {number|null} */
function columnValue(trajectory, column) {
  return /** @type {Record<string, any>} */ (trajectory)[column];
}
