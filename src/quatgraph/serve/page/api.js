// Asks the service. A sentence of the server is a Refused; a server that does not answer is said once, and asked
// until it is back.

const token = new URLSearchParams(location.hash.slice(1)).get("token") ?? sessionStorage.getItem("token");
if (token) sessionStorage.setItem("token", token);

export class Refused extends Error {
  constructor(sentence, status) {
    super(sentence);
    this.status = status;
  }
}

export class Stopped extends Error {}

const bar = document.getElementById("loading");
const banner = document.getElementById("stopped");
let running = 0;
let stopped = false;
const recover = new Set();

/** Calls something whenever the server is back. */
export const onBack = (call) => recover.add(call);

export function headers() {
  return token ? { Authorization: `Bearer ${token}` } : {};
}

function track() {
  running += 1;
  const timer = setTimeout(() => (bar.hidden = false), 150);
  return () => {
    clearTimeout(timer);
    running -= 1;
    if (!running) bar.hidden = true;
  };
}

async function wait() {
  if (stopped) return;
  stopped = true;
  banner.textContent = "The server does not answer. Start it again; this page goes on by itself.";
  banner.hidden = false;
  for (;;) {
    await new Promise((resolve) => setTimeout(resolve, 1000));
    try {
      const answer = await fetch("/healthz", { cache: "no-store" });
      if (answer.ok) break;
    } catch {
      continue;
    }
  }
  stopped = false;
  banner.hidden = true;
  document.getElementById("live").textContent = "The server is back.";
  recover.forEach((call) => call());
}

async function request(path, options, quietly) {
  const done = quietly ? () => {} : track();
  try {
    let answer;
    try {
      answer = await fetch(path, { ...options, headers: { ...headers(), ...options.headers } });
    } catch (error) {
      if (error.name === "AbortError") throw error;
      wait();
      throw new Stopped();
    }
    if (answer.ok || answer.status === 304) return answer;
    const found = await answer.json().catch(() => ({}));
    throw new Refused(found.error ?? `the server answered with status ${answer.status}`, answer.status);
  } finally {
    done();
  }
}

export async function get(path, parameters = {}, { signal, quietly } = {}) {
  const query = new URLSearchParams(parameters).toString();
  return (await request(query ? `${path}?${query}` : path, { signal }, quietly)).json();
}

/** A reply and its tag, or null if it is the one that has this tag. */
export async function poll(path, etag) {
  const answer = await request(path, { headers: etag ? { "If-None-Match": etag } : {} }, Boolean(etag));
  return answer.status === 304 ? null : { value: await answer.json(), etag: answer.headers.get("ETag") ?? "" };
}

export async function post(path, body, { signal } = {}) {
  const options = { method: "POST", body: JSON.stringify(body), signal, headers: { "Content-Type": "application/json" } };
  return (await request(path, options)).json();
}

/** Saves a reply as a file. */
export async function download(path, parameters, name) {
  const answer = await request(`${path}?${new URLSearchParams(parameters)}`, {});
  const url = URL.createObjectURL(await answer.blob());
  const anchor = document.createElement("a");
  anchor.href = url;
  anchor.download = name;
  anchor.click();
  setTimeout(() => URL.revokeObjectURL(url), 1000);
}

/** The routes of a model. */
export const modelPath = (name) => `/api/models/${encodeURIComponent(name)}`;
