// The results board: runs as a table, their learning curves, and two groups of runs compared split by split.

import { get, poll, Refused, Stopped } from "./api.js";
import { chart, curveNames } from "./chart.js";
import { bar, count, h, hue, link, metric, plural, put, say, short, table } from "./dom.js";
import { teller } from "./field.js";

const [ROWS, CURVES, SECONDS] = [12, 8, 3];
const FILTERS = ["task", "dataset", "method"];
const main = (run, part) => [`${part}/mrr`, `${part}/accuracy`].find((name) => run.metrics[name] !== undefined);
const COLUMNS = [
  { key: "method", title: "Method" }, { key: "dataset", title: "Dataset" },
  { key: "changed", title: "Settings", wide: true },
  { key: "split", title: "Split", number: true }, { key: "seed", title: "Seed", number: true, narrow: true },
  { key: "valid", title: "Validation", number: true, narrow: true, of: (run) => run.metrics[main(run, "valid")] ?? null },
  { key: "test", title: "Test", number: true, of: (run) => run.metrics[main(run, "test")] ?? null },
  { key: "best_epoch", title: "Epoch", number: true, wide: true }, { key: "parameters", title: "Parameters", number: true, widest: true },
  { key: "seconds", title: "Seconds", number: true, widest: true }, { key: "finished", title: "Finished", widest: true },
];
const value = (column, run) => (column.of ? column.of(run) : run[column.key]);

export function mount({ base, go }) {
  const title = h("p", { class: "lead", role: "status" }, "Reading the runs; new ones appear as trainings finish.");
  const search = h("input", { type: "search", id: "runs-q", placeholder: "gcn lr=0.01", onkeydown: (event) => { if (event.key === "Escape") { search.value = ""; filter(); } }, oninput: () => filter() });
  const choices = FILTERS.map((name) => h("select", { id: `runs-${name}`, onchange: () => filter() }));
  const labelled = (label, input) => h("div", { class: "field" }, h("label", { class: "name", for: input.id }, label), input);
  const body = h("div", { class: "scroll board" });
  const pages = h("div", { class: "pages" });
  const lines = h("section", { class: "panel answers", "aria-label": "Learning curves" });
  const groups = ["first", "second"].map((name) => h("select", { id: `runs-${name}`, onchange: () => compare(name) }));
  const told = teller("Two groups on one dataset, paired by split.");
  const verdict = h("div", { class: "verdict" });
  const notes = h("div", {});
  const element = h("div", {}, h("h1", {}, "Runs"), title,
    h("div", { class: "filters even", role: "search" }, labelled("Filter", search), choices.map((one, place) => labelled(["Task", "Dataset", "Method"][place], one))), body, pages,
    h("div", { class: "columns" }, lines,
      h("section", { class: "panel answers", "aria-label": "Comparison" }, h("h2", {}, "Comparison"), h("div", { class: "filters even pair" }, labelled("First group", groups[0]), labelled("Second group", groups[1])), told.element, verdict)), notes);
  let runs = [];
  let etag = "";
  let given = new URLSearchParams();
  let first;
  let turn = 0;
  let timer;
  const shown = { curves: "", pair: "" }; // what is on the page already is not asked for again

  /** The state with some changes; what is empty leaves it. */
  function next(changes) {
    const found = new URLSearchParams(given);
    for (const [key, one] of Object.entries({ ...base, page: "", ...changes })) {
      found.delete(key);
      [one].flat().filter(Boolean).forEach((single) => found.append(key, single));
    }
    return found;
  }

  function filter() {
    const names = Object.fromEntries(FILTERS.map((name, place) => [name, choices[place].value]));
    go(next({ q: search.value.trim(), ...names }), { replace: true });
  }

  function compare(changed) {
    const [one, two] = groups.map((select) => select.value);
    go(next({ page: given.get("page"), first: one, second: changed === "first" && !partners(one).includes(two) ? partners(one)[0] ?? "" : two }));
  }

  async function read() {
    const found = await poll("/api/runs", etag);
    if (!found) return false;
    const old = runs.length;
    runs = found.value.runs;
    tellApart(runs);
    put(notes, found.value.notes.map((note) => h("p", { class: "quiet small" }, note)));
    title.textContent = runs.length ? `${plural(runs.length, "run")} in ${found.value.folder}; new ones appear as trainings finish.` : `There is no run in ${found.value.folder} yet; it appears here as soon as a training writes its record.`;
    if (etag && runs.length > old) say(plural(runs.length - old, "new run"));
    etag = found.etag;
    return true;
  }

  function matching() {
    const words = (given.get("q") ?? "").toLowerCase().split(/\s+/).filter(Boolean);
    const found = runs.filter((run) => FILTERS.every((name) => !given.get(name) || run[name] === given.get(name)) && words.every((word) => haystack(run).includes(word)));
    const [, down, key] = /^(-?)(.*)$/.exec(given.get("sort") ?? "");
    const column = COLUMNS.find((one) => one.key === key);
    if (!column) return found;
    const sign = down ? -1 : 1;
    return found.sort((a, b) => {
      const [one, two] = [value(column, a), value(column, b)];
      if (one === null || two === null) return (one === null) - (two === null);
      return sign * (typeof one === "string" ? one.localeCompare(two) : one - two);
    });
  }

  const chosen = () => (given.has("run") ? given.getAll("run").filter((id) => id !== "none") : first ?? []);

  function toggle(id, on) {
    const now = on ? [...chosen(), id] : chosen().filter((one) => one !== id);
    go(next({ page: given.get("page"), run: now.length ? now : ["none"] }), { replace: true });
  }

  function list() {
    const found = matching();
    first ??= found.slice(0, 3).map((run) => run.id);
    const last = Math.max(0, Math.ceil(found.length / ROWS) - 1);
    const page = Math.min(last, Math.max(0, Number(given.get("page")) || 0));
    const [, down, key] = /^(-?)(.*)$/.exec(given.get("sort") ?? "");
    const heads = [{ title: h("span", { class: "unseen" }, "Curve") }, ...COLUMNS.map((column) => {
      const sorted = column.key === key;
      return { ...column, sort: sorted ? (down ? "descending" : "ascending") : null,
        title: h("button", { type: "button", "data-key": column.key, onclick: () => go(next({ sort: sorted && down ? column.key : `-${column.key}` }), { replace: true }) }, column.title, h("span", { class: "arrow", "aria-hidden": "true" }, sorted ? (down ? " ↓" : " ↑") : "")) };
    })];
    const picked = chosen();
    const rows = found.slice(page * ROWS, (page + 1) * ROWS).map((run) => {
      const place = picked.indexOf(run.id);
      const box = h("input", { type: "checkbox", "data-key": run.id, "aria-label": `Show the curve of ${name(run)}`, disabled: place < 0 && picked.length >= CURVES, onchange: (event) => toggle(run.id, event.target.checked) });
      box.checked = place >= 0;
      return { chosen: place >= 0, cells: [h("span", { class: "pick" }, box, h("i", { class: place < 0 ? "" : hue(place) })),
        link(go, next({ method: run.method }), run.method), link(go, next({ dataset: run.dataset }), run.dataset || "own files"), h("span", { class: "line", title: run.changed }, run.changed), String(run.split), String(run.seed),
        metric(main(run, "valid"), COLUMNS[5].of(run)), metric(main(run, "test"), COLUMNS[6].of(run)), short(run.best_epoch), count(run.parameters), run.seconds.toPrecision(3), h("span", { class: "nowrap", title: run.finished }, run.finished.slice(5, 16).replace("T", " "))] };
    });
    keeping(() => put(body, rows.length ? table(heads, rows, "Runs") : h("p", { class: "quiet" }, runs.length ? "No run matches the filter." : "")));
    const step = (to, words, off) => h("button", { type: "button", class: "quietly", disabled: off, onclick: () => go(next({ page: to ? String(to) : "" }), { replace: true }) }, words);
    put(pages, step(page - 1, "Back", page === 0), step(page + 1, "Next", page >= last), h("span", { class: "quiet" }, found.length ? `${count(page * ROWS + 1)}–${count(Math.min(found.length, (page + 1) * ROWS))} of ${count(found.length)}` : ""));
  }

  /** Rebuilds the table; the control that has the focus keeps it. */
  function keeping(build) {
    const key = body.contains(document.activeElement) ? document.activeElement.dataset.key : null;
    build();
    if (key) [...body.querySelectorAll("[data-key]")].find((one) => one.dataset.key === key)?.focus();
  }

  function options() {
    FILTERS.forEach((name, place) => {
      const values = [...new Set(runs.map((run) => run[name]))].filter(Boolean).sort();
      put(choices[place], h("option", { value: "" }, "all"), values.map((one) => h("option", { value: one }, one)));
      choices[place].value = given.get(name) ?? "";
    });
  }

  const kinds = () => new Map(runs.map((run) => [run.group, run]));
  const partners = (group) => {
    const all = kinds();
    const own = all.get(group);
    return [...all].filter(([key, run]) => key !== group && own && run.task === own.task && run.dataset === own.dataset).map(([key]) => key);
  };
  const groupName = (group, all) => {
    const run = all.get(group);
    const alone = [...all.values()].filter((one) => one.method === run.method && one.dataset === run.dataset).length === 1;
    return `${run.method} on ${run.dataset || "own files"}${alone ? "" : ` (${run.file.replace(/(\/records)?\.jsonl(\.xz)?$/, "")})`}`;
  };

  /** The two groups that the address names, or the first two that can be compared. */
  function pair() {
    const wanted = ["first", "second"].map((key) => given.get(key));
    if (wanted[0]) return [wanted[0], wanted[1] || partners(wanted[0])[0]];
    const some = [...kinds().keys()].find((group) => partners(group).length);
    return some ? [some, partners(some)[0]] : [];
  }

  async function contrast(own) {
    const [one, two] = pair();
    const all = kinds();
    const fill = (select, keys, now) => { put(select, keys.map((key) => h("option", { value: key }, groupName(key, all)))); select.value = now ?? ""; select.disabled = !keys.length; };
    fill(groups[0], [...all.keys()], one);
    fill(groups[1], one ? partners(one) : [], two);
    const key = JSON.stringify([one, two, etag]);
    if (key === shown.pair) return;
    shown.pair = "";
    told.clear(groups);
    if (!one || !two) return put(verdict, h("p", { class: "quiet" }, "There are no two methods with runs on one dataset yet."));
    try {
      const { pair: found, splits, notes: remarks } = await get("/api/runs/compare", { first: one, second: two }, { quietly: true });
      if (own !== turn) return;
      const named = [one, two].map((key) => (all.has(key) ? groupName(key, all) : key));
      const most = Math.max(1e-9, ...splits.map((row) => Math.abs(row.first - row.second)));
      const renamed = (sentence) => sentence.replaceAll(one, named[0]).replaceAll(two, named[1]);
      const points = (change) => `${change < 0 ? "−" : change > 0 ? "+" : ""}${metric(found.metric, Math.abs(change)).replace(" %", "")}`;
      put(verdict, h("p", {}, renamed(found.words)), remarks.map((note) => h("p", { class: "quiet small" }, renamed(note))),
        splits.length ? h("div", { class: "scroll tall" }, table([{ title: "Split", number: true }, { title: "Seed", number: true, narrow: true }, { title: "First", number: true }, { title: "Second", number: true }, { title: "Difference", number: true }, { title: "", narrow: true }],
          splits.map((row) => [String(row.split), String(row.seed), metric(found.metric, row.first), metric(found.metric, row.second), points(row.first - row.second),
            h("span", { class: "delta" }, bar(Math.abs(row.first - row.second) / most, row.first < row.second ? "behind" : ""))]), `${found.metric} split by split`)) : null);
      shown.pair = key;
    } catch (error) {
      if (own !== turn || error instanceof Stopped) return;
      if (!(error instanceof Refused)) throw error;
      put(verdict);
      told.error(error.message, groups);
    }
  }

  async function overlay(own) {
    const known = new Map(runs.map((run) => [run.id, run]));
    const ids = chosen().filter((id) => known.has(id)).slice(0, CURVES);
    const key = JSON.stringify([ids, given.get("curve"), etag]);
    if (key === shown.curves) return;
    shown.curves = "";
    if (!ids.length) return put(lines, h("h2", {}, "Learning curves"), h("p", { class: "quiet" }, runs.length ? "Tick runs in the table to see their curves here." : ""));
    let curves = [];
    try {
      ({ curves } = await get("/api/runs/curves", ids.map((id) => ["id", id]), { quietly: true }));
    } catch (error) {
      if (own !== turn || error instanceof Stopped) return;
      if (!(error instanceof Refused)) throw error;
      return put(lines, h("h2", {}, "Learning curves"), h("p", { role: "alert" }, error.message));
    }
    if (own !== turn) return;
    const names = curveNames(curves);
    const wanted = [given.get("curve"), "valid/mrr", "valid/accuracy", "valid/loss", names[0]].find((one) => names.includes(one));
    const select = h("select", { id: "runs-curve", onchange: () => go(next({ page: given.get("page"), curve: select.value }), { replace: true }) }, names.map((one) => h("option", { value: one }, one)));
    select.value = wanted;
    const series = curves.map((one, place) => ({ name: name(known.get(one.id)), x: one.epochs, y: one.values[wanted] ?? [], selected: one.selected, place })).filter((one) => one.y.length);
    put(lines, h("h2", {}, "Learning curves"), names.length ? h("div", { class: "filters" }, labelled("Metric", select)) : null,
      series.length ? chart(series, { name: `Learning curves: ${wanted}` }) : h("p", { class: "quiet" }, "The records of these runs hold no curves."), differences(ids.map((id) => known.get(id))));
    shown.curves = key;
  }

  async function update(parameters, fresh) {
    const own = (turn += 1);
    given = new URLSearchParams(parameters);
    if (!fresh) await read();
    if (own !== turn) return;
    if (document.activeElement !== search) search.value = given.get("q") ?? "";
    options();
    list();
    await Promise.all([overlay(own), contrast(own)]);
  }

  async function again() {
    try {
      if (document.visibilityState === "visible" && (await read())) await update(given, true);
    } catch (error) {
      if (!(error instanceof Stopped || error instanceof Refused)) throw error;
    } finally {
      if (timer) timer = setTimeout(again, 1000 * SECONDS);
    }
  }
  timer = setTimeout(again, 1000 * SECONDS);
  return { element, update, leave: () => { clearTimeout(timer); timer = 0; } };
}

const name = (run) => `${run.method} on ${run.dataset || "own files"}, split ${run.split}, seed ${run.seed}`;

/** Adds the settings in which a run differs from others of its group. */
function tellApart(runs) {
  const seen = new Map(); // by group and setting: how many runs have it, and its values
  const own = (run) => Object.entries({ ...run.settings, "": "" }).filter(([key]) => !key || /^(model|train)\./.test(key));
  const entry = (run, key) => seen.get(`${run.group} ${key}`) ?? seen.set(`${run.group} ${key}`, { runs: 0, values: new Set() }).get(`${run.group} ${key}`);
  for (const run of runs) for (const [key, one] of own(run)) {
    entry(run, key).runs += 1;
    entry(run, key).values.add(String(one));
  }
  const differs = (run, key) => entry(run, key).values.size > 1 || entry(run, key).runs < entry(run, "").runs;
  for (const run of runs) run.changed = own(run).filter(([key]) => differs(run, key)).map(([key, one]) => `${key.split(".").pop()}=${short(one)}`).join(" ");
}

/** What the filter looks at: names and settings such as `lr=0.01`. */
function haystack(run) {
  run.words ??= [run.id, run.task, run.dataset, run.method, run.protocol, ...Object.entries(run.settings).map(([key, one]) => `${key.split(".").pop()}=${one}`)].join(" ").toLowerCase();
  return run.words;
}

/** The hyperparameters in which runs differ, or all of a single run. */
function differences(runs) {
  const keys = [...new Set(runs.flatMap((run) => Object.keys(run.settings)))].filter((key) => runs.length === 1 || new Set(runs.map((run) => String(run.settings[key]))).size > 1);
  if (!keys.length) return null;
  const heads = [{ title: "Hyperparameter" }, ...runs.map((run, place) => ({ title: h("span", { class: "pick" }, h("i", { class: hue(place) }), `${run.method}, split ${run.split}`), number: true }))];
  return h("details", {}, h("summary", {}, runs.length === 1 ? "Hyperparameters" : "Hyperparameters that differ"), h("div", { class: "scroll" }, table(heads, keys.map((key) => [key, ...runs.map((run) => short(run.settings[key] ?? ""))]), "Hyperparameters")));
}
