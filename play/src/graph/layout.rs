//! Layered drawings of graphs: nodes in layers from top to bottom, edges around other nodes.
//!
//! 1. Edges that would close a cycle are turned around (depth-first search).
//! 2. The layer of a node is the length of the longest path to it.
//! 3. An edge that skips layers gets a bend in each. Edges to the same node share their bends, so that they run together.
//! 4. Sweeps order each layer by the mean position of the neighbours; the order with the fewest crossings is kept.
//! 5. Sweeps move nodes to the mean of their neighbours, as near as the distances within a layer allow (isotonic regression).
//!
//! Lengths are in pixels.

use std::collections::BTreeMap;

/// Distance between neighbours in a layer.
const GAP_X: f64 = 22.0;

/// Distance between layers.
const GAP_Y: f64 = 44.0;

/// Width of a bend.
const BEND: f64 = 8.0;

/// Number of sweeps that order layers.
const ORDER_SWEEPS: usize = 12;

/// Number of sweeps that move nodes.
const POSITION_SWEEPS: usize = 24;

/// Distance from the border of the drawing.
const MARGIN: f64 = 16.0;

/// A drawing: positions of nodes and edges.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Layout {
    /// Width of the drawing.
    pub width: f64,
    /// Height of the drawing.
    pub height: f64,
    /// Left upper corner of each node.
    pub nodes: Vec<(f64, f64)>,
    /// Points of each edge, from its first node to its last; vertical at each point.
    pub edges: Vec<Vec<(f64, f64)>>,
}

/// Maximum number of bends.
const MAX_BENDS: usize = 60_000;

/// Draws a graph; `None` if edges skip too many layers. `sizes`: width and height of each node. `edges`: indexes of the two nodes of each edge. `start`: index of the node at
/// the top.
pub(crate) fn layout(
    sizes: &[(f64, f64)],
    edges: &[(usize, usize)],
    start: usize,
) -> Option<Layout> {
    let mut layers = Layers::new(sizes, edges, start)?;
    layers.order();
    layers.place();
    Some(layers.drawing(edges))
}

/// A node, or a bend of edges.
struct Item {
    layer: usize,
    width: f64,
    height: f64,
    /// Centre.
    x: f64,
    up: Vec<usize>,
    down: Vec<usize>,
    is_bend: bool,
}

struct Layers {
    /// The nodes, then the bends.
    items: Vec<Item>,
    /// Items of each layer, from left to right.
    layers: Vec<Vec<usize>>,
    /// Items on the way of each edge, downwards.
    ways: Vec<Vec<usize>>,
    /// Whether each edge leads upwards.
    is_upward: Vec<bool>,
}

impl Layers {
    fn new(sizes: &[(f64, f64)], edges: &[(usize, usize)], start: usize) -> Option<Layers> {
        let count = sizes.len();
        let is_upward = upward(count, edges, start);
        let down = |at: usize| match is_upward[at] {
            true => (edges[at].1, edges[at].0),
            false => edges[at],
        };
        let layer_of = longest_paths(count, (0..edges.len()).map(down));
        let mut items: Vec<Item> = sizes
            .iter()
            .zip(&layer_of)
            .map(|(&(width, height), &layer)| Item {
                layer,
                width,
                height,
                x: 0.0,
                up: Vec::new(),
                down: Vec::new(),
                is_bend: false,
            })
            .collect();
        // Bends by the layer, the end that edges share, and whether they lead upwards.
        let mut bends: BTreeMap<(usize, usize, bool), usize> = BTreeMap::new();
        let mut ways = Vec::new();
        for at in 0..edges.len() {
            let (from, to) = down(at);
            let mut way = vec![from];
            for layer in items[from].layer + 1..items[to].layer {
                let shared = edges[at].1;
                let bend = *bends
                    .entry((layer, shared, is_upward[at]))
                    .or_insert_with(|| {
                        items.push(Item {
                            layer,
                            width: BEND,
                            height: 0.0,
                            x: 0.0,
                            up: Vec::new(),
                            down: Vec::new(),
                            is_bend: true,
                        });
                        items.len() - 1
                    });
                way.push(bend);
            }
            if from != to {
                way.push(to);
            }
            for pair in way.windows(2) {
                if !items[pair[0]].down.contains(&pair[1]) {
                    items[pair[0]].down.push(pair[1]);
                    items[pair[1]].up.push(pair[0]);
                }
            }
            ways.push(way);
            if items.len() > count + MAX_BENDS {
                return None;
            }
        }
        let depth = items.iter().map(|item| item.layer + 1).max().unwrap_or(0);
        let mut layers = vec![Vec::new(); depth];
        // The first order is that of a depth-first search from the top, which keeps branches together.
        let mut is_seen = vec![false; items.len()];
        for root in (0..items.len()).filter(|&item| items[item].up.is_empty()) {
            let mut stack = vec![root];
            while let Some(item) = stack.pop() {
                if !std::mem::replace(&mut is_seen[item], true) {
                    layers[items[item].layer].push(item);
                    stack.extend(items[item].down.iter().rev());
                }
            }
        }
        Some(Layers {
            items,
            layers,
            ways,
            is_upward,
        })
    }

    /// Orders each layer so that few edges cross.
    fn order(&mut self) {
        let mut best = self.layers.clone();
        let mut fewest = self.crossings();
        for sweep in 0..ORDER_SWEEPS {
            let is_downward = sweep % 2 == 0;
            let positions = self.positions();
            let mut position = positions;
            let depth = self.layers.len();
            for step in 1..depth {
                let layer = if is_downward { step } else { depth - 1 - step };
                let items = &self.items;
                let key = |&item: &usize| {
                    let neighbours = match is_downward {
                        true => &items[item].up,
                        false => &items[item].down,
                    };
                    match neighbours.len() {
                        0 => position[item] as f64,
                        count => {
                            let sum: usize = neighbours.iter().map(|&other| position[other]).sum();
                            sum as f64 / count as f64
                        }
                    }
                };
                let row = &self.layers[layer];
                let mut keyed: Vec<(f64, usize)> =
                    row.iter().map(|item| (key(item), *item)).collect();
                keyed.sort_by(|a, b| a.0.total_cmp(&b.0));
                for (at, (_, item)) in keyed.iter().enumerate() {
                    position[*item] = at;
                }
                self.layers[layer] = keyed.into_iter().map(|(_, item)| item).collect();
            }
            let crossings = self.crossings();
            if crossings < fewest {
                fewest = crossings;
                best = self.layers.clone();
            }
        }
        self.layers = best;
    }

    /// Position of each item in its layer.
    fn positions(&self) -> Vec<usize> {
        let mut positions = vec![0; self.items.len()];
        for row in &self.layers {
            for (at, &item) in row.iter().enumerate() {
                positions[item] = at;
            }
        }
        positions
    }

    /// Number of crossings of edges between neighbouring layers.
    fn crossings(&self) -> usize {
        let position = self.positions();
        let mut crossings = 0;
        for pair in self.layers.windows(2) {
            // Inversions of the lower ends, in the order of the upper ones, by a Fenwick tree.
            let mut tree = vec![0usize; pair[1].len() + 1];
            let mut inserted = 0;
            for &item in &pair[0] {
                let mut ends: Vec<usize> = self.items[item]
                    .down
                    .iter()
                    .map(|&to| position[to])
                    .collect();
                ends.sort_unstable();
                for &end in &ends {
                    let mut at = end + 1;
                    let mut not_right = 0;
                    while at > 0 {
                        not_right += tree[at];
                        at &= at - 1;
                    }
                    crossings += inserted - not_right;
                }
                for end in ends {
                    let mut at = end + 1;
                    while at < tree.len() {
                        tree[at] += 1;
                        at += at & at.wrapping_neg();
                    }
                    inserted += 1;
                }
            }
        }
        crossings
    }

    /// Sets the horizontal positions.
    fn place(&mut self) {
        for row in &self.layers {
            let mut x = 0.0;
            for &item in row {
                let item = &mut self.items[item];
                item.x = x + item.width / 2.0;
                x += item.width + GAP_X;
            }
        }
        let depth = self.layers.len();
        for sweep in 0..POSITION_SWEEPS {
            for step in 0..depth {
                let layer = if sweep % 2 == 0 {
                    step
                } else {
                    depth - 1 - step
                };
                self.place_layer(layer, sweep);
            }
        }
    }

    fn place_layer(&mut self, layer: usize, sweep: usize) {
        let row = &self.layers[layer];
        // Distance of each item from the first, if the row is as narrow as it can be.
        let mut offsets = Vec::with_capacity(row.len());
        let mut offset = 0.0;
        for (at, &item) in row.iter().enumerate() {
            if at > 0 {
                let before = &self.items[row[at - 1]];
                let gap = if before.is_bend && self.items[item].is_bend {
                    BEND
                } else {
                    GAP_X
                };
                offset += (before.width + self.items[item].width) / 2.0 + gap;
            }
            offsets.push(offset);
        }
        // The last sweeps use both sides.
        let is_last = sweep + 4 >= POSITION_SWEEPS;
        let wanted = row.iter().zip(&offsets).map(|(&item, offset)| {
            let own = &self.items[item];
            let sides: [&[usize]; 2] = match (is_last, sweep % 2 == 0) {
                (true, _) => [&own.up, &own.down],
                (false, true) => [&own.up, &[]],
                (false, false) => [&own.down, &[]],
            };
            let (mut sum, mut weights) = (0.0, 0.0);
            for &other in sides.into_iter().flatten() {
                let weight = match (own.is_bend, self.items[other].is_bend) {
                    (true, true) => 8.0,
                    (true, false) | (false, true) => 2.0,
                    (false, false) => 1.0,
                };
                sum += weight * self.items[other].x;
                weights += weight;
            }
            let x = if weights > 0.0 { sum / weights } else { own.x };
            let weight = if own.is_bend { 4.0 } else { 1.0 };
            (x - offset, weight)
        });
        let wanted: Vec<(f64, f64)> = wanted.collect();
        let placed = monotone(&wanted);
        for ((&item, x), offset) in self.layers[layer].iter().zip(placed).zip(offsets) {
            self.items[item].x = x + offset;
        }
    }

    fn drawing(self, edges: &[(usize, usize)]) -> Layout {
        let Layers {
            items,
            layers,
            ways,
            is_upward,
        } = self;
        let nodes = items.iter().filter(|item| !item.is_bend).count();
        let left = items.iter().map(|item| item.x - item.width / 2.0);
        let shift = MARGIN - left.fold(f64::INFINITY, f64::min);
        let right = items.iter().map(|item| item.x + item.width / 2.0);
        let width = right.fold(f64::NEG_INFINITY, f64::max) + shift + MARGIN;
        // Upper and lower border of each layer.
        let mut borders = Vec::new();
        let mut y = MARGIN;
        for row in &layers {
            let height = row
                .iter()
                .map(|&item| items[item].height)
                .fold(0.0, f64::max);
            borders.push((y, y + height));
            y += height + GAP_Y;
        }
        let x_of = |item: usize| items[item].x + shift;
        let mut points: Vec<Vec<(f64, f64)>> = Vec::new();
        let ports = ports(&items, &ways);
        for (at, way) in ways.iter().enumerate() {
            let last = way.len() - 1;
            let mut line = Vec::new();
            if last == 0 {
                // From a node to itself: around its right side.
                let node = &items[way[0]];
                let (top, _) = borders[node.layer];
                let x = x_of(way[0]) + node.width / 2.0;
                line.extend([(x, top + node.height * 0.75), (x, top + node.height * 0.25)]);
            } else {
                for (number, &item) in way.iter().enumerate() {
                    let (top, bottom) = borders[items[item].layer];
                    if number == 0 {
                        line.push((x_of(item) + ports[at].0, top + items[item].height));
                    } else if number == last {
                        line.push((x_of(item) + ports[at].1, top));
                    } else {
                        line.extend([(x_of(item), top), (x_of(item), bottom)]);
                    }
                }
            }
            if is_upward[at] && edges[at].0 != edges[at].1 {
                line.reverse();
            }
            line.dedup();
            points.push(line);
        }
        let corner = |item: &Item| (item.x - item.width / 2.0 + shift, borders[item.layer].0);
        Layout {
            width,
            height: y - GAP_Y + MARGIN,
            nodes: items[..nodes].iter().map(corner).collect(),
            edges: points,
        }
    }
}

/// Horizontal distances of the two ends of each edge from the centres of its nodes: edges leave side by side, and arrive together.
fn ports(items: &[Item], ways: &[Vec<usize>]) -> Vec<(f64, f64)> {
    let mut ports = vec![(0.0, 0.0); ways.len()];
    let mut leaving: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    for (at, way) in ways.iter().enumerate() {
        if way.len() > 1 {
            leaving.entry(way[0]).or_default().push(at);
        }
    }
    for (node, mut edges) in leaving {
        edges.sort_by(|&a, &b| items[ways[a][1]].x.total_cmp(&items[ways[b][1]].x));
        let step = (items[node].width * 0.8 / edges.len() as f64).min(40.0);
        let first = -step * (edges.len() as f64 - 1.0) / 2.0;
        for (number, edge) in edges.into_iter().enumerate() {
            ports[edge].0 = first + step * number as f64;
        }
    }
    ports
}

/// Returns for each edge whether a depth-first search finds that it closes a cycle.
fn upward(count: usize, edges: &[(usize, usize)], start: usize) -> Vec<bool> {
    let mut outgoing = vec![Vec::new(); count];
    for (at, &(from, _)) in edges.iter().enumerate() {
        outgoing[from].push(at);
    }
    let mut is_upward = vec![false; edges.len()];
    // 0: not visited, 1: on the path, 2: done.
    let mut state = vec![0u8; count];
    for root in std::iter::once(start).chain(0..count) {
        if root >= count || state[root] != 0 {
            continue;
        }
        state[root] = 1;
        let mut path = vec![(root, 0)];
        while let Some((node, next)) = path.last_mut() {
            match outgoing[*node].get(*next) {
                Some(&edge) => {
                    *next += 1;
                    let to = edges[edge].1;
                    match state[to] {
                        0 => {
                            state[to] = 1;
                            path.push((to, 0));
                        }
                        1 => is_upward[edge] = true,
                        _ => {}
                    }
                }
                None => {
                    state[*node] = 2;
                    path.pop();
                }
            }
        }
    }
    is_upward
}

/// Returns the length of the longest path to each node. The edges have no cycle except from a node to itself.
fn longest_paths(count: usize, edges: impl Iterator<Item = (usize, usize)>) -> Vec<usize> {
    let mut outgoing = vec![Vec::new(); count];
    let mut waiting = vec![0usize; count];
    for (from, to) in edges.filter(|(from, to)| from != to) {
        outgoing[from].push(to);
        waiting[to] += 1;
    }
    let mut length = vec![0; count];
    let mut ready: Vec<usize> = (0..count).filter(|&node| waiting[node] == 0).collect();
    while let Some(node) = ready.pop() {
        for &to in &outgoing[node] {
            length[to] = length[to].max(length[node] + 1);
            waiting[to] -= 1;
            if waiting[to] == 0 {
                ready.push(to);
            }
        }
    }
    length
}

/// Returns the non-decreasing sequence with the smallest weighted sum of squared distances from the wanted values.
fn monotone(wanted: &[(f64, f64)]) -> Vec<f64> {
    // Pools of neighbours: weighted sum, weight, number.
    let mut pools: Vec<(f64, f64, usize)> = Vec::new();
    for &(value, weight) in wanted {
        pools.push((value * weight, weight, 1));
        while let [.., left, right] = pools[..] {
            if left.0 / left.1 <= right.0 / right.1 {
                break;
            }
            pools.pop();
            pools.pop();
            pools.push((left.0 + right.0, left.1 + right.1, left.2 + right.2));
        }
    }
    let values = pools.into_iter();
    values
        .flat_map(|(sum, weight, number)| std::iter::repeat_n(sum / weight, number))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn boxes(count: usize) -> Vec<(f64, f64)> {
        (0..count)
            .map(|at| (60.0 + 20.0 * (at % 4) as f64, 20.0 + 12.0 * (at % 3) as f64))
            .collect()
    }

    /// Checks that nodes do not overlap, that edges end at their nodes, and that straight parts of edges do not cross nodes.
    fn check(sizes: &[(f64, f64)], edges: &[(usize, usize)]) -> Layout {
        let drawn = layout(sizes, edges, 0).unwrap();
        for (a, (&(x, y), &(width, height))) in drawn.nodes.iter().zip(sizes).enumerate() {
            assert!(x >= MARGIN - 0.1 && x + width <= drawn.width && y + height <= drawn.height);
            for (b, (&(other_x, other_y), &size)) in drawn.nodes.iter().zip(sizes).enumerate() {
                let is_apart = x + width < other_x
                    || other_x + size.0 < x
                    || y + height < other_y
                    || other_y + size.1 < y;
                assert!(a == b || is_apart, "nodes {a} and {b} overlap");
            }
        }
        let right = drawn
            .nodes
            .iter()
            .zip(sizes)
            .map(|(at, size)| at.0 + size.0);
        let bends = drawn
            .edges
            .iter()
            .flatten()
            .map(|point| point.0 + BEND / 2.0);
        let right = right.chain(bends).fold(0.0, f64::max);
        assert!((drawn.width - right - MARGIN).abs() < 0.1);
        for (line, &(from, to)) in drawn.edges.iter().zip(edges) {
            for (end, node) in [(line[0], from), (*line.last().unwrap(), to)] {
                let (x, y) = drawn.nodes[node];
                assert!(end.0 >= x && end.0 <= x + sizes[node].0, "{line:?}");
                assert!(end.1 >= y && end.1 <= y + sizes[node].1, "{line:?}");
            }
            let straight = |pair: &&[(f64, f64)]| from != to && pair[0].0 == pair[1].0;
            for pair in line.windows(2).filter(straight) {
                let ends = [pair[0].1, pair[1].1];
                for (&(x, y), &(width, height)) in drawn.nodes.iter().zip(sizes) {
                    let is_inside = |at: f64| at > y && at < y + height;
                    let is_beside = pair[0].0 < x || pair[0].0 > x + width;
                    assert!(is_beside || !ends.into_iter().any(is_inside), "{line:?}");
                }
            }
        }
        drawn
    }

    #[test]
    fn edges_lead_down_except_those_that_close_a_cycle() {
        let edges = [(0, 1), (1, 2), (2, 1), (2, 3), (0, 3), (2, 2)];
        let drawn = check(&boxes(4), &edges);
        let y = |node: usize| drawn.nodes[node].1;
        assert!(y(0) < y(1) && y(1) < y(2) && y(2) < y(3));
        let is_down = |line: &Vec<(f64, f64)>| line[0].1 < line.last().unwrap().1;
        let down: Vec<bool> = drawn.edges.iter().map(is_down).collect();
        assert_eq!(down, [true, true, false, true, true, false]);
    }

    #[test]
    fn a_tree_is_drawn_without_crossings() {
        let edges: Vec<(usize, usize)> = (1..31).map(|node| ((node - 1) / 2, node)).collect();
        let sizes = boxes(31);
        check(&sizes, &edges);
        let mut layers = Layers::new(&sizes, &edges, 0).unwrap();
        layers.order();
        assert_eq!(layers.crossings(), 0);
    }

    #[test]
    fn large_graphs_have_no_overlaps() {
        // A chain of 200 conditions, each with a statement, and every seventh with a way to the end.
        let mut edges = Vec::new();
        for at in 0..200 {
            edges.extend([
                (3 * at, 3 * at + 1),
                (3 * at, 3 * at + 2),
                (3 * at + 1, 3 * at + 3),
            ]);
            edges.push((3 * at + 2, if at % 7 == 0 { 600 } else { 3 * at + 3 }));
        }
        check(&boxes(601), &edges);
    }

    #[test]
    fn monotone_sequences_are_the_nearest() {
        assert_eq!(
            monotone(&[(1.0, 1.0), (3.0, 1.0), (2.0, 1.0)]),
            [1.0, 2.5, 2.5]
        );
        assert_eq!(monotone(&[(4.0, 3.0), (0.0, 1.0)]), [3.0, 3.0]);
    }
}
