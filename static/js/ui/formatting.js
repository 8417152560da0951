// @ts-check
/** Formatting of numbers and states, as in webapp/core/formatting.py. Pure functions, no DOM. */

/** @typedef {import("../types.js").Phase} Phase */
/** @typedef {import("../types.js").Finished} Finished */
/** @typedef {import("../types.js").Member} Member */

export const STATES = /** @type {Record<string, string>} */ ({
  queued: "Queued", starting: "Starting", running: "Running", pausing: "Pausing", paused: "Paused",
  stopping: "Stopping", stopped: "Stopped", cancelling: "Cancelling", cancelled: "Cancelled", finished: "Finished",
  failed: "Failed",
});

const PHASES = /** @type {Record<string, string>} */ ({
  load: "loading the policy", warmup: "warm-up", evaluate: "evaluation", rollout: "rollout", update: "update",
  checkpoint: "saving a checkpoint",
});

/**
 * @param {number} value
 * @param {number} [digits] after the point
 */
export function number(value, digits = 2) {
  return value.toFixed(digits).replace("-", "−");
}

/** A reward with its sign. @param {number} value */
export function signed(value) {
  const text = Math.abs(value) >= 100 ? Math.abs(value).toFixed(0) : String(Number(Math.abs(value).toFixed(2)));
  if (Number(text) === 0) return "0";
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

/** @param {number} share */
export function percent(share) {
  return `${(share * 100).toFixed(1)} %`;
}

/**
 * @param {number} count
 * @param {string} one
 * @param {string} [many]
 */
export function plural(count, one, many = one + "s") {
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
 * "Iteration 37 of 200 · rollout 96 of 128 trajectories".
 * @param {Phase|null} phase
 * @param {number} iterations
 */
export function phaseWords(phase, iterations) {
  if (!phase) return "";
  const what = PHASES[phase.phase] ?? phase.phase;
  const progress = phase.total > 0
    ? ` ${phase.done.toLocaleString("en")} of ${phase.total.toLocaleString("en")}${phase.unit ? " " + phase.unit : ""}` : "";
  if (iterations === 0) return `${what[0].toUpperCase()}${what.slice(1)}${progress}`; // an evaluation-only run
  const head = phase.iteration > 0 ? `Iteration ${phase.iteration} of ${iterations}` : "Before the first iteration";
  return `${head} · ${what}${progress}`;
}

/**
 * Completed share of a run, 0 to 1, including the rollout of the current iteration.
 * @param {Phase|null} phase
 * @param {number} iterations
 * @param {string} state
 */
export function progress(phase, iterations, state) {
  if (state === "finished") return 1;
  if (phase && iterations === 0 && phase.total > 0) return Math.min(1, phase.done / phase.total);
  if (!phase || iterations <= 0 || phase.iteration < 1) return 0;
  const inside = phase.phase === "rollout" && phase.total > 0 ? (0.8 * phase.done) / phase.total
    : phase.phase === "rollout" ? 0 : 0.8;
  return Math.min(1, (phase.iteration - 1 + inside) / iterations);
}

/**
 * @param {Phase|null} phase
 * @param {string} device
 * @param {string} state
 */
export function paceWords(phase, device, state) {
  const parts = [];
  if (state === "running" && phase?.tokens_per_second) parts.push(`${Math.round(phase.tokens_per_second).toLocaleString("en")} tokens/s`);
  if (device) parts.push(device);
  if (state === "running" && phase?.eta_seconds) parts.push(`${duration(phase.eta_seconds)} left`);
  return parts.join(" · ");
}

/**
 * Outcome of a trajectory as a phrase without a full stop.
 * @param {{success?: boolean|null, end?: string|null, turns: number, actions: number, lost_at?: {turn: number, action: number, reason: string}|null}} result
 */
export function outcome(result) {
  const length = `${plural(result.turns, "turn")}, ${plural(result.actions, "action")}`;
  if (result.success === null || result.success === undefined) return `playing: ${length}`;
  if (result.success) return `solved in ${length}`;
  if (result.lost_at) {
    return `stuck at turn ${result.lost_at.turn + 1}, action ${result.lost_at.action + 1}: ${result.lost_at.reason}`;
  }
  switch (result.end) {
    case "terminated": return `failed after ${length}`;
    case "turns": return `out of turns after ${length}`;
    case "actions": return `out of actions after ${length}`;
    case "truncated": return `cut off after ${length}`;
    case "interrupted": return `interrupted after ${length}`;
    default: return `not solved in ${length}`;
  }
}

/** @param {Member} member */
export function memberWords(member) {
  const format = member.format_error ? ", with a format error" : "";
  switch (member.status) {
    case "waiting": return "waiting";
    case "playing": return `playing, ${plural(member.turns, "turn")} so far${format}`;
    case "success": return `solved in ${plural(member.turns, "turn")}${format}`;
    default: return `failed after ${plural(member.turns, "turn")}${format}`;
  }
}

/** "g3 · 11": group and trajectory, counted from 0 as in the journal. @param {number} group @param {number} member */
export function place(group, member) {
  return `g${group} · ${String(member).padStart(2, "0")}`;
}

/**
 * Label of an axis value: iterations whole, tokens in thousands and millions, seconds in minutes and hours.
 * @param {"iteration"|"tokens"|"seconds"} axis
 * @param {number|null} value
 */
export function axisValue(axis, value) {
  if (value === null) return "";
  if (axis === "seconds") return value < 90 ? `${short(value)} s` : value < 5400 ? `${short(value / 60)} min` : `${short(value / 3600)} h`;
  if (axis === "tokens" && value >= 1e9) return `${short(value / 1e9)} G`;
  if (axis === "tokens" && value >= 1e6) return `${short(value / 1e6)} M`;
  if (axis === "tokens" && value >= 1e3) return `${short(value / 1e3)} k`;
  return Number.isInteger(value) ? value.toLocaleString("en") : "";
}
