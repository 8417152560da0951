// @ts-check
/**
 * Reducer of the live page: `snapshot + events = the snapshot reloaded`. Pure functions; all lists are bounded.
 */

import { compress, strideOf } from "../curves/series.js";

/** @typedef {import("../types.js").Snapshot} Snapshot */
/** @typedef {import("../types.js").Event} Event */
/** @typedef {import("../types.js").Wall} Wall */
/** @typedef {import("../types.js").Member} Member */

const MAX_NOTICES = 20;
const MAX_ALARMS = 12;
const MAX_REWINDS = 6;
const MAX_CHANGES = 50;
const EVIDENCE_ITERATIONS = 120;

/**
 * @param {Snapshot} state
 * @param {Event[]} events in order; events up to state.seq are skipped
 * @returns {Snapshot}
 */
export function reduceAll(state, events) {
  return events.reduce((now, event) => (event.seq > now.seq ? reduce(now, event) : now), state);
}

/**
 * @param {Snapshot} state
 * @param {Event} event
 * @returns {Snapshot}
 */
export function reduce(state, event) {
  const next = { ...state, ...change(state, event), seq: event.seq };
  return event.judged ? { ...next, ...judged(next, event.judged) } : next;
}

/**
 * Parts of the state that an event changes.
 * @param {Snapshot} state
 * @param {Event} event
 * @returns {Partial<Snapshot>}
 */
function change(state, event) {
  switch (event.type) {
    case "run_started":
      return started(state, event);
    case "phase":
      return { phase: phaseOf(/** @type {any} */ (event)) };
    case "group_started":
      return { wall: groupStarted(state.wall, event) };
    case "turn":
      return turn(state, event);
    case "trajectory_finished":
      return finished(state, event);
    case "groups_scored":
      return { wall: scored(state.wall, event) };
    case "attempts_used":
      return { training_use: used(event) };
    case "metrics":
      return {
        run: advanced(state.run, event.iteration),
        curves: withPoints(state.curves, event.iteration, event.values),
        evidence: weighed(state, event),
      };
    case "evaluation":
      return evaluation(state, event);
    case "alarm":
      return withAlarms([
        ...state.alarms,
        { state: event.state, message: event.message, iteration: event.iteration, undone: false },
      ]);
    case "faults":
      return { faults: event.present };
    case "settings_changed":
      return { changes: withChange(state.changes, event) };
    case "rewound":
      return rewound(state, event);
    case "notice":
      return !event.message
        ? {}
        : { notices: [...state.notices, { level: event.level, message: event.message }].slice(-MAX_NOTICES) };
    case "run_finished":
      return { run: advanced(state.run, event.iteration) };
    default:
      return {};
  }
}

/** Counts of attempts by training use, as AttemptsUsed.counts. @param {Event} event @returns {Snapshot["training_use"]} */
function used({ iteration, trained, unused }) {
  /** @type {Record<string, number>} */
  const counts = { trained };
  for (const [reason, ids] of Object.entries(unused)) if (ids.length) counts[reason] = ids.length;
  return { iteration, counts };
}

/** The run with so many iterations finished. @param {Snapshot["run"]} run @param {number} iteration */
function advanced(run, iteration) {
  return { ...run, iteration: Math.max(run.iteration, iteration) };
}

/** @param {Snapshot} state @param {Event} event @returns {Partial<Snapshot>} */
function started(state, event) {
  return {
    attempt: event.attempt,
    run: {
      ...state.run,
      iterations: event.iterations,
      iteration: event.from_iteration,
      title: event.title,
      device: event.device,
    },
  };
}

/**
 * The phase of a page from a phase event, or from the same data of a progress frame.
 * @param {import("../types.js").Phase} event
 * @returns {import("../types.js").Phase}
 */
export function phaseOf(event) {
  return {
    phase: event.phase,
    iteration: event.iteration,
    done: event.done,
    total: event.total,
    unit: event.unit,
    tokens_per_second: event.tokens_per_second ?? null,
    eta_seconds: event.eta_seconds ?? null,
    eta_low_seconds: event.eta_low_seconds ?? null,
    eta_high_seconds: event.eta_high_seconds ?? null,
    share: event.share ?? null,
    iteration_shares: event.iteration_shares ?? null,
    update: event.update ?? null,
  };
}

/** @param {Wall|null} wall @param {Event} event @returns {Wall} */
function groupStarted(wall, event) {
  const members = event.members.map((/** @type {string} */ id, /** @type {number} */ index) => ({
    id,
    slug: event.slugs?.[index] ?? "",
    turns: 0,
    status: /** @type {const} */ ("waiting"),
    format_error: false,
  }));
  const group = { group: event.group, mean: null, std: null, kept: null, members };
  const same = wall && wall.iteration === event.iteration && wall.split === event.split;
  const others = same ? wall.groups.filter((other) => other.group !== event.group) : [];
  return {
    iteration: event.iteration,
    split: event.split,
    groups: [...others, group].sort((a, b) => a.group - b.group),
  };
}

/**
 * The wall with one member changed; the same object if it does not contain the trajectory.
 * @param {Wall|null} wall
 * @param {string} id
 * @param {(member: Member) => Member} edit
 */
function withMember(wall, id, edit) {
  const at = locate(wall, id);
  if (!wall || !at) return wall;
  const groups = wall.groups.slice();
  const members = groups[at.row].members.slice();
  members[at.member] = edit(members[at.member]);
  groups[at.row] = { ...groups[at.row], members };
  return { ...wall, groups };
}

/** @param {Wall|null} wall @param {string} id */
export function locate(wall, id) {
  for (const [row, group] of (wall?.groups ?? []).entries()) {
    const member = group.members.findIndex((other) => other.id === id);
    if (member >= 0) return { row, member, group: group.group };
  }
  return null;
}

/** @param {Snapshot} state @param {Event} event @returns {Partial<Snapshot>} */
function turn(state, event) {
  const wall = withMember(state.wall, event.trajectory, (member) => ({
    ...member,
    turns: event.turn + 1,
    status: "playing",
    format_error: formatBroken(member.format_error, event),
  }));
  const stage = state.stage;
  if (stage === null || stage.id !== event.trajectory || stage.turns.some((turn) => turn.turn === event.turn))
    return { wall };
  const { type: _type, seq: _seq, time: _time, trajectory: _trajectory, frame: _frame, ...record } = event;
  return { wall, stage: { ...stage, turns: [...stage.turns, /** @type {any} */ (record)] } };
}

/**
 * Whether a turn broke the format, after one more turn. Null: none is known to, and not all were judged.
 * @param {boolean|null} before @param {Event} event
 */
function formatBroken(before, event) {
  if (before || event.format_valid === false) return true;
  return before === null || event.format_valid == null ? null : false;
}

/**
 * Whether an attempt that ended broke the format: without a turn of known length there is none.
 * @param {boolean|null} broken
 * @param {Event} event
 */
function formatBrokenAtEnd(broken, event) {
  return event.turns > 0 || event.tokens != null ? broken : null;
}

/**
 * Status of an attempt that ended: one that a pause cut short, or of unknown success, is neither solved nor failed.
 * @param {Event} event
 */
function endStatus(event) {
  if (event.success) return "success";
  if (event.end === "interrupted") return "interrupted";
  return event.success === false ? "failed" : "unknown";
}

/** @param {Snapshot} state @param {Event} event @returns {Partial<Snapshot>} */
function finished(state, event) {
  const status = endStatus(event);
  const wall = withMember(state.wall, event.trajectory, (member) => ({
    ...member,
    turns: event.turns,
    status,
    format_error: formatBrokenAtEnd(member.format_error, event),
  }));
  const result = {
    success: status === "interrupted" || status === "unknown" ? null : event.success,
    end: event.end,
    total_reward: event.total_reward ?? null,
    lost_at: event.lost_at ?? null,
  };
  const stage =
    state.stage !== null && state.stage.id === event.trajectory ? { ...state.stage, ...result } : state.stage;
  return { wall, stage };
}

/** @param {Wall|null} wall @param {Event} event */
function scored(wall, event) {
  if (wall?.split !== "train" || wall.iteration !== event.iteration) return wall;
  const scores = new Map(event.groups.map((/** @type {any} */ score) => [score.group, score]));
  return {
    ...wall,
    groups: wall.groups.map((group) => {
      const score = scores.get(group.group);
      return score ? { ...group, mean: score.mean, std: score.std, kept: score.kept } : group;
    }),
  };
}

/**
 * @param {Record<string, Array<[number, number]>>} curves
 * @param {number} iteration
 * @param {Record<string, number>} values
 */
function withPoints(curves, iteration, values) {
  const stride = strideOf(iteration);
  const next = { ...curves };
  for (const name of Object.keys(curves)) {
    // the live page shows a few; the curves tab fetches all
    const points =
      name in values
        ? [
            ...curves[name].filter(([at]) => at !== iteration),
            /** @type {[number, number]} */ ([iteration, values[name]]),
          ]
        : curves[name];
    next[name] = stride > 1 ? compress(points, stride) : points;
  }
  return next;
}

/** @param {Snapshot} state @param {Event} event @returns {Snapshot["evidence"]} */
function weighed({ run, evidence }, event) {
  const from = run.recorded ? -1 : event.iteration - EVIDENCE_ITERATIONS; // which may log every hundredth step
  /** @type {Snapshot["evidence"]} */
  const next = {};
  for (const [sign, points] of Object.entries(evidence)) {
    const value = event.values[`echo_trap/${sign}`];
    const limit = event.values[`echo_trap/${sign}_limit`];
    const hasValue = value !== undefined && limit !== undefined;
    const earlier = points.filter(([at]) => at > from && (at !== event.iteration || !hasValue));
    next[sign] = (
      hasValue ? [...earlier, /** @type {[number, number, number]} */ ([event.iteration, value, limit])] : earlier
    ).slice(-EVIDENCE_ITERATIONS);
  }
  return next;
}

/**
 * What the site's own detector adds to a run of another trainer: values of the iterations from `from` on, which replace
 * earlier ones, and the newest changes of state.
 * @param {Snapshot} state
 * @param {{from: number, evidence: Snapshot["evidence"], faults: Snapshot["faults"], alarms?: Snapshot["alarms"]}} judged
 * @returns {Partial<Snapshot>}
 */
function judged(state, { from, evidence, alarms, faults }) {
  const joined = Object.entries(state.evidence).map(([sign, points]) => [
    sign,
    [...points.filter(([at]) => at < from), ...(evidence[sign] ?? [])].slice(-EVIDENCE_ITERATIONS),
  ]);
  return { evidence: Object.fromEntries(joined), faults, ...(alarms ? withAlarms(alarms) : {}) };
}

/** @param {Snapshot["alarms"]} all @returns {Partial<Snapshot>} */
function withAlarms(all) {
  const alarms = all.slice(-MAX_ALARMS);
  const standing = alarms.findLast((alarm) => !alarm.undone);
  return {
    alarms,
    alarm: standing ? { state: standing.state, message: standing.message, iteration: standing.iteration } : null,
  };
}

/** @param {Snapshot} state @param {Event} event @returns {Partial<Snapshot>} */
function rewound(state, event) {
  const { number, from_iteration, to_iteration, changes } = event;
  return {
    ...withAlarms(state.alarms.map((alarm) => (alarm.iteration > to_iteration ? { ...alarm, undone: true } : alarm))),
    rewinds: [...state.rewinds, { number, from_iteration, to_iteration, changes: changes ?? {} }].slice(-MAX_REWINDS),
  };
}

/** The changes of settings that took effect, by iteration. @param {Snapshot["changes"]} all @param {Event} event */
function withChange(all, { request, iteration, changes, rewinds, rewind_from, refused }) {
  if (refused) return all;
  const planned = `planned@${iteration}${rewinds ? `/${rewinds}` : ""}`;
  const made = { request: request || planned, iteration, changes, rewind_from: rewind_from ?? null };
  const others = all.filter((change) => change.request !== made.request);
  return [...others, made].sort((one, other) => one.iteration - other.iteration).slice(-MAX_CHANGES);
}

/** @param {Snapshot} state @param {Event} event @returns {Partial<Snapshot>} */
function evaluation(state, event) {
  const { iteration, suite, success, success_low, success_high, prompts } = event;
  const others = state.evaluations.filter((other) => other.iteration !== iteration || other.suite !== suite);
  return {
    evaluations: [
      ...others,
      { iteration, suite, success, success_low, success_high, prompts, final: event.final ?? false },
    ],
  };
}
