// Text panels: details of the selected node, and notes of the controller and hosts.

import { ahead, countUntil } from "./trace.js";

const NOTES = 400;

export function element(name, properties = {}, ...children) {
  const made = document.createElement(name);
  Object.assign(made, properties);
  made.append(...children);
  return made;
}

const facts = (...pairs) =>
  element("dl", { className: "facts" }, ...pairs.flatMap(([name, value]) => [element("dt", {}, name), element("dd", {}, `${value}`)]));

// Builds a table; names are aligned to the left, numbers to the right.
const cellsOf = (name, texts, left) => texts.map((text, at) => element(name, { className: at === left ? "left" : "" }, `${text}`));

// `left` is the column of names.
const table = (head, rows, left) =>
  element("table", {},
    element("thead", {}, element("tr", {}, ...cellsOf("th", head, left))),
    element("tbody", {}, ...rows.map((row) => element("tr", { className: row.className ?? "" }, ...cellsOf("td", row.texts, left)))));

// Fills `box` with the details of one node.
export function panel(box, trace, node, t) {
  if (node === null) return box.replaceChildren(...overview(trace, t));
  const about = trace.nodes[node];
  const title = element("h2", {}, `${about.name} (${about.kind})`);
  const parts = about.kind === "switch" ? aboutSwitch(trace, node, t) : aboutHost(trace, node, t);
  box.replaceChildren(title, ...parts);
}

function overview(trace, t) {
  const counts = new Map();
  const last = countUntil(trace.frames, t);
  let lost = 0;
  for (let at = 0; at < last; at += 1) {
    const frame = trace.frames[at];
    counts.set(frame.kind, (counts.get(frame.kind) ?? 0) + 1);
    if (frame.lost !== null && frame.lost.t <= t) lost += 1;
  }
  const of = (kind) => (counts.get(kind) ?? 0).toLocaleString("en");
  const names = trace.header.members.map((member) => trace.nodes[member].name);
  const note = trace.notes[countUntil(trace.notes, t) - 1];
  return [
    element("h2", {}, "Frames on links so far"),
    facts(["data", of("data")], ["ACK", of("ack")], ["NAK", of("nak")], ["CNP", of("cnp")], ["other", of("other")],
      ["lost on a link", lost.toLocaleString("en")], ["dropped before one", countUntil(trace.drops, t).toLocaleString("en")]),
    element("h2", {}, "Members"),
    element("p", {}, `${names[0] ?? "no member"} sends to ${names.length - 1} receivers`),
    element("p", { className: "faint" }, note ? `${trace.nodes[note.n].name}: ${note.text}` : "no event yet"),
    element("p", { className: "faint" }, "Select a switch to see its multicast forwarding table (MFT), or a host."),
  ];
}

function aboutSwitch(trace, node, t) {
  const states = trace.statesAt(node, t);
  if (states.length === 0) {
    const why = trace.states.size === 0
      ? "The trace has no group state of any switch. It is recorded only for groups with the strategies tree and neutral, on v1model switches."
      : "No group on this switch at this time.";
    return [element("p", { className: "faint" }, why), ...ports(trace, node, t)];
  }
  return [...states.flatMap((state) => mft(trace, node, state)), ...ports(trace, node, t)];
}

// A group's row of the Multicast Forwarding Table, and its registers.
function mft(trace, node, { group, paths, feedback }) {
  const leads = (port) => trace.neighbours[node].find((other) => other.port === port);
  const rows = paths.map(({ path, port, ack }) => {
    const to = leads(port);
    const isSource = feedback !== null && feedback.source === port;
    const behind = feedback === null || ack === undefined ? "" : ahead(feedback.sent, ack);
    const texts = [path, port, `${to ? trace.nodes[to.node].name : "?"}${isSource ? " (source)" : ""}`, ack ?? "", behind];
    return { texts, className: feedback !== null && ack === feedback.minimum ? "minimum" : "" };
  });
  const head = ["path", "port", "leads to", "AckPSN", "behind"];
  const parts = [element("h2", {}, `MFT of group ${group}`), table(head, rows, 2)];
  if (feedback !== null) {
    parts.push(facts(
      ["minimum", feedback.minimum],
      ["last acknowledged", `${feedback.last_acked}${feedback.last_acked === feedback.minimum ? "" : ` (${ahead(feedback.minimum, feedback.last_acked)} behind)`}`],
      ["sent by the source", feedback.sent],
      ["source's port", feedback.source ?? "none has sent"],
    ));
    const waits = feedback.nak === undefined ? "No NAK waits." : `A NAK of PSN ${feedback.nak} waits.`;
    parts.push(element("p", { className: feedback.nak === undefined ? "faint" : "nak-text" }, waits));
  }
  return parts;
}

// Counts of frames that a node has sent, by port.
function ports(trace, node, t) {
  const sent = new Map();
  const last = countUntil(trace.frames, t);
  for (let at = 0; at < last; at += 1) {
    const frame = trace.frames[at];
    if (frame.from !== node) continue;
    const counts = sent.get(frame.link) ?? { data: 0, ack: 0, nak: 0, cnp: 0, other: 0, lost: 0 };
    counts[frame.kind] += 1;
    if (frame.lost !== null && frame.lost.t <= t) counts.lost += 1;
    sent.set(frame.link, counts);
  }
  const rows = trace.neighbours[node].map(({ link, node: other, port }) => {
    const counts = sent.get(link) ?? { data: 0, ack: 0, nak: 0, cnp: 0, lost: 0 };
    return { texts: [port, trace.nodes[other].name, counts.data, counts.ack, counts.nak, counts.cnp, counts.lost] };
  });
  return [element("h2", {}, "Frames sent"), table(["port", "to", "data", "ACK", "NAK", "CNP", "lost"], rows, 1)];
}

function aboutHost(trace, node, t) {
  const { ip } = trace.nodes[node];
  const role = trace.header.members[0] === node ? "source" : trace.members.has(node) ? "receiver" : "takes no part";
  const notes = trace.notes.filter((note) => note.n === node && note.t <= t).slice(-12);
  return [
    facts(["address", ip ?? ""], ["role", role]),
    ...ports(trace, node, t),
    element("h2", {}, "Notes"),
    ...notes.map((note) => element("p", {}, `${trace.time(note.t)}: ${note.text}`)),
  ];
}

// Hosts that have reported that they are done.
export function done(trace, t) {
  const hosts = new Set();
  for (const note of trace.notes.slice(0, countUntil(trace.notes, t))) {
    if (/^(done|finished)\b/.test(note.text)) hosts.add(note.n);
  }
  return hosts;
}

// Notes of controller and hosts; a click selects the time.
export function decisions(list, trace, { t, ofController, ofHosts, filter, go }) {
  const words = filter.toLowerCase();
  const all = trace.notes.filter((note) => {
    const node = trace.nodes[note.n];
    const isWanted = node.kind === "controller" ? ofController : ofHosts;
    return isWanted && `${node.name} ${note.text}`.toLowerCase().includes(words);
  });
  const current = countUntil(all, t);
  const first = Math.max(0, Math.min(current - NOTES / 2, all.length - NOTES));
  const shown = all.slice(first, first + NOTES);
  list.replaceChildren(...shown.map((note, row) => {
    const at = first + row;
    const button = element("button", { type: "button" },
      element("time", {}, trace.time(note.t)), element("span", {}, trace.nodes[note.n].name), element("span", {}, note.text));
    button.addEventListener("click", () => go(note.t));
    const item = element("li", { className: at >= current ? "later" : at === current - 1 ? "current" : "" }, button);
    return item;
  }));
  list.querySelector(".current")?.scrollIntoView({ block: "center" });
  return { shown: shown.length, all: all.length };
}
