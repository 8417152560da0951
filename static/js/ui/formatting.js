// @ts-check
/** Formatting of numbers and states, as in webapp/core/formatting.py. Pure functions, no DOM. */

/** @typedef {import("../types.js").Phase} Phase */
/** @typedef {import("../types.js").Member} Member */

export const STATES = /** @type {Record<string, string>} */ ({
  queued: "Queued",
  starting: "Starting",
  running: "Running",
  pausing: "Pausing",
  paused: "Paused",
  stopping: "Stopping",
  stopped: "Stopped",
  cancelling: "Cancelling",
  cancelled: "Cancelled",
  finished: "Finished",
  failed: "Failed",
});

const PHASES = /** @type {Record<string, string>} */ ({
  load: "loading the policy",
  warmup: "warm-up",
  evaluate: "evaluation",
  rollout: "rollout",
  update: "update",
  checkpoint: "saving a checkpoint",
});

/** Stages of an update before its passes over the rollout. */
const UPDATE_STAGES = /** @type {Record<string, string>} */ ({
  prepare: "measuring the rollout",
  reference: "scoring under the initial policy",
  old: "scoring under the current policy",
  values: "scoring with the critic",
  diagnostics: "measuring gradients",
});

const ITERATION_PHASES = ["rollout", "update", "evaluate", "checkpoint"];

/** From here on, digits before the point would be noise; as in webapp/core/formatting.py. */
const MANY_DIGITS = 1e15;

/**
 * @param {number} value
 * @param {number} [digits] after the point
 */
export function number(value, digits = 2) {
  return (Math.abs(value) < MANY_DIGITS ? value.toFixed(digits) : value.toExponential(2)).replace("-", "−");
}

/** A reward with its sign: one decimal, a second one only where it is needed (0.15). @param {number} value */
export function signed(value) {
  const size = Math.abs(value);
  const text = size >= 100 && size < MANY_DIGITS ? size.toFixed(0) : number(size).replace(/0$/, "");
  if (Number(text) === 0) return text;
  return (value < 0 ? "−" : "+") + text;
}

/** Three significant digits, for axes and chart headers. @param {number} value */
export function short(value) {
  const size = Math.abs(value);
  if (size >= 100_000) return value.toExponential(1).replace("-", "−");
  if (size >= 1000) return Math.round(value).toLocaleString("en").replace("-", "−");
  if (size !== 0 && size < 0.001) return value.toExponential(1).replaceAll("-", "−");
  return String(Number(value.toPrecision(3))).replace("-", "−");
}

/** A share, 0 to 1, as a percentage with one decimal: "29.7%". @param {number} share */
export function percent(share) {
  return `${(share * 100).toFixed(1)}%`;
}

/**
 * @param {number} count
 * @param {string} one
 * @param {string} [many]
 */
export function plural(count, one, many = `${one}s`) {
  return `${count.toLocaleString("en")} ${count === 1 ? one : many}`;
}

/** @param {number} seconds */
export function duration(seconds) {
  if (seconds < 90) return `${Math.max(1, Math.round(seconds))} s`;
  const minutes = Math.round(seconds / 60);
  if (minutes < 90) return `${minutes} min`;
  const hours = minutes / 60;
  return hours < 48 ? `${Math.floor(hours)} h ${minutes % 60} min` : `${Math.round(hours / 24)} days`;
}

/**
 * Planned length of a run, and how much of it is finished; as webapp/core/formatting.py, RunLength.
 * @typedef {Pick<import("../types.js").Snapshot["run"], "iterations"|"iteration"|"warmup_steps"|"warmup_share">} RunLength
 */

/**
 * "Iteration 37 of 200 · rollout 96 of 128 trajectories" or "Warm-up 3 of 16 steps".
 * @param {Phase|null} phase
 * @param {RunLength} run
 */
export function phaseText(phase, run) {
  if (!phase) return "";
  const what = phase.update ? updateText(phase, phase.update) : (PHASES[phase.phase] ?? phase.phase);
  const progress =
    phase.total > 0 && !phase.update
      ? ` ${phase.done.toLocaleString("en")} of ${phase.total.toLocaleString("en")}${phase.unit ? ` ${phase.unit}` : ""}`
      : "";
  if (run.iterations === 0) return `${what[0].toUpperCase()}${what.slice(1)}${progress}`; // an evaluation-only run
  const warmup = warmupProgress(phase, run);
  if (warmup) {
    const done = `Warm-up ${warmup.done.toLocaleString("en")} of ${plural(run.warmup_steps, "step")}`;
    if (phase.phase !== "warmup") return `${done} · ${what}${progress}`;
    return phase.unit === "steps" ? done : `${done} ·${progress}`;
  }
  const head = phase.iteration > 0 ? `Iteration ${phase.iteration} of ${run.iterations}` : "Before the first iteration";
  return `${head} · ${what}${progress}`;
}

/**
 * Progress of the steps on demonstrations before the first iteration: finished ones, and the completed share of all,
 * with a part of the current one; null outside them.
 * @param {Phase} phase
 * @param {RunLength} run
 * @returns {{done: number, share: number}|null}
 */
export function warmupProgress(phase, { iteration, warmup_steps: steps }) {
  if (!steps) return null;
  if (phase.phase === "warmup" && phase.unit === "steps") return { done: phase.done, share: phaseShare(phase) };
  if (iteration < 0) {
    const done = Math.max(0, steps + iteration);
    return { done, share: done / steps };
  }
  return phase.phase === "warmup" ? { done: 0, share: 0 } : null; // of a new run, which plays demonstrations
}

/**
 * When an evaluation took place, in short; pages of the server count the steps of a warm-up as well.
 * @param {number} iteration
 */
export function evaluatedWhen(iteration) {
  if (iteration > 0) return `after iteration ${iteration}`;
  return iteration < 0 ? "in the warm-up" : "before the first iteration";
}

/**
 * Status of a run that is not being trained, as webapp/runs/summaries.py writes it; "" where the page is reloaded.
 * @param {string} state
 * @param {{iteration: number, iterations: number}} run
 */
export function restText(state, { iteration, iterations }) {
  const at = iteration < 0 ? "part of the warm-up" : `iteration ${iteration} of ${iterations}`;
  switch (state) {
    case "queued":
      return `Waiting for a free worker${iteration ? `; continues after ${at}` : ""}`;
    case "paused":
      return iterations
        ? `Paused after ${at}; resume continues ${iteration < 0 ? "with its next step" : `at ${Math.min(iteration + 1, iterations)}`}`
        : "Paused; resume continues with the remaining suites";
    case "cancelled":
      return iterations ? `Cancelled after ${at}` : "Cancelled";
    default:
      return "";
  }
}

/**
 * "update: pass 1 of 2, micro-batch 7 of 24".
 * @param {Phase} phase
 * @param {import("../types.js").UpdateProgress} update
 */
function updateText(phase, update) {
  const what = UPDATE_STAGES[update.stage] ?? `pass ${update.pass_number} of ${update.passes}`;
  const part = update.stage === "prepare" ? "thought" : "micro-batch";
  const place =
    phase.total > 0
      ? `, ${part} ${Math.min(phase.done + 1, phase.total).toLocaleString("en")} of ${phase.total.toLocaleString("en")}`
      : "";
  return `update: ${what}${place}`;
}

/**
 * Completed share of a run, 0 to 1, including its warm-up and the phases of the current iteration.
 * @param {Phase|null} phase
 * @param {RunLength} run
 * @param {string} state
 */
export function progress(phase, run, state) {
  if (state === "finished") return 1;
  if (phase && run.iterations === 0) return Math.min(1, phaseShare(phase));
  if (!phase || run.iterations <= 0) return 0;
  const warmup = warmupProgress(phase, run);
  if (warmup) return run.warmup_share * warmup.share;
  if (phase.iteration < 1) return phase.phase === "load" ? 0 : run.warmup_share;
  const inside = iterationParts(phase).reduce((sum, part) => sum + part.share * part.done, 0);
  return run.warmup_share + (1 - run.warmup_share) * Math.min(1, (phase.iteration - 1 + inside) / run.iterations);
}

/** Completed share of the current phase, 0 to 1. @param {Phase} phase */
function phaseShare(phase) {
  if (phase.share !== null && phase.share !== undefined) return phase.share;
  return phase.total > 0 ? Math.min(1, phase.done / phase.total) : 0;
}

/**
 * Phases of the current iteration: name, expected share of its time, completed share; in order. Before the first
 * iteration is measured, a rollout counts for 0.4 of it.
 * @param {Phase} phase
 * @returns {Array<{name: string, share: number, done: number}>}
 */
function iterationParts(phase) {
  const shares = phase.iteration_shares ?? { rollout: 0.4, update: 0.6 };
  const current = ITERATION_PHASES.indexOf(phase.phase);
  // in the order in which they happen: the database does not keep the order of an object's keys
  return ITERATION_PHASES.filter((name) => name in shares).map((name) => ({
    name,
    share: shares[name],
    done: name === phase.phase ? phaseShare(phase) : Number(ITERATION_PHASES.indexOf(name) < current),
  }));
}

/**
 * @param {Phase|null} phase
 * @param {string} device
 * @param {string} state
 */
export function paceText(phase, device, state) {
  const parts = [];
  if (state === "running" && phase?.tokens_per_second)
    parts.push(`${Math.round(phase.tokens_per_second).toLocaleString("en")} tokens/s`);
  if (device) parts.push(device);
  if (state === "running" && phase?.eta_seconds) parts.push(etaText(phase, phase.eta_seconds));
  return parts.join(" · ");
}

/**
 * "9 min left (8 min to 12 min)"; without the range where both ends read the same.
 * @param {Phase} phase
 * @param {number} seconds
 */
function etaText(phase, seconds) {
  const left = `${duration(seconds)} left`;
  const { eta_low_seconds: low, eta_high_seconds: high } = phase;
  if (low === null || low === undefined || high === null || high === undefined || duration(low) === duration(high))
    return left;
  return `${left} (${duration(low)} to ${duration(high)})`;
}

/**
 * Outcome of a trajectory as a phrase without a full stop.
 * @param {{success?: boolean|null, end?: string|null, turns: number, actions: number, lost_at?: {turn: number, action: number, reason: string}|null}}
 *   result
 */
export function outcome(result) {
  const length = [plural(result.turns, "turn"), ...(result.actions ? [plural(result.actions, "action")] : [])].join(
    ", ",
  );
  if (result.end === "interrupted" && !result.success) return `interrupted after ${length}`;
  if (result.success === null || result.success === undefined)
    return `${result.end ? "ended after" : "playing:"} ${length}`;
  if (result.success) return `solved in ${length}`;
  if (result.lost_at) {
    return `lost at turn ${result.lost_at.turn + 1}, action ${result.lost_at.action + 1}: ${result.lost_at.reason}`;
  }
  switch (result.end) {
    case "terminated":
      return `failed after ${length}`;
    case "turns":
      return `out of turns after ${length}`;
    case "actions":
      return `out of actions after ${length}`;
    case "truncated":
      return `cut off after ${length}`;
    default:
      return `not solved in ${length}`;
  }
}

/** @param {Member} member */
export function memberText(member) {
  const format = member.format_error ? ", with a format error" : "";
  switch (member.status) {
    case "waiting":
      return "waiting";
    case "playing":
      return `playing, ${plural(member.turns, "turn")} so far${format}`;
    case "success":
      return `solved in ${plural(member.turns, "turn")}${format}`;
    case "interrupted":
      return `interrupted after ${plural(member.turns, "turn")}${format}`;
    case "unknown":
      return `ended after ${plural(member.turns, "turn")}${format}`;
    default:
      return `failed after ${plural(member.turns, "turn")}${format}`;
  }
}

/** An index of the journal, which counts from 0, as people count: from 1. @param {number} index */
export function ordinal(index) {
  return index + 1;
}

/** "g4 · 12": group and attempt, counted from 1. @param {number} group index @param {number} member index */
export function place(group, member) {
  return `g${ordinal(group)} · ${String(ordinal(member)).padStart(2, "0")}`;
}

/**
 * Label of an axis value: iterations whole, tokens in thousands and millions, seconds in minutes and hours.
 * @param {"iteration"|"tokens"|"seconds"} axis
 * @param {number|null} value
 */
export function axisValue(axis, value) {
  if (value === null) return "";
  if (axis === "seconds")
    return value < 90 ? `${short(value)} s` : value < 5400 ? `${short(value / 60)} min` : `${short(value / 3600)} h`;
  if (axis === "tokens" && value >= 1e9) return `${short(value / 1e9)} G`;
  if (axis === "tokens" && value >= 1e6) return `${short(value / 1e6)} M`;
  if (axis === "tokens" && value >= 1e3) return `${short(value / 1e3)} k`;
  return Number.isInteger(value) ? value.toLocaleString("en").replace("-", "−") : "";
}

/**
 * A call of a tool as text. The only argument, if it is a text, stands without its name and quotation marks.
 * @param {import("../types.js").CallRecord} call
 */
export function callText(call) {
  if (!call.tool) return "unreadable call";
  const entries = Object.entries(call.arguments ?? {});
  if (entries.length === 1 && typeof entries[0][1] === "string") return `${call.tool}(${entries[0][1]})`;
  return `${call.tool}(${entries.map(([name, value]) => `${name}=${JSON.stringify(value)}`).join(", ")})`;
}
