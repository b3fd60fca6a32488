// Completes triples: answers, why, and the neighbourhood of what was asked.

import { get, modelPath, post, Refused, Stopped } from "./api.js";
import { bar, h, percent, put, say } from "./dom.js";
import { drawing } from "./drawing.js";
import { field, teller } from "./field.js";

const MARKS = { train: ["known", "known"], valid: ["held", "held back"], test: ["held", "held back"], "": ["new", "new"] };
const NEIGHBOURS = 24;

export function mount({ card, base, go }) {
  const path = modelPath(card.name);
  const fields = [["head", "Head", "entities"], ["relation", "Relation", "relations"], ["tail", "Tail", "entities"]]
    .map(([name, label, kind]) => [name, field({ label, kind, model: card.name, placeholder: name === "relation" ? "a relation" : "?" })]);
  const inputs = fields.map(([, one]) => one.input);
  const only = h("input", { type: "checkbox", onchange: () => ask() });
  const told = teller("Leave the head or the tail open; the model fills it in.", h("label", { class: "check" }, only, "only new answers"));
  const form = h("form", { class: "ask triple", role: "search", onsubmit: (event) => { event.preventDefault(); ask(); } },
    fields.map(([, one]) => one.element), h("button", { type: "submit" }, "Ask"));
  const answers = h("section", { class: "triples", "aria-label": "Answers" });
  const why = h("section", { class: "panel" });
  const around = h("section", { class: "panel" });
  const element = h("div", {}, h("h1", { class: "unseen" }, `Ask ${card.name}`), form, told.element, answers, h("div", { class: "columns" }, why, around));
  let turn = 0;

  function ask() {
    const query = { ...base };
    fields.forEach(([name, { input }]) => {
      query[name] = input.value.trim();
    });
    const parts = (query.head ?? "").split(",").map((part) => part.trim());
    if (!query.relation && !query.tail && parts.length === 3) [query.head, query.relation, query.tail] = parts;
    for (const [name] of fields) if (!query[name] || query[name] === "?") delete query[name];
    if (!fields.some(([name]) => query[name])) return told.error("write a head and a relation, or a relation and a tail", inputs);
    if (only.checked) query.known = "leave-out";
    go(query);
  }

  /** The next query out of a name: the relation at hand if the entity has it, or another that it has. */
  async function follow(id, relation) {
    const { nodes, edges } = await get(`${path}/graph`, { of: id, hops: 1, limit: NEIGHBOURS });
    const { id: centre, name } = nodes[0];
    const choices = [
      edges.find((e) => e.source === centre && e.relation === relation), edges.find((e) => e.target === centre && e.relation === relation),
      edges.find((e) => e.source === centre), edges.find((e) => e.target === centre),
    ];
    const found = choices.find(Boolean);
    if (!found) go({ ...base, head: name, relation });
    else if (found.source === centre) go({ ...base, head: name, relation: found.relation });
    else go({ ...base, relation: found.relation, tail: name });
  }

  const name = (label, relation, id = label) => h("a", {
    href: `?${new URLSearchParams({ ...base, head: id, relation })}`,
    onclick: (event) => {
      if (event.metaKey || event.ctrlKey || event.shiftKey) return;
      event.preventDefault();
      follow(id, relation).catch(report);
    },
  }, label);

  function report(error) {
    if (error instanceof Stopped || error.name === "AbortError") return;
    if (!(error instanceof Refused)) throw error;
    told.error(error.message, inputs);
  }

  /** What the bars are not: how often the model is right is counted on test data. */
  function gloss() {
    const [first, ten] = ["hits@1", "hits@10"].map((one) => card.metrics[`test/${one}`]);
    return `The bar is exp(score − best score): it compares the answers to this query and is no probability.${
      ten === undefined ? "" : ` Of test triples, the truth came first ${percent(first)} of the time, and among the first ten ${percent(ten)}.`}`;
  }

  async function update(parameters) {
    const own = (turn += 1);
    const query = {};
    for (const key of ["head", "relation", "tail"]) if (parameters.get(key)) query[key] = parameters.get(key);
    if (!Object.keys(query).length) Object.assign(query, card.example);
    fields.forEach(([key, { input }]) => (input.value = query[key] ?? ""));
    only.checked = parameters.get("known") === "leave-out";
    told.clear(inputs);
    try {
      const found = await post(`${path}/predict`, { ...query, top: 10, known: only.checked ? "leave-out" : "mark" });
      if (own !== turn) return;
      const rows = found.answers;
      show(rows, query, found.notes);
      await explain(rows.find((row) => row.known === "valid" || row.known === "test") ?? rows.find((row) => row.known === "") ?? rows[0], query, own);
    } catch (error) {
      if (own !== turn) return;
      report(error);
      if (error instanceof Refused) [answers, why, around].forEach((one) => put(one));
    }
  }

  function show(rows, query, notes) {
    const both = rows[0]?.predicted === "both";
    const best = Math.max(...rows.map((row) => row.score));
    const items = rows.map((row, place) => {
      const [kind, word] = MARKS[row.known] ?? MARKS[""];
      const [end, id] = row.predicted === "head" ? [row.head, row.head_id] : [row.tail, row.tail_id];
      const twins = rows.some((one) => one !== row && !both && one[row.predicted] === end);
      const words = both ? [name(row.head, row.relation, row.head_id), ` ${row.relation} `, name(row.tail, row.relation, row.tail_id)] : [name(end, row.relation, id), twins ? ` (${id})` : null];
      return (row.item = h("li", { class: "answer" }, h("span", { class: "place" }, String(place + 1)), h("span", { class: "what" }, words), both ? h("span", {}) : bar(Math.exp(row.score - best)),
        h("span", { class: "number" }, row.score.toFixed(2)),
        h("span", { class: `mark ${kind}` }, word),
        h("button", { type: "button", class: "plain small why-button", "aria-label": `Why ${end}?`, onclick: () => explain(row, query, turn).catch(report) }, "why?")));
    });
    const given = rows[0];
    const sentence = both ? `Of all tails, ${given.tail} ranks ${given.tail_rank}; of all heads, ${given.head} ranks ${given.head_rank}.` : "";
    const heads = h("div", { class: "answer heads", "aria-hidden": "true" }, h("span", {}), h("span", {}, both ? "Triple" : "Answer"), h("span", {}, both ? "" : "Compared with the best"), h("span", { class: "number" }, "Score"), h("span", {}, "In the data"), h("span", {}));
    put(answers, rows.length ? heads : null, h("ol", { class: "rows" }, items), sentence ? h("p", {}, sentence) : null, rows.length ? h("p", { class: "quiet small gloss" }, both ? "" : gloss()) : h("p", {}, "There is no answer that is not known."),
      notes.map((note) => h("p", { class: "quiet small" }, note)));
    say(both ? sentence : `${rows.length} answers; the first is ${given ? (given.predicted === "head" ? given.head : given.tail) : "none"}`);
  }

  async function explain(row, query, own) {
    if (!row) return put(why), put(around);
    const end = row.predicted === "head" ? row.head : row.tail;
    const centre = row.predicted === "head" ? row.tail : row.head;
    const [reasons, near] = await Promise.all([
      post(`${path}/explain`, { head: row.head_id ?? row.head, relation: row.relation_id ?? row.relation, tail: row.tail_id ?? row.tail }),
      get(`${path}/graph`, { of: query.head ?? query.tail, hops: 1, limit: NEIGHBOURS }),
    ]);
    if (own !== turn) return;
    answers.querySelectorAll("li.answer").forEach((item) => item.classList.toggle("chosen", item === row.item));
    const support = reasons.answers[0].support;
    const most = Math.max(...support.map((one) => one.strength), 1e-9);
    put(why, h("h2", {}, `Why ${end}`),
      h("p", { class: "small quiet" }, support.length ? "Known triples that support it, the strongest first." : "No known triple of these entities supports it."),
      h("ul", { class: "rows why" }, support.map((one) => h("li", {}, h("span", {}, name(one.head, one.relation), ` ${one.relation} `, name(one.tail, one.relation)),
        h("span", { title: `strength ${percent(one.strength, 0)}` }, bar(one.strength / most))))));
    put(around, h("h2", {}, `Around ${centre}`), sketch(near, row, support));
  }

  function sketch({ nodes, edges }, row, support) {
    const labels = new Map(nodes.map((node) => [node.id, node.label]));
    const reasons = new Set(support.map((one) => `${one.head} ${one.relation} ${one.tail}`));
    const [head, tail] = [row.head_id ?? row.head, row.tail_id ?? row.tail];
    const same = (edge) => edge.source === head && edge.target === tail && edge.relation === row.relation;
    const drawn = edges.filter((edge) => !same(edge)).map((edge) => {
      const words = `${labels.get(edge.source)} ${edge.relation} ${labels.get(edge.target)}`;
      return { ...edge, words, ...(reasons.has(words) ? { kind: "strong", strength: 0.3 } : {}) };
    });
    const missing = [[head, row.head], [tail, row.tail]].filter(([id]) => !labels.has(id)).map(([id, label]) => ({ id, label, hop: 1 }));
    const told = new Set([head, tail, ...drawn.filter((edge) => edge.kind).flatMap((edge) => [edge.source, edge.target])]);
    const all = [...nodes, ...missing].map((node) => ({ ...node, first: told.has(node.id) }));
    drawn.push({ source: head, target: tail, words: `${row.head} ${row.relation} ${row.tail}: the answer`, kind: "asked" });
    const twin = { columns: [{ title: "Head" }, { title: "Relation" }, { title: "Tail" }],
      rows: edges.map((edge) => [name(labels.get(edge.source), edge.relation, edge.source), edge.relation, name(labels.get(edge.target), edge.relation, edge.target)]) };
    return drawing(all, drawn, { name: `Triples around ${nodes[0]?.label}`, hint: "Dashed: the answer. Blue: triples that support it. Click a name to ask about it.",
      open: (node) => follow(node.id, row.relation).catch(report), twin });
  }

  return { element, update };
}
