// @ts-check
/** Read-outs of charts that the server drew: the values below the pointer. */

import { svg } from "../ui/dom.js";

/**
 * @typedef {{label: string, points: [number, string, number][]}} Reading iteration, value as text, place in the drawing
 */

/** Show the values below the pointer in the charts inside `root`. @param {ParentNode} root */
function readings(root) {
  for (const chart of root.querySelectorAll("[data-chart]")) {
    const data = chart.querySelector("script[type='application/json']");
    const plot = chart.querySelector("svg");
    if (data && plot) follow(chart, plot, JSON.parse(data.textContent ?? "[]"));
  }
}

/**
 * @param {Element} chart
 * @param {SVGSVGElement} plot
 * @param {Reading[]} lines
 */
function follow(chart, plot, lines) {
  const cursor = plot.querySelector(".cursor") ?? plot.appendChild(svg("path", { class: "cursor" }));
  const values = [...chart.querySelectorAll("[data-last]")];
  const where = chart.querySelector("[data-where]");
  const all = lines.flatMap((line) => line.points);

  /** @param {PointerEvent} event */
  const show = (event) => {
    const box = plot.getBoundingClientRect();
    const x = ((event.clientX - box.left) / box.width) * 1000;
    const nearest = all.reduce(
      (best, point) => (Math.abs(point[2] - x) < Math.abs(best[2] - x) ? point : best),
      all[0],
    );
    if (!nearest) return;
    cursor.setAttribute("d", `M${nearest[2]} 0V300`);
    lines.forEach((line, index) => {
      const point = line.points.find(([at]) => at === nearest[0]);
      if (values[index]) values[index].textContent = point ? point[1] : "–";
    });
    if (where) where.textContent = `iteration ${nearest[0]}`;
  };
  const rest = () => {
    cursor.setAttribute("d", "");
    for (const value of values) value.textContent = value.getAttribute("data-last");
    if (where) where.textContent = "last value";
  };
  plot.addEventListener("pointermove", show);
  plot.addEventListener("pointerleave", rest);
}

readings(document);
document.addEventListener("htmx:afterSwap", (event) => {
  if (event.target instanceof Element) readings(event.target);
});
