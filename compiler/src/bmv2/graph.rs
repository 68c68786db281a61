//! Graphs of the parser and the control flow: as data, and in the DOT language for `--graph`.

use std::collections::BTreeMap;
use std::fmt::Write;

use alfirk_bmv2_json as json;
use json::{SourceInfo, TransitionOn};

/// The control flow of a parser or a pipeline.
#[derive(Clone, Debug, PartialEq)]
pub struct Graph {
    /// Name of the block, such as `parser` or `ingress`.
    pub name: String,
    /// The nodes. One is of the kind [`NodeKind::End`].
    pub nodes: Vec<Node>,
    /// The edges. There is one at most from a node to another.
    pub edges: Vec<Edge>,
    /// Index of the first node.
    pub start: usize,
}

/// A node of a [`Graph`].
#[derive(Clone, Debug, PartialEq)]
pub struct Node {
    /// Name of the state, table or conditional in the JSON, unique in the graph.
    pub id: String,
    /// Kind of the node.
    pub kind: NodeKind,
    /// Text for people: the name, or the source of a condition or a statement.
    pub label: String,
    /// Position in the P4 source.
    pub source: Option<SourceInfo>,
    /// Actions of a table or of statements.
    pub actions: Vec<NodeAction>,
}

/// Kinds of nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NodeKind {
    /// A state of a parser.
    State,
    /// A table of the program.
    Table,
    /// Statements outside of actions, for which the compiler has made a table without a key.
    Statements,
    /// The condition of an `if` statement.
    Condition,
    /// End of the block.
    End,
}

/// An action of a [`Node`].
#[derive(Clone, Debug, PartialEq)]
pub struct NodeAction {
    /// Name in the JSON.
    pub name: String,
    /// Position of the declaration.
    pub source: Option<SourceInfo>,
    /// Positions of the statements, each once.
    pub statements: Vec<SourceInfo>,
}

/// An edge of a [`Graph`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Edge {
    /// Index of the node at which the edge begins.
    pub from: usize,
    /// Index of the node at which it ends.
    pub to: usize,
    /// Results that lead along the edge: cases of a `select`, `true` or `false`, names of actions, `hit` or `miss`. Empty for the
    /// transition of a state without a `select`.
    pub results: Vec<String>,
}

/// The graphs of a program, one for each parser and one for each pipeline.
pub fn graphs(program: &json::BmV2Json) -> Vec<Graph> {
    let actions = program.actions.iter().map(|action| (action.id, action));
    let actions: BTreeMap<i64, &json::Action> = actions.collect();
    let parsers = program.parsers.iter().map(parser);
    let pipelines = program.pipelines.iter();
    parsers
        .chain(pipelines.map(|one| pipeline(one, &actions)))
        .collect()
}

fn parser(parser: &json::Parser) -> Graph {
    let mut graph = Builder::new(&parser.name, "accept");
    for state in &parser.parse_states {
        graph.node(Node {
            id: state.name.clone(),
            kind: NodeKind::State,
            label: state.name.clone(),
            source: state.source_info.clone(),
            actions: Vec::new(),
        });
    }
    for state in &parser.parse_states {
        for transition in &state.transitions {
            let result = match &transition.on {
                TransitionOn::Default if state.transition_key.is_empty() => None,
                TransitionOn::Default => Some("default".to_owned()),
                TransitionOn::Hexstr { value, mask: None } => Some(value.clone()),
                TransitionOn::Hexstr {
                    value,
                    mask: Some(mask),
                } => Some(format!("{value} &&& {mask}")),
                TransitionOn::ParseVset { name, .. } => Some(name.clone()),
            };
            graph.edge(&state.name, transition.next_state.as_deref(), result);
        }
    }
    graph.finish(parser.init_state.as_deref())
}

fn pipeline(pipeline: &json::Pipeline, actions: &BTreeMap<i64, &json::Action>) -> Graph {
    let mut graph = Builder::new(&pipeline.name, "end");
    for table in &pipeline.tables {
        let is_hidden = table.key.is_empty() && table.name.starts_with("tbl_");
        let source = table.source_info.as_ref();
        let own = table.action_ids.iter().filter_map(|id| actions.get(id));
        graph.node(Node {
            id: table.name.clone(),
            kind: match is_hidden {
                true => NodeKind::Statements,
                false => NodeKind::Table,
            },
            label: match source {
                Some(source) if is_hidden => source.source_fragment.clone(),
                _ => table.name.clone(),
            },
            source: source.cloned(),
            actions: own.map(|action| node_action(action)).collect(),
        });
    }
    for conditional in &pipeline.conditionals {
        let source = conditional.source_info.as_ref();
        let text = source.map_or(&conditional.name, |source| &source.source_fragment);
        graph.node(Node {
            id: conditional.name.clone(),
            kind: NodeKind::Condition,
            label: text.clone(),
            source: source.cloned(),
            actions: Vec::new(),
        });
    }
    for table in &pipeline.tables {
        for (result, next) in &table.next_tables {
            let result = match result.as_str() {
                "__HIT__" => "hit",
                "__MISS__" => "miss",
                other => other,
            };
            graph.edge(&table.name, next.as_deref(), Some(result.to_owned()));
        }
    }
    for conditional in &pipeline.conditionals {
        let nexts = [&conditional.true_next, &conditional.false_next];
        for (next, result) in nexts.into_iter().zip(["true", "false"]) {
            graph.edge(&conditional.name, next.as_deref(), Some(result.to_owned()));
        }
    }
    graph.finish(pipeline.init_table.as_deref())
}

fn node_action(action: &json::Action) -> NodeAction {
    let mut statements: Vec<SourceInfo> = Vec::new();
    let all = action.primitives.iter();
    for source in all.filter_map(|primitive| primitive.source_info.as_ref()) {
        if !statements.contains(source) {
            statements.push(source.clone());
        }
    }
    NodeAction {
        name: action.name.clone(),
        source: action.source_info.clone(),
        statements,
    }
}

/// A graph under construction.
struct Builder {
    graph: Graph,
    /// Indexes of nodes by id.
    index: BTreeMap<String, usize>,
    /// Indexes of edges by their ends.
    edges: BTreeMap<(usize, usize), usize>,
}

impl Builder {
    /// Begins a graph of the end alone.
    fn new(name: &str, end: &str) -> Builder {
        let end = Node {
            id: end.to_owned(),
            kind: NodeKind::End,
            label: end.to_owned(),
            source: None,
            actions: Vec::new(),
        };
        Builder {
            graph: Graph {
                name: name.to_owned(),
                nodes: vec![end],
                edges: Vec::new(),
                start: 0,
            },
            index: BTreeMap::new(),
            edges: BTreeMap::new(),
        }
    }

    fn node(&mut self, node: Node) {
        self.index.insert(node.id.clone(), self.graph.nodes.len());
        self.graph.nodes.push(node);
    }

    /// Index of a node; of the end for `None`.
    fn find(&self, id: Option<&str>) -> usize {
        id.and_then(|id| self.index.get(id)).copied().unwrap_or(0)
    }

    /// Adds a result that leads from one node to another: to the end for `None`. Results with the same ends share an edge.
    fn edge(&mut self, from: &str, to: Option<&str>, result: Option<String>) {
        let (from, to) = (self.find(Some(from)), self.find(to));
        let edges = &mut self.graph.edges;
        let at = *self.edges.entry((from, to)).or_insert_with(|| {
            let results = Vec::new();
            edges.push(Edge { from, to, results });
            edges.len() - 1
        });
        edges[at].results.extend(result);
    }

    fn finish(mut self, first: Option<&str>) -> Graph {
        self.graph.start = self.find(first);
        self.graph
    }
}

impl Graph {
    /// The text of each edge: its results, one per line; empty for the only edge of a node.
    pub fn labels(&self) -> Vec<String> {
        let mut counts = vec![0; self.nodes.len()];
        for edge in &self.edges {
            counts[edge.from] += 1;
        }
        let label = |edge: &Edge| match counts[edge.from] {
            1 => String::new(),
            _ => edge.results.join("\n"),
        };
        self.edges.iter().map(label).collect()
    }

    /// The graph in the DOT language.
    pub fn dot(&self) -> String {
        let mut dot = Dot::new(&self.name);
        for node in &self.nodes {
            let shape = match node.kind {
                NodeKind::State | NodeKind::Statements => "box",
                NodeKind::Table => "box3d",
                NodeKind::Condition => "diamond",
                NodeKind::End => "doublecircle",
            };
            dot.node(&node.id, &node.label, shape);
        }
        for (edge, label) in self.edges.iter().zip(self.labels()) {
            let ids = [edge.from, edge.to].map(|node| self.nodes[node].id.as_str());
            dot.edge(ids[0], ids[1], &label);
        }
        dot.start(&self.nodes[self.start].id);
        dot.finish()
    }
}

/// Text of a graph under construction.
struct Dot {
    text: String,
}

impl Dot {
    fn new(name: &str) -> Dot {
        let mut dot = Dot {
            text: format!("digraph {} {{\n", quoted(name)),
        };
        dot.line("node [fontname=\"sans-serif\", fontsize=10];");
        dot.line("edge [fontname=\"sans-serif\", fontsize=9];");
        dot
    }

    fn line(&mut self, line: &str) {
        self.text.push_str("  ");
        self.text.push_str(line);
        self.text.push('\n');
    }

    fn node(&mut self, id: &str, label: &str, shape: &str) {
        self.line(&format!(
            "{} [label={}, shape={shape}];",
            quoted(id),
            quoted(label)
        ));
    }

    fn edge(&mut self, from: &str, to: &str, label: &str) {
        let mut line = format!("{} -> {}", quoted(from), quoted(to));
        if !label.is_empty() {
            let _ = write!(line, " [label={}]", quoted(label));
        }
        line.push(';');
        self.line(&line);
    }

    fn start(&mut self, first: &str) {
        self.line("\"\" [shape=point];");
        self.edge("", first, "");
    }

    fn finish(mut self) -> String {
        self.text.push_str("}\n");
        self.text
    }
}

/// A quoted string of the DOT language.
fn quoted(text: &str) -> String {
    let mut quoted = String::from("\"");
    for c in text.chars() {
        match c {
            '"' => quoted.push_str("\\\""),
            '\n' => quoted.push_str("\\n"),
            '\\' => quoted.push_str("\\\\"),
            c => quoted.push(c),
        }
    }
    quoted.push('"');
    quoted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotes_and_backslashes_are_escaped() {
        assert_eq!(quoted("a \"b\" \\c"), "\"a \\\"b\\\" \\\\c\"");
        assert_eq!(quoted("hit\nmiss"), "\"hit\\nmiss\"");
    }

    #[test]
    fn results_with_the_same_successor_share_an_edge() {
        let next = |name: &str, to: Option<&str>| (name.to_owned(), to.map(str::to_owned));
        let table = json::Table {
            name: "t".to_owned(),
            next_tables: vec![next("a", Some("u")), next("b", Some("u")), next("c", None)],
            ..json::Table::default()
        };
        let pipeline_of_table = json::Pipeline {
            name: "ingress".to_owned(),
            init_table: Some("t".to_owned()),
            tables: vec![
                table,
                json::Table {
                    name: "u".to_owned(),
                    ..json::Table::default()
                },
            ],
            ..json::Pipeline::default()
        };
        let graph = pipeline(&pipeline_of_table, &BTreeMap::new());
        let dot = graph.dot();
        assert!(dot.contains("\"t\" -> \"u\" [label=\"a\\nb\"];"), "{dot}");
        assert!(dot.contains("\"t\" -> \"end\" [label=\"c\"];"), "{dot}");
        assert!(dot.contains("\"\" -> \"t\";"), "{dot}");
    }
}
