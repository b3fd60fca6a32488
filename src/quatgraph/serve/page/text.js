// Classifies texts: the text itself is the picture.

import { modelPath, post, Refused, Stopped } from "./api.js";
import { classBars, h, percent, put, say } from "./dom.js";
import { teller } from "./field.js";

const MOST = 8;
const LONGEST = 4000;

export function mount({ card, base, go }) {
  const area = h("textarea", { id: "texts", rows: "3", placeholder: "Type or paste a text; one per line for several.", onkeydown: press });
  const told = teller(`Enter asks, Shift + Enter starts a new line. Each line is a text, ${MOST} at most.`);
  const form = h("form", { class: "ask", onsubmit: (event) => { event.preventDefault(); ask(); } },
    h("div", { class: "field" }, h("label", { class: "name", for: "texts" }, "Texts"), area), h("div", {}, h("button", { type: "submit" }, "Classify")));
  const answers = h("section", { class: "answers", "aria-label": "Answers" });
  let turn = 0;

  function press(event) {
    if (event.key === "Enter" && !event.shiftKey) { event.preventDefault(); ask(); }
    if (event.key === "Escape") area.value = "";
  }

  function ask() {
    const texts = area.value.split("\n").map((line) => line.trim()).filter(Boolean);
    if (!texts.length) return told.error("type a text to classify", [area]);
    if (texts.length > MOST) return told.error(`${texts.length} lines are too many to explain at once; keep ${MOST}`, [area]);
    // A longer text is no part of the address, which servers limit.
    if (texts.join("").length > LONGEST) classify(texts);
    else go([...Object.entries(base), ...texts.map((text) => ["text", text])]);
  }

  async function update(parameters) {
    const given = parameters.getAll("text").slice(0, MOST);
    const texts = given.length ? given : card.example?.texts ?? [];
    area.value = texts.join("\n");
    if (texts.length) await classify(texts);
  }

  async function classify(texts) {
    const own = (turn += 1);
    told.clear([area]);
    try {
      const found = await post(`${modelPath(card.name)}/explain`, { texts });
      if (own !== turn) return;
      put(answers, legend(), found.answers.map((answer) => show(answer, found.classes)), found.notes.map((note) => h("p", { class: "quiet small" }, note)));
      say(found.answers.map((answer) => `${answer.prediction}, ${percent(answer.probability)}`).join("; "));
    } catch (error) {
      if (own !== turn || error instanceof Stopped) return;
      if (!(error instanceof Refused)) throw error;
      told.error(error.message, [area]);
    }
  }

  return { element: h("div", {}, h("h1", { class: "unseen" }, `Ask ${card.name}`), form, told.element, answers), update };
}

const legend = () => h("p", { class: "key" }, h("span", {}, h("i", { class: "for-key" }), "speaks for the class"),
  h("span", {}, h("i", { class: "against-key" }), "speaks against it"), h("span", {}, "a stronger shade moves more; point at a word for its number"));

function show(answer, classes) {
  const support = answer.support ?? {};
  const most = Math.max(0.02, ...Object.values(support).map(Math.abs));
  const strong = Object.values(support).some((value) => Math.abs(value) >= 0.02);
  const words = answer.text.split(/([\p{L}\p{N}'’]+)/u).map((piece, place) => {
    if (place % 2 === 0) return piece;
    const value = support[piece.toLowerCase()];
    if (value === undefined) return h("span", { class: "unknown", title: "not used by the model" }, piece);
    const weight = Math.abs(value) / most;
    const points = `${value < 0 ? "−" : "+"}${Math.abs(100 * value).toFixed(1)} points`;
    if (weight < 0.03) return h("span", { title: points }, piece);
    const made = h("mark", { class: value < 0 ? "against" : "for", title: points }, piece);
    made.style.setProperty("--weight", `calc(var(--shade) * ${weight.toFixed(3)})`);
    return made;
  });
  const rows = Object.entries(support).sort((a, b) => Math.abs(b[1]) - Math.abs(a[1])).slice(0, 100);
  return h("section", { class: "panel text-answer" },
    h("h2", {}, `${answer.prediction} `, h("span", { class: "quiet" }, percent(answer.probability))),
    h("p", { class: "read" }, words), strong ? null : h("p", { class: "quiet small" }, "No single word moves the probability by more than two points."),
    classBars(classes, answer.probabilities, { plain: true }),
    h("details", {}, h("summary", {}, "The words as a table"), h("table", {}, h("tbody", {}, rows.map(([word, value]) =>
      h("tr", {}, h("td", {}, word), h("td", { class: "number" }, `${(100 * value).toFixed(1)} points`)))))));
}
