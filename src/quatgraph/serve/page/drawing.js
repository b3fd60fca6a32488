// Draws a graph, with a caption that says what is under the pointer and a table with the same content.

import { fitted, h, shorten, table } from "./dom.js";
import { layout } from "./force.js";

const LONGEST = 22;

/**
 * Args:
 *   nodes: `{id, label, hop, kind, ring, title, matters, first}`; `kind` and `ring` are classes of colours; the label of
 *     one that is `first` is always shown.
 *   edges: `{source, target, words, strength, kind}`; `strength` between 0 and 1 is the thickness.
 *   options: `name` of the drawing, `hint`, `open(node)` for a click, `twin` with the table's columns and rows.
 */
export function drawing(nodes, edges, { name, hint = "", open, twin }) {
  const caption = h("figcaption", {}, hint);
  const tell = (words) => ({ onmouseenter: () => (caption.textContent = words), onmouseleave: () => (caption.textContent = hint) });
  const box = fitted(h("div", { class: "drawing" }), (width, height) => {
    const at = new Map(layout(nodes, edges, width, height).map((point, place) => [nodes[place].id, point]));
    const lines = edges.filter((e) => e.source !== e.target).map((edge) => {
      const [[x1, y1], [x2, y2]] = [at.get(edge.source), at.get(edge.target)];
      const ends = { x1: x1.toFixed(1), y1: y1.toFixed(1), x2: x2.toFixed(1), y2: y2.toFixed(1) };
      return h("g", { class: `edge ${edge.kind ?? ""}`, ...tell(edge.words ?? "") },
        h("line", { ...ends, "stroke-width": (1 + 5 * (edge.strength ?? 0)).toFixed(1) }),
        h("line", { ...ends, class: "hit" }));
    });
    const hushed = hush(nodes, at, width);
    const circles = nodes.map((node) => {
      const [x, y] = at.get(node.id);
      const radius = node.hop === 0 ? 9 : nodes.length > 60 ? 5 : 7;
      const side = hushed.get(node);
      const group = h("g", { class: `node ${node.hop === 0 ? "centre" : ""} ${side === null ? "hushed" : ""} ${open ? "" : "still"}`, transform: `translate(${x.toFixed(1)} ${y.toFixed(1)})`,
        onclick: () => open?.(node), ...tell(node.title ?? node.label) },
        h("circle", { r: radius, class: node.kind ?? "" }),
        node.ring ? h("circle", { r: radius + 3, class: `ring ${node.ring}` }) : null,
        node.matters ? h("circle", { r: radius + 3, class: "matters" }) : null,
        node.label ? h("text", { x: (middle(x, node, width) - x).toFixed(1), y: side === "above" ? -radius - 7 : radius + 16, "text-anchor": "middle" }, shorten(node.label, LONGEST)) : null);
      return group;
    });
    return h("svg", { role: "img", "aria-label": name, viewBox: `0 0 ${width} ${height}` }, lines, circles);
  });
  const rows = table(twin.columns, twin.rows, name);
  return h("figure", {}, box, caption, h("details", {}, h("summary", {}, "The drawing as a table"), h("div", { class: "scroll" }, rows)));
}

const pen = document.createElement("canvas").getContext("2d");

/** Half the width of a label; an SVG could be measured only once it is shown. */
function halfWidth(node) {
  pen.font = `${node.hop === 0 ? 650 : 400} 13px system-ui, sans-serif`;
  return pen.measureText(shorten(node.label ?? "", LONGEST)).width / 2 + 4;
}

/** Where the middle of a label is: below its node, unless it would be cut. */
const middle = (x, node, width) => Math.max(halfWidth(node), Math.min(width - halfWidth(node), x));

/** Where labels go so that none covers another: below, above, or nowhere until the pointer comes; the first choose. */
function hush(nodes, at, width) {
  const taken = nodes.map((node) => [...at.get(node.id), 8, node]);
  const found = new Map();
  const order = (node) => (node.hop === 0 ? 0 : node.first ? 1 : 2);
  for (const node of [...nodes].sort((a, b) => order(a) - order(b))) {
    const [, y] = at.get(node.id);
    const [x, half] = [middle(at.get(node.id)[0], node, width), halfWidth(node)];
    const spots = [["below", y + 18], ["above", y - 16]];
    const free = spots.find(([, level]) => taken.every(([u, v, w, own]) => own === node || Math.abs(u - x) > half + w || Math.abs(v - level) > 15)) ?? (node.first ? spots[0] : null);
    found.set(node, free ? free[0] : null);
    if (free) taken.push([x, free[1], half]);
  }
  return found;
}
