// Positions of nodes: in layers, hosts at the bottom, each switch above its neighbours nearer to hosts.

// Returns each node's position, with coordinates from 0 to 1; the controller has no position.
export function layout(trace) {
  const layers = layersOf(trace);
  const places = trace.nodes.map(() => null);
  const rows = [];
  layers.forEach((layer, node) => {
    if (layer !== null) (rows[layer] ??= []).push(node);
  });
  const used = rows.filter(Boolean);
  used.forEach((row, level) => {
    const wanted = new Map(row.map((node) => [node, wantedAt(trace, layers, places, node)]));
    if (level === 0) row.sort((a, b) => uplink(trace, a) - uplink(trace, b) || a - b);
    else row.sort((a, b) => wanted.get(a) - wanted.get(b) || a - b);
    row.forEach((node, at) => {
      const x = (at + 0.5) / row.length;
      const y = used.length === 1 ? 0.5 : 1 - level / (used.length - 1);
      places[node] = { x, y, level, gap: 1 / row.length };
    });
  });
  return places;
}

// Number of hops to the nearest host; 0 for hosts.
function layersOf(trace) {
  const layers = trace.nodes.map((node) => (node.kind === "host" ? 0 : null));
  let edge = trace.nodes.map((_, at) => at).filter((at) => layers[at] === 0);
  for (let layer = 1; edge.length > 0; layer += 1) {
    const next = [];
    for (const node of edge) {
      for (const { node: other } of trace.neighbours[node]) {
        if (layers[other] === null) {
          layers[other] = layer;
          next.push(other);
        }
      }
    }
    edge = next;
  }
  return layers;
}

const uplink = (trace, host) => trace.neighbours[host][0]?.node ?? 0;

// Preferred horizontal position: centred above the node's neighbours in the layer below.
function wantedAt(trace, layers, places, node) {
  const below = trace.neighbours[node].filter(({ node: other }) => layers[other] < layers[node]);
  const xs = below.map(({ node: other }) => places[other]?.x ?? 0.5);
  return xs.length === 0 ? 0.5 : xs.reduce((sum, x) => sum + x, 0) / xs.length;
}
