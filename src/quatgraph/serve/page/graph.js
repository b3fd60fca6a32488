// Classifies graphs: one of the training data, a molecule, or a file of one's own.

import { get, modelPath, post, Refused, Stopped } from "./api.js";
import { classBars, h, hue, percent, plural, put, say } from "./dom.js";
import { drawing } from "./drawing.js";
import { field, teller } from "./field.js";
import { items } from "./items.js";

const LONGEST = 4000;
const FILES = ".json,.jsonl,.smi,.smiles,.txt";

export function mount({ card, base, go }) {
  const path = modelPath(card.name);
  const { element: box, input } = field({ label: "Graph of the training data", kind: "graphs", model: card.name, placeholder: "an id" });
  const area = h("textarea", { "aria-label": "Edges, SMILES or JSON of a graph", placeholder: "0-1, 1-2, a SMILES or JSON", rows: "1", onkeydown: (event) => {
    if (event.key === "Enter" && !event.shiftKey) { event.preventDefault(); send(area.value); }
    if (event.key === "Escape") area.value = "";
  } });
  const file = h("input", { type: "file", accept: FILES, "aria-label": "File with a graph as JSON, or a SMILES", onchange: () => open(file.files) });
  const told = teller("Choose a graph by its id, write edges or a SMILES, or drop a file with JSON or SMILES anywhere.");
  const ask = () => go({ ...base, id: input.value.trim(), ...all.state() });
  const form = h("form", { class: "ask single", role: "search", ontaken: ask, onsubmit: (event) => { event.preventDefault(); ask(); } }, box, h("button", { type: "submit" }, "Show"));
  const drop = h("div", { class: "drop" },
    area, h("button", { type: "button", class: "quietly", onclick: () => send(area.value) }, "Classify"), h("label", { class: "file" }, file, "Open a file"));
  const picture = h("section", { class: "panel answers" });
  const facts = h("section", { class: "panel" });
  const all = items({ card, base, go, keys: ["id", "graph", "smiles"], noun: "graph" });
  let turn = 0;
  let last;
  let remark;

  const open = async ([one]) => one && send(await one.text());
  const hover = (on) => (event) => { event.preventDefault(); drop.classList.toggle("over", on); };

  /** A query out of `0-1, 1-2`, of a SMILES or of JSON; of several lines the first, and how many are `left`. */
  function parse(text) {
    const [line, ...others] = text.trim().split("\n").map((one) => one.trim());
    const left = others.filter(Boolean).length;
    if (!line) throw new Refused("write some edges, such as 0-1, 1-2, 2-0");
    if (line.startsWith("{")) {
      for (const [one, rest] of [[text, 0], [line, left]]) try { return { query: { graph: JSON.stringify(JSON.parse(one)) }, left: rest }; } catch { /* not JSON */ }
      throw new Refused("the first line is not a JSON object, such as {\"edges\": [[0, 1], [1, 2]]}");
    }
    if (/^[A-Za-z[*]/.test(line)) return { query: { smiles: line.split(/\s/)[0] }, left }; // a name may follow
    const edges = line.split(/[,;]/).map((pair) => pair.trim()).filter(Boolean).map((pair) => {
      const ends = /^(\d+)\s*[-–\s]\s*(\d+)$/.exec(pair);
      if (!ends) throw new Refused(`'${pair}' is not an edge; write two numbers, such as 0-1`);
      return [Number(ends[1]), Number(ends[2])];
    });
    return { query: { graph: JSON.stringify({ edges }) }, left };
  }

  /** The body of a query. */
  const read = ({ graph, smiles, id }) => (graph ? { graphs: [JSON.parse(graph)] } : smiles ? { smiles: [smiles] } : id ? { ids: [id] } : card.example);

  async function send(text) {
    try {
      const { query, left } = parse(text);
      remark = left ? `The first graph is shown; ${plural(left, "more line")} below it ${left === 1 ? "is" : "are"} left out.` : undefined;
      if (JSON.stringify(query).length <= LONGEST) return go({ ...base, ...query, ...all.state() });
      told.clear([input, area], remark);
      await classify(read(query), (turn += 1));
    } catch (error) { report(error, [area]); }
  }

  function report(error, fields = [input]) {
    if (error instanceof Stopped) return;
    if (!(error instanceof Refused)) throw error;
    told.error(error.message, fields);
    last = undefined;
    put(picture);
    put(facts);
  }

  async function update(parameters) {
    const own = (turn += 1);
    told.clear([input, area], remark);
    remark = undefined;
    const table = all.update(parameters);
    const given = parameters.get("graph") ?? parameters.get("smiles");
    try {
      const body = read(Object.fromEntries(parameters));
      input.value = body?.ids?.[0] ?? "";
      area.value = body?.graphs ? write(body.graphs[0]) : body?.smiles?.[0] ?? "";
      if (body) await classify(body, own);
    } catch (error) {
      if (own === turn) report(error instanceof SyntaxError ? new Refused("the graph in the address is not JSON") : error, given ? [area] : [input]);
    } finally {
      await table;
    }
  }

  const write = (graph) => (Object.keys(graph).length === 1 && graph.edges ? graph.edges.map((edge) => edge.join("-")).join(", ") : JSON.stringify(graph));

  async function classify(body, own) {
    const key = JSON.stringify(body);
    if (key === last) return;
    last = undefined;
    const [found, drawn] = await Promise.all([post(`${path}/explain`, body), body.graphs ? sketch(body.graphs[0]) : get(`${path}/graph`, body.ids ? { of: body.ids[0], limit: 200 } : { smiles: body.smiles[0] })]);
    if (own !== turn) return;
    show(found, drawn);
    last = key;
  }

  function sketch(graph) {
    const size = Math.max(graph.num_nodes ?? 0, graph.node_labels?.length ?? 0, ...(graph.edges ?? []).flat().map((end) => end + 1));
    return { nodes: Array.from({ length: Math.min(size, 200) }, (_, id) => ({ id: String(id), label: String(graph.node_labels?.[id] ?? ""), hop: 1 })),
      edges: (graph.edges ?? []).filter((edge) => Math.max(...edge) < 200).map(([a, b]) => ({ source: String(a), target: String(b) })) };
  }

  function show({ answers: [answer], classes, notes }, { nodes, edges }) {
    const support = answer.nodes ?? [];
    const most = Math.max(0.001, ...support);
    const value = (node) => support[Number(node.id)];
    const matters = (node) => value(node) > 0.005 && value(node) > 0.5 * most;
    const words = (node) => `node ${node.id}${node.label ? ` (${node.label})` : ""}${value(node) === undefined ? "" : `: without it, ${answer.prediction} loses ${(100 * value(node)).toFixed(1)} points`}`;
    const tags = [...new Set(nodes.map((node) => node.label))];
    const dots = nodes.map((node) => ({ ...node, hop: 1, kind: hue(tags.indexOf(node.label)), matters: matters(node), title: words(node) }));
    const lines = edges.map((edge) => ({ ...edge, words: `${edge.source} – ${edge.target}` }));
    const twin = { columns: [{ title: "Node" }, { title: "Tag" }, { title: "Points", number: true }, { title: "Neighbours" }],
      rows: nodes.map((node) => [node.id, node.label, value(node) === undefined ? "" : (100 * value(node)).toFixed(1),
        edges.filter((e) => e.source === node.id || e.target === node.id).map((e) => (e.source === node.id ? e.target : e.source)).join(" ")]) };
    put(picture, h("h2", {}, `${plural(nodes.length, "node")}, ${plural(edges.length, "edge")}`), h("p", { class: "key" }, nodes.some(matters) ? h("span", {}, h("i", { class: "ring" }), "nodes that matter") : h("span", {}, support.length ? "No single node changes the class by half a point." : "Nodes are left out in turn only of graphs of at most 100.")),
      drawing(dots, lines, { name: `The graph ${answer.id ?? ""}`, hint: "Point at a node for the number.", twin }));
    put(facts, h("h2", {}, `${answer.prediction} `, h("span", { class: "quiet" }, percent(answer.probability))),
      answer.label ? h("p", { class: "small quiet" }, `Its label is ${answer.label} (${answer.split || "no split"}).`) : null, classBars(classes, answer.probabilities), notes.map((note) => h("p", { class: "quiet small" }, note)));
    say(`${answer.prediction}, ${percent(answer.probability)}`);
  }

  const dropped = { ondragover: hover(true), ondragleave: hover(false), ondrop: (event) => { hover(false)(event); open(event.dataTransfer.files); } };
  const element = h("div", dropped, h("h1", { class: "unseen" }, `Ask ${card.name}`), form, h("p", { class: "or" }, "or a graph of your own"), drop, told.element, h("div", { class: "columns wide-left spaced" }, picture, facts), all.element);
  return { element, update };
}

