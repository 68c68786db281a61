// The results of a test: its packets, and the trace, graph and bytes of the selected one.

import { createGraph } from "./graph.js";

/** Creates an element with a class and contents. */
export function element(name, kind, ...contents) {
  const made = document.createElement(name);
  if (kind) made.className = kind;
  made.append(...contents);
  return made;
}

const named = (values) => values.map(({ name, value }) => `${name} = ${value}`).join(", ");

/** Text of a step: a list of [class, text]. */
function partsOf(step) {
  const strong = (text) => ["name", text];
  switch (step.event) {
    case "in":
      return [strong("in"), ["", ` port ${step.port}, ${step.bytes} bytes`]];
    case "parsed": {
      const parts = [["", "parsed "], ["name", step.headers.join(", ") || "no header"], ["", `; ${step.payload} bytes of payload`]];
      if (step.error) parts.push(["bad", `; ${step.error}`]);
      return parts;
    }
    case "state":
      return [["", "state "], strong(step.name)];
    case "condition":
      return [["", `if (${step.source.text}) `], [step.holds ? "good" : "bad", String(step.holds)]];
    case "statement":
      return [["", step.source.text]];
    case "register":
      return [["", step.written ? "write register " : "read register "], strong(`${step.register}[${step.index}]`), ["", `: ${step.value}`]];
    case "updated":
      return [["", `${step.kind} `], strong(`${step.name}[${step.index}]`)];
    case "out_of_bounds":
      return [["", `${step.kind} ${step.name}[${step.index}]: `], ["bad", "no such cell"], ["", `, ${step.size} cells`]];
    case "table": {
      const parts = [["", "table "], strong(step.table)];
      if (step.key.length) {
        parts.push(["", ` [${named(step.key)}] `]);
        parts.push(step.hit ? ["good", `hit${step.entry === undefined ? "" : ` entry ${step.entry}`}`] : ["bad", `miss of ${step.entries}`]);
      }
      if (step.action) parts.push(["", `: ${step.action}(${named(step.data)})`]);
      return parts;
    }
    case "candidate":
      if (step.reason === "differs") {
        return [["", `entry ${step.entry} has ${step.field} = ${step.entry_value}, the packet ${step.packet_value}`]];
      }
      return [["", `entry ${step.entry} matches too, with a ${step.reason === "prefix" ? `shorter prefix (/${step.bits})` : "lower priority"}`]];
    case "changed":
      return [["", `${step.field}: ${step.before} → `], ["good", step.after]];
    case "queued":
      return [["", `to port ${step.port}, priority ${step.priority}${step.rid ? `, rid ${step.rid}` : ""}${copyOf(step)}`]];
    case "multicast":
      return [["", `multicast group ${step.group}: `], [step.replicas ? "" : "bad", `${step.replicas} replicas`]];
    case "egress":
      return [["", `egress for port ${step.port}`]];
    case "cloned":
      return [["", `clone to session ${step.session}${copyOf(step)}`]];
    case "no_session":
      return [["bad", "no clone"], ["", `: there is no clone session ${step.session}`]];
    case "digest":
      return [["", "digest "], strong(step.digest), ["", `: ${step.fields.join(", ")}`]];
    case "resubmitted":
    case "recirculated":
      return [["", `${step.event}${copyOf(step)}`]];
    case "out":
      return [strong("out"), ["", ` port ${step.port}, ${step.bytes} bytes`]];
    case "dropped":
      return [["bad", "dropped"], ["", `: ${step.reason}`]];
    default:
      return [["", step.event]];
  }
}

const copyOf = (step) => (step.as_copy ? `, as copy ${step.as_copy}` : "");
const DEPTHS = { in: 0, out: 0, dropped: 0, statement: 2, register: 2, updated: 2, out_of_bounds: 2, candidate: 2, changed: 3, state: 2 };

/** Steps that no statement has made. Others are where the last condition, table or statement is. */
const PLACELESS = new Set(["in", "queued", "multicast", "egress", "cloned", "no_session", "digest", "resubmitted", "recirculated", "out", "dropped"]);

/** Steps of a tree in order, each with its depth, its packet's number, its position in the source, and its key (see `keyOf`). */
function flattened(tree, states) {
  const all = [];
  const visit = (node, level, parent) => {
    const copy = { number: node.copy, level, parent };
    let place = null;
    const add = (step, own, key) => {
      place = own ?? place;
      all.push({ step, copy, place, key, depth: DEPTHS[step.event] ?? 1 });
    };
    for (const [index, step] of node.steps.entries()) {
      const key = (state) => keyOf({ copy: node.copy, step: index, state });
      if (step.event === "parsed") {
        for (const [number, name] of step.states.entries()) add({ event: "state", name }, states[name], key(number));
        add(step, null, key());
      } else {
        if (PLACELESS.has(step.event)) place = null;
        add(step, step.source ?? null, key());
      }
    }
    for (const child of node.copies ?? []) visit(child, level + 1, copy);
  };
  visit(tree, 0, null);
  return all;
}

/** Key of a step: the packet's number, the number of the step, and that of a state in a step of the parser. */
const keyOf = ({ copy, step, state }) => `${copy}.${step}.${state ?? ""}`;

const byteText = (data, at) => data.slice(2 * at, 2 * at + 2);

/** Name of each byte's field, and a key by which bytes of two frames correspond: layer, number of the layer, offset in it. */
function bytesOf(frame) {
  const bytes = Array.from({ length: frame.data.length / 2 }, (_, at) => ({ text: byteText(frame.data, at), names: [], key: `${at}` }));
  const seen = new Map();
  for (const layer of frame.layers) {
    const number = seen.get(layer.name) ?? 0;
    seen.set(layer.name, number + 1);
    for (let at = 0; at < layer.length; at += 1) {
      const byte = bytes[layer.offset + at];
      if (byte) byte.key = `${layer.name}#${number}+${at}`;
    }
    for (const field of layer.fields) {
      const end = Math.ceil((field.offset + field.width) / 8);
      for (let at = field.offset >> 3; at < end; at += 1) bytes[at]?.names.push(`${layer.name}.${field.name} = ${field.value}`);
    }
  }
  return bytes;
}

/** A dump of a frame, in which the bytes that `other` has not in their places are marked. */
function dump(frame, other, kind) {
  const table = element("div", "dump");
  const theirs = new Map(other ? bytesOf(other).map((byte) => [byte.key, byte.text]) : []);
  for (const [at, byte] of bytesOf(frame).entries()) {
    if (at % 16 === 0) table.append(element("span", "offset", at.toString(16).padStart(4, "0")));
    const differs = other && theirs.get(byte.key) !== byte.text;
    const cell = element("span", differs ? `byte ${kind}` : "byte", byte.text);
    if (byte.names.length) cell.title = byte.names.join("\n");
    table.append(cell);
  }
  return table;
}

/** A table of all fields before and after. */
function fieldTable(before, after) {
  const rows = new Map();
  for (const [index, frame] of [before, after].entries()) {
    const seen = new Map();
    for (const layer of frame?.layers ?? []) {
      const number = seen.get(layer.name) ?? 0;
      seen.set(layer.name, number + 1);
      for (const field of layer.fields) {
        const name = `${layer.name}${number ? ` (${number + 1})` : ""}.${field.name}`;
        if (!rows.has(name)) rows.set(name, [null, null]);
        rows.get(name)[index] = field.value;
      }
    }
  }
  const body = element("tbody");
  for (const [name, [left, right]] of rows) {
    const row = element("tr", after && left !== right ? "changed" : "", element("th", "", name));
    row.append(element("td", left === null ? "absent" : "", left ?? "not there"));
    if (after) row.append(element("td", right === null ? "absent" : "", right ?? "not there"));
    body.append(row);
  }
  const head = element("tr", "", element("th", "", "field"), element("th", "", after ? "before" : "value"));
  if (after) head.append(element("th", "", "after"));
  return element("table", "fields", element("thead", "", head), body);
}

/** The panel with results. `actions`: `light(place)`, `unlight()`, `expect(executed)`, `graphs()`, the drawings of the program. */
export function createResults(actions) {
  const at = (id) => document.getElementById(id);
  let run = null;
  let sent = [];
  let packet = 0;
  let steps = [];
  let step = 0;
  let view = "trace";
  /** Visits of graph nodes, and the index in `steps` of each. */
  let way = [];
  let stepOfVisit = [];
  const graph = createGraph({
    request: actions.graphs,
    light: actions.light,
    choose: (visit) => showStep(stepOfVisit[visit]),
  });

  const showStep = (next) => {
    step = Math.max(0, Math.min(next, steps.length - 1));
    at("scrub").value = step;
    at("step-number").textContent = steps.length ? `step ${step + 1} of ${steps.length}` : "";
    for (const [index, row] of [...at("trace").querySelectorAll(".step")].entries()) {
      row.classList.toggle("selected", index === step);
      row.setAttribute("aria-current", String(index === step));
      if (index === step) row.scrollIntoView({ block: "nearest" });
    }
    const current = steps[step];
    if (!current) return;
    if (current.place) actions.light(current.place);
    else actions.unlight();
    showFields(current);
    showInGraph(current);
  };

  /** Numbers of a copy and of the packets that it is a copy of. */
  const lineOf = (copy) => {
    const numbers = new Set();
    for (let one = copy; one; one = one.parent) numbers.add(one.number);
    return numbers;
  };

  /** Marks the node at which the packet is: that of the last visit up to the step. */
  const showInGraph = ({ copy, step: { event } }) => {
    const own = [...way.keys()].filter((visit) => way[visit].copy === copy.number);
    const last = own.findLast((visit) => stepOfVisit[visit] <= step);
    const next = own.find((visit) => stepOfVisit[visit] > step);
    const isBetween = event === "egress" || last === undefined;
    const visit = way[isBetween ? (next ?? last) : last];
    graph.showStep({ visit: isBetween ? null : visit, graph: visit?.graph ?? 0, copies: lineOf(copy) });
  };

  /** Fields that the packet has changed up to the step, with its ancestors. */
  const showFields = (current) => {
    const ancestors = lineOf(current.copy);
    const values = new Map();
    let last = null;
    for (const { step: event, copy } of steps.slice(0, step + 1)) {
      if (event.event !== "changed" || !ancestors.has(copy.number)) continue;
      values.delete(event.field);
      values.set(event.field, event);
      last = event.field;
    }
    const rows = [...values].reverse().map(([name, event]) =>
      element("tr", name === last && current.step.event === "changed" ? "changed" : "", element("th", "", name), element("td", "", event.before), element("td", "", event.after)),
    );
    const head = element("tr", "", ...["field", "before", "now"].map((name) => element("th", "", name)));
    const table = element("table", "fields", element("thead", "", head), element("tbody", "", ...rows));
    at("fields").replaceChildren(element("h3", "", "Changed so far"), rows.length ? table : element("p", "note", "No field has changed."));
  };

  const showTrace = () => {
    const chosen = sent[packet].sent;
    const box = at("trace");
    box.replaceChildren();
    if (!chosen.trace) {
      steps = [];
      way = [];
      graph.showWay(way);
      box.append(element("p", "note", "The traces of the earlier packets have reached the limit; send fewer packets."));
      at("fields").replaceChildren();
      showStep(0);
      return;
    }
    steps = flattened(chosen.trace, run.states);
    const indexes = new Map(steps.map(({ key }, index) => [key, index]));
    way = chosen.way;
    stepOfVisit = way.map((visit) => indexes.get(keyOf(visit)));
    graph.showWay(way);
    let copy = null;
    for (const [index, item] of steps.entries()) {
      if (item.copy !== copy) {
        copy = item.copy;
        const title = copy.number ? `copy ${copy.number}` : "packet";
        box.append(element("h3", `level-${Math.min(copy.level, 6)}`, title));
      }
      const parts = partsOf(item.step).map(([kind, text]) => element("span", kind, text));
      const kind = `step depth-${item.depth} level-${Math.min(copy.level, 6)} is-${item.step.event}`;
      const row = element("div", kind, element("span", "what", ...parts));
      if (item.place) row.append(element("span", "place", `${item.place.file.split("/").pop()}:${item.place.line}`));
      row.addEventListener("click", () => showStep(index));
      box.append(row);
    }
    at("scrub").max = Math.max(0, steps.length - 1);
    showStep(0);
  };

  const showBytes = () => {
    const { frame, outputs, left, omitted_outputs: omitted } = sent[packet].sent;
    const box = at("bytes-view");
    box.replaceChildren();
    if (!outputs.length) {
      box.append(element("h3", "", `In: port ${sent[packet].sent.port}`), dump(frame, null, ""), fieldTable(frame, null));
      box.append(element("p", "note", left?.length ? "The bytes of packets that leave a switch of a fabric are not kept." : "No packet has left the switch."));
    }
    for (const output of outputs) {
      const count = output.changes.length;
      const note = count ? `${count} ${count === 1 ? "field" : "fields"} changed` : "unchanged";
      box.append(
        element("h3", "", `Port ${sent[packet].sent.port} → port ${output.port}: ${note}`),
        element("div", "pair", dump(frame, output.frame, "old"), dump(output.frame, frame, "new")),
      );
      if (count) {
        const changes = output.changes.map(([name, before, after]) => element("li", "", element("b", "", name), ` ${before} → ${after}`));
        box.append(element("ul", "changes", ...changes));
      }
      box.append(element("details", "", element("summary", "", "All fields"), fieldTable(frame, output.frame)));
    }
    if (omitted) box.append(element("p", "note", `${omitted} more packets left.`));
  };

  const showView = (next) => {
    view = next;
    for (const name of ["trace", "graph", "bytes"]) {
      at(`tab-${name}`).setAttribute("aria-selected", String(view === name));
      at(`${name}-view`).hidden = view !== name;
    }
    if (view === "graph") graph.update();
  };

  const showPacket = (next) => {
    packet = Math.max(0, Math.min(next, sent.length - 1));
    for (const [index, row] of [...at("packets").children].entries()) {
      row.setAttribute("aria-current", String(index === packet));
      if (index === packet) row.scrollIntoView({ block: "nearest" });
    }
    at("scrubber").hidden = false;
    showView(view);
    showTrace();
    showBytes();
  };

  const clear = (hint) => {
    at("packets").replaceChildren();
    at("failures").replaceChildren();
    at("failures").hidden = true;
    at("scrubber").hidden = true;
    at("trace-view").hidden = true;
    at("graph-view").hidden = true;
    at("bytes-view").hidden = true;
    graph.clear();
    at("hint").hidden = !hint;
    if (hint) at("hint").textContent = hint;
    actions.unlight();
    run = null;
    sent = [];
  };

  const show = (result) => {
    const selected = packet;
    clear(null);
    run = result;
    sent = result.executed.filter((line) => line.sent);
    const failures = result.failures;
    at("verdict").className = failures.length ? "bad" : result.has_checks ? "good" : "note";
    const passed = result.summary ?? (result.has_checks ? "test passed" : "the test checks nothing");
    at("verdict").textContent = failures.length ? `${failures.length} ${failures.length === 1 ? "check" : "checks"} failed` : passed;
    at("failures").hidden = !failures.length;
    for (const [line, text] of failures) at("failures").append(element("li", "", line ? `line ${line}: ${text}` : text));
    for (const [index, line] of sent.entries()) {
      const { port, frame, outputs, left, omitted_outputs: omitted } = line.sent;
      const all = left ?? outputs.map((output) => output.port);
      const ports = all.slice(0, 8).join(", ") + (all.length > 8 || omitted ? ", …" : "");
      const names = frame.layers.map((layer) => layer.name).join(" / ");
      const row = element(
        "li", "", element("span", "line", line.at ?? `line ${line.line}`), element("span", "way", `port ${port} → `),
        element("span", all.length ? "good" : "bad", all.length ? `port ${ports}` : "nowhere"), element("span", "layers", names),
      );
      const button = element("button", "small", "Expect this");
      button.title = "add what left the switch to the test, as expected packets";
      button.addEventListener("click", (event) => {
        event.stopPropagation();
        actions.expect(line);
      });
      if (!left) row.append(button);
      row.tabIndex = 0;
      row.addEventListener("click", () => showPacket(index));
      row.addEventListener("keydown", (event) => {
        if (event.key === "Enter" && event.target === row) showPacket(index);
      });
      at("packets").append(row);
    }
    if (sent.length) showPacket(selected);
    else {
      at("hint").hidden = false;
      at("hint").textContent = result.summary ? "The switch has received no packet." : "The test sends no packet; add one with “Add packet…”.";
    }
  };

  at("scrub").addEventListener("input", () => showStep(Number(at("scrub").value)));
  at("previous").addEventListener("click", () => showStep(step - 1));
  at("next").addEventListener("click", () => showStep(step + 1));
  at("tab-trace").addEventListener("click", () => showView("trace"));
  at("tab-graph").addEventListener("click", () => showView("graph"));
  at("tab-bytes").addEventListener("click", () => showView("bytes"));
  return {
    show,
    clear: (hint) => {
      at("verdict").textContent = "";
      clear(hint);
    },
    /** Handles a key that no editor has taken. Returns whether it had a meaning. */
    key(key, target) {
      if (!sent.length) return false;
      if (view === "graph" && graph.key(key, target)) return true;
      const moves = {
        ArrowLeft: () => showStep(step - 1),
        ArrowRight: () => showStep(step + 1),
        Home: () => showStep(0),
        End: () => showStep(steps.length - 1),
        ArrowUp: () => showPacket(packet - 1),
        ArrowDown: () => showPacket(packet + 1),
        t: () => showView("trace"),
        g: () => showView("graph"),
        b: () => showView("bytes"),
      };
      if (!moves[key]) return false;
      moves[key]();
      return true;
    },
  };
}
