// A trace: reads the server's lines, and finds events by time.
// The format is that of view/src/trace.rs. Times are nanoseconds.

// Ethernet overhead in bytes: FCS, preamble and gap; and the minimum length of a frame.
const AROUND = 24;
const SHORTEST = 60;
const MODULUS = 1 << 24;

export const wireBytes = (len) => Math.max(len, SHORTEST) + AROUND;

// Signed difference of two PSNs modulo 2^24: -2^23 to 2^23 - 1.
export function ahead(psn, other) {
  const distance = (psn - other + MODULUS) % MODULUS;
  return distance < MODULUS / 2 ? distance : distance - MODULUS;
}

// Returns the number of items whose time is at most `t`; items are sorted by time.
export function countUntil(items, t) {
  let low = 0;
  let high = items.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (items[middle].t <= t) low = middle + 1;
    else high = middle;
  }
  return low;
}

export class Trace {
  constructor() {
    this.header = null;
    this.bytes = 0;
    this.rest = new Uint8Array();
    this.frames = []; // what left a port, in the order of time
    this.drops = []; // what was lost without having left one
    this.losses = []; // times of losses and NAKs
    this.notes = [];
    this.states = new Map(); // by switch and group: what it kept, from a time on
    this.flight = 1; // the longest time that a frame is on a link
    this.end = null;
    this.lastTime = 0;
    this.begin = null;
  }

  // Parses further bytes; an incomplete line is kept for the next call.
  append(bytes) {
    this.bytes += bytes.length;
    const all = new Uint8Array(this.rest.length + bytes.length);
    all.set(this.rest);
    all.set(bytes, this.rest.length);
    const last = all.lastIndexOf(10);
    this.rest = all.slice(last + 1);
    const text = new TextDecoder().decode(all.subarray(0, last + 1));
    let from = 0;
    for (let to = text.indexOf("\n"); to >= 0; to = text.indexOf("\n", from)) {
      if (to > from) this.line(JSON.parse(text.slice(from, to)));
      from = to + 1;
    }
  }

  line(event) {
    if (this.header === null) return this.begins(event);
    this.lastTime = Math.max(this.lastTime, event.t);
    switch (event.e) {
      case "tx":
        return this.sent(event);
      case "lost":
        return this.lost(event);
      case "note":
        this.notes.push(event);
        if (this.begin === null && event.text.startsWith("post ")) this.begin = event.t;
        return;
      case "mft":
        return this.state(event);
      case "end":
        this.end = event;
    }
  }

  begins(header) {
    this.header = header;
    this.nodes = header.nodes;
    this.links = header.links;
    this.ends = new Map(); // by "node:port": link and side
    this.neighbours = header.nodes.map(() => []);
    this.open = new Map(); // frames that may still be lost, by "node:port"
    header.links.forEach((link, number) => {
      link.ends.forEach(([node, port], side) => {
        this.ends.set(`${node}:${port}`, { number, side });
        this.neighbours[node].push({ port, link: number, side, node: link.ends[1 - side][0] });
      });
    });
    this.members = new Set(header.members);
  }

  sent(event) {
    const key = `${event.n}:${event.p}`;
    const { number, side } = this.ends.get(key);
    const link = this.links[number];
    const time = (wireBytes(event.len) * 8e9) / link.rate_bps + link.delay_ns;
    const frame = {
      t: event.t,
      arrives: event.t + time,
      from: event.n,
      to: link.ends[1 - side][0],
      link: number,
      side,
      kind: event.k,
      psn: event.psn,
      len: event.len,
      text: event.text,
      lost: null,
    };
    this.flight = Math.max(this.flight, time);
    this.frames.push(frame);
    if (frame.kind === "nak") this.losses.push(frame);
    const open = this.open.get(key) ?? [];
    while (open.length > 0 && open[0].arrives < event.t) open.shift();
    open.push(frame);
    this.open.set(key, open);
    if (this.begin === null && frame.kind === "data") this.begin = frame.t;
  }

  lost(event) {
    this.losses.push(event);
    const open = this.open.get(`${event.n}:${event.p}`) ?? [];
    const onLink = ["loss", "link-down", "too-long"].includes(event.why);
    const fits = (frame) =>
      frame.lost === null && frame.len === event.len && frame.text === event.text &&
      (frame.t === event.t || (event.why === "link-down" && frame.arrives >= event.t));
    const frame = onLink ? open.find(fits) : undefined;
    if (frame) frame.lost = { t: event.t, why: event.why };
    else this.drops.push({ t: event.t, node: event.n, port: event.p, len: event.len, why: event.why, text: event.text });
  }

  state(event) {
    const groups = this.states.get(event.n) ?? new Map();
    this.states.set(event.n, groups);
    const states = groups.get(event.group) ?? [];
    groups.set(event.group, states);
    const before = states.at(-1);
    const paths = before?.paths.length === event.count ? before.paths.slice() : [];
    for (const path of event.paths) paths[path.path] = path;
    states.push({ t: event.t, group: event.group, paths, feedback: event.feedback ?? null });
  }

  // Returns the time span to show: the transfer only, or with `whole` also set-up and registration.
  range(whole) {
    const begin = whole || this.begin === null ? 0 : this.begin;
    return [begin, Math.max(this.lastTime, begin + 1)];
  }

  // Formats a time as the reports count it: from the post of the source's message; before it with a minus sign.
  time(t) {
    return time(t - (this.begin ?? 0));
  }

  // Returns the frames that are on a link at `t`, or were lost there less than `fade` ns before.
  inFlight(t, fade) {
    const found = [];
    const last = countUntil(this.frames, t);
    const reach = Math.max(this.flight, fade);
    for (let at = last - 1; at >= 0 && this.frames[at].t >= t - reach; at -= 1) {
      const frame = this.frames[at];
      const isLost = frame.lost !== null && frame.lost.t <= t;
      if (isLost ? t - frame.lost.t < fade : frame.arrives > t) found.push(frame);
    }
    return found;
  }

  // Returns the frames that were dropped before transmission less than `fade` ns before `t`.
  dropped(t, fade) {
    const last = countUntil(this.drops, t);
    const found = [];
    for (let at = last - 1; at >= 0 && this.drops[at].t > t - fade; at -= 1) found.push(this.drops[at]);
    return found;
  }

  // Returns the used share of each link's rate in the `window` ns before `t`, in the busier direction.
  loads(t, window) {
    const used = new Map();
    for (let at = countUntil(this.frames, t) - 1; at >= 0 && this.frames[at].t > t - window; at -= 1) {
      const frame = this.frames[at];
      const key = frame.link * 2 + frame.side;
      used.set(key, (used.get(key) ?? 0) + wireBytes(frame.len));
    }
    const loads = new Map();
    for (const [key, bytes] of used) {
      const link = key >> 1;
      const share = Math.min(1, (bytes * 8e9) / (window * this.links[link].rate_bps));
      loads.set(link, Math.max(share, loads.get(link) ?? 0));
    }
    return loads;
  }

  // Returns a switch's state of every group at `t`.
  statesAt(node, t) {
    const groups = this.states.get(node);
    if (!groups) return [];
    const last = [...groups.values()].map((states) => states[countUntil(states, t) - 1]);
    return last.filter((state) => state && state.paths.length > 0);
  }

  // Returns the links of all group trees at `t`.
  treeAt(t) {
    const links = new Set();
    for (const node of this.states.keys()) {
      for (const { paths } of this.statesAt(node, t)) {
        for (const { port } of paths) {
          const end = this.ends.get(`${node}:${port}`);
          if (end) links.add(end.number);
        }
      }
    }
    return links;
  }

  // Returns the time of the next event after `t`, or of the last one before it.
  neighbour(t, forwards) {
    const lists = [this.frames, this.notes, this.drops];
    const times = lists.map((items) => {
      const after = countUntil(items, t);
      if (forwards) return items[after]?.t;
      const before = countUntil(items, t - 1);
      return items[before - 1]?.t;
    });
    const known = times.filter((time) => time !== undefined);
    if (known.length === 0) return t;
    return forwards ? Math.min(...known) : Math.max(...known);
  }

  // Returns the time of the next loss or NAK after `t`, or of the previous one.
  nextLoss(t, forwards) {
    const at = forwards ? countUntil(this.losses, t) : countUntil(this.losses, t - 1) - 1;
    return this.losses[at]?.t ?? t;
  }
}

// Formats a duration in nanoseconds as microseconds with separators.
function time(ns) {
  const text = (ns / 1000).toFixed(3);
  const [whole, part] = text.split(".");
  return `${whole.replace(/\B(?=(\d{3})+$)/g, ",")}.${part} us`;
}
