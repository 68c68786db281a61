// Requests to the engine. It is behind a server with one session for each page, or in this browser, in a worker: the page's element
// `meta[name=engine]` has which.

/** Creates the client of a server. */
function remote() {
  let session = null;
  /** Sends a request, and returns the JSON value of the response. */
  const get = async (path, options) => {
    const response = await fetch(path, options);
    const value = await response.json();
    if (value?.is === "error") throw new Error(value.text);
    return value;
  };
  return {
    async openSession() {
      const known = new URLSearchParams(location.hash.slice(1)).get("session");
      if (known) {
        try {
          const saved = await get(`api/sessions/${encodeURIComponent(known)}`);
          session = known;
          if (saved) return saved;
        } catch {
          // The server was started again.
        }
      }
      const opened = await get("api/sessions", { method: "POST", headers: { "content-type": "application/json" } });
      if (!session) {
        session = opened.session;
        history.replaceState(null, "", `#session=${session}`);
      }
      return opened.start ?? null;
    },
    execute: (request) =>
      get(`api/sessions/${session}`, {
        method: "POST",
        headers: { "content-type": "application/json" },
        body: JSON.stringify(request),
      }),
    examples: () => get("api/examples"),
    async text(path) {
      const response = await fetch(`api/text?path=${encodeURIComponent(path)}`);
      if (!response.ok) throw new Error((await response.json()).text);
      return await response.text();
    },
  };
}

/** Maximum duration of a request in milliseconds. */
const TIME = 10_000;
/** Key under which the browser keeps the program of the last run while the page is open. */
const SAVED = "alfirk-play";

/** Creates the client of an engine in a worker. A worker that takes too long is ended, and the next request starts another. */
function local() {
  let module = null;
  let worker = null;
  let started = null;
  let number = 0;
  const waiting = new Map();

  const end = (reason) => {
    worker?.terminate();
    worker = null;
    started = null;
    for (const { reject } of waiting.values()) reject(new Error(reason));
    waiting.clear();
  };
  /** Executes a command of the worker. Without `limit` it may take any time. */
  const command = (name, value, limit) =>
    new Promise((resolve, reject) => {
      number += 1;
      const own = number;
      const timer = limit && setTimeout(() => end(`this took longer than ${limit / 1000} s and was stopped`), limit);
      const settle = (act) => (result) => {
        clearTimeout(timer);
        waiting.delete(own);
        act(result);
      };
      waiting.set(own, { resolve: settle(resolve), reject: settle(reject) });
      worker.postMessage({ number: own, name, value });
    });
  /** Starts a worker if none is running. Returns the examples. */
  const start = async () => {
    module ??= (async () => {
      const load = async (path) => {
        const response = await fetch(path);
        if (!response.ok) throw new Error(`${path}: the server replied with status ${response.status}`);
        return response;
      };
      const library = load("library.json").then((response) => response.text());
      const bytes = load("alfirk_play.wasm").then((response) => response.arrayBuffer());
      return { code: await WebAssembly.compile(await bytes), library: await library };
    })();
    const { code, library } = await module;
    if (!worker) {
      worker = new Worker("worker.js", { type: "module" });
      worker.onmessage = ({ data: { number: own, result, isBroken } }) => {
        if (isBroken) end("this needs more memory than a program may have, or is nested too deeply, and was stopped");
        else waiting.get(own)?.resolve(result);
      };
      worker.onerror = (event) => end(`the engine does not run in this browser: ${event.message}`);
      started = command("start", { code, library });
    }
    return await started;
  };
  // One request after the other, so that the limit of time is that of each.
  let last = Promise.resolve();
  const inTurn = (name, value) => {
    const own = last.then(async () => {
      await start();
      return await command(name, value, TIME);
    });
    last = own.catch(() => {});
    return own;
  };
  return {
    async openSession() {
      return JSON.parse(sessionStorage.getItem(SAVED) ?? "null");
    },
    async execute(request) {
      if (request.do === "run") sessionStorage.setItem(SAVED, JSON.stringify({ document: request.document, test: request.test }));
      const value = JSON.parse(await inTurn("reply", JSON.stringify(request)));
      if (value.is === "error") throw new Error(value.text);
      return value;
    },
    async examples() {
      return JSON.parse(await start());
    },
    async text(path) {
      const found = await inTurn("text", path);
      if (!found) throw new Error(`the library has no file \`${path}\``);
      return found;
    },
  };
}

const isLocal = document.querySelector("meta[name=engine]").content === "worker";
const engine = isLocal ? local() : remote();

/** Opens the session of the page, or a new one. Returns the project that it begins with, if there is one. */
export const openSession = () => engine.openSession();
/** Executes a request of the engine; throws its error. */
export const execute = (request) => engine.execute(request);
/** Returns the programs that the page offers. */
export const examples = () => engine.examples();
/** Returns the text of a file of the library. */
export const text = (path) => engine.text(path);
