// @ts-check
/**
 * The explorer's counts from what the server rendered and the journal's events: `counts at n + events = counts at m`.
 * Pure: never changes what it is given, draws nothing, knows no socket. webapp/explorer/counts.py says what
 * the shape means; what a browser cannot decide from events, it asks the server (`by_itself` false).
 */

/** @typedef {{found: number, ended: number, success: number, reward: number, more?: boolean}} Facts */
/**
 * A trajectory that may still change or come into the filters.
 * @typedef {object} Open
 * @property {string} id
 * @property {number} iteration
 * @property {string} split
 * @property {string} suite
 * @property {string} environment
 * @property {number} group
 * @property {boolean|null} kept
 * @property {"waiting"|"playing"|"success"|"failed"} status
 * @property {number} turns
 * @property {number} actions
 * @property {number} tokens
 * @property {number} reward
 * @property {boolean} broken
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
 * @property {Open[]} [open]
 * @property {Windows} [windows]
 */
/** @typedef {Required<Counts>} Own counts with everything to go on by itself */
/** @typedef {import("../live/types.js").Event} Event */

const MOST_OPEN = 3000;

/** @param {Counts} counts @returns {counts is Own} */
function own(counts) {
  return counts.by_itself;
}

/**
 * @param {Counts} counts
 * @param {Event[]} events in order; those that the counts already know are skipped
 * @returns {Counts}
 */
export function countAll(counts, events) {
  const fresh = events.filter((event) => event.seq > counts.seq);
  if (fresh.length === 0) return counts;
  const seq = fresh[fresh.length - 1].seq;
  if (!own(counts)) return { ...counts, seq };
  if (fresh[0].seq !== counts.seq + 1) return { ...counts, seq, by_itself: false }; // something was missed
  /** @type {Own} */
  const next = { ...counts, seq, base: { ...counts.base } };
  const open = new Map(counts.open.map((one) => [one.id, one]));
  for (const event of fresh) {
    if (!take(next, open, event)) return { ...counts, seq, by_itself: false };
  }
  next.open = [...open.values()];
  next.now = total(next);
  return next.open.length > MOST_OPEN ? { ...counts, seq, by_itself: false } : next;
}

/**
 * @param {Own} counts a copy that may be changed
 * @param {Map<string, Open>} open a copy that may be changed
 * @param {Event} event
 * @returns {boolean} false: only the server can tell what this means
 */
function take(counts, open, event) {
  const one = open.get(event.trajectory);
  switch (event.type) {
    case "run_started":
      counts.attempt = event.attempt;
      return event.attempt === 1; // a later attempt replaces trajectories that are not here any more
    case "group_started":
      if (event.iteration > counts.newest) settle(counts, open, event.iteration);
      for (const id of event.members) open.set(id, fresh(event, id));
      return true;
    case "turn":
      if (one) open.set(one.id, played(one, event));
      return one !== undefined;
    case "trajectory_finished":
      if (one) open.set(one.id, ended(one, event));
      return one !== undefined;
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
      counts.windows = alarmed(counts.windows, event.iteration, event.state !== "healthy");
      return !("alarm" in counts.filters) || event.iteration >= counts.newest;
    case "rewound":
      return false; // takes back alarms and, with the next attempt, trajectories
    default:
      return true;
  }
}

/** A new iteration: what can no longer change is counted for good. @param {Own} counts @param {Map<string, Open>} open @param {number} iteration */
function settle(counts, open, iteration) {
  counts.newest = iteration;
  for (const one of open.values()) {
    const over = one.status === "success" || one.status === "failed";
    if (!over || (one.split === "train" && one.kept === null)) continue;
    open.delete(one.id);
    if (matches(counts.filters, counts.windows, one)) add(counts.base, one);
  }
}

/** @param {Event} event @param {string} id @returns {Open} */
function fresh(event, id) {
  return {
    id, iteration: event.iteration, split: event.split, suite: event.suite ?? "", environment: event.environment,
    group: event.group, kept: null, status: "waiting", turns: 0, actions: 0, tokens: 0, reward: 0, broken: false, end: "",
    lost: null, error: "",
  };
}

/** @param {Open} one @param {Event} event @returns {Open} */
function played(one, event) {
  const executed = event.actions.filter((/** @type {any} */ action) => action.status === "executed").length;
  return {
    ...one, status: "playing", turns: one.turns + 1, actions: one.actions + executed, tokens: one.tokens + event.tokens,
    reward: one.reward + event.reward, broken: one.broken || !event.format_valid,
  };
}

/** @param {Open} one @param {Event} event @returns {Open} */
function ended(one, event) {
  return {
    ...one, status: event.success ? "success" : "failed", end: event.end, reward: event.total_reward, turns: event.turns,
    actions: event.actions, tokens: event.tokens, error: event.error ?? "", lost: event.lost_at ?? null,
  };
}

/** @param {Windows} windows @param {number} iteration @param {boolean} alarm @returns {Windows} */
function alarmed(windows, iteration, alarm) {
  const last = windows[windows.length - 1];
  const inside = last !== undefined && last[1] === null;
  if (alarm) return inside ? windows : [...windows, [iteration, null]];
  if (!inside) return windows;
  const closed = windows.slice(0, -1);
  return iteration > last[0] ? [...closed, [last[0], iteration]] : closed;
}

/** @param {Own} counts @returns {Facts} */
function total(counts) {
  const sum = { ...counts.base };
  for (const one of counts.open) if (matches(counts.filters, counts.windows, one)) add(sum, one);
  return { ...sum, more: false };
}

/** @param {Facts} facts @param {Open} one */
function add(facts, one) {
  facts.found += 1;
  if (one.status !== "success" && one.status !== "failed") return;
  facts.ended += 1;
  facts.success += one.status === "success" ? 1 : 0;
  facts.reward += one.reward;
}

/** @type {Record<string, (one: Open) => boolean>} */
const OUTCOMES = {
  success: (one) => one.status === "success",
  failed: (one) => one.status === "failed",
  lost: (one) => one.status === "failed" && one.lost !== null,
  truncated: (one) => one.status === "failed" && one.end === "truncated",
  error: (one) => one.error !== "",
  playing: (one) => one.status === "playing",
  waiting: (one) => one.status === "waiting",
};

/**
 * Whether the server would find it.
 * @param {Record<string, any>} filters
 * @param {Windows} windows
 * @param {Open} one
 */
export function matches(filters, windows, one) {
  return Object.entries(filters).every(([name, value]) => {
    const [column, end] = name.split("_");
    if (end === "min") return figure(one, column) >= value;
    if (end === "max") return figure(one, column) <= value;
    switch (name) {
      case "outcome": return OUTCOMES[value](one);
      case "success": return one.status === (value ? "success" : "failed");
      case "format": return one.broken === (value === "broken");
      case "alarm": return value === windows.some(([from, to]) => one.iteration >= from && (to === null || one.iteration < to));
      default: return /** @type {Record<string, any>} */ (one)[name] === value;
    }
  });
}

/** @param {Open} one @param {string} column @returns {number} */
function figure(one, column) {
  return /** @type {Record<string, any>} */ (one)[column];
}
