// @ts-check
/** The metrics of a page by section, as webapp/runs/curves.py describes them. Pure functions. */

/** @typedef {import("./chart_lines.js").Metric} Metric */

/** @typedef {{key: string, title: string, metrics: Record<string, Partial<Metric>>}} Section */

/**
 * All metrics by name, in the order of the page, with the defaults that the server leaves out.
 * @param {Section[]} sections
 * @returns {Record<string, Metric>}
 */
export function catalogOf(sections) {
  return Object.fromEntries(
    sections.flatMap(({ key, title: section, metrics }) =>
      Object.entries(metrics).map(([name, metric]) => [
        name,
        { title: name, unit: "", meaning: "", better: "none", partners: {}, ...metric, section, key },
      ]),
    ),
  );
}
