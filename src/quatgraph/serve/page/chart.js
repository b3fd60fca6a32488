// Learning curves: lines over epochs, the selected epoch marked, and a table with the same numbers.

import { fitted, h, hue, short, table } from "./dom.js";

const [LEFT, RIGHT, TOP, BOTTOM] = [52, 16, 12, 40];

/** Args: series: `{name, x, y, selected}`. */
export function chart(series, { name, unit = "" }) {
  const shown = series.filter((one) => one.y.some((value) => value !== null));
  const box = fitted(h("div", { class: "chart" }), (width, height) => plot(shown, width, height, name, unit));
  const key = h("p", { class: "key" }, shown.map((one, place) => h("span", {}, h("i", { class: hue(one.place ?? place) }), one.name)));
  const rows = shown.map((one) => {
    const at = one.x.indexOf(one.selected);
    return [one.name, short(one.selected ?? ""), at < 0 ? "" : short(one.y[at]), short(one.x.at(-1)), short(one.y.at(-1))];
  });
  const columns = [{ title: "Curve" }, { title: "Selected epoch", number: true }, { title: "Value", number: true }, { title: "Last epoch", number: true }, { title: "Value", number: true }];
  return h("figure", {}, key, box, h("details", {}, h("summary", {}, "The chart as a table"), h("div", { class: "scroll" }, table(columns, rows, name))));
}

/** The metrics that curves hold; the selection score repeats one of them. */
export const curveNames = (curves) => [...new Set(curves.flatMap((one) => Object.keys(one.values)))].filter((name) => !name.endsWith("/merit")).sort();

function plot(series, width, height, name, unit) {
  const values = series.flatMap((one) => one.y.filter((value) => value !== null));
  const epochs = series.flatMap((one) => one.x);
  const [low, high, step] = round(Math.min(...values), Math.max(...values), 4);
  const [first, last] = [Math.min(0, ...epochs), Math.max(...epochs, 1)];
  const x = (value) => LEFT + ((value - first) / (last - first)) * (width - LEFT - RIGHT);
  const y = (value) => height - BOTTOM - ((value - low) / (high - low)) * (height - TOP - BOTTOM);
  const marks = [];
  for (let value = low; value <= high + step / 2; value += step) {
    marks.push(h("line", { class: "axis", x1: LEFT, x2: width - RIGHT, y1: y(value), y2: y(value) }),
      h("text", { class: "tick", x: LEFT - 8, y: y(value) + 4, "text-anchor": "end" }, Number(value.toPrecision(6)).toString()));
  }
  const [, , across] = round(first, last, Math.max(2, Math.floor(width / 110)));
  for (let value = 0; value <= last; value += across) {
    marks.push(h("text", { class: "tick", x: x(value), y: height - BOTTOM + 18, "text-anchor": "middle" }, String(value)));
  }
  marks.push(h("text", { class: "tick", x: width - RIGHT, y: height - 4, "text-anchor": "end" }, `epoch${unit && `; ${unit}`}`));
  const lines = series.map((one, place) => {
    let path = "";
    let pen = "M";
    one.x.forEach((epoch, at) => {
      if (one.y[at] === null || one.y[at] === undefined) { pen = "M"; return; }
      path += `${pen}${x(epoch).toFixed(1)} ${y(one.y[at]).toFixed(1)}`;
      pen = "L";
    });
    const at = one.x.indexOf(one.selected);
    return h("g", { class: hue(one.place ?? place) }, h("path", { class: "series", d: path }),
      at < 0 || one.y[at] === null ? null : h("circle", { class: "selected", cx: x(one.selected), cy: y(one.y[at]), r: 6 }, h("title", {}, `${one.name}: epoch ${one.selected} was selected, ${short(one.y[at])}`)));
  });
  return h("svg", { role: "img", "aria-label": name, viewBox: `0 0 ${width} ${height}` }, marks, lines);
}

/** Round bounds and the step between marks. */
function round(low, high, wanted) {
  const span = high - low || Math.abs(high) || 1;
  const power = 10 ** Math.floor(Math.log10(span / wanted));
  const step = [1, 2, 5, 10].map((factor) => factor * power).find((one) => span / one <= wanted) ?? power;
  return [Math.floor(low / step + 1e-9) * step, Math.ceil(high / step - 1e-9) * step + (high === low ? step : 0), step];
}
