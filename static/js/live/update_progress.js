// @ts-check
/** Progress of an update: the newest report about it, from the journal or between its events, and how fresh it is. */

import { phaseOf } from "./reducer.js";

/** @typedef {import("../types.js").Snapshot} Snapshot */
/** @typedef {import("../types.js").Phase} Phase */

/** Milliseconds without a report after which groups no longer pulse. */
const STALE_MS = 60_000;

export class UpdateProgress {
  constructor() {
    /** @type {(Phase & {time: number})|null} newest report that is not in the journal */ this.report = null;
    /** time of the newest phase event */ this.eventTime = 0;
    this.heardAt = Date.now();
  }

  /** A phase event of the journal. @param {import("../types.js").Event} event */
  noteEvent(event) {
    this.heardAt = Date.now();
    this.eventTime = event.time ?? 0;
    if (this.report && this.report.time <= this.eventTime) this.report = null;
  }

  /** A progress frame. @param {Phase & {time: number}} phase */
  noteReport(phase) {
    this.heardAt = Date.now();
    if (phase.time >= this.eventTime) this.report = { ...phaseOf(phase), time: phase.time };
  }

  /** Forget reports: the attempt changed. */
  clear() {
    this.report = null;
    this.eventTime = 0;
  }

  /**
   * The newest known phase: a report counts only while the journal's phase is the same update and not ahead of it.
   * @param {Phase|null} phase of the journal
   * @returns {Phase|null}
   */
  newest(phase) {
    const { report } = this;
    if (!report || !phase || phase.phase !== report.phase || phase.iteration !== report.iteration) return phase;
    const known = this.eventTime > 0; // otherwise the phase is from a snapshot, which has no time
    if (!known && (report.share ?? 0) < (phase.share ?? 0)) return phase;
    const { time: _time, ...newest } = report;
    return newest;
  }

  /**
   * Groups on the wall that are being learned now; none when nothing was heard for a minute.
   * @param {Snapshot} state
   * @returns {Set<number>}
   */
  learning({ state, phase, wall }) {
    const fresh = state === "running" && Date.now() - this.heardAt < STALE_MS;
    const same = phase?.phase === "update" && wall?.split === "train" && wall.iteration === phase.iteration;
    return new Set(fresh && same && phase?.update ? phase.update.groups : []);
  }
}
