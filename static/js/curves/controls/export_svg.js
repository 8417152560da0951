// @ts-check
/** A chart as SVG: the same lines, axes and marks as on the canvas, with title and legend. */

import { css } from "../../board/colours.js";
import { setText, svg } from "../../ui/dom.js";
import { scaleOf } from "../chart.js";
import { changeText } from "../overlays.js";
import { smooth } from "../series.js";

/** @typedef {import("../chart.js").Chart} Chart */
/** @typedef {import("../chart.js").Line} Line */
/** @typedef {import("./export.js").Caption} Caption */

const MARGIN = 14;
const HEAD = 42;
const ROW = 20;
const FONT = "system-ui, sans-serif";

/**
 * @param {Chart} chart that is drawn
 * @param {Caption} caption
 * @returns {Blob}
 */
export function svgOf(chart, { title, subtitle, legend }) {
  const { plot } = chart;
  const scale = devicePixelRatio;
  const box = {
    left: plot.bbox.left / scale,
    top: plot.bbox.top / scale,
    width: plot.bbox.width / scale,
    height: plot.bbox.height / scale,
  };
  const width = plot.width + 2 * MARGIN;
  const height = plot.height + 2 * MARGIN + HEAD + ROW * Math.ceil(legend.length / 2);
  const x = (/** @type {number} */ value) => round(box.left + plot.valToPos(value, "x"));
  const y = (/** @type {number} */ value, key = "y") => round(box.top + plot.valToPos(value, key));
  const clip = svg("clipPath", { id: "plot" }, [
    svg("rect", { x: box.left, y: box.top, width: box.width, height: box.height }),
  ]);
  const inside = svg("g", { "clip-path": "url(#plot)", fill: "none" }, [
    ...chart.marks.bands.map((band) => {
      const from = x(chart.place(band.from));
      const to = band.open ? box.left + box.width : x(chart.place(band.to));
      return svg("rect", {
        x: from,
        y: box.top,
        width: Math.max(2, to - from),
        height: box.height,
        fill: css(band.state === "trapped" ? "--bad" : "--warn"),
        opacity: 0.16,
      });
    }),
    ...chart.marks.changes.flatMap((change) => {
      const at = x(chart.place(change.iteration));
      return [
        svg("line", {
          x1: at,
          x2: at,
          y1: box.top,
          y2: box.top + box.height,
          stroke: css("--accent"),
          "stroke-dasharray": "4 3",
        }),
        words(changeText(change), at + 4, box.top + box.height - 9, { fill: css("--accent"), "font-size": 10 }),
      ];
    }),
    ...chart.lines.flatMap((line) => drawn(line, chart.smoothing, box, x, (value) => y(value, scaleOf(line)))),
  ]);
  const root = svg(
    "svg",
    {
      xmlns: "http://www.w3.org/2000/svg",
      viewBox: `0 0 ${width} ${height}`,
      width,
      height,
      "font-family": FONT,
      "font-size": 11,
    },
    [
      svg("rect", { width, height, fill: css("--panel") }),
      words(title, MARGIN, MARGIN + 12, { fill: css("--ink"), "font-size": 13, "font-weight": 600 }),
      words(subtitle, MARGIN, MARGIN + 28, { fill: css("--soft") }),
      svg("g", { transform: `translate(${MARGIN} ${MARGIN + HEAD})` }, [clip, ...axes(chart, box, x, y), inside]),
      ...legend.flatMap(({ label, color, dash }, index) => {
        const left = MARGIN + (index % 2) * (plot.width / 2);
        const top = MARGIN + HEAD + plot.height + 16 + ROW * Math.floor(index / 2);
        return [
          svg("path", {
            d: `M${left} ${top - 4}h22`,
            stroke: css(color),
            "stroke-width": 2,
            "stroke-dasharray": (dash ?? []).join(" ") || "none",
          }),
          words(label, left + 28, top, { fill: css("--soft") }),
        ];
      }),
    ],
  );
  return new Blob([new XMLSerializer().serializeToString(root)], { type: "image/svg+xml" });
}

/**
 * @param {Chart} chart
 * @param {{left: number, top: number, width: number, height: number}} box
 * @param {(value: number) => number} x
 * @param {(value: number, key: string) => number} y
 */
function axes(chart, box, x, y) {
  const soft = css("--soft");
  const within = (/** @type {number} */ at, /** @type {number} */ from, /** @type {number} */ size) =>
    at >= from - 1 && at <= from + size + 1;
  return Object.entries(chart.ticks)
    .filter(([key]) => chart.plot.scales[key])
    .flatMap(([key, ticks]) =>
      ticks.flatMap(({ at, text }) => {
        if (key === "x") {
          const place = x(at);
          return within(place, box.left, box.width)
            ? [words(text, place, box.top + box.height + 15, { fill: soft, "text-anchor": "middle" })]
            : [];
        }
        const place = y(at, key);
        if (!within(place, box.top, box.height)) return [];
        const right = key !== "y";
        const label = words(text, right ? box.left + box.width + 5 : box.left - 5, place + 4, {
          fill: soft,
          "text-anchor": right ? "start" : "end",
        });
        return right
          ? [label]
          : [svg("path", { d: `M${box.left} ${place}h${box.width}`, stroke: css("--line") }), label];
      }),
    );
}

/**
 * @param {Line} line
 * @param {number} smoothing
 * @param {{left: number, width: number}} box
 * @param {(value: number) => number} x
 * @param {(value: number) => number} y
 */
function drawn(line, smoothing, box, x, y) {
  const stroke = css(line.color);
  /** @type {Record<string, string>} */
  const dash = line.dash?.length ? { "stroke-dasharray": line.dash.join(" ") } : {};
  const path = (/** @type {number[]} */ values) =>
    line.points.map(([, at], index) => `${index ? "L" : "M"}${x(at)} ${y(values[index])}`).join("");
  const raw = line.points.map(([, , value]) => value);
  const parts = [];
  if (line.spread?.length) {
    const edge = [
      ...line.spread.map(([at, low]) => [at, low]),
      ...line.spread.map(([at, , high]) => [at, high]).reverse(),
    ];
    parts.push(
      svg("path", {
        d: `M${edge.map(([at, value]) => `${x(at)} ${y(value)}`).join("L")}Z`,
        fill: stroke,
        opacity: 0.18,
      }),
    );
  }
  for (const [at, low, high] of line.intervals ?? [])
    parts.push(svg("path", { d: `M${x(at)} ${y(low)}V${y(high)}`, stroke, opacity: 0.55 }));
  if (line.level)
    parts.push(
      svg("path", { d: `M${box.left} ${y(raw[raw.length - 1])}h${box.width}`, stroke, "stroke-width": 1.2, ...dash }),
    );
  else if (line.dots || line.plain) parts.push(svg("path", { d: path(raw), stroke, "stroke-width": 1.5, ...dash }));
  else {
    const calm = smooth(
      line.points.map(([at]) => at),
      raw,
      smoothing,
    );
    parts.push(
      svg("path", { d: path(raw), stroke, opacity: 0.33 }),
      svg("path", { d: path(calm), stroke, "stroke-width": 1.8, ...dash }),
    );
  }
  if (line.dots)
    parts.push(...line.points.map(([, at, value]) => svg("circle", { cx: x(at), cy: y(value), r: 2.5, fill: stroke })));
  return parts;
}

/** @param {string} text @param {number} x @param {number} y @param {Record<string, string|number>} attributes */
function words(text, x, y, attributes) {
  const node = svg("text", { x, y, ...attributes });
  setText(node, text);
  return node;
}

/** @param {number} place */
function round(place) {
  return Math.round(place * 10) / 10;
}
