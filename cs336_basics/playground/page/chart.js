// A line chart as SVG.

import { NUM_COLORS } from "./common.js";

const SVG = "http://www.w3.org/2000/svg";
const HEIGHT = 320, LEFT = 70, RIGHT = 20, TOP = 14, BOTTOM = 50;
const LARGEST = 1e15;

function node(name, attributes, text) {
  const element = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  if (text !== undefined) element.textContent = text;
  return element;
}

/** Return a short line in the color of a series, for a legend. */
export function swatch(index) {
  const svg = node("svg", { class: "swatch", viewBox: "0 0 24 12", "aria-hidden": "true" });
  svg.append(node("line", { class: `s${index % NUM_COLORS}`, x1: 0, x2: 24, y1: 6, y2: 6 }));
  return svg;
}

function ticks(from, to, isLog) {
  if (isLog) {
    const first = Math.ceil(Math.log10(from) - 1e-9), last = Math.floor(Math.log10(to) + 1e-9);
    return Array.from({ length: Math.max(0, last - first + 1) }, (_, i) => 10 ** (first + i));
  }
  const rough = (to - from) / 5 || 1;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((factor) => factor * power).find((size) => size >= rough);
  const first = Math.ceil(from / step), last = Math.floor(to / step + 1e-6);
  // By index: a sum of large numbers and a small step would stay the same.
  return Array.from({ length: Math.max(0, last - first + 1) }, (_, i) => (first + i) * step);
}

const label = (value) => Number(value.toPrecision(4)).toLocaleString("en",
  { maximumSignificantDigits: 4 });

/** Draw series, lists of [x, y], in an element. The description is for screen readers. Points that
 * are huge, not finite, or not positive on a logarithmic axis are left out. */
export function drawChart(parent, series, { x, y, description, logX = false, fromZero = false }) {
  const isDrawn = ([at, value]) => (!logX || at > 0) &&
    Math.abs(at) < LARGEST && Math.abs(value) < LARGEST;
  const all = series.flat().filter(isDrawn);
  if (!all.length) return parent.replaceChildren();
  const range = (values) => [Math.min(...values), Math.max(...values)];
  let [x0, x1] = range(all.map((point) => point[0]));
  let [y0, y1] = range(all.map((point) => point[1]));
  if (fromZero) y0 = 0;
  if (x0 === x1) x1 = logX ? x0 * 10 : x0 + 1;
  if (y0 === y1) y1 = y0 + 1;
  const WIDTH = Math.min(800, parent.clientWidth || 800);
  const scale = logX ? Math.log10 : (value) => value;
  const px = (value) => LEFT + (scale(value) - scale(x0)) / (scale(x1) - scale(x0)) *
    (WIDTH - LEFT - RIGHT);
  const py = (value) => HEIGHT - BOTTOM - (value - y0) / (y1 - y0) * (HEIGHT - TOP - BOTTOM);
  const svg = node("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img",
    "aria-label": description });
  for (const value of ticks(x0, x1, logX)) {
    svg.append(node("line", { class: "grid", x1: px(value), x2: px(value), y1: TOP,
      y2: HEIGHT - BOTTOM }), node("text", { x: px(value), y: HEIGHT - BOTTOM + 18,
      "text-anchor": "middle" }, label(value)));
  }
  for (const value of ticks(y0, y1)) {
    svg.append(node("line", { class: "grid", x1: LEFT, x2: WIDTH - RIGHT, y1: py(value),
      y2: py(value) }), node("text", { x: LEFT - 8, y: py(value) + 4, "text-anchor": "end" },
    label(value)));
  }
  series.forEach((points, index) => {
    const drawn = points.filter(isDrawn);
    const dot = drawn.length === 1; // a line of one point would be invisible
    svg.append(node("polyline", { class: `s${index % NUM_COLORS}${dot ? " dot" : ""}`,
      points: (dot ? [...drawn, ...drawn] : drawn)
        .map(([at, value]) => `${px(at)},${py(value)}`).join(" ") }));
  });
  svg.append(node("text", { x: (LEFT + WIDTH) / 2, y: HEIGHT - 10, "text-anchor": "middle" }, x),
    node("text", { x: 16, y: HEIGHT / 2 - 20, "text-anchor": "middle",
      transform: `rotate(-90 16 ${HEIGHT / 2 - 20})` }, y));
  parent.replaceChildren(svg);
}
