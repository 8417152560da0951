// @ts-check
/**
 * Types of the wire formats: snapshot of a run's page, journal events, trajectories. Type-only: browsers never load it.
 */

/**
 * @typedef {"floor"|"wall"|"tile"|"goal"|"danger"|"good"|"bad"|"white"|"yellow"|"orange"|"red"|"green"|"blue"|"piece"|"player"} Tone
 */
/** @typedef {{name: string, tone?: Tone, glyph?: string|null}} Sign */
/** @typedef {{kind: "grid", theme: string, rows: string[], legend?: Record<string, Sign>|null}} GridBoard */
/** @typedef {{name: string, pulls: number, total: number, last?: number|null}} Arm */
/** @typedef {{kind: "arms", arms: Arm[]}} ArmsBoard */
/** @typedef {{text: string, detail: string, action: string, chosen: boolean}} PageItem */
/** @typedef {{layout: "note"|"buttons"|"list"|"choices"|"text", title: string, items: PageItem[]}} PageSection */
/** @typedef {{kind: "page", title: string, address: string, sections: PageSection[], last?: string|null}} PageBoard */
/** @typedef {{kind: "text", text: string, grid?: GridBoard|null}} TextBoard */
/** @typedef {GridBoard|ArmsBoard|PageBoard|TextBoard} Board */

/**
 * @typedef {object} Hint
 * @property {string[]} [actions]
 * @property {number|null} [distance]
 * @property {number|null} [value]
 * @property {"yes"|"no"|"unknown"} [solvable]
 * @property {string|null} [reason]
 */

/**
 * @typedef {object} ActionRecord
 * @property {string} text
 * @property {"executed"|"ignored"|"illegal"} status
 * @property {string|null} [name]
 * @property {number} [reward]
 * @property {boolean} [effective]
 * @property {string|null} [actual]
 * @property {Board|null} [board]
 * @property {Hint|null} [hint]
 * @property {CallRecord|null} [call] the call of a tool that the action was
 */

/**
 * A call of a tool; the tool is empty where the call could not be read.
 * @typedef {{tool: string, arguments?: Record<string, unknown>, result: string, failed?: boolean}} CallRecord
 */

/**
 * An image that the policy saw: a file of the run, by its hash.
 * @typedef {{sha256: string, media_type: string, width: number, height: number, bytes: number}} ObservationImage
 */

/**
 * @typedef {object} Turn
 * @property {number} turn
 * @property {string} state
 * @property {ObservationImage[]|null} [images] what it saw besides the state
 * @property {string} response
 * @property {string} thought
 * @property {string} answer
 * @property {boolean|null} [format_valid] absent: not judged
 * @property {string|null} [problem]
 * @property {ActionRecord[]} actions
 * @property {number} reward
 * @property {Record<string, number>} terms
 * @property {number|null} [tokens] absent: not known
 * @property {boolean} truncated
 * @property {number|null} [entropy]
 * @property {number|null} [logprob]
 * @property {Board|null} [board] before its first action
 * @property {Claim[]|null} [claims] statements of the thought compared with the state
 * @property {number[]} [folded_tokens] tokens of each part of the response that is folded, where known
 * @property {Record<string, unknown>|null} [extra] what a recorder added
 */

/**
 * Characters of a thought (code points) that state something about the state; cells are row and column from 0.
 * @typedef {{start: number, end: number, true: boolean, kind?: string|null, actual?: string|null, cells?: Array<[number, number]>|null, actual_cells?: Array<[number, number]>|null, placed?: string|null, marks?: string[]|null}} Claim
 */

/**
 * @typedef {{text: string, id: number, p: number, logprob: number, entropy: number|null, advantage: number|null}} Token
 */
/** @typedef {{turn: number, tokens: Token[]}} TokenTurn */

/** @typedef {{turn: number, action: number, reason: string}} LostAt */

/**
 * A mistake by the environment's solver; cells are row and column from 0, of the box or player that it is about, and
 * origin is the player's before the action.
 * @typedef {{turn: number, action: number, kind: "inaccuracy"|"mistake"|"blunder", glyph: string, played: string, better: string[], value: number, kept: number, loss: number, sentence: string, cells: Array<[number, number]>, origin: number[], dead_end: boolean}} Mark
 */

/**
 * Why an attempt failed, and where.
 * @typedef {{kind: "mistake"|"slip"|"budget", turn: number, action: number, sentence: string}} Verdict
 */

/**
 * A trajectory in the format of the stage and the player.
 * @typedef {object} Trajectory
 * @property {string} id
 * @property {string} slug
 * @property {number} group
 * @property {number} member
 * @property {Board} board
 * @property {Hint|null} [hint]
 * @property {Turn[]} turns
 * @property {boolean|null} [success]
 * @property {string|null} [end]
 * @property {number|null} [total_reward]
 * @property {LostAt|null} [lost_at]
 * @property {number} [turns_left_out] turns beyond what a page can hold
 * @property {number} [turns_not_stored] turns too long for the site
 * @property {Mark[]} [marks] absent until the attempt has ended
 * @property {Verdict|null} [verdict]
 * @property {boolean} [broken_off] by an error
 * @property {boolean} [recorded] of another trainer's run
 */

/**
 * @typedef {{id: string, slug: string, turns: number, status: "waiting"|"playing"|"success"|"failed"|"interrupted"|"unknown", format_error: boolean|null}} Member
 */
/** @typedef {{group: number, mean: number|null, std: number|null, kept: boolean|null, members: Member[]}} WallGroup */
/** @typedef {{iteration: number, split: string, groups: WallGroup[]}} Wall */

/** Attempts of an iteration by training use, which add up. @typedef {{iteration: number, counts: Record<string, number>}} TrainingUse */

/** @typedef {{stage: string, pass_number: number, passes: number, groups: number[]}} UpdateProgress */

/**
 * @typedef {object} Phase
 * @property {string} phase
 * @property {number} iteration
 * @property {number} done
 * @property {number} total
 * @property {string} unit
 * @property {number|null} [tokens_per_second]
 * @property {number|null} [eta_seconds]
 * @property {number|null} [eta_low_seconds] at the pace of fast iterations
 * @property {number|null} [eta_high_seconds] at the pace of slow iterations
 * @property {number|null} [share] completed share of the phase
 * @property {Record<string, number>|null} [iteration_shares] phase → expected share of this iteration's time, in order
 * @property {UpdateProgress|null} [update] for the phase update
 */

/**
 * A telling attempt of the last rollout or evaluation, and why it was chosen (webapp/explorer/highlights.py).
 * @typedef {{kind: string, caption: string, id: string, slug: string, group: number, member: number, iteration: number, split: string}} Highlight
 */

/**
 * @typedef {{iteration: number, suite: string, success: number, success_low: number, success_high: number, prompts: number, final: boolean}} Evaluation
 */
/** @typedef {{state: "healthy"|"watch"|"trapped", message: string, iteration: number}} Alarm */
/** @typedef {Alarm & {undone: boolean}} PastAlarm */
/** @typedef {{cause: string, since: number, text: string}} Fault */
/** @typedef {{number: number, from_iteration: number, to_iteration: number, changes: Record<string, string>}} Rewind */
/** A change of settings that took effect; after a rewind by hand, the iterations that were finished before it. @typedef {{request: string, iteration: number, changes: Record<string, string>, rewind_from: number | null}} SettingsChange */
/** @typedef {{level: "info"|"warning"|"error", message: string}} Notice */

/**
 * @typedef {object} Snapshot
 * @property {number} seq
 * @property {number} rebuilds how often the run was read again from its journal
 * @property {number} attempt
 * @property {string} state
 * @property {{slug: string, title: string, iterations: number, iteration: number, warmup_steps: number, warmup_share: number, group_size: number, groups: number, environment: string, device: string, started_at: string|null, recorded: boolean}} run
 * @property {Phase|null} phase
 * @property {Wall|null} wall
 * @property {TrainingUse|null} training_use of the last iteration that had an update, or could have had one
 * @property {Record<string, Array<[number, number]>>} curves
 * @property {Evaluation[]} evaluations
 * @property {Alarm|null} alarm
 * @property {Fault[]} faults that are present
 * @property {PastAlarm[]} alarms
 * @property {Rewind[]} rewinds
 * @property {SettingsChange[]} changes
 * @property {Record<string, Array<[number, number, number]>>} evidence sign → iteration, value, limit
 * @property {Trajectory|null} stage
 * @property {Notice[]} notices
 */

/** An event of the journal; `type` says which. @typedef {{type: string, seq: number} & Record<string, any>} Event */

export {};
