// The page: selections, time and its controls. All selections are in the URL fragment, so that they can be bookmarked:
// run=1&t=1103899&view=sequence&node=s1&to=h2&theme=dark&whole=1

import { FabricView, palette } from "./fabric.js";
import { decisions, done, element, panel } from "./panels.js";
import { draw as drawSequence } from "./sequence.js";
import { Trace, countUntil } from "./trace.js";

const byId = (id) => document.getElementById(id);
const STEPS = 10000;
const SPEEDS = [1e2, 2e2, 5e2, 1e3, 2e3, 5e3, 1e4, 2e4, 5e4, 1e5, 2e5, 5e5, 1e6, 2e6, 5e6, 1e7, 1e8, 1e9];
const SECONDS_TO_PLAY = 20;
const LOOK_AGAIN_MS = 1000;

const state = {
  run: 0,
  t: null,
  view: "fabric",
  node: null,
  receiver: null,
  speed: 1e4,
  whole: false,
  playing: false,
};
let runs = [];
let trace = null;
let changed = true;
let lastFrame = null;
let drawnPanel = "";
const fabric = new FabricView(byId("canvas"));

function trouble(text) {
  byId("trouble").textContent = text;
  byId("trouble").hidden = false;
  document.body.dataset.state = "trouble";
}

async function load(run) {
  document.body.dataset.state = "loading";
  const next = new Trace();
  await more(next, run);
  if (next.header === null) throw new Error(`${runs[run].name} is empty`);
  trace = next;
  state.run = run;
  fabric.show(trace);
  const { header } = trace;
  const count = (kind) => header.nodes.filter((node) => node.kind === kind).length;
  byId("about").textContent =
    `${header.title} on ${header.topology}: ${count("host")} hosts, ${count("switch")} ` +
    `${count("switch") === 1 ? "switch" : "switches"}, ${trace.frames.length.toLocaleString("en")} frames` +
    (trace.end?.complete === false ? ` (the trace ends at its limit, ${trace.time(trace.end.t)})` : "") +
    (trace.end === null && !runs[run].live ? " (the run was interrupted)" : "");
  byId("receiver").replaceChildren(
    ...header.members.slice(1).map((member) => element("option", { value: `${member}` }, header.nodes[member].name)),
  );
  if (state.receiver === null || !header.members.slice(1).includes(state.receiver)) state.receiver = header.members[1] ?? null;
  byId("receiver").value = `${state.receiver}`;
  byId("follow-label").hidden = !runs[run].live;
  chooseSpeed();
  drawActivity();
  document.body.dataset.state = "ready";
  document.body.dataset.frames = `${trace.frames.length}`;
}

async function more(into, run) {
  const answer = await fetch(`traces/${run}?from=${into.bytes}`);
  if (!answer.ok) throw new Error(`the server replied with status ${answer.status}`);
  into.append(new Uint8Array(await answer.arrayBuffer()));
}

// Loads further lines while the run continues.
async function grow() {
  if (trace !== null && runs[state.run].live) {
    const before = trace.bytes;
    try {
      await more(trace, state.run);
    } catch {
      // The run and its server have ended; keep what was loaded.
      runs[state.run].live = false;
    }
    if (trace.bytes !== before) {
      if (byId("follow").checked) state.t = trace.lastTime;
      drawActivity();
      changed = true;
    }
  }
  setTimeout(grow, LOOK_AGAIN_MS);
}

const range = () => trace.range(state.whole || runs[state.run].live);

function chooseSpeed() {
  const [from, to] = range();
  const wanted = (to - from) / SECONDS_TO_PLAY;
  state.speed = SPEEDS.findLast((speed) => speed <= wanted) ?? SPEEDS[0];
  byId("speed").value = `${state.speed}`;
}

function go(t) {
  const [from, to] = range();
  state.t = Math.min(to, Math.max(from, t));
  changed = true;
}

function pause() {
  state.playing = false;
  lastFrame = null;
  changed = true;
}

function toggle() {
  const [from, to] = range();
  if (!state.playing && state.t >= to) state.t = from;
  state.playing = !state.playing;
  lastFrame = null;
  changed = true;
}

const step = (forwards) => {
  pause();
  go(trace.neighbour(state.t, forwards));
};

function faster(by) {
  const at = SPEEDS.indexOf(state.speed) + by;
  state.speed = SPEEDS[Math.max(0, Math.min(SPEEDS.length - 1, at))];
  byId("speed").value = `${state.speed}`;
}

function choose(node) {
  state.node = node;
  if (node !== null && trace.header.members.slice(1).includes(node)) {
    state.receiver = node;
    byId("receiver").value = `${node}`;
  }
  changed = true;
}

function otherNode(by) {
  const drawn = trace.nodes.map((_, node) => node).filter((node) => trace.nodes[node].kind !== "controller");
  const at = state.node === null ? (by > 0 ? -1 : 0) : drawn.indexOf(state.node);
  choose(drawn[(at + by + drawn.length) % drawn.length]);
}

function show(view) {
  state.view = view;
  for (const section of document.querySelectorAll("main > section")) section.hidden = section.id !== view;
  for (const tab of document.querySelectorAll("[role=tab]")) tab.setAttribute("aria-selected", `${tab.dataset.view === view}`);
  changed = true;
}

function dark(is) {
  document.documentElement.classList.toggle("dark", is);
  if (trace !== null) drawActivity();
  changed = true;
}

// Draws the number of events over time, as a background of the time slider.
function drawActivity() {
  const canvas = byId("activity");
  const { clientWidth: width, clientHeight: height } = canvas;
  canvas.width = width;
  canvas.height = height;
  const context = canvas.getContext("2d");
  const colours = palette();
  const [from, to] = range();
  const bars = new Float64Array(Math.max(1, Math.floor(width / 3)));
  const bar = (t) => Math.min(bars.length - 1, Math.floor(((t - from) / (to - from)) * bars.length));
  for (let at = countUntil(trace.frames, from - 1); at < trace.frames.length; at += 1) bars[bar(trace.frames[at].t)] += 1;
  const most = bars.reduce((a, b) => Math.max(a, b), 1);
  context.fillStyle = colours.line;
  bars.forEach((count, at) => context.fillRect(at * 3, height - (count / most) * height, 2, (count / most) * height));
  context.fillStyle = colours.nak;
  for (const loss of trace.losses) if (loss.t >= from) context.fillRect(bar(loss.t) * 3, 0, 2, 5);
}

function remember() {
  const parts = new URLSearchParams({ run: state.run, t: Math.round(state.t), view: state.view });
  if (state.node !== null) parts.set("node", trace.nodes[state.node].name);
  if (state.receiver !== null) parts.set("to", trace.nodes[state.receiver].name);
  if (state.whole) parts.set("whole", "1");
  if (document.documentElement.classList.contains("dark")) parts.set("theme", "dark");
  history.replaceState(null, "", `#${parts}`);
}

function frame(now) {
  requestAnimationFrame(frame);
  if (trace === null) return;
  const [from, to] = range();
  if (state.playing) {
    if (lastFrame !== null) state.t += ((now - lastFrame) / 1000) * state.speed;
    lastFrame = now;
    if (state.t >= to) {
      state.t = to;
      pause();
    }
    changed = true;
  }
  if (!changed) return;
  changed = false;
  draw(from, to);
}

function draw(from, to) {
  const { t } = state;
  byId("play").textContent = state.playing ? "pause" : "play";
  byId("now").textContent = trace.time(t);
  byId("time").value = `${Math.round(((t - from) / (to - from)) * STEPS)}`;
  const window = Math.max((to - from) / 100, 2000);
  if (state.view === "fabric") {
    const drawn = fabric.draw({ t, window, chosen: state.node, done: done(trace, t) });
    document.body.dataset.inFlight = `${drawn.shown}`;
  } else if (state.view === "sequence" && state.receiver !== null) {
    const drawn = drawSequence(byId("diagram"), trace, { t, receiver: state.receiver, onlyFeedback: byId("only-feedback").checked });
    byId("sequence-note").textContent = `${drawn.shown} of ${drawn.all} frames, around ${trace.time(t)}`;
  } else if (state.view === "decisions") {
    const drawn = decisions(byId("notes"), trace, {
      t,
      ofController: byId("of-controller").checked,
      ofHosts: byId("of-hosts").checked,
      filter: byId("filter").value,
      go,
    });
    byId("decisions-note").textContent = `${drawn.shown} of ${drawn.all}`;
  }
  // While playing, tables are updated four times a second only.
  const key = `${state.run} ${state.node} ${state.playing ? Math.floor(performance.now() / 250) : t} ${trace.bytes}`;
  if (key !== drawnPanel) {
    drawnPanel = key;
    panel(byId("panel"), trace, state.node, t);
  }
  if (!state.playing) remember();
}

const KEYS = {
  " ": toggle,
  ArrowLeft: (event) => (event.shiftKey ? jump(-1) : step(false)),
  ArrowRight: (event) => (event.shiftKey ? jump(1) : step(true)),
  Home: () => go(range()[0]),
  End: () => go(range()[1]),
  "+": () => faster(1),
  "=": () => faster(1),
  "-": () => faster(-1),
  n: () => otherNode(1),
  p: () => otherNode(-1),
  l: () => (pause(), go(trace.nextLoss(state.t, true))),
  L: () => (pause(), go(trace.nextLoss(state.t, false))),
  1: () => show("fabric"),
  2: () => show("sequence"),
  3: () => show("decisions"),
  z: () => byId("whole").click(),
  d: () => byId("theme").click(),
  "?": () => byId("help").showModal(),
  Escape: () => choose(null),
};

function jump(by) {
  const [from, to] = range();
  go(state.t + (by * (to - from)) / 100);
}

function listen() {
  const on = (id, event, act) => byId(id).addEventListener(event, act);
  on("first", "click", () => go(range()[0]));
  on("back", "click", () => step(false));
  on("play", "click", toggle);
  on("next", "click", () => step(true));
  on("last", "click", () => go(range()[1]));
  on("time", "input", () => {
    const [from, to] = range();
    pause();
    go(from + (byId("time").value / STEPS) * (to - from));
  });
  on("speed", "change", () => (state.speed = Number(byId("speed").value)));
  on("whole", "change", () => {
    state.whole = byId("whole").checked;
    chooseSpeed();
    drawActivity();
    go(state.t);
  });
  on("theme", "click", () => dark(!document.documentElement.classList.contains("dark")));
  on("help-button", "click", () => byId("help").showModal());
  on("traces", "change", async () => {
    pause();
    state.t = null;
    state.node = null;
    await start(Number(byId("traces").value));
  });
  on("receiver", "change", () => {
    state.receiver = Number(byId("receiver").value);
    changed = true;
  });
  for (const id of ["only-feedback", "of-controller", "of-hosts", "filter"]) on(id, "input", () => (changed = true));
  for (const tab of document.querySelectorAll("[role=tab]")) tab.addEventListener("click", () => show(tab.dataset.view));
  on("canvas", "click", (event) => choose(fabric.nodeAt(event.offsetX, event.offsetY)));
  on("canvas", "mousemove", (event) => {
    const node = fabric.nodeAt(event.offsetX, event.offsetY);
    if (node !== fabric.hovered) {
      fabric.hovered = node;
      changed = true;
    }
  });
  window.addEventListener("resize", () => {
    if (trace !== null) drawActivity();
    changed = true;
  });
  document.addEventListener("keydown", (event) => {
    if (trace === null || event.ctrlKey || event.metaKey || event.altKey || byId("help").open) return;
    const { tagName, type } = event.target;
    if (tagName === "SELECT" || (tagName === "INPUT" && type === "search")) return;
    // Space would also press the focused button.
    if (event.key === " " && (tagName === "BUTTON" || type === "checkbox")) return;
    const act = KEYS[event.key];
    if (act) {
      event.preventDefault();
      act(event);
    }
  });
}

async function start(run) {
  try {
    await load(run);
    go(state.t ?? range()[runs[run].live ? 1 : 0]);
  } catch (error) {
    trouble(`The trace cannot be shown: ${error.message}`);
  }
}

async function main() {
  const asked = new URLSearchParams(location.hash.slice(1));
  const theme = asked.get("theme");
  dark(theme === null ? matchMedia("(prefers-color-scheme: dark)").matches : theme === "dark");
  listen();
  show(["sequence", "decisions"].includes(asked.get("view")) ? asked.get("view") : "fabric");
  state.whole = asked.get("whole") === "1";
  byId("whole").checked = state.whole;
  byId("only-feedback").checked = asked.get("feedback") === "1";
  const perSecond = (speed) => `${speed >= 1e6 ? `${speed / 1e6} ms` : speed >= 1e3 ? `${speed / 1e3} us` : `${speed} ns`} in a second`;
  byId("speed").replaceChildren(...SPEEDS.map((speed) => element("option", { value: `${speed}` }, perSecond(speed))));
  try {
    runs = await (await fetch("traces")).json();
  } catch (error) {
    return trouble(`The server does not reply: ${error.message}`);
  }
  byId("traces").replaceChildren(...runs.map((run, at) => element("option", { value: `${at}` }, run.name)));
  const run = Math.min(runs.length - 1, Math.max(0, Number(asked.get("run")) || 0));
  byId("traces").value = `${run}`;
  if (asked.has("t") && Number.isFinite(Number(asked.get("t")))) state.t = Number(asked.get("t"));
  await start(run);
  if (trace !== null) {
    const named = (name) => trace.nodes.findIndex((node) => node.name === name);
    if (asked.has("node") && named(asked.get("node")) >= 0) choose(named(asked.get("node")));
    if (asked.has("to") && trace.header.members.slice(1).includes(named(asked.get("to")))) {
      state.receiver = named(asked.get("to"));
      byId("receiver").value = `${state.receiver}`;
    }
  }
  requestAnimationFrame(frame);
  setTimeout(grow, LOOK_AGAIN_MS);
}

main();
