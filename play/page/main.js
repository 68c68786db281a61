// The page of the playground: the program, the test and the results.

import { createEditor } from "./editor.js";
import { createEntryForm, createFabricForm, createPacketForm } from "./forms.js";
import * as server from "./server.js";
import { createResults, element } from "./trace.js";

const at = (id) => document.getElementById(id);
/** Time in milliseconds without a key after which the program is checked. */
const CHECK_DELAY = 60;

let project = { document: { main: "/program.p4", files: { "/program.p4": "" } }, test: "" };
let shownFile = "/program.p4";
/** Files of the library that are shown, by path. */
const libraryFiles = new Map();
let diagnostics = {};

const report = (text, isBad = false) => {
  at("status").textContent = text;
  at("status").className = isBad ? "bad" : "";
};
/** Returns a function that reports the error of an asynchronous one. */
const guarded = (action) => async (...values) => {
  try {
    return await action(...values);
  } catch (error) {
    report(error.message, true);
    return null;
  }
};

const isOwn = (path) => path in project.document.files;
const currentDocument = () => ({ main: project.document.main, files: { ...project.document.files } });

const program = createEditor(at("program"), {
  language: "p4",
  label: "program",
  changed: (text) => {
    if (!isOwn(shownFile)) return;
    project.document.files[shownFile] = text;
    checkSoon();
  },
  request: async (method, parameters) => {
    if (!isOwn(shownFile)) return null;
    const reply = await server.execute({ do: "language", document: currentDocument(), method, file: shownFile, parameters });
    return reply.result;
  },
});
const test = createEditor(at("test"), { language: "stf", label: "test", changed: (text) => (project.test = text) });

/** The program of the last run. */
let ran = null;

const results = createResults({
  light: guarded(async (place) => {
    await showFile(place.file);
    program.light(place.line);
  }),
  unlight: () => program.unlight(),
  graphs: async () => (await server.execute({ do: "graphs", document: ran })).graphs,
  expect: (line) => {
    const outputs = line.sent.outputs.map((output) => `expect ${output.port} ${output.frame.data} $`);
    const lines = project.test.split("\n");
    // Replaces the expectations after the packet.
    let end = line.line;
    while (/^\s*(expect|no_packet)\b/i.test(lines[end] ?? "")) end += 1;
    lines.splice(line.line, end - line.line, ...(outputs.length ? outputs : ["no_packet"]));
    test.replace(lines.join("\n"));
    run();
  },
});

/** Shows a file in the editor: one of the program, or one of the library, which cannot be changed. */
async function showFile(path) {
  if (path === shownFile) return;
  if (!isOwn(path) && !libraryFiles.has(path)) libraryFiles.set(path, await server.text(path));
  shownFile = path;
  const isReadOnly = !isOwn(path);
  program.show(isReadOnly ? libraryFiles.get(path) : project.document.files[path], isReadOnly);
  program.diagnose(diagnostics[path] ?? []);
  drawTabs();
}

function drawTabs() {
  const paths = [project.document.main, ...Object.keys(project.document.files).filter((path) => path !== project.document.main)];
  const tabs = [...paths, ...libraryFiles.keys()].map((path) => {
    const tab = element("button", isOwn(path) ? "" : "library", path.split("/").pop());
    tab.title = isOwn(path) ? path : `${path} (of the library, read only)`;
    tab.setAttribute("role", "tab");
    tab.setAttribute("aria-selected", String(path === shownFile));
    tab.addEventListener("click", guarded(() => showFile(path)));
    return tab;
  });
  at("tabs").replaceChildren(...tabs);
}

function drawProblems(messages) {
  at("problems").hidden = !messages.length;
  const rows = messages.slice(0, 100).map(({ path, line, column, severity, text }) => {
    const place = line ? `${path.split("/").pop()}:${line}:${column} ` : "";
    const row = element("li", severity, element("span", "place", place), text.split("\n")[0]);
    row.title = text;
    row.tabIndex = 0;
    const go = guarded(async () => {
      if (!line) return;
      await showFile(path);
      program.goTo(line, column);
    });
    row.addEventListener("click", go);
    row.addEventListener("keydown", (event) => event.key === "Enter" && go());
    return row;
  });
  at("problems").replaceChildren(...rows);
}

let checkTimer = null;
let isChecking = false;
let isCheckDue = false;

function checkSoon() {
  clearTimeout(checkTimer);
  checkTimer = setTimeout(guarded(check), CHECK_DELAY);
}

/** Diagnoses the program. One request at a time: later changes are diagnosed together. */
async function check() {
  if (isChecking) {
    isCheckDue = true;
    return;
  }
  isChecking = true;
  isCheckDue = false;
  document.body.dataset.checked = "";
  const start = performance.now();
  try {
    const reply = await server.execute({ do: "check", document: currentDocument() });
    diagnostics = reply.files;
    program.diagnose(diagnostics[shownFile] ?? []);
    const all = Object.entries(diagnostics).flatMap(([path, found]) =>
      found.map((diagnostic) => ({
        path,
        line: diagnostic.range.start.line + 1,
        column: diagnostic.range.start.character + 1,
        severity: diagnostic.severity === 1 ? "error" : "warning",
        text: diagnostic.message,
      })),
    );
    drawProblems(all);
    const errors = all.filter((message) => message.severity === "error").length;
    const time = Math.round(performance.now() - start);
    report(errors ? `${errors} ${errors === 1 ? "error" : "errors"}` : `no errors (${time} ms)`, errors > 0);
    document.body.dataset.checked = String(errors);
  } finally {
    isChecking = false;
    if (isCheckDue) checkSoon();
  }
}

let runs = 0;
/** Executes a request that runs the program, and shows its packets. Returns the reply, if it is one, and the latest. */
const execute = guarded(async (request) => {
  runs += 1;
  const number = runs;
  document.body.dataset.run = "";
  report("running…");
  const start = performance.now();
  try {
    const sent = currentDocument();
    const reply = await server.execute({ ...request, document: sent });
    if (number !== runs) return null;
    ran = sent;
    at("switches").hidden = true;
    if (reply.is === "faulty") {
      const messages = reply.messages.map(({ severity, text, place }) => ({ path: place?.file ?? "", line: place?.line, column: place?.column, severity, text }));
      drawProblems(messages);
      results.clear("The program has errors; correct them first.");
      report("the program has errors", true);
      return null;
    }
    results.show(reply.is === "fabric" ? { ...reply.run, summary: reply.summary } : reply);
    report(`run in ${Math.round(performance.now() - start)} ms`);
    return reply;
  } catch (error) {
    results.clear(error.message);
    throw error;
  } finally {
    if (number === runs) document.body.dataset.run = String(number);
  }
});
const run = () => execute({ do: "run", test: project.test });

/** Opens a project in place of the current one. */
function openProject(opened) {
  project = { document: opened.document, test: opened.test ?? "" };
  libraryFiles.clear();
  diagnostics = {};
  shownFile = project.document.main;
  program.show(project.document.files[shownFile] ?? "");
  test.show(project.test);
  results.clear("Run sends the test's packets, and shows how the program processed each.");
  drawProblems([]);
  drawTabs();
  checkSoon();
}

async function openExample(example) {
  const text = await server.text(example.main);
  const ofTest = example.test ? await server.text(example.test) : "";
  openProject({ document: { main: example.main, files: { [example.main]: text } }, test: ofTest });
}

function save(name, text) {
  const link = element("a");
  link.href = URL.createObjectURL(new Blob([text], { type: "text/plain" }));
  link.download = name;
  link.click();
  URL.revokeObjectURL(link.href);
}

const hexOf = (buffer) => Array.from(new Uint8Array(buffer), (byte) => byte.toString(16).padStart(2, "0")).join("");
let capturePort = 0;

async function openFile(file) {
  const name = file.name;
  if (/\.pcap(ng)?$/.test(name)) {
    const { frames } = await server.execute({ do: "capture", data: hexOf(await file.arrayBuffer()) });
    append(frames.map((frame) => `packet ${capturePort} ${frame}`).join("\n"));
    report(`${frames.length} packets of ${name}`);
  } else if (name.endsWith(".stf")) {
    test.show(await file.text());
    project.test = test.text();
  } else if (name.endsWith(".json")) {
    const opened = JSON.parse(await file.text());
    if (typeof opened?.document?.main !== "string") throw new Error(`${name} is not a saved program with its test`);
    openProject(opened);
  } else {
    const path = `/${name}`;
    openProject({ document: { main: path, files: { [path]: await file.text() } }, test: project.test });
  }
}

/** Adds a line to the test: at the end, or before the first packet. */
function append(line, isBeforePackets = false) {
  const lines = project.test.split("\n");
  while (lines.length && !lines.at(-1).trim()) lines.pop();
  const first = isBeforePackets ? lines.findIndex((text) => /^\s*packet\b/i.test(text)) : -1;
  lines.splice(first < 0 ? lines.length : first, 0, line);
  test.replace(`${lines.join("\n")}\n`);
}

async function interfaceOf() {
  const reply = await server.execute({ do: "interface", document: currentDocument() });
  if (reply.is === "faulty") throw new Error("the program has errors; correct them first");
  return reply;
}

const context = {
  document: currentDocument,
  execute: server.execute,
  interface: interfaceOf,
  append,
  openCapture: (port) => {
    capturePort = port;
    at("file").click();
  },
};
const packetForm = createPacketForm(context);
const entryForm = createEntryForm(context);
const offerFabrics = createFabricForm({ run: execute });

async function format() {
  if (!isOwn(shownFile)) return;
  const parameters = { options: { tabSize: 4, insertSpaces: true } };
  const reply = await server.execute({ do: "language", document: currentDocument(), method: "formatting", file: shownFile, parameters });
  if (reply.result?.length) program.replace(reply.result[0].newText);
  report("formatted");
}

const setTheme = (isDark) => document.documentElement.classList.toggle("dark", isDark);
setTheme(matchMedia("(prefers-color-scheme: dark)").matches);
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", (event) => setTheme(event.matches));
at("theme").addEventListener("click", () => setTheme(!document.documentElement.classList.contains("dark")));
at("run").addEventListener("click", run);
at("format").addEventListener("click", guarded(format));
at("add-packet").addEventListener("click", guarded(packetForm));
at("add-entry").addEventListener("click", guarded(entryForm));
at("open").addEventListener("click", () => at("file").click());
at("file").addEventListener("change", guarded(async () => {
  for (const file of at("file").files) await openFile(file);
  at("file").value = "";
}));
const nameOf = (ending) => project.document.main.split("/").pop().replace(/\.p4$/, ending);
at("save-program").addEventListener("click", () => save(nameOf(".p4"), project.document.files[project.document.main] ?? ""));
at("save-test").addEventListener("click", () => save(nameOf(".stf"), project.test));
at("save-project").addEventListener("click", () => save(nameOf(".json"), JSON.stringify(project)));
at("help-button").addEventListener("click", () => at("help").showModal());

document.addEventListener("keydown", (event) => {
  const isCtrl = event.ctrlKey || event.metaKey;
  if (isCtrl && event.key === "Enter") {
    event.preventDefault();
    event.stopPropagation();
    run();
  } else if (event.shiftKey && event.altKey && event.code === "KeyF") {
    event.preventDefault();
    guarded(format)();
  } else if (event.key === "F1") {
    event.preventDefault();
    at("help").showModal();
  } else if (!isCtrl && !event.altKey && !event.target.closest("input, select, textarea, dialog, .cm-editor") && results.key(event.key, event.target)) {
    event.preventDefault();
  }
}, true);

const start = guarded(async () => {
  const [opened, offered] = await Promise.all([server.openSession(), server.examples()]);
  server.execute({ do: "topologies" }).then(({ paths }) => offerFabrics(paths), () => {});
  at("examples").append(new Option("choose…", ""));
  const groups = new Map();
  for (const [index, example] of offered.entries()) {
    if (!groups.has(example.group)) {
      const group = element("optgroup");
      group.label = example.group;
      groups.set(example.group, group);
      at("examples").append(group);
    }
    groups.get(example.group).append(new Option(example.name, index));
  }
  at("examples").addEventListener("change", guarded(async () => {
    const example = offered[Number(at("examples").value)];
    if (at("examples").value !== "") await openExample(example);
  }));
  if (opened) openProject(opened);
  else {
    const first = offered.findIndex((example) => example.name === "basic") ;
    if (first >= 0) {
      at("examples").value = String(first);
      await openExample(offered[first]);
    } else openProject(project);
  }
});
await start();
document.body.dataset.state = "ready";
