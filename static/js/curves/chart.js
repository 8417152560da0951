// @ts-check
/**
 * One uPlot chart: raw line behind, smoothed line in front, synchronised cursor, keyboard cursor.
 */

import uPlot from "../../vendor/uplot/uPlot.esm.js";
import { css } from "../board/colours.js";
import { compression, labelled } from "./iteration_axis.js";
import { drawBands, drawChanges, drawCheckpoints, drawIntervals, drawLevel, drawSpread } from "./overlays.js";
import { align, smooth } from "./series.js";
import { tickTexts } from "./units.js";
import { setText } from "../ui/dom.js";
import { axisValue, short } from "../ui/formatting.js";

/** @typedef {import("../types.js").Evaluation} Evaluation */
/** @typedef {import("./overlays.js").Marks} Marks */

/** Iteration, place on the axis, value. @typedef {[number, number, number]} Point */

/**
 * @typedef {object} Line
 * @property {string} label
 * @property {string} color name of a CSS custom property
 * @property {Point[]} points
 * @property {boolean} [dots] separate measurements: joined, marked, never smoothed
 * @property {boolean} [plain] drawn as it is, never smoothed
 * @property {boolean} [level] its last value is drawn over the whole axis
 * @property {boolean} [quiet] not labelled in words
 * @property {boolean} [faint] behind the others
 * @property {number[]} [dash]
 * @property {Array<[number, number, number]>} [intervals] x, low, high
 * @property {Array<[number, number, number]>} [spread] the same, filled: mean ± standard deviation
 * @property {string} [scale] key of its vertical axis; "y", the left one, if omitted
 * @property {string} [unit] of its axis, if it is another one than "y"
 * @property {(value: number) => string} [format] of its values, if it is not the chart's
 */

/** @typedef {"iteration"|"tokens"|"seconds"} Axis */
/** @typedef {{low: number, high: number}|null} Range */
/** Ends of the vertical axis; null: from the data. @typedef {{low: number|null, high: number|null}} Limits */

const HEIGHT = 96;
const CLICK = 4;
const STEPS = /** @type {Record<string, number>} */ ({ ArrowLeft: -1, ArrowRight: 1, PageUp: -10, PageDown: 10 });
const SYNC = "iterations";

export class Chart {
  /**
   * @param {HTMLElement} root an element with [data-plot] and [data-value]
   * @param {object} [options]
   * @param {(value: number) => string} [options.format]
   * @param {number} [options.height] 0: that of its element
   * @param {boolean} [options.share]
   * @param {string} [options.unit] of the left axis
   * @param {(iteration: number, event: MouseEvent|KeyboardEvent) => void} [options.onPick] a point was chosen
   * @param {() => void} [options.onEnlarge] Enter was pressed; without it Enter chooses the point under the cursor
   * @param {(range: Range) => void} [options.onRange] called on zoom; without it the chart zooms on its own
   * @param {(words: string) => void} [options.announce] announces the cursor's values to keyboard users
   */
  constructor(
    root,
    { format = short, height = HEIGHT, share = false, unit = "", onPick, onEnlarge, onRange, announce } = {},
  ) {
    this.root = root;
    this.format = format;
    this.fixedHeight = height;
    this.share = share;
    this.unit = share ? "share" : unit;
    this.onPick = onPick;
    this.onEnlarge = onEnlarge;
    this.onRange = onRange ?? ((range) => this.zoom(range));
    this.announce = announce;
    this.host = /** @type {HTMLElement} */ (root.querySelector("[data-plot]"));
    this.value = /** @type {HTMLElement} */ (root.querySelector("[data-value]"));
    /** @type {any} */ this.plot = null;
    /** @type {Line[]} */ this.lines = [];
    /** @type {Marks} */ this.marks = { bands: [], checkpoints: [], changes: [] };
    /** @type {Axis} */ this.axis = "iteration";
    /** @type {Range} */ this.range = null;
    /** The whole axis, the same for all charts of a page. @type {Range} */ this.extent = null;
    this.compression = 1;
    /** @type {Limits} */ this.limits = { low: null, high: null };
    this.smoothing = 0.6;
    this.log = false;
    this.shape = "";
    /** Labels of the axes by scale. @type {Record<string, Array<{at: number, text: string}>>} */ this.ticks = {};
    this.pressed = 0;
    this.listening = new AbortController();
    this.observer = new ResizeObserver(() => this.#resize());
    this.observer.observe(this.host);
    document.addEventListener("themechange", () => this.plot?.redraw(false), { signal: this.listening.signal });
    if (announce) this.#keyboard();
  }

  /** @param {Line[]} lines */
  show(lines) {
    this.lines = lines.filter((line) => line.points.length);
    const empty = !this.lines.length;
    this.root.classList.toggle("no-data", empty);
    if (empty) {
      setText(this.value, "–");
      return;
    }
    this.#rest();
    if (!this.host.clientWidth) return;
    const shape = `${this.lines.map((line) => line.label + line.color + line.dash + line.scale).join()} ${this.log} ${this.axis}`;
    if (shape !== this.shape || !this.plot) this.#build(shape);
    else this.plot.setData(this.#data(), true);
  }

  /** Show this part of the axis; null: everything. @param {Range} range */
  zoom(range) {
    this.range = range;
    this.plot?.setData(this.plot.data, true);
  }

  destroy() {
    this.listening.abort();
    this.observer.disconnect();
    this.plot?.destroy();
    this.plot = null;
  }

  /** Axis value of an iteration: of its own point, or the next one. @param {number} iteration */
  place(iteration) {
    if (this.axis === "iteration") return iteration;
    const points = this.lines[0]?.points ?? [];
    return (points.find(([at]) => at >= iteration) ?? points[points.length - 1] ?? [0, 0])[1];
  }

  #data() {
    return /** @type {import("../../vendor/uplot/uPlot.esm.js").AlignedData} */ (
      align(
        this.lines.flatMap((line) => {
          const raw = line.points.map(([, x, y]) => /** @type {[number, number]} */ ([x, y]));
          if (line.dots || line.plain) return [raw];
          const calm = smooth(
            line.points.map(([at]) => at),
            line.points.map(([, , y]) => y),
            this.smoothing,
          );
          return [raw, raw.map(([x], index) => /** @type {[number, number]} */ ([x, calm[index]]))];
        }),
      )
    );
  }

  /** @param {string} shape */
  #build(shape) {
    this.plot?.destroy();
    this.shape = shape;
    const axis = {
      stroke: () => css("--soft"),
      font: "12px Inter, system-ui, sans-serif",
      ticks: { show: false },
      grid: { stroke: () => css("--line"), width: 1 },
    };
    const keys = [...new Set(["y", ...this.lines.map(scaleOf)])];
    const upright = (/** @type {string} */ key) => ({
      distr: this.log ? 3 : 1,
      range: (/** @type {any} */ _, /** @type {number} */ low, /** @type {number} */ high) => this.#up(key, low, high),
    });
    const sideways = (/** @type {string} */ key, /** @type {number} */ at) => ({
      ...axis,
      scale: key,
      side: at ? 1 : 3,
      size: this.#unitOf(key) === "bytes" ? 70 : 48,
      gap: 4,
      space: 20,
      grid: at ? { show: false } : axis.grid,
      values: (/** @type {any} */ _, /** @type {number[]} */ ticks) =>
        this.#label(key, ticks, tickTexts(this.#unitOf(key), ticks)),
    });
    this.plot = new uPlot(
      {
        width: this.host.clientWidth,
        height: this.height,
        padding: [6, keys.length > 1 ? 0 : 14, 0, 0],
        legend: { show: false },
        cursor: {
          sync: { key: SYNC },
          points: { size: 6 },
          y: false,
          drag: { x: true, y: false, setScale: false },
          bind: { dblclick: () => () => null },
        },
        scales: {
          x: {
            time: false,
            distr: 100,
            fwd: (/** @type {number} */ at) => (at < 0 ? at * this.compression : at),
            bwd: (/** @type {number} */ at) => (at < 0 ? at / this.compression : at),
            range: (/** @type {any} */ _, /** @type {number} */ low, /** @type {number} */ high) =>
              this.#across(low, high),
          },
          ...Object.fromEntries(keys.map((key) => [key, upright(key)])),
        },
        axes: [
          {
            ...axis,
            size: 22,
            gap: 4,
            grid: { show: false },
            splits: (/** @type {any} */ plot, /** @type {number} */ _, ...[low, high, step, space]) =>
              labelled(low, high, plot.bbox.width / devicePixelRatio / space) ?? multiples(low, high, step),
            filter: (/** @type {any} */ _, /** @type {number[]} */ ticks) => ticks, // the default filter is for log scales
            values: (/** @type {any} */ _, /** @type {number[]} */ ticks) =>
              this.#label(
                "x",
                ticks,
                ticks.map((tick) => axisValue(this.axis, tick)),
              ),
          },
          ...keys.slice(0, 2).map(sideways),
        ],
        series: [{}, ...this.lines.flatMap((line) => this.#series(line))],
        hooks: {
          drawClear: [(/** @type {any} */ plot) => this.#under(plot)],
          draw: [(/** @type {any} */ plot) => this.#over(plot)],
          setCursor: [(/** @type {any} */ plot) => this.#cursor(plot)],
          setSelect: [(/** @type {any} */ plot) => this.#select(plot)],
        },
      },
      this.#data(),
      this.host,
    );
    this.#pointer(this.plot.over);
  }

  /** @param {HTMLElement} over */
  #pointer(over) {
    over.addEventListener("pointerleave", () => this.#rest());
    over.addEventListener("dblclick", () => this.onRange(null));
    over.addEventListener("pointerdown", (event) => {
      this.pressed = event.clientX;
    });
    over.addEventListener("click", (event) => {
      const index = this.plot?.cursor.idx;
      if (!this.onPick || event.detail > 1 || Math.abs(event.clientX - this.pressed) > CLICK) return;
      if (index !== null && index !== undefined) this.onPick(this.#iterationAt(index), event);
    });
    over.classList.toggle("picks", Boolean(this.onPick));
  }

  #keyboard() {
    this.host.tabIndex = 0;
    this.host.addEventListener("keydown", (event) => {
      if (event.ctrlKey || event.metaKey || event.altKey) return;
      if (event.key === "Enter" && this.onEnlarge) {
        event.preventDefault();
        return this.onEnlarge();
      }
      if (!this.plot) return;
      const last = this.plot.data[0].length - 1;
      const at = this.plot.cursor.idx ?? (event.key === "ArrowRight" ? -1 : last + 1);
      const step = (STEPS[event.key] ?? 0) * (event.shiftKey ? 10 : 1);
      if (step) this.#moveTo(Math.max(0, Math.min(last, at + step)));
      else if (event.key === "Home") this.#moveTo(0);
      else if (event.key === "End") this.#moveTo(last);
      else if (event.key === "Enter" && this.onPick && at >= 0 && at <= last) this.onPick(this.#iterationAt(at), event);
      else if (event.key === "+" || event.key === "-")
        this.#zoomAround(Math.max(0, Math.min(last, at)), event.key === "+" ? 0.5 : 2);
      else if (event.key === "0" || (event.key === "Escape" && this.range)) this.onRange(null);
      else return;
      event.preventDefault();
    });
  }

  /** @param {number} index */
  #moveTo(index) {
    const left = this.plot.valToPos(this.plot.data[0][index], "x");
    this.plot.setCursor({ left, top: 10 }, true, true);
    this.announce?.(`${this.value.textContent}`);
  }

  /** @param {number} index @param {number} times */
  #zoomAround(index, times) {
    const { min, max } = this.plot.scales.x;
    const middle = this.plot.data[0][index];
    const half = ((max - min) * times) / 2;
    this.onRange({ low: middle - half, high: middle + half });
    this.announce?.(
      `From ${axisValue(this.axis, Math.round(Math.max(0, middle - half)))} to ${axisValue(this.axis, Math.round(middle + half))}`,
    );
  }

  /** @param {number} index on the aligned axis */
  #iterationAt(index) {
    const x = this.plot.data[0][index];
    for (const line of this.lines) {
      const point = line.points.find((point) => point[1] === x);
      if (point) return point[0];
    }
    return 0;
  }

  /** @param {any} plot */
  #select(plot) {
    const { left, width } = plot.select;
    if (width <= CLICK) return;
    const range = { low: plot.posToVal(left, "x"), high: plot.posToVal(left + width, "x") };
    plot.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
    if (range.high > range.low) this.onRange(range);
  }

  /** @param {number} low @param {number} high @returns {[number, number]} */
  #across(low, high) {
    const { low: first, high: last } = this.extent ?? { low, high };
    const whole = { low: Math.min(first, low ?? first), high: Math.max(last, high ?? last, first + 1) };
    const shown = this.range ?? whole;
    this.compression = this.axis === "iteration" ? compression(shown.low, shown.high) : 1;
    return [shown.low, shown.high];
  }

  /** @param {string} key of the scale @param {number} low @param {number} high @returns {[number, number]} */
  #up(key, low, high) {
    const ends = this.lines
      .filter((line) => scaleOf(line) === key)
      .flatMap((line) => [...(line.intervals ?? []), ...(line.spread ?? [])]);
    const bottom = Math.min(low ?? 0, ...ends.map((end) => end[1]));
    const top = Math.max(high ?? 1, ...ends.map((end) => end[2]));
    const { low: from, high: to } = key === "y" ? this.limits : { low: null, high: null };
    if (this.log) return [(from && from > 0 ? from : low / 1.1) || 1e-9, to && to > 0 ? to : high * 1.1];
    const flat = top - bottom <= Math.abs(top) * 1e-9; // smoothing a constant rounds its last digits
    const room = (flat ? Math.abs(top) || 1 : top - bottom) * 0.08;
    const share = this.#unitOf(key) === "share";
    return [
      from ?? (share ? Math.max(0, bottom - room) : bottom - room),
      to ?? (share ? Math.min(1, top + room) : top + room),
    ];
  }

  /**
   * Labels of an axis, kept for the export as a drawing.
   * @param {string} key
   * @param {Array<number|null>} ticks
   * @param {string[]} texts
   */
  #label(key, ticks, texts) {
    this.ticks[key] = ticks.flatMap((at, index) => (at === null ? [] : [{ at, text: texts[index] }]));
    return texts;
  }

  /** @param {string} key of a scale */
  #unitOf(key) {
    return key === "y" ? this.unit : (this.lines.find((line) => scaleOf(line) === key)?.unit ?? "");
  }

  /** @param {Line} line @returns {any[]} */
  #series(line) {
    const faint = () => css(line.color).replace("rgb(", "rgba(").replace(")", ", 0.33)");
    const color = line.faint
      ? () => css(line.color).replace("rgb(", "rgba(").replace(")", ", 0.55)")
      : () => css(line.color);
    const { dash, scale = "y" } = line;
    if (line.dots)
      return [
        {
          label: line.label,
          scale,
          stroke: color,
          width: 1.5,
          dash,
          spanGaps: true,
          points: { show: true, size: 5, fill: color },
        },
      ];
    if (line.plain)
      return [
        {
          label: line.label,
          scale,
          stroke: color,
          width: line.level ? 0 : 1.2,
          dash,
          spanGaps: true,
          points: { show: false },
        },
      ];
    return [
      { label: `${line.label}, raw`, scale, stroke: faint, width: 1, spanGaps: true, points: { show: false } },
      {
        label: line.label,
        scale,
        stroke: color,
        width: 1.8,
        dash,
        spanGaps: true,
        points: { show: line.points.length < 2, size: 5, fill: color },
      },
    ];
  }

  /** @param {any} plot */
  #under(plot) {
    drawBands(plot, this.marks, (iteration) => this.place(iteration));
    for (const line of this.lines)
      if (line.level)
        drawLevel(
          plot,
          css(line.color),
          line.points[line.points.length - 1][2],
          line.dash ?? [],
          scaleOf(line),
          line.label,
        );
    for (const line of this.lines) if (line.spread) drawSpread(plot, css(line.color), line.spread, scaleOf(line));
  }

  /** @param {any} plot */
  #over(plot) {
    drawCheckpoints(plot, this.marks, (iteration) => this.place(iteration));
    drawChanges(plot, this.marks, (iteration) => this.place(iteration));
    for (const line of this.lines)
      if (line.intervals) drawIntervals(plot, css(line.color), line.intervals, scaleOf(line));
  }

  /** Values under the cursor, each series at its last point up to there. @param {any} plot */
  #cursor(plot) {
    const index = plot.cursor.idx;
    if (index === null || index === undefined || plot.cursor.left < 0) return this.#rest();
    const x = plot.data[0][index];
    const values = this.#labelled().map((line) => {
      const value = line.points.findLast(([, at]) => at <= x)?.[2];
      return value === undefined ? "–" : this.#text(line, value);
    });
    const iteration = this.#iterationAt(index);
    const where =
      this.axis === "iteration" ? `at ${iteration}` : `at ${axisValue(this.axis, x)}, iteration ${iteration}`;
    setText(this.value, `${values.join(" · ")} ${where}`);
  }

  /** @param {Line} line @param {number} value */
  #text(line, value) {
    return (line.format ?? this.format)(value);
  }

  #labelled() {
    return this.lines.filter((line) => !line.quiet);
  }

  /** Newest values, in the header and for screen readers. */
  #rest() {
    const labelled = this.#labelled();
    const newest = (/** @type {Line} */ line) => line.points[line.points.length - 1];
    setText(this.value, labelled.map((line) => this.#text(line, newest(line)[2])).join(" · "));
    this.host.setAttribute("role", "img");
    const keys = this.announce ? ` Arrow keys move the cursor, plus and minus zoom${this.#enterWords()}.` : "";
    this.host.setAttribute(
      "aria-label",
      `${labelled.map((line) => `${line.label} ${this.#text(line, newest(line)[2])} at iteration ${newest(line)[0]}`).join("; ")}.${keys}`,
    );
  }

  #enterWords() {
    if (this.onEnlarge) return ", Enter enlarges the chart";
    return this.onPick ? ", Enter opens the iteration's attempts" : "";
  }

  get height() {
    return this.fixedHeight || this.host.clientHeight || HEIGHT;
  }

  #resize() {
    const width = this.host.clientWidth;
    if (!width) return;
    const { height } = this;
    if (!this.plot && this.lines.length) this.show(this.lines);
    else if (this.plot && (width !== this.plot.width || height !== this.plot.height))
      this.plot.setSize({ width, height });
  }
}

/** Multiples of a step. @param {number} low @param {number} high @param {number} step @returns {number[]} */
function multiples(low, high, step) {
  const first = Math.ceil(low / step);
  const count = Math.max(0, Math.floor(high / step) - first + 1);
  return Array.from({ length: count }, (_, index) => Number(((first + index) * step).toPrecision(12)));
}

/** Key of a line's vertical axis. @param {Line} line */
export function scaleOf(line) {
  return line.scale ?? "y";
}

/**
 * Snapshot points as chart points over iterations.
 * @param {Array<[number, number]>} points
 * @returns {Point[]}
 */
export function onIterations(points) {
  return points.map(([iteration, value]) => [iteration, iteration, value]);
}

/**
 * Evaluations of one suite as a line with confidence intervals.
 * @param {Evaluation[]} evaluations
 * @param {string} suite
 * @returns {Line}
 */
export function evaluationLine(evaluations, suite) {
  const mine = evaluations.filter((result) => result.suite === suite).sort((a, b) => a.iteration - b.iteration);
  return {
    label: "Evaluation",
    color: "--good",
    dots: true,
    points: mine.map((result) => [result.iteration, result.iteration, result.success]),
    intervals: mine.map((result) => [result.iteration, result.success_low, result.success_high]),
  };
}
