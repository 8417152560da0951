// @ts-check
/** What an iteration of the recorded Echo Trap shows: its attempts sorted for the wall, its echo, its alarm. */

/** @typedef {import("../types.js").Board} Board */
/**
 * @typedef {{before: Board|null, after: Board|null, thought: string, ending: string, answer: string, reward: number,
 *   success: boolean}} Attempt
 * @typedef {{iteration: number, state: string, message: string, label: string}} ReplayAlarm
 * @typedef {{name: string, groupSize: number, attempts: Attempt[], codes: string, iterations: string[], kept: string[],
 *   alarms: ReplayAlarm[]}} ReplayedRun
 * @typedef {{length: number, endings: string[], runs: ReplayedRun[], values: string[][][]}} Replay
 * @typedef {{index: number, group: number, attempt: Attempt, ending: number}} Cell an attempt of an iteration
 */

/**
 * The attempts of an iteration as columns, one for each group: those with the most of the first ending last, and within
 * a column at the bottom. Sorted, neighbouring iterations look alike, and a column of one colour is a group that agrees.
 * @param {ReplayedRun} run
 * @param {string[]} endings
 * @param {number} iteration from 1
 * @returns {Cell[][]}
 */
export function columnsOf(run, endings, iteration) {
  const codes = run.iterations[iteration - 1];
  /** @type {Cell[][]} */
  const columns = [];
  [...codes].forEach((code, index) => {
    const attempt = run.attempts[run.codes.indexOf(code)];
    const place = endings.indexOf(attempt.ending);
    const group = Math.floor(index / run.groupSize);
    columns[group] ??= [];
    columns[group].push({ index, group, attempt, ending: place < 0 ? endings.length : place });
  });
  const echoes = (/** @type {Cell[]} */ column) => column.filter(({ ending }) => ending === 0).length;
  for (const column of columns)
    column.sort((a, b) => b.ending - a.ending || b.attempt.reward - a.attempt.reward || a.index - b.index);
  return columns.sort((a, b) => echoes(a) - echoes(b) || a[0].group - b[0].group);
}

/**
 * The ending that most attempts of an iteration share, and how many.
 * @param {Cell[]} cells
 * @param {string[]} endings
 * @returns {{ending: string, count: number}}
 */
export function commonest(cells, endings) {
  const counts = endings.map((_, place) => cells.filter(({ ending }) => ending === place).length);
  const count = Math.max(...counts);
  return { ending: endings[counts.indexOf(count)], count };
}

/** The alarm that stands at an iteration, if any. @param {ReplayAlarm[]} alarms @param {number} iteration */
export function standing(alarms, iteration) {
  return alarms.filter((alarm) => alarm.iteration <= iteration).at(-1);
}
