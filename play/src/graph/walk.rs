//! The way of a packet through the graphs of its program.
//!
//! Steps of a trace name tables and states, and have the positions of conditions and statements. The same position can be in several
//! nodes, because the compiler inlines calls. So the way is followed from node to node: the next node of a step is the nearest one,
//! along edges from the node before, that matches the step.

use std::collections::{BTreeMap, VecDeque};

use alfirk_bmv2::trace::{PacketTree, Source, TraceEvent};
use alfirk_bmv2_json::SourceInfo;
use alfirk_compiler::bmv2::{Graph, Node, NodeKind};
use serde::Serialize;

/// Passage of a packet through a node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Visit {
    /// Number of the copy; 0 for the received packet.
    pub copy: u32,
    /// Index of the step in the copy's trace.
    pub step: usize,
    /// Index of the state among those of the step, if the node is a state.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub state: Option<usize>,
    /// Index of the graph.
    pub graph: usize,
    /// Index of the node.
    pub node: usize,
    /// Index of the edge by which the packet arrived; `None` for the first node of a block.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub edge: Option<usize>,
    /// Index of the action of the node that was executed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub action: Option<usize>,
}

/// Graphs with the edges of each node.
pub(crate) struct Ways {
    graphs: Vec<Graph>,
    /// For each graph and node, the indexes of the edges that begin there.
    outgoing: Vec<Vec<Vec<usize>>>,
    /// Indexes of graphs by name.
    names: BTreeMap<String, usize>,
}

impl Ways {
    pub fn new(graphs: Vec<Graph>) -> Ways {
        let outgoing = graphs.iter().map(|graph| {
            let mut of_nodes = vec![Vec::new(); graph.nodes.len()];
            for (at, edge) in graph.edges.iter().enumerate() {
                of_nodes[edge.from].push(at);
            }
            of_nodes
        });
        let names = graphs.iter().enumerate();
        Ways {
            outgoing: outgoing.collect(),
            names: names.map(|(at, graph)| (graph.name.clone(), at)).collect(),
            graphs,
        }
    }

    pub fn graphs(&self) -> &[Graph] {
        &self.graphs
    }

    /// Returns the way of a packet and of its copies, and removes the events of blocks, which the way is found by.
    pub fn follow(&self, tree: &mut PacketTree) -> Vec<Visit> {
        let mut visits = Vec::new();
        self.follow_into(tree, &mut visits);
        visits
    }

    fn follow_into(&self, tree: &mut PacketTree, visits: &mut Vec<Visit>) {
        let mut walk = Walk {
            ways: self,
            copy: tree.copy,
            at: None,
            visits,
        };
        let mut kept: usize = 0;
        for event in &tree.steps {
            match event {
                TraceEvent::Block { block, starts } => {
                    // The end of a block belongs to its last step.
                    let step = kept.saturating_sub(1);
                    match starts {
                        true => walk.enter(block),
                        false => walk.leave(step),
                    }
                }
                other => {
                    walk.step(kept, other);
                    kept += 1;
                }
            }
        }
        let is_block = |event: &TraceEvent| matches!(event, TraceEvent::Block { .. });
        tree.steps.retain(|event| !is_block(event));
        for copy in &mut tree.copies {
            self.follow_into(copy, visits);
        }
    }
}

/// Where a packet is in a block.
#[derive(Clone, Copy)]
struct At {
    graph: usize,
    /// The last node, and the results that lead on; `None` before the first node.
    node: Option<usize>,
    /// Edge by which the packet leaves the node; `None` if each is possible.
    leaves_by: Option<usize>,
    /// Whether all states of the parser have been visited.
    is_parsed: bool,
}

/// The way of one copy.
struct Walk<'w> {
    ways: &'w Ways,
    copy: u32,
    at: Option<At>,
    visits: &'w mut Vec<Visit>,
}

impl Walk<'_> {
    fn enter(&mut self, block: &str) {
        // Traces have `ingress parser`, programs for Tofino `ingress_parser`.
        let name = block.replace(' ', "_");
        self.at = self.ways.names.get(&name).map(|&graph| At {
            graph,
            node: None,
            leaves_by: None,
            is_parsed: false,
        });
    }

    /// Ends the block: without an error, the packet has reached the end of the graph.
    fn leave(&mut self, step: usize) {
        let Some(at) = self.at.take() else { return };
        // A parser that ends with an error does not reach `accept`; its steps have arrived there otherwise.
        if !at.is_parsed {
            self.at = Some(at);
            self.advance(step, |node| node.kind == NodeKind::End, None);
            self.at = None;
        }
    }

    fn step(&mut self, step: usize, event: &TraceEvent) {
        let Some(at) = self.at else { return };
        let graph = &self.ways.graphs[at.graph];
        match event {
            TraceEvent::Parsed { states, error, .. } => {
                for (number, name) in states.iter().enumerate() {
                    let is_state = |node: &Node| node.kind == NodeKind::State && node.id == *name;
                    self.advance(step, is_state, Some(number));
                }
                if error.is_none() {
                    self.advance(step, |node| node.kind == NodeKind::End, None);
                }
                if let Some(at) = &mut self.at {
                    at.is_parsed = true;
                }
            }
            TraceEvent::Condition { source, holds } => {
                let is_condition = |node: &Node| {
                    let own = node.source.as_ref();
                    node.kind == NodeKind::Condition && own.is_some_and(|own| is_at(own, source))
                };
                if self.advance(step, is_condition, None) {
                    self.leave_by(&[if *holds { "true" } else { "false" }]);
                }
            }
            TraceEvent::Table {
                table, hit, action, ..
            } if self.advance(step, |node| node.id == *table, None) => {
                let result = if *hit { "hit" } else { "miss" };
                let action = action.as_deref();
                self.leave_by(&[action.unwrap_or(result), result]);
                self.execute(action);
            }
            TraceEvent::Statement { source } => {
                let has_statement = |node: &Node| {
                    let mut all = node.actions.iter().flat_map(|action| &action.statements);
                    all.any(|own| is_at(own, source))
                };
                let is_here = at
                    .node
                    .is_some_and(|node| has_statement(&graph.nodes[node]));
                if !is_here {
                    let is_other =
                        |node: &Node| node.kind == NodeKind::Statements && has_statement(node);
                    if self.advance(step, is_other, None) {
                        self.visits.last_mut().expect("one was added").action = Some(0);
                    }
                }
            }
            _ => {}
        }
    }

    /// Goes on to the nearest node that matches, through others that leave no step. Returns whether there is one.
    fn advance(
        &mut self,
        step: usize,
        matches: impl Fn(&Node) -> bool,
        state: Option<usize>,
    ) -> bool {
        let Some(At {
            graph: index,
            node: from,
            leaves_by,
            ..
        }) = self.at
        else {
            return false;
        };
        let graph = &self.ways.graphs[index];
        // The edge by which each node was reached first, in the order of the distance.
        let mut reached: BTreeMap<usize, Option<usize>> = BTreeMap::new();
        let mut queue = VecDeque::new();
        let start = |node: usize,
                     edge: Option<usize>,
                     queue: &mut VecDeque<usize>,
                     reached: &mut BTreeMap<usize, Option<usize>>| {
            reached.entry(node).or_insert_with(|| {
                queue.push_back(node);
                edge
            });
        };
        match (from, leaves_by) {
            (None, _) => start(graph.start, None, &mut queue, &mut reached),
            (Some(_), Some(edge)) => {
                start(graph.edges[edge].to, Some(edge), &mut queue, &mut reached)
            }
            (Some(node), None) => {
                for &edge in &self.ways.outgoing[index][node] {
                    start(graph.edges[edge].to, Some(edge), &mut queue, &mut reached);
                }
            }
        }
        let mut found = None;
        while let Some(node) = queue.pop_front() {
            if matches(&graph.nodes[node]) {
                found = Some(node);
                break;
            }
            for &edge in &self.ways.outgoing[index][node] {
                start(graph.edges[edge].to, Some(edge), &mut queue, &mut reached);
            }
        }
        let (node, is_connected) = match found {
            Some(node) => (node, true),
            // The trace has steps that the graph has not in this order; show the node at least.
            None => match graph.nodes.iter().position(matches) {
                Some(node) => (node, false),
                None => return false,
            },
        };
        // The way to the node, from its end.
        let mut way = vec![node];
        let mut last = node;
        while let Some(Some(edge)) = reached.get(&last).filter(|_| is_connected) {
            let before = graph.edges[*edge].from;
            if Some(before) == from || way.contains(&before) {
                break;
            }
            way.push(before);
            last = before;
        }
        for &visited in way.iter().rev() {
            let edge = reached.get(&visited).copied().flatten();
            self.visits.push(Visit {
                copy: self.copy,
                step,
                state,
                graph: index,
                node: visited,
                edge: edge.filter(|_| is_connected),
                action: None,
            });
        }
        if let Some(at) = &mut self.at {
            at.node = Some(node);
            at.leaves_by = None;
        }
        true
    }

    /// Sets the edge by which the packet leaves its node: that of the first of these results which the node has.
    fn leave_by(&mut self, results: &[&str]) {
        let Some(at) = &mut self.at else { return };
        let Some(node) = at.node else { return };
        let graph = &self.ways.graphs[at.graph];
        let outgoing = &self.ways.outgoing[at.graph][node];
        let leads = |result: &&str| {
            let has = |edge: &&usize| graph.edges[**edge].results.iter().any(|own| own == result);
            outgoing.iter().find(has).copied()
        };
        at.leaves_by = results.iter().find_map(leads);
    }

    /// Sets the action of the last visit.
    fn execute(&mut self, action: Option<&str>) {
        let Some(visit) = self.visits.last_mut() else {
            return;
        };
        let node = &self.ways.graphs[visit.graph].nodes[visit.node];
        let is_action = |own: &alfirk_compiler::bmv2::NodeAction| Some(own.name.as_str()) == action;
        visit.action = node.actions.iter().position(is_action);
    }
}

/// Whether a position of the JSON is that of a trace.
fn is_at(own: &SourceInfo, source: &Source) -> bool {
    own.line == source.line && own.column + 1 == source.column && own.filename == source.file
}
