// The fabric view: nodes in layers, links with their load, the group's tree, and frames in flight.

import { layout } from "./layout.js";

// Height of a line of text in pixels.
const LINE = 12;
const MARGIN = { left: 34, right: 34, top: 34, bottom: 40 };

export class FabricView {
  constructor(canvas) {
    this.canvas = canvas;
    this.trace = null;
    this.hovered = null;
  }

  show(trace) {
    this.trace = trace;
    this.places = layout(trace);
    this.hovered = null;
  }

  // Resizes the canvas to its element.
  resize() {
    const { clientWidth: width, clientHeight: height } = this.canvas;
    const scale = window.devicePixelRatio || 1;
    if (this.canvas.width !== Math.round(width * scale) || this.canvas.height !== Math.round(height * scale)) {
      this.canvas.width = Math.round(width * scale);
      this.canvas.height = Math.round(height * scale);
    }
    this.size = { width, height, scale };
  }

  at(node) {
    const { width, height } = this.size;
    const place = this.places[node];
    return {
      x: MARGIN.left + place.x * (width - MARGIN.left - MARGIN.right),
      y: MARGIN.top + place.y * (height - MARGIN.top - MARGIN.bottom),
    };
  }

  // Returns the node near a point of the canvas.
  nodeAt(x, y) {
    let best = null;
    let distance = 16;
    this.places.forEach((place, node) => {
      if (place === null) return;
      const at = this.at(node);
      const away = Math.hypot(at.x - x, at.y - y);
      if (away < distance) [best, distance] = [node, away];
    });
    return best;
  }

  draw({ t, window: load, chosen, done }) {
    this.resize();
    const { trace, size } = this;
    const colours = palette();
    const context = this.canvas.getContext("2d");
    context.setTransform(size.scale, 0, 0, size.scale, 0, 0);
    context.clearRect(0, 0, size.width, size.height);
    if (trace === null) return { shown: 0 };
    const room = (node) => this.places[node].gap * (size.width - MARGIN.left - MARGIN.right);
    const points = trace.nodes.map((_, node) => (this.places[node] === null ? null : this.at(node)));
    const loads = trace.loads(t, load);

    const tree = trace.treeAt(t);

    // Links are thinner in fabrics whose hosts are drawn close together.
    const thin = Math.min(1, Math.max(0.3, this.places.reduce((least, place) => Math.min(least, place?.gap ?? 1), 1) * size.width / 30));
    context.lineCap = "round";
    trace.links.forEach((link, number) => {
      const [a, b] = link.ends.map(([node]) => points[node]);
      if (tree.has(number)) line(context, a, b, colours.tree, 7 * thin);
    });
    trace.links.forEach((link, number) => {
      const [a, b] = link.ends.map(([node]) => points[node]);
      const used = loads.get(number) ?? 0;
      line(context, a, b, colours.line, 1);
      if (used > 0) {
        context.globalAlpha = 0.35 + 0.65 * used;
        line(context, a, b, colours.load, 0.5 + 3.5 * used * thin);
        context.globalAlpha = 1;
      }
    });

    const frames = trace.inFlight(t, load);
    const radius = trace.nodes.length > 100 ? 2.6 : 3.8;
    for (const frame of frames) this.frame(context, colours, points, frame, t, radius);
    for (const drop of trace.dropped(t, load)) cross(context, beside(points[drop.node]), colours.lost);

    context.font = '12px system-ui, "DejaVu Sans", sans-serif';
    context.textAlign = "center";
    trace.nodes.forEach((node, number) => {
      const at = points[number];
      if (at === null) return;
      const isHost = node.kind === "host";
      const isMember = trace.members.has(number);
      context.beginPath();
      const wide = Math.min(isHost ? 9 : 14, Math.max(3, room(number) * 0.36));
      if (isHost) context.arc(at.x, at.y, wide, 0, 2 * Math.PI);
      else context.roundRect(at.x - wide, at.y - wide * 0.7, wide * 2, wide * 1.4, 3);
      const waits = trace.statesAt(number, t).some((state) => state.feedback?.nak !== undefined);
      context.fillStyle = waits ? colours.nak : isHost && done.has(number) ? colours.done : isMember ? colours.member : colours.raised;
      context.fill();
      context.lineWidth = number === chosen ? 3 : 1.3;
      context.strokeStyle = number === chosen ? colours.chosen : colours.text;
      context.stroke();
      if (number === trace.header.members[0]) {
        context.beginPath();
        context.arc(at.x, at.y, wide + 3.5, 0, 2 * Math.PI);
        context.stroke();
      }
      const isLabelled = number === chosen || number === this.hovered;
      const fits = context.measureText(node.name).width + 5 < room(number);
      if (isHost && !fits && !isLabelled && room(number) >= LINE) {
        upright(context, colours, node.name, at.x, at.y + wide + 5);
      } else if (isLabelled || fits) {
        const y = isHost ? at.y + wide + 17 : at.y - wide * 0.7 - 6;
        if (isLabelled) {
          const width = context.measureText(node.name).width + 8;
          context.fillStyle = colours.raised;
          context.fillRect(at.x - width / 2, y - 12, width, 16);
        }
        // Keep links from crossing node names.
        context.strokeStyle = colours.back;
        context.lineWidth = 4;
        if (!isLabelled) context.strokeText(node.name, at.x, y);
        context.fillStyle = colours.text;
        context.fillText(node.name, at.x, y);
      }
    });
    return { shown: frames.length };
  }

  frame(context, colours, points, frame, t, radius) {
    const [from, to] = [points[frame.from], points[frame.to]];
    const isLost = frame.lost !== null && frame.lost.t <= t;
    // A lost frame is drawn up to the middle of its link.
    const until = frame.lost === null ? t : Math.min(t, frame.lost.t);
    const position = frame.lost?.why === "loss" ? 0.5 : (until - frame.t) / (frame.arrives - frame.t);
    const length = Math.hypot(to.x - from.x, to.y - from.y) || 1;
    // The two directions are drawn on opposite sides of the link.
    const aside = { x: (-(to.y - from.y) / length) * 3, y: ((to.x - from.x) / length) * 3 };
    const at = { x: from.x + (to.x - from.x) * position + aside.x, y: from.y + (to.y - from.y) * position + aside.y };
    if (isLost) return cross(context, at, colours.lost);
    context.fillStyle = colours[frame.kind];
    context.beginPath();
    if (frame.kind === "data") context.rect(at.x - radius, at.y - radius, radius * 2, radius * 2);
    else context.arc(at.x, at.y, radius, 0, 2 * Math.PI);
    context.fill();
  }
}

const NAMES = ["back", "raised", "text", "faint", "line", "tree", "member", "done", "data", "ack", "nak", "cnp", "other", "lost", "load", "chosen"];

export function palette() {
  const style = getComputedStyle(document.documentElement);
  return Object.fromEntries(NAMES.map((name) => [name, style.getPropertyValue(`--${name}`).trim()]));
}

// Writes a name downwards, for hosts that are closer to each other than a name is long.
function upright(context, colours, name, x, y) {
  context.save();
  context.translate(x, y);
  context.rotate(Math.PI / 2);
  context.textAlign = "left";
  context.textBaseline = "middle";
  context.fillStyle = colours.text;
  context.fillText(name, 0, 0);
  context.restore();
}

function line(context, a, b, colour, width) {
  context.strokeStyle = colour;
  context.lineWidth = width;
  context.beginPath();
  context.moveTo(a.x, a.y);
  context.lineTo(b.x, b.y);
  context.stroke();
}

function cross(context, at, colour) {
  context.strokeStyle = colour;
  context.lineWidth = 2.5;
  context.beginPath();
  for (const [dx, dy] of [[-5, -5], [-5, 5]]) {
    context.moveTo(at.x + dx, at.y + dy);
    context.lineTo(at.x - dx, at.y - dy);
  }
  context.stroke();
}

const beside = (at) => ({ x: at.x + 16, y: at.y - 14 });
