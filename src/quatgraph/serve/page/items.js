// All items of a classifier's training data: filtered, page by page, and as a file.

import { download, get, modelPath } from "./api.js";
import { count, h, link, percent, put, table } from "./dom.js";

const ROWS = 10;

export function items({ card, base, go, key, noun }) {
  const path = `${modelPath(card.name)}/items`;
  const search = h("input", { type: "search", "aria-label": `Filter ${noun}s by id`, placeholder: "filter by id", oninput: () => turn(0) });
  const select = (label, values) => h("select", { "aria-label": label, onchange: () => turn(0) }, h("option", { value: "" }, label), values.map((value) => h("option", { value: String(value) }, String(value))));
  const prediction = select("any prediction", card.classes);
  const split = select("any split", ["train", "valid", "test"]);
  const body = h("div", { class: "scroll items" });
  const back = h("button", { type: "button", class: "quietly", onclick: () => turn(offset - ROWS) }, "Back");
  const on = h("button", { type: "button", class: "quietly", onclick: () => turn(offset + ROWS) }, "Next");
  const where = h("span", { class: "quiet" });
  let offset = 0;
  let own = 0;

  const filters = () => Object.fromEntries(Object.entries({ q: search.value.trim(), prediction: prediction.value, split: split.value }).filter(([, value]) => value));

  async function turn(place) {
    offset = Math.max(0, place);
    const mine = (own += 1);
    const found = await get(path, { ...filters(), offset, limit: ROWS }).catch(() => null);
    if (mine !== own || !found) return;
    put(body, table([{ title: noun[0].toUpperCase() + noun.slice(1) }, { title: "Predicted" }, { title: "Probability", number: true }, { title: "Label" }, { title: "Split", narrow: true }],
      found.items.map((item) => [link(go, { ...base, [key]: item.id }, item.id), String(item.prediction), percent(item.probability), String(item.label ?? ""), item.split ?? ""]), `All ${noun}s`));
    where.textContent = found.total ? `${count(offset + 1)}–${count(Math.min(offset + ROWS, found.total))} of ${count(found.total)}` : `no ${noun} matches`;
    back.disabled = offset === 0;
    on.disabled = offset + ROWS >= found.total;
  }

  const save = h("button", { type: "button", class: "quietly", onclick: () => download(path, { ...filters(), format: "csv" }, `${card.name}-${noun}s.csv`) }, "Download CSV");
  const element = h("section", { hidden: !card.example, "aria-label": `All ${noun}s` }, h("h2", {}, `All ${noun}s`), h("div", { class: "filters" }, search, prediction, split, save), body, h("div", { class: "pages" }, back, on, where));
  let filled = false;
  return { element, update: async () => { if (!filled && card.example) { filled = true; await turn(0); } } };
}
