// Lists the operations of /openapi.json; text only, never HTML.

const token = new URLSearchParams(location.hash.slice(1)).get("token") ?? sessionStorage.getItem("token");

function add(parent, tag, text) {
  const element = document.createElement(tag);
  element.textContent = text;
  parent.append(element);
  return element;
}

function resolve(schema, whole, depth = 0) {
  if (!schema || depth > 6) return schema;
  if (schema.$ref) {
    const name = schema.$ref.split("/").pop();
    return resolve(whole.components.schemas[name], whole, depth + 1);
  }
  return schema;
}

function describe(schema, whole) {
  const found = resolve(schema, whole);
  const choices = found.oneOf ?? found.anyOf;
  if (choices && choices.some((one) => one.$ref)) return choices.map((one) => describe(one, whole)).join("\n");
  const lines = [found.title ?? found.type ?? ""];
  for (const [name, field] of Object.entries(found.properties ?? {})) {
    const own = resolve(field, whole);
    const kinds = (own.anyOf ?? [own]).map((one) => resolve(one, whole).title ?? one.type ?? one.const ?? one.enum?.join(" | "));
    const value = field.default === undefined ? "" : ` = ${JSON.stringify(field.default)}`;
    lines.push(`  ${name}: ${kinds.join(" | ")}${value}  ${field.description ?? ""}`);
  }
  return lines.join("\n");
}

const answer = await fetch("/openapi.json", { headers: token ? { Authorization: `Bearer ${token}` } : {} });
const whole = await answer.json();
const list = document.getElementById("operations");
if (!answer.ok) add(list, "p", whole.error);
for (const [path, methods] of Object.entries(whole.paths ?? {})) {
  for (const [method, operation] of Object.entries(methods)) {
    add(list, "h2", `${method.toUpperCase()} ${path}`);
    add(list, "p", operation.description ?? operation.summary ?? "");
    for (const one of operation.parameters ?? []) {
      if (one.in === "query") add(list, "p", `${one.name}: ${one.description ?? one.schema?.type ?? ""}`);
    }
    const body = operation.requestBody?.content?.["application/json"]?.schema;
    if (body) add(list, "pre", describe(body, whole));
    const reply = operation.responses?.["200"]?.content?.["application/json"]?.schema;
    if (reply && Object.keys(reply).length) add(list, "pre", describe(reply, whole));
  }
}
