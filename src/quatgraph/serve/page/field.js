// A field that completes names: arrows choose, Enter takes, Esc closes and then clears.

import { get, modelPath, Stopped } from "./api.js";
import { h, put } from "./dom.js";

let fields = 0;

export function field({ label, model, kind, placeholder = "", value = "" }) {
  const id = `field-${(fields += 1)}`;
  const list = h("ul", { class: "list", id: `${id}-list`, role: "listbox", "aria-label": `Names for ${label}`, hidden: true });
  const input = h("input", {
    type: "text", id, placeholder, value, autocomplete: "off", autocapitalize: "off", spellcheck: "false",
    role: "combobox", "aria-expanded": "false", "aria-controls": `${id}-list`, "aria-autocomplete": "list",
    oninput: () => complete(), onfocus: () => input.select(), onblur: () => close(), onkeydown: press,
    onclick: () => list.hidden && complete(),
  });
  let names = [];
  let chosen = -1;
  let asked;
  let timer;

  function close() {
    clearTimeout(timer);
    asked?.abort();
    list.hidden = true;
    chosen = -1;
    input.setAttribute("aria-expanded", "false");
    input.removeAttribute("aria-activedescendant");
  }

  function complete() {
    input.removeAttribute("aria-invalid");
    clearTimeout(timer);
    timer = setTimeout(async () => {
      asked?.abort();
      asked = new AbortController();
      const q = input.value === "?" ? "" : input.value.trim();
      try {
        const found = await get(`${modelPath(model)}/search`, { q, kind, limit: 8 }, { signal: asked.signal, quietly: true });
        show(found.results);
      } catch (error) {
        if (error.name !== "AbortError" && !(error instanceof Stopped)) close();
      }
    }, 60);
  }

  function show(found) {
    if (document.activeElement !== input) return;
    names = found.map((one) => one.name);
    chosen = -1;
    put(list, found.map(({ label, name }, place) => h("li", {
      role: "option", id: `${id}-${place}`, "aria-selected": "false",
      onmousedown: (event) => { event.preventDefault(); take(place); },
    }, label, name === label ? null : ` (${name})`)));
    list.hidden = !names.length;
    input.setAttribute("aria-expanded", String(!list.hidden));
  }

  function choose(place) {
    chosen = (place + names.length) % names.length;
    [...list.children].forEach((item, at) => item.setAttribute("aria-selected", String(at === chosen)));
    list.children[chosen].scrollIntoView({ block: "nearest" });
    input.setAttribute("aria-activedescendant", `${id}-${chosen}`);
  }

  function take(place) {
    input.value = names[place];
    close();
    input.dispatchEvent(new CustomEvent("taken", { bubbles: true }));
  }

  function press(event) {
    const open = !list.hidden && names.length;
    if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      event.preventDefault();
      if (open) choose(chosen < 0 ? (event.key === "ArrowDown" ? 0 : -1) : chosen + (event.key === "ArrowDown" ? 1 : -1));
      else complete();
    } else if (event.key === "Enter" && open && chosen >= 0) {
      event.preventDefault();
      take(chosen);
    } else if (event.key === "Escape") {
      if (open) close();
      else input.value = "";
      event.preventDefault();
    } else if (event.key === "Enter") close();
  }

  const element = h("div", { class: "field" }, h("label", { class: "name", for: id }, label), input, list);
  return { element, input };
}

/** A line below a form: a hint, or an error beside the fields it is about. */
export function teller(hint, ...extra) {
  const line = h("span", {}, hint);
  const element = h("div", { class: "told" }, line, extra);
  return {
    element,
    clear(inputs = [], words = hint) {
      line.textContent = words;
      line.className = "";
      line.removeAttribute("role");
      inputs.forEach((input) => input.removeAttribute("aria-invalid"));
    },
    error(sentence, inputs = []) {
      line.textContent = sentence;
      line.className = "error";
      line.setAttribute("role", "alert");
      const meant = inputs.filter((input) => input.value && sentence.includes(`'${input.value}'`));
      (meant.length ? meant : inputs.length === 1 ? inputs : []).forEach((input) => input.setAttribute("aria-invalid", "true"));
    },
  };
}
