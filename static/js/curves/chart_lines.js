// @ts-check
/** Lines of one chart: one per run and metric, or one per group of runs that differ in their seed. Pure functions. */

import { meanOf } from "./seed_means.js";
import { smooth } from "./series.js";
import { formatOf } from "./units.js";

/** @typedef {import("./chart.js").Line} Line */
/** @typedef {import("./chart.js").Point} Point */

/**
 * @typedef {object} Metric
 * @property {string} title
 * @property {string} unit
 * @property {string} section title of its section
 * @property {string} key of its section
 * @property {string} meaning
 * @property {Record<string, string>} partners low and high: ends of its interval; best and random: reference lines;
 *   limit: of the Echo Trap's signal
 * @property {string} [better] direction of better values: up, down or none
 * @property {string} [bad] side of the limit
 */

/**
 * @typedef {object} Source
 * @property {string} slug
 * @property {string} label
 * @property {string} color
 * @property {number[]} [dash]
 * @property {boolean} shown
 * @property {string} [seeds] key of its group: runs that differ in their seed only
 * @property {string} [letter]
 */

/**
 * What a chart draws.
 * @typedef {object} Plan
 * @property {string[]} names metrics, the first one on the left axis
 * @property {boolean} own each metric on its own axis
 */

/** @typedef {Record<string, Record<string, Point[]>>} Curves run → metric → points */

export const DASHES = [[], [7, 3], [2, 2], [9, 3, 2, 3]];
const COLORS = 8;

/**
 * Names of all metrics that a chart needs.
 * @param {Plan} plan
 * @param {Record<string, Metric>} catalog
 */
export function namesOf({ names }, catalog) {
  return [...new Set(names.flatMap((name) => [name, ...Object.values(catalog[name]?.partners ?? {})]))];
}

/**
 * @param {Plan} plan
 * @param {Curves} curves
 * @param {Source[]} sources
 * @param {Record<string, Metric>} catalog
 * @param {{average: boolean, smoothing: number}} options average: one line per group of runs
 * @returns {Line[]}
 */
export function linesOf(plan, curves, sources, catalog, { average, smoothing }) {
  const shown = sources.filter((source) => source.shown);
  const single = sources.length === 1;
  const lines = plan.names.flatMap((name, index) => {
    const metric = catalog[name];
    const scale = plan.own && index ? { scale: `y${index}`, unit: metric?.unit ?? "" } : {};
    return groupsOf(shown, average).map((group) => {
      const several = plan.names.length > 1;
      const label = several
        ? `${single ? "" : `${groupLabel(group)}: `}${metric?.title ?? name}`
        : single
          ? (metric?.title ?? name)
          : groupLabel(group);
      const look = !several
        ? { color: group[0].color, dash: group[0].dash }
        : single
          ? { color: `--run-${(index % COLORS) + 1}`, dash: DASHES[Math.floor(index / COLORS) % DASHES.length] }
          : { color: group[0].color, dash: DASHES[index % DASHES.length] };
      const format = several ? { format: formatOf(metric?.unit ?? "") } : {};
      return { ...lineOf(name, metric, curves, group, smoothing), ...look, ...scale, ...format, label };
    });
  });
  if (!single || plan.names.length > 1) return lines;
  const [name] = plan.names;
  const own = curves[shown[0]?.slug] ?? {};
  return [...lines, ...referencesOf(own, catalog[name]), ...limitsOf(own, catalog[name])];
}

/** Runs that are drawn as one line. @param {Source[]} sources @param {boolean} average @returns {Source[][]} */
export function groupsOf(sources, average) {
  if (!average) return sources.map((source) => [source]);
  /** @type {Map<string, Source[]>} */
  const groups = new Map();
  for (const source of sources) {
    const key = source.seeds ?? source.slug;
    groups.set(key, [...(groups.get(key) ?? []), source]);
  }
  return [...groups.values()];
}

/** @param {Source[]} group */
export function groupLabel(group) {
  return group.length > 1
    ? `${group.map((source) => source.letter ?? source.label).join(", ")}: mean ± std`
    : group[0].label;
}

/**
 * @param {string} name
 * @param {Metric|undefined} metric
 * @param {Curves} curves
 * @param {Source[]} group
 * @param {number} smoothing
 * @returns {{points: Point[], dots: boolean, intervals?: Array<[number, number, number]>, spread?: Array<[number, number, number]>}}
 */
function lineOf(name, metric, curves, group, smoothing) {
  const dots = name.startsWith("eval/");
  if (group.length > 1) {
    const { points, deviations } = meanOf(
      group.map(({ slug }) => curves[slug]?.[name] ?? []).filter((points) => points.length),
    );
    const iterations = points.map(([at]) => at);
    const level = dots ? 0 : smoothing;
    const means = smooth(
      iterations,
      points.map(([, , y]) => y),
      level,
    );
    const calm = smooth(iterations, deviations, level);
    return {
      points,
      dots,
      spread: points.map(([, x], index) => [x, means[index] - calm[index], means[index] + calm[index]]),
    };
  }
  const own = curves[group[0].slug] ?? {};
  const { low, high } = metric?.partners ?? {};
  if (!low || !high) return { points: own[name] ?? [], dots };
  const highs = new Map((own[high] ?? []).map(([at, , value]) => [at, value]));
  return {
    points: own[name] ?? [],
    dots,
    intervals: (own[low] ?? []).flatMap(([at, x, value]) =>
      highs.has(at) ? [[x, value, /** @type {number} */ (highs.get(at))]] : [],
    ),
  };
}

/**
 * Success of the best and of random play.
 * @param {Record<string, Point[]>} own
 * @param {Metric|undefined} metric
 * @returns {Line[]}
 */
function referencesOf(own, metric) {
  const look = { color: "--soft", dash: [2, 3], plain: true, quiet: true, level: true };
  return [
    ["Best play", "best"],
    ["Random play", "random"],
  ].flatMap(([label, role]) => {
    const points = own[metric?.partners[role] ?? ""] ?? [];
    return points.length ? [{ ...look, label, points }] : [];
  });
}

/** @param {Record<string, Point[]>} own @param {Metric|undefined} metric @returns {Line[]} */
function limitsOf(own, metric) {
  const bounds = own[metric?.partners.limit ?? ""] ?? [];
  if (!bounds.length) return [];
  /** @type {Line} */
  const limit = { label: "Limit", color: "--bad", dash: [5, 3], points: bounds, plain: true, quiet: true };
  if (metric?.bad !== "beyond") return [limit];
  return [limit, { ...limit, label: "Lower limit", points: bounds.map(([at, x, value]) => [at, x, -value]) }];
}
