// Sequence diagram: frames between the source and one receiver, node by node, around a time.

import { countUntil } from "./trace.js";

const SPACE = "http://www.w3.org/2000/svg";
const ROW = 26;
const ROWS = 80;
const HEAD = 30;
const LEFT = 110;
const RIGHT = 60;
const MIN_GAP = 60;
const MAX_GAP = 260;
// Width of a letter of a label, and room at its ends, in pixels.
const LETTER = 6.8;
const AROUND_LABEL = 18;

// Returns the nodes from a source to a receiver: along the group's tree if there is one, else on the shortest path of links with traffic.
export function pathBetween(trace, source, receiver, t) {
  const tree = trace.treeAt(t);
  const carried = new Set(trace.frames.map((frame) => frame.link));
  const search = (may) => {
    const from = new Map([[source, null]]);
    const queue = [source];
    for (let node = queue.shift(); node !== undefined; node = queue.shift()) {
      if (node === receiver) break;
      for (const { node: other, link } of trace.neighbours[node]) {
        if (may(link) && !from.has(other)) {
          from.set(other, node);
          queue.push(other);
        }
      }
    }
    if (!from.has(receiver)) return null;
    const nodes = [];
    for (let node = receiver; node !== null; node = from.get(node)) nodes.unshift(node);
    return nodes;
  };
  return search((link) => tree.has(link)) ?? search((link) => carried.has(link)) ?? search(() => true) ?? [source, receiver];
}

// Returns the short name of a frame.
export function label(text) {
  const behind = text.replace(/^\S+ > \S+ /, "");
  return behind.replace(/ PsnSequenceError/, "").replace(/ qp \d+/, "").replace(/ \d+ B( ackreq)?$/, "");
}

// Draws into `box`; returns the number of drawn arrows and of all arrows.
export function draw(box, trace, { t, receiver, onlyFeedback }) {
  const nodes = pathBetween(trace, trace.header.members[0], receiver, t);
  const places = new Map(nodes.map((node, at) => [node, at]));
  const isBetween = (frame) => Math.abs((places.get(frame.from) ?? -9) - (places.get(frame.to) ?? 9)) === 1;
  const isWanted = (frame) => isBetween(frame) && (!onlyFeedback || frame.kind !== "data" || frame.lost !== null);
  const all = trace.frames.filter(isWanted);
  // The current time is drawn at a third of the height.
  const current = countUntil(all, t);
  const first = Math.max(0, Math.min(current - Math.floor(ROWS / 3), all.length - ROWS));
  const shown = all.slice(first, first + ROWS);

  // Labels end before the nodes' lines; the diagram scrolls if that makes it wider than its box.
  const labels = shown.map((frame) => label(frame.text) + (frame.lost !== null ? " ×" : ""));
  const widest = labels.reduce((most, text) => Math.max(most, text.length), 0) * LETTER + AROUND_LABEL;
  const gap = Math.max(MIN_GAP, widest, Math.min(MAX_GAP, (box.clientWidth - LEFT - 50 - RIGHT) / Math.max(1, nodes.length - 1)));
  const x = (node) => LEFT + 50 + places.get(node) * gap;
  const y = (row) => 22 + row * ROW;
  const width = LEFT + 50 + RIGHT + (nodes.length - 1) * gap;
  const height = y(shown.length) + 10;
  const svg = make("svg", { width, height, viewBox: `0 0 ${width} ${height}`, role: "img" });
  svg.append(make("title", {}, `from ${trace.nodes[nodes[0]].name} to ${trace.nodes[receiver].name}`));
  const head = make("svg", { class: "names", width, height: HEAD, viewBox: `0 0 ${width} ${HEAD}` });
  for (const node of nodes) {
    svg.append(make("line", { class: "life", x1: x(node), x2: x(node), y1: 0, y2: height }));
    head.append(make("text", { class: "name", x: x(node), y: HEAD - 11 }, trace.nodes[node].name));
  }
  shown.forEach((frame, row) => {
    const [from, to] = [x(frame.from), x(frame.to)];
    const direction = Math.sign(to - from);
    const lost = frame.lost !== null;
    const end = lost ? (from + to) / 2 : to - direction * 2;
    const at = y(row);
    const group = make("g", { class: frame.kind });
    group.append(make("line", { class: `arrow ${frame.kind}`, x1: from, x2: end, y1: at, y2: at }));
    if (lost) {
      for (const slope of [-1, 1]) {
        group.append(make("line", { class: "cross", x1: end - 5, x2: end + 5, y1: at - 5 * slope, y2: at + 5 * slope }));
      }
    } else {
      const back = end - direction * 8;
      group.append(make("path", { class: `head ${frame.kind}`, d: `M${end} ${at}L${back} ${at - 4}L${back} ${at + 4}Z` }));
    }
    group.append(make("title", {}, `${trace.time(frame.t)}: ${frame.text}${lost ? ` (${frame.lost.why})` : ""}`));
    svg.append(group);
    svg.append(make("text", { class: "label", x: (from + to) / 2, y: at - 5 }, labels[row]));
    svg.append(make("text", { class: "at", x: 4, y: at + 4 }, trace.time(frame.t)));
  });
  const line = y(Math.max(0, Math.min(shown.length, current - first)) - 1) + ROW / 2 - 4;
  svg.append(make("line", { class: "now", x1: 0, x2: width, y1: line, y2: line }));
  box.replaceChildren(head, svg);
  box.scrollTop = line - box.clientHeight / 2;
  return { shown: shown.length, all: all.length, lost: shown.filter((frame) => frame.lost !== null).length };
}

function make(name, attributes, text) {
  const element = document.createElementNS(SPACE, name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  if (text !== undefined) element.textContent = text;
  return element;
}
