// Classifies nodes: the neighbourhood, the class, the edges that matter, and a table of all nodes.

import { get, modelPath, post, Refused, Stopped } from "./api.js";
import { classBars, h, hue, link, percent, put, say } from "./dom.js";
import { drawing } from "./drawing.js";
import { field, teller } from "./field.js";
import { items } from "./items.js";

export function mount({ card, base, go }) {
  const path = modelPath(card.name);
  const { element: box, input } = field({ label: "Node", kind: "nodes", model: card.name, placeholder: "an id" });
  const told = teller("Search a node by its id, click one in the drawing, or choose one from the table.");
  const ask = () => go(to(input.value.trim()));
  const form = h("form", { class: "ask single", role: "search", ontaken: ask, onsubmit: (event) => { event.preventDefault(); ask(); } }, box, h("button", { type: "submit" }, "Show"));
  const around = h("section", { class: "panel answers" });
  const facts = h("section", { class: "panel" });
  const all = items({ card, base, go, keys: ["node"], noun: "node" });
  const color = (label) => hue(card.classes.map(String).indexOf(String(label)));
  const to = (node) => ({ ...base, node, ...all.state() });
  let turn = 0;
  let shown;

  async function update(parameters) {
    const own = (turn += 1);
    const node = parameters.get("node") || card.example?.nodes[0];
    input.value = node ?? "";
    told.clear([input]);
    const table = all.update(parameters);
    try {
      if (!node) return void (await get(`${path}/items`, { limit: 1 })); // says why there is no example
      if (node === shown) return;
      shown = undefined;
      const [found, near] = await Promise.all([post(`${path}/explain`, { nodes: [node] }), get(`${path}/graph`, { of: node, hops: 2, limit: 40 })]);
      if (own !== turn) return;
      show(found, near);
      shown = node;
    } catch (error) {
      if (own !== turn || error instanceof Stopped) return;
      if (!(error instanceof Refused)) throw error;
      told.error(error.message, [input]);
    } finally {
      await table;
    }
  }

  function show({ answers: [answer], classes, notes }, { nodes, edges }) {
    const support = new Map((answer.edges ?? []).map((one) => [one.node, one.support]));
    const most = Math.max(0.001, ...[...support.values()].map(Math.abs));
    const drawn = edges.map((edge) => {
      const other = edge.source === answer.id ? edge.target : edge.target === answer.id ? edge.source : null;
      const value = other === null ? 0 : support.get(other) ?? 0;
      return { ...edge, strength: Math.max(0, value) / most, kind: value / most > 0.2 ? "strong" : "",
        words: `${edge.source} – ${edge.target}${other === null ? "" : `: without it, ${answer.prediction} loses ${(100 * value).toFixed(1)} points`}` };
    });
    const dots = nodes.map((node) => ({ ...node, kind: color(node.prediction), ring: node.known ? color(node.known) : "",
      title: `${node.label}: ${node.prediction}, ${percent(node.probability)}${node.known ? `; labelled ${node.known}` : ""}` }));
    const twin = { columns: [{ title: "Node" }, { title: "Predicted" }, { title: "Label" }, { title: "Hops", number: true }],
      rows: nodes.map((node) => [link(go, to(node.id), node.label), String(node.prediction), String(node.known ?? ""), String(node.hop)]) };
    put(around, h("h2", {}, `Around ${answer.id}`),
      h("p", { class: "key" }, classes.slice(0, 8).map((label) => h("span", {}, h("i", { class: color(label) }), String(label))), h("span", {}, h("i", { class: "ring" }), "ring: known label")),
      drawing(dots, drawn, { name: `Nodes up to two hops from ${answer.id}`, hint: "Thick lines matter most. Click a node to move there.", open: (node) => go(to(node.id)), twin }));
    const strong = [...support].sort((a, b) => Math.abs(b[1]) - Math.abs(a[1])).slice(0, 6);
    const known = answer.label === undefined || answer.label === "" ? "Its label is not known." : `Its label is ${answer.label} (${answer.split || "no split"}).`;
    put(facts, h("h2", {}, `${answer.prediction} `, h("span", { class: "quiet" }, percent(answer.probability))), h("p", { class: "small quiet" }, known), classBars(classes, answer.probabilities),
      h("h2", { class: "later" }, "Edges that matter"), strong.some(([, value]) => Math.abs(value) >= 0.0005)
        ? h("dl", { class: "bars" }, strong.map(([other, value]) => [h("dt", {}, link(go, to(other), other)), h("dd", {}, h("span", { class: "track" }, fill(Math.abs(value) / most))), h("dd", { class: "number" }, (100 * value).toFixed(1))]))
        : null,
      h("p", { class: "small quiet" }, strong.some(([, value]) => Math.abs(value) >= 0.0005) ? "Points of probability that the class loses without the edge." : "No single edge changes the class by a tenth of a point."),
      notes.map((note) => h("p", { class: "quiet small" }, note)));
    say(`${answer.id}: ${answer.prediction}, ${percent(answer.probability)}`);
  }

  const element = h("div", {}, h("h1", { class: "unseen" }, `Ask ${card.name}`), form, told.element, h("div", { class: "columns wide-left spaced" }, around, facts), all.element);
  return { element, update };
}

function fill(fraction) {
  const made = h("span", { class: "fill" });
  made.style.width = `${100 * fraction}%`;
  return made;
}
