// All items of a classifier's training data: filtered, page by page, and as a file.

import { download, get, modelPath } from "./api.js";
import { count, h, link, percent, put, table } from "./dom.js";

const ROWS = 10;

/** `keys`: what in the address names the item that is shown, the id first. */
export function items({ card, base, go, keys, noun }) {
  const path = `${modelPath(card.name)}/items`;
  const search = h("input", { type: "search", "aria-label": `Filter ${noun}s by id`, placeholder: "filter by id", oninput: () => turn(0) });
  const select = (label, values) => h("select", { "aria-label": label, onchange: () => turn(0) }, h("option", { value: "" }, label), values.map((value) => h("option", { value: String(value) }, String(value))));
  const prediction = select("any prediction", card.classes);
  const split = select("any split", ["train", "valid", "test"]);
  const body = h("div", { class: "scroll items" });
  const back = h("button", { type: "button", class: "quietly", onclick: () => turn(offset - ROWS) }, "Back");
  const on = h("button", { type: "button", class: "quietly", onclick: () => turn(offset + ROWS) }, "Next");
  const where = h("span", { class: "quiet" });
  let given = new URLSearchParams();
  let offset = 0;
  let shown = "";

  const filled = (values) => Object.fromEntries(Object.entries(values).filter(([, value]) => value));
  const filters = () => filled({ q: search.value.trim(), prediction: prediction.value, split: split.value });
  /** The part of the address that belongs to the table. */
  const state = () => ({ ...filters(), ...filled({ offset: offset && String(offset) }) });

  function turn(place) {
    offset = Math.max(0, place);
    go({ ...base, ...filled(Object.fromEntries(keys.map((name) => [name, given.get(name)]))), ...state() }, { replace: true });
  }

  async function update(parameters) {
    given = parameters;
    if (!card.example) return;
    for (const [input, key] of [[search, "q"], [prediction, "prediction"], [split, "split"]]) if (document.activeElement !== input) input.value = parameters.get(key) ?? "";
    offset = Math.max(0, Math.floor(Number(parameters.get("offset")) || 0));
    const wanted = JSON.stringify(state());
    if (wanted === shown) return;
    const found = await get(path, { ...filters(), offset, limit: ROWS }, { quietly: true }).catch(() => null);
    if (!found || wanted !== JSON.stringify(state())) return;
    shown = wanted;
    put(body, table([{ title: noun[0].toUpperCase() + noun.slice(1) }, { title: "Predicted" }, { title: "Probability", number: true }, { title: "Label" }, { title: "Split", narrow: true }],
      found.items.map((item) => [link(go, { ...base, [keys[0]]: item.id, ...state() }, item.id), String(item.prediction), percent(item.probability), String(item.label ?? ""), item.split ?? ""]), `All ${noun}s`));
    where.textContent = found.items.length ? `${count(offset + 1)}–${count(Math.min(offset + ROWS, found.total))} of ${count(found.total)}` : `no ${noun} matches`;
    back.disabled = offset === 0;
    on.disabled = offset + ROWS >= found.total;
  }

  const save = h("button", { type: "button", class: "quietly", onclick: () => download(path, { ...filters(), format: "csv" }, `${card.name}-${noun}s.csv`) }, "Download CSV");
  const element = h("section", { hidden: !card.example, "aria-label": `All ${noun}s` }, h("h2", {}, `All ${noun}s`), h("div", { class: "filters" }, search, prediction, split, save), body, h("div", { class: "pages" }, back, on, where));
  return { element, state, update };
}
