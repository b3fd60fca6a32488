// Elements out of text: nothing here parses HTML, so a name in the data can never become markup.

const SVG = "http://www.w3.org/2000/svg";
const OF_SVG = new Set(["svg", "g", "line", "circle", "text", "path", "title"]);

/** An element with attributes, listeners (`onclick`) and children; strings become text. */
export function h(tag, attributes = {}, ...children) {
  const svg = OF_SVG.has(tag);
  const made = svg ? document.createElementNS(SVG, tag) : document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else if (name === "value" && !svg) made.value = value;
    else made.setAttribute(name, value === true ? "" : value);
  }
  made.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false));
  return made;
}

export const put = (parent, ...children) => parent.replaceChildren(...children.flat(Infinity).filter(Boolean));

/** Says something to screen readers. */
export function say(sentence) {
  document.getElementById("live").textContent = sentence;
}

export const percent = (value, digits = 1) => `${(100 * value).toFixed(digits)} %`;
export const count = (value) => Number(value).toLocaleString("en");
export const plural = (number, noun) => `${count(number)} ${noun}${number === 1 ? "" : "s"}`;
export const shorten = (text, length) => (text.length > length ? `${text.slice(0, length - 1)}…` : text);
export const hue = (place) => `c${place < 7 ? place : 7}`;

/** A number with at most four digits that matter. */
export function short(value) {
  if (typeof value !== "number") return String(value ?? "");
  return Number.isInteger(value) ? count(value) : Number(value.toPrecision(4)).toString();
}

/** A metric as people write it: 81.3 %, or .526 for an MRR. */
export function metric(name, value) {
  if (value === undefined || value === null) return "";
  if (/accuracy|f1|hits|auc|precision/.test(name)) return percent(value);
  return /mrr/.test(name) ? value.toFixed(3).replace(/^0/, "") : short(value);
}

/** A bar whose length is a fraction. */
export function bar(fraction, kind = "") {
  const fill = h("span", { class: `fill ${kind}` });
  fill.style.width = `${Math.max(0, Math.min(1, fraction)) * 100}%`;
  return h("span", { class: "track", "aria-hidden": "true" }, fill);
}

/** The probabilities of classes, the most probable first. */
export function classBars(classes, probabilities, { limit = 10, plain = false } = {}) {
  const order = probabilities.map((value, place) => [value, place]).sort((a, b) => b[0] - a[0]);
  const rows = order.slice(0, limit).map(([value, place], rank) => [
    h("dt", { class: rank ? "" : "top" }, String(classes[place])),
    h("dd", {}, bar(value, plain ? "" : hue(place))),
    h("dd", { class: `number ${rank ? "" : "top"}` }, percent(value)),
  ]);
  const more = order.length > limit ? h("p", { class: "quiet small" }, `and ${plural(order.length - limit, "less probable class").replace("classs", "classes")}`) : null;
  return h("div", {}, h("dl", { class: "bars" }, rows), more);
}

/** A table; cells are strings or elements, and columns `{title, number, wide}`. */
export function table(columns, rows, caption) {
  const kind = (column) => ["number", "widest", "wide", "narrow"].filter((name) => column[name]).join(" ");
  return h("table", {},
    caption ? h("caption", { class: "unseen" }, caption) : null,
    h("thead", {}, h("tr", {}, columns.map((c) => h("th", { class: kind(c), scope: "col", "aria-sort": c.sort }, c.title)))),
    h("tbody", {}, rows.map((row) => h("tr", { class: row.chosen ? "chosen" : "" },
      (row.cells ?? row).map((cell, place) => h("td", { class: kind(columns[place]) }, cell))))),
  );
}

/** Calls `draw(width)` now and whenever the width of the element changes. */
export function fitted(element, draw) {
  let width = 0;
  new ResizeObserver(() => {
    const now = Math.round(element.clientWidth);
    if (now && now !== width) put(element, draw((width = now), element.clientHeight));
  }).observe(element);
  return element;
}

/** A link to a state of the page; a plain click stays on it. */
export function link(go, parameters, text, attributes = {}) {
  return h("a", {
    href: `?${new URLSearchParams(parameters)}`,
    onclick: (event) => {
      if (event.metaKey || event.ctrlKey || event.shiftKey || event.button) return;
      event.preventDefault();
      go(parameters);
    },
    ...attributes,
  }, text);
}
