// The model: what it can do in plain words, its data, its training, its settings.

import { count, h, metric, percent, short, table } from "./dom.js";
import { chart, curveNames } from "./chart.js";

const NOUNS = { node: "nodes", graph: "graphs", text: "texts", link: "triples" };
const SIZES = { num_nodes: "nodes", num_edges: "edges", num_graphs: "graphs", num_documents: "texts" };

export function mount({ card }) {
  const size = Object.entries({ ...Object.fromEntries(Object.entries(SIZES).filter(([key]) => card.data[key]).map(([key, noun]) => [noun, card.data[key]])), ...card.sizes });
  const total = card.members.reduce((sum, one) => sum + one.weight, 0);
  const first = card.members[0];
  const element = h("div", {},
    h("h1", {}, card.name),
    h("p", { class: "headline" }, headline(card)),
    h("div", { class: "columns spaced" },
      h("section", { class: "panel" }, h("h2", {}, "Metrics"), metrics(card)),
      h("section", { class: "panel" }, h("h2", {}, "Data"), h("dl", { class: "facts" }, h("dt", {}, "name"), h("dd", {}, card.data.name || "own files"),
        size.map(([noun, number]) => [h("dt", {}, noun in { train: 1, valid: 1, test: 1 } ? `${noun} triples` : noun), h("dd", {}, count(number), named(card[noun], number))])))),
    h("section", {}, h("h2", {}, "Training"), curves(card)),
    h("section", {}, h("h2", {}, "How it was chosen"), h("p", {}, chosen(card)),
      h("div", { class: "scroll" }, table([{ title: "Method" }, { title: "Weight", number: true }, { title: "Split", number: true, narrow: true }, { title: "Seed", number: true, narrow: true }, { title: "Epoch", number: true }, { title: "Parameters", number: true }],
        card.members.slice(0, 50).map((one) => [one.method, percent(one.weight / total, 0), String(one.split), String(one.seed), short(one.epoch ?? ""), count(one.parameters ?? 0)]), "Members of the model"))),
    h("section", {}, h("h2", {}, `Hyperparameters of ${card.members.length > 1 ? "the first member" : "the model"}`), h("dl", { class: "facts many" },
      Object.entries(first.settings).filter(([key, value]) => /^(model|train)\./.test(key) && value !== "" && value !== null).map(([key, value]) => [h("dt", {}, key), h("dd", {}, short(value))]))),
    h("section", {}, h("h2", {}, "Made with"), h("dl", { class: "facts" }, Object.entries(card.environment).filter(([key]) => /^(device|cpu|gpu|python|torch|quatgraph|torch_geometric)$/.test(key)).map(([key, value]) => [h("dt", {}, key), h("dd", {}, String(value))]),
      h("dt", {}, "finished"), h("dd", {}, (card.finished || "").slice(0, 16).replace("T", " ")))));
  return { element, update: async () => {} };
}

/** The names behind a number, as far as they fit. */
const named = (names, number) => (Array.isArray(names) && names.length ? `: ${names.slice(0, 20).join(", ")}${number > 20 ? ", …" : ""}` : "");

function headline({ task, metrics: found }) {
  if (task === "link" && "test/hits@10" in found) return `It finds the right entity among its first ten answers ${percent(found["test/hits@10"])} of the time.`;
  if ("test/accuracy" in found) return `It classifies ${percent(found["test/accuracy"])} of the test ${NOUNS[task]} correctly.`;
  return "No test data was held back, so nothing is claimed.";
}

const NAMES = { "macro-f1": "macro-F1", mrr: "MRR", mr: "mean rank", "hits@1": "Hits@1", "hits@3": "Hits@3", "hits@10": "Hits@10" };
const MEANING = {
  accuracy: "classified correctly", "macro-f1": "mean F1 of the classes, all equally important", loss: "mean negative log-probability of the truth; lower is better",
  mrr: "mean of 1 / rank of the truth; 1 is always first", mr: "mean rank of the truth; lower is better",
  "hits@1": "the truth is the first answer", "hits@3": "the truth is among the first three", "hits@10": "the truth is among the first ten",
};

function metrics({ metrics: found }) {
  const names = Object.keys(MEANING).filter((name) => `test/${name}` in found || `valid/${name}` in found);
  const show = (part, name) => (found[`${part}/${name}`] === undefined ? "" : metric(name, found[`${part}/${name}`]));
  return table([{ title: "Metric" }, { title: "Test", number: true }, { title: "Validation", number: true }],
    names.map((name) => [h("span", {}, NAMES[name] ?? name, h("br"), h("span", { class: "quiet small" }, MEANING[name])), show("test", name), show("valid", name)]), "Metrics");
}

function curves({ curves: found, members, task }) {
  if (!found.length) return h("p", { class: "quiet" }, "No learning curves are on record beside the model.");
  const names = curveNames(found);
  const wanted = [task === "link" ? "valid/mrr" : "valid/accuracy", "valid/loss", ...names].find((name) => names.includes(name));
  return h("div", {}, h("p", { class: "quiet small" }, `${wanted}${found.length < members.length ? ` of the first ${found.length} of ${members.length} members` : ""}; a dot marks the epoch that was selected.`),
    chart(found.map((one) => ({ name: `${one.method}, split ${one.split}, seed ${one.seed}`, x: one.epochs, y: one.values[wanted] ?? [], selected: one.selected })), { name: `Learning curves: ${wanted}` }));
}

function chosen(card) {
  const many = card.members.length;
  return [many > 1 ? `Validation data selected these ${many} models and their weights; their predictions are combined.` : "Validation data selected this model and its epoch.",
    card.temperature ? ` It also calibrated the probabilities (temperature ${short(card.temperature)}).` : "", card.refitted ? " The model was then trained again on all labels, so its test metrics are those from before." : " Test data only measured the result."].join("");
}
