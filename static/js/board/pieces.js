// @ts-check
/** Boxes, players and the lever of a bandit, drawn in a square of one unit. */

import { svg } from "../ui/dom.js";

export function drawBox() {
  return svg("g", { class: "piece box" }, [
    svg("rect", { class: "shade", x: 0.12, y: 0.17, width: 0.76, height: 0.76, rx: 0.11 }),
    svg("rect", { class: "crate", x: 0.12, y: 0.12, width: 0.76, height: 0.76, rx: 0.1 }),
    svg("path", { class: "grain", d: "M.25 .75L.75 .25" }),
    svg("path", { class: "planks", d: "M.25 .25h.5v.5h-.5z" }),
    svg("path", { class: "light", d: "M.2 .155h.6" }),
    svg("path", { class: "tick", d: "M.32 .52l.13 .14 .25 -.3" }),
  ]);
}

export function drawPlayer() {
  return svg("g", { class: "piece player" }, [
    svg("circle", { class: "shade", cx: 0.5, cy: 0.55, r: 0.3 }),
    svg("circle", { class: "body", cx: 0.5, cy: 0.5, r: 0.29 }),
    svg("path", { class: "light", d: "M.35 .3a.25 .25 0 0 1 .3 0" }),
    svg("g", { class: "eyes" }, [
      svg("circle", { cx: 0.4, cy: 0.5, r: 0.055 }),
      svg("circle", { cx: 0.6, cy: 0.5, r: 0.055 }),
    ]),
  ]);
}

export function drawLever() {
  return svg("svg", { viewBox: "0 0 60 44", class: "lever" }, [
    svg("rect", { class: "machine", x: 8, y: 8, width: 34, height: 30, rx: 5 }),
    svg("rect", { class: "window", x: 14, y: 14, width: 22, height: 10, rx: 2 }),
    svg("path", { class: "handle", d: "M42 26h8v-14" }),
    svg("circle", { class: "knob", cx: 50, cy: 10, r: 4.5 }),
  ]);
}
