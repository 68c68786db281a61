// The control-flow graph: parser states, tables, conditions and statements, with the way of the selected packet.

const SVG = "http://www.w3.org/2000/svg";
const LINE = 16;
const PADDING = 7;
const ZOOM = 1.25;

/** Creates an SVG element with attributes and contents. */
function drawn(name, attributes, ...contents) {
  const made = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...contents);
  return made;
}

/** Path of an edge: vertical at each point. */
function pathOf({ from, to, points }) {
  const [[x, y], ...others] = points;
  if (from === to) return `M${x} ${y}C${x + 20} ${y} ${x + 20} ${points[1][1]} ${x} ${points[1][1]}`;
  let path = `M${x} ${y}`;
  let last = [x, y];
  for (const [nextX, nextY] of others) {
    const middle = (last[1] + nextY) / 2;
    path += nextX === last[0] ? `V${nextY}` : `C${last[0]} ${middle} ${nextX} ${middle} ${nextX} ${nextY}`;
    last = [nextX, nextY];
  }
  return path;
}

/** Position of the text of an edge: on its first part, where edges of a node are apart. */
function labelOf({ from, to, points: [[x, y], [nextX, nextY]] }) {
  if (from === to) return [x + 16, (y + nextY) / 2];
  return [x + (nextX - x) * 0.648, y + (nextY - y) * 0.576 + 4];
}

/** Outline of a node: conditions have pointed sides, statements are boxes, the others have round corners. */
function outlineOf({ kind, width, height }) {
  if (kind !== "condition") return drawn("rect", { width, height, rx: { state: 8, end: height / 2, table: 3 }[kind] ?? 0 });
  const tip = 9;
  const middle = height / 2;
  return drawn("path", { d: `M0 0H${width}L${width + tip} ${middle}L${width} ${height}H0L${-tip} ${middle}Z` });
}

/**
 * Creates the view of the graphs. `actions`: `request()` returns the drawings, `light(place)` shows a position of the program,
 * `choose(index)` selects a visit of the packet by its index.
 */
export function createGraph(actions) {
  const at = (id) => document.getElementById(id);
  const box = at("graph");
  let graphs = null;
  let request = null;
  let shown = -1;
  let scale = 1;
  let nodes = [];
  let edges = [];
  let visits = [];
  let current = { visit: null, graph: 0, copies: new Set() };

  const clear = () => {
    graphs = null;
    request = null;
    shown = -1;
    box.replaceChildren();
    at("blocks").replaceChildren();
    at("graph-note").textContent = "";
  };

  const resize = () => {
    const { width, height } = graphs[shown];
    const svg = box.firstChild;
    svg.setAttribute("width", width * scale);
    svg.setAttribute("height", height * scale);
  };
  /** Changes the scale; the point at (x, y) of the box stays. */
  const zoom = (next, x = box.clientWidth / 2, y = box.clientHeight / 2) => {
    if (shown < 0) return;
    const before = scale;
    scale = Math.max(0.05, Math.min(next, 3));
    const left = ((box.scrollLeft + x) * scale) / before - x;
    const top = ((box.scrollTop + y) * scale) / before - y;
    resize();
    box.scrollTo(left, top);
  };
  const fit = () => {
    const { width, height } = graphs[shown];
    zoom(Math.min(1, box.clientWidth / width, box.clientHeight / height));
  };

  /** Moves the keyboard's position to a node. */
  const focus = (index) => {
    for (const [own, node] of nodes.entries()) node.setAttribute("tabindex", own === index ? 0 : -1);
    nodes[index]?.focus({ preventScroll: true });
    scrollTo(index);
  };
  const scrollTo = (index) => {
    const node = graphs[shown].nodes[index];
    const [x, y] = [(node.x + node.width / 2) * scale, (node.y + node.height / 2) * scale];
    const isVisible =
      x > box.scrollLeft + 40 && x < box.scrollLeft + box.clientWidth - 40 && y > box.scrollTop + 30 && y < box.scrollTop + box.clientHeight - 30;
    if (!isVisible) box.scrollTo(x - box.clientWidth / 2, y - box.clientHeight / 2);
  };

  /** Shows where a node is in the program, and its step in the trace if the packet was there. */
  const choose = (index, place) => {
    const ofNode = [...visits.entries()].filter(([, visit]) => visit.graph === shown && visit.node === index);
    const [visit] = ofNode.find(([, { copy }]) => current.copies.has(copy)) ?? ofNode[0] ?? [null];
    if (visit !== null) actions.choose(visit);
    if (place && (visit === null || place !== graphs[shown].nodes[index].place)) actions.light(place);
  };

  const drawNode = (node, index) => {
    const group = drawn("g", { class: `node ${node.kind}`, transform: `translate(${node.x} ${node.y})`, tabindex: -1, role: "button" });
    group.append(outlineOf(node), drawn("title", {}, node.title));
    for (const [number, line] of node.lines.entries()) {
      const y = PADDING + LINE * number;
      const row = drawn("g", { class: line.action === undefined ? "line" : "line action" });
      if (line.action !== undefined) row.append(drawn("rect", { x: 2, y, width: node.width - 4, height: LINE, rx: 2 }));
      row.append(drawn("text", { x: node.width / 2, y: y + 12 }, line.text));
      row.addEventListener("click", (event) => {
        event.stopPropagation();
        choose(index, line.place ?? node.place);
      });
      group.append(row);
    }
    group.addEventListener("click", () => choose(index, node.place));
    group.dataset.index = index;
    return group;
  };
  const drawEdge = (edge) => {
    const [x, y] = labelOf(edge);
    const group = drawn("g", { class: "edge" }, drawn("path", { d: pathOf(edge), "marker-end": "url(#arrow)" }));
    if (edge.label) group.append(drawn("text", { x, y }, drawn("title", {}, edge.title), edge.label));
    return group;
  };

  const draw = (index) => {
    shown = index;
    const graph = graphs[index];
    for (const [number, tab] of [...at("blocks").children].entries()) tab.setAttribute("aria-selected", String(number === index));
    nodes = graph.nodes.map(drawNode);
    edges = graph.edges.map(drawEdge);
    nodes[0].setAttribute("tabindex", 0);
    const arrow = (id) =>
      drawn("marker", { id, viewBox: "0 0 8 8", refX: 7, refY: 4, markerWidth: 8, markerHeight: 8, orient: "auto", markerUnits: "userSpaceOnUse" },
        drawn("path", { d: "M0 0L8 4L0 8Z" }));
    const svg = drawn("svg", { viewBox: `0 0 ${graph.width} ${graph.height}`, role: "group", "aria-label": `control flow of ${graph.name}` });
    svg.append(drawn("defs", {}, arrow("arrow"), arrow("arrow-lit")), drawn("g", {}, ...edges), drawn("g", {}, ...nodes));
    box.replaceChildren(svg);
    scale = Math.max(0.75, Math.min(1, (box.clientWidth - 20) / graph.width));
    resize();
  };

  /** Lights the way of the packet in the graph that is shown. */
  const mark = () => {
    const ways = [new Map(), new Map()];
    const rows = new Set();
    for (const visit of visits) {
      if (visit.graph !== shown) continue;
      const kind = current.copies.has(visit.copy) ? "lit" : "lit-copy";
      for (const [index, key] of [visit.node, visit.edge].entries()) {
        if (key !== undefined && ways[index].get(key) !== "lit") ways[index].set(key, kind);
      }
      if (visit.action !== undefined && kind === "lit") rows.add(`${visit.node}.${visit.action}`);
    }
    const now = current.visit;
    for (const [index, node] of nodes.entries()) {
      const isNow = now?.graph === shown && now.node === index;
      const { kind, title, lines } = graphs[shown].nodes[index];
      node.setAttribute("class", ["node", kind, ways[0].get(index) ?? "", isNow ? "now" : ""].join(" ").trim());
      node.setAttribute("aria-label", `${kind} ${title}${ways[0].has(index) ? ", on the way" : ""}`);
      if (isNow) node.setAttribute("aria-current", "step");
      else node.removeAttribute("aria-current");
      for (const [number, line] of lines.entries()) {
        if (line.action === undefined) continue;
        node.querySelectorAll(".line")[number].classList.toggle("lit", rows.has(`${index}.${line.action}`));
      }
    }
    for (const [index, edge] of edges.entries()) {
      const kind = ways[1].get(index);
      edge.setAttribute("class", kind ? `edge ${kind}` : "edge");
      edge.firstChild.setAttribute("marker-end", kind ? "url(#arrow-lit)" : "url(#arrow)");
      if (kind) edge.parentNode.append(edge);
    }
    if (now?.graph === shown) scrollTo(now.node);
  };

  const load = async () => {
    const own = actions.request();
    request = own;
    let found;
    try {
      found = await own;
    } catch (error) {
      if (request === own) at("graph-note").textContent = error.message;
      return;
    }
    if (request !== own) return;
    graphs = found;
    at("graph-note").textContent = "";
    const tabs = graphs.map((graph, index) => {
      const tab = document.createElement("button");
      tab.textContent = graph.name;
      tab.setAttribute("role", "tab");
      tab.addEventListener("click", () => {
        draw(index);
        mark();
      });
      return tab;
    });
    at("blocks").replaceChildren(...tabs);
    update();
  };

  /** Draws the graph of the current step. */
  const update = () => {
    if (at("graph-view").hidden) return;
    if (!request) load();
    if (!graphs) return;
    if (current.graph !== shown) draw(current.graph);
    mark();
  };

  at("zoom-in").addEventListener("click", () => zoom(scale * ZOOM));
  at("zoom-out").addEventListener("click", () => zoom(scale / ZOOM));
  at("zoom-fit").addEventListener("click", fit);
  box.addEventListener(
    "wheel",
    (event) => {
      if (!event.ctrlKey || shown < 0) return;
      event.preventDefault();
      const { left, top } = box.getBoundingClientRect();
      zoom(scale * Math.exp(-event.deltaY / 400), event.clientX - left, event.clientY - top);
    },
    { passive: false },
  );

  /** The next node from one, in the direction of a key. */
  const neighbour = (index, key) => {
    const graph = graphs[shown];
    const isLit = (other) => nodes[other].classList.contains("lit");
    const follow = (here, there) => {
      const found = graph.edges.filter((edge) => edge[here] === index && edge[there] !== index).map((edge) => edge[there]);
      return found.find(isLit) ?? found[0];
    };
    if (key === "ArrowDown") return follow("from", "to");
    if (key === "ArrowUp") return follow("to", "from");
    const side = key === "ArrowRight" ? 1 : -1;
    const own = graph.nodes[index];
    const row = [...graph.nodes.entries()].filter(([, node]) => node.y === own.y && (node.x - own.x) * side > 0);
    return row.sort(([, a], [, b]) => (a.x - b.x) * side)[0]?.[0];
  };

  return {
    clear,
    /** Shows the ways of another packet. */
    showWay: (way) => {
      visits = way;
    },
    /** Shows a step: `visit` is where the packet is, `graph` the block, `copies` the packet's number with its ancestors'. */
    showStep: (next) => {
      current = next;
      update();
    },
    update,
    /** Handles a key while the view is shown. Returns whether it had a meaning. */
    key(key, target) {
      if (shown < 0) return false;
      const node = target.closest(".node");
      if (node && (key === "Enter" || key === " ")) {
        node.dispatchEvent(new MouseEvent("click", { bubbles: true }));
        return true;
      }
      if (node && key.startsWith("Arrow")) {
        const next = neighbour(Number(node.dataset.index), key);
        if (next !== undefined) focus(next);
        return true;
      }
      const keys = { "+": () => zoom(scale * ZOOM), "-": () => zoom(scale / ZOOM), 0: fit };
      keys[key]?.();
      return key in keys;
    },
  };
}
