// Requests to the server: one session for each page.

let session = null;

/** Sends a request without a body, and returns the JSON value of the response. */
async function get(path, options) {
  const response = await fetch(path, options);
  const value = await response.json();
  if (value?.is === "error") throw new Error(value.text);
  return value;
}

/** Opens the session of the address, or a new one. Returns the project that it begins with, if there is one. */
export async function openSession() {
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
}

/** Executes a request of the engine; throws its error. */
export async function execute(request) {
  return await get(`api/sessions/${session}`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify(request),
  });
}

/** Returns the programs that the page offers. */
export async function examples() {
  return await get("api/examples");
}

/** Returns the text of a file of the library. */
export async function text(path) {
  const response = await fetch(`api/text?path=${encodeURIComponent(path)}`);
  if (!response.ok) throw new Error((await response.json()).text);
  return await response.text();
}
