// The frame of the page. The address holds the state: `?model=NAME&view=query|model|runs` and the query itself.

import { get, modelPath, onBack, Refused, Stopped } from "./api.js";
import { h, link, put } from "./dom.js";

const VIEWS = { link: "./link.js", text: "./text.js", node: "./node.js", graph: "./graph.js", model: "./card.js", runs: "./board.js" };
const main = document.getElementById("main");
const footer = document.querySelector("footer");
const nav = document.querySelector("nav");
const select = document.getElementById("model");
const cards = new Map();
let listed;
let shown = { key: "" };
let turn = 0;

const state = () => new URLSearchParams(location.search);

/** Goes to a state of the page; `replace` leaves no step to go back to. */
function go(parameters, { replace = false } = {}) {
  const address = `?${new URLSearchParams(parameters)}`;
  if (address !== location.search) history[replace ? "replaceState" : "pushState"](null, "", address + location.hash);
  render();
}

/** Shows something in place of a view. */
function clear(...children) {
  shown.leave?.();
  shown = { key: "" };
  put(main, children);
}

async function list() {
  for (;;) {
    listed = await get("/api/models");
    const wanted = state().get("model");
    const model = listed.models.find((one) => one.name === wanted) ?? listed.models[0];
    if (!model || model.state !== "loading" || state().get("view") === "runs") return;
    clear(h("p", { class: "quiet", role: "status" }, `Loading ${model.name} …`));
    await new Promise((resolve) => setTimeout(resolve, 250));
  }
}

async function render() {
  const own = (turn += 1);
  const parameters = state();
  try {
    if (!listed || listed.models.some((one) => one.state === "loading")) await list();
    const model = listed.models.find((one) => one.name === parameters.get("model")) ?? listed.models[0];
    const view = !model || parameters.get("view") === "runs" ? "runs" : parameters.get("view") === "model" ? "model" : "query";
    head(model, view);
    if (model?.state === "failed" && view !== "runs") throw new Refused(model.error);
    if (parameters.get("model") && model?.name !== parameters.get("model")) throw new Refused(`there is no model ${parameters.get("model")} here; choose one above`);
    if (view === "runs" && !listed.board) throw new Refused("this service shows no runs: start it with --board FOLDER, or use quatgraph board FOLDER");
    const card = view === "runs" ? null : await describe(model.name);
    const key = `${view} ${model?.name}`;
    if (own !== turn) return;
    if (shown.key !== key) {
      const { mount } = await import(VIEWS[view === "query" ? card.task : view]);
      if (own !== turn) return;
      shown.leave?.();
      const base = view === "runs" ? { view } : view === "model" ? { model: model.name, view } : { model: model.name };
      shown = { key, ...mount({ card, base, go }) };
      put(main, shown.element);
    }
    document.title = `${view === "runs" ? "Runs" : model.name} · quatgraph`;
    await shown.update(parameters);
    footer.hidden = false; // only now, since it would move
  } catch (error) {
    if (error instanceof Stopped || own !== turn) return;
    if (!(error instanceof Refused)) throw error;
    const sentence = error.status === 401 ? "This service asks for a token: add #token=TOKEN to the address of this page." : error.message;
    clear(h("h1", {}, "Nothing to show"), h("p", { role: "alert" }, sentence));
    footer.hidden = false;
  }
}

async function describe(name) {
  if (!cards.has(name)) cards.set(name, await get(modelPath(name)));
  return cards.get(name);
}

function head(model, view) {
  put(select, listed.models.map((one) => h("option", { value: one.name }, one.name)));
  select.disabled = !listed.models.length;
  document.getElementById("models").hidden = !listed.models.length;
  if (model) select.value = model.name;
  const views = [];
  if (model) views.push(["query", "Query", { model: model.name }], ["model", "Model", { model: model.name, view: "model" }]);
  if (listed.board) views.push(["runs", "Runs", model ? { model: model.name, view: "runs" } : { view: "runs" }]);
  put(nav, views.map(([name, title, parameters]) => link(go, parameters, title, { "aria-current": name === view ? "page" : null })));
}

select.addEventListener("change", () => go(state().get("view") === "model" ? { model: select.value, view: "model" } : { model: select.value }));
document.getElementById("home").addEventListener("click", (event) => { event.preventDefault(); go({}); });
document.getElementById("theme").addEventListener("click", () => {
  const root = document.documentElement;
  const dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  localStorage.setItem("theme", (root.dataset.theme = dark ? "light" : "dark"));
});
document.addEventListener("keydown", (event) => {
  if (event.key !== "/" || event.metaKey || event.ctrlKey || /INPUT|TEXTAREA|SELECT/.test(document.activeElement.tagName)) return;
  const first = main.querySelector("input[type=text], input[type=search], textarea");
  if (first) { event.preventDefault(); first.focus(); }
});
addEventListener("popstate", render);
addEventListener("hashchange", () => location.hash.startsWith("#token=") && location.reload());
onBack(() => {
  // What is served now may be another model.
  listed = undefined;
  cards.clear();
  shown.key = "";
  render();
});
render();
