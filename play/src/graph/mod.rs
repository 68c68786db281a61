//! Control-flow graphs of a program, drawn for the page.

mod layout;
mod walk;

use alfirk_bmv2_json::SourceInfo;
use alfirk_compiler::bmv2::{Graph, Node, NodeAction, NodeKind};
use serde::Serialize;

use crate::limits;
use crate::run::Place;
use layout::layout;

pub use walk::Visit;
pub(crate) use walk::Ways;

/// Width of a character of a node in pixels, in a monospaced font of 12 pixels.
const CHARACTER: f64 = 7.3;

/// Height of a line of a node in pixels.
const LINE: f64 = 16.0;

/// Distance of the text of a node from its border in pixels.
const PADDING: f64 = 7.0;

/// Maximum length of a line of a node in characters.
const COLUMNS: usize = 36;

/// Maximum number of lines of a condition, or of statements.
const LINES: usize = 4;

/// Maximum length of the text of an edge in characters.
const EDGE_COLUMNS: usize = 20;

/// A drawn control-flow graph of a parser or a pipeline. Lengths are in pixels.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Drawing {
    /// Name of the block.
    pub name: String,
    /// Width of the drawing.
    pub width: f64,
    /// Height of the drawing.
    pub height: f64,
    /// The nodes.
    pub nodes: Vec<DrawnNode>,
    /// The edges.
    pub edges: Vec<DrawnEdge>,
}

/// A node of a drawing.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct DrawnNode {
    /// `state`, `table`, `statements`, `condition` or `end`.
    pub kind: &'static str,
    /// The whole text.
    pub title: String,
    /// The text as it is drawn.
    pub lines: Vec<NodeLine>,
    /// Left border.
    pub x: f64,
    /// Upper border.
    pub y: f64,
    /// Width.
    pub width: f64,
    /// Height.
    pub height: f64,
    /// Position in the source.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub place: Option<Place>,
}

/// A line of a node's text.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct NodeLine {
    /// The text.
    pub text: String,
    /// Index of the table's action whose name the line is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub action: Option<usize>,
    /// Position in the source, if it is not the node's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub place: Option<Place>,
}

/// An edge of a drawing.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct DrawnEdge {
    /// Index of the first node.
    pub from: usize,
    /// Index of the last node.
    pub to: usize,
    /// The text as it is drawn.
    pub label: String,
    /// The whole text, one result per line.
    pub title: String,
    /// Points of the line.
    pub points: Vec<(f64, f64)>,
}

/// Draws graphs.
///
/// # Errors
/// A graph exceeds a limit.
pub(crate) fn draw(graphs: &[Graph]) -> Result<Vec<Drawing>, String> {
    graphs.iter().map(draw_one).collect()
}

fn draw_one(graph: &Graph) -> Result<Drawing, String> {
    let (count, limit) = (graph.nodes.len(), limits::GRAPH_NODES);
    let name = &graph.name;
    if count > limit {
        return Err(format!(
            "the control flow of `{name}` has {count} nodes; the limit is {limit}"
        ));
    }
    let texts: Vec<Vec<NodeLine>> = graph.nodes.iter().map(lines).collect();
    let sizes: Vec<(f64, f64)> = texts.iter().map(|lines| size(lines)).collect();
    let edges: Vec<(usize, usize)> = graph
        .edges
        .iter()
        .map(|edge| (edge.from, edge.to))
        .collect();
    let drawn = layout(&sizes, &edges, graph.start)
        .ok_or_else(|| format!("the control flow of `{name}` is too complex to be drawn"))?;
    let nodes = graph.nodes.iter().zip(texts).zip(sizes).zip(drawn.nodes);
    let nodes = nodes.map(|(((node, lines), (width, height)), (x, y))| DrawnNode {
        kind: match node.kind {
            NodeKind::State => "state",
            NodeKind::Table => "table",
            NodeKind::Statements => "statements",
            NodeKind::Condition => "condition",
            NodeKind::End => "end",
        },
        title: node.label.clone(),
        lines,
        x,
        y,
        width,
        height,
        place: node.source.as_ref().map(place),
    });
    let edges = graph.edges.iter().zip(graph.labels()).zip(drawn.edges);
    let edges = edges.map(|((edge, title), points)| {
        let short: Vec<&str> = title.lines().map(short_name).collect();
        DrawnEdge {
            from: edge.from,
            to: edge.to,
            label: shortened(&short.join(", "), EDGE_COLUMNS),
            title,
            points,
        }
    });
    Ok(Drawing {
        name: name.clone(),
        width: drawn.width,
        height: drawn.height,
        nodes: nodes.collect(),
        edges: edges.collect(),
    })
}

/// The text of a node.
fn lines(node: &Node) -> Vec<NodeLine> {
    let line = |text: String| NodeLine {
        text,
        action: None,
        place: None,
    };
    match node.kind {
        NodeKind::State | NodeKind::End => vec![line(shortened(&node.label, COLUMNS))],
        NodeKind::Condition => wrapped(&node.label).into_iter().map(line).collect(),
        NodeKind::Table => {
            let name = line(shortened(short_name(&node.label), COLUMNS));
            let actions = node.actions.iter().enumerate();
            let actions = actions.map(|(at, action)| NodeLine {
                text: shortened(short_name(&action.name), COLUMNS),
                action: Some(at),
                place: action.source.as_ref().map(place),
            });
            std::iter::once(name).chain(actions).collect()
        }
        NodeKind::Statements => {
            let of_action = |action: &NodeAction| action.statements.clone();
            let all: Vec<SourceInfo> = node.actions.iter().flat_map(of_action).collect();
            if all.is_empty() {
                return vec![line(shortened(&node.label, COLUMNS))];
            }
            let shown = if all.len() > LINES { LINES - 1 } else { LINES };
            let texts = all.iter().take(shown).map(|source| NodeLine {
                text: shortened(&source.source_fragment, COLUMNS),
                action: None,
                place: Some(place(source)),
            });
            let mut lines: Vec<NodeLine> = texts.collect();
            if all.len() > shown {
                lines.push(line(format!("{} more…", all.len() - shown)));
            }
            lines
        }
    }
}

/// Width and height of a node in pixels.
fn size(lines: &[NodeLine]) -> (f64, f64) {
    let columns = lines.iter().map(|line| line.text.chars().count()).max();
    let width = columns.unwrap_or(0) as f64 * CHARACTER;
    let height = lines.len() as f64 * LINE;
    (width + 2.0 * PADDING, height + 2.0 * PADDING)
}

/// The last part of a name with dots; other text as it is.
fn short_name(name: &str) -> &str {
    let is_name = |c: char| c.is_alphanumeric() || matches!(c, '_' | '.' | '$');
    match name.rsplit_once('.') {
        Some((_, last)) if !last.is_empty() && name.chars().all(is_name) => last,
        _ => name,
    }
}

/// Text of at most this number of characters.
fn shortened(text: &str, columns: usize) -> String {
    if text.chars().count() <= columns {
        return text.to_owned();
    }
    let start = text.chars().take(columns - 1);
    start.chain(['…']).collect()
}

/// Lines of a condition, broken at spaces.
fn wrapped(text: &str) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if line.chars().count() + 1 + word.chars().count() <= COLUMNS => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(shortened(word, COLUMNS)),
        }
    }
    if lines.len() > LINES {
        lines.truncate(LINES);
        if let Some(last) = lines.last_mut() {
            *last = format!("{}…", shortened(last, COLUMNS - 1));
        }
    }
    lines
}

pub(crate) fn place(source: &SourceInfo) -> Place {
    Place {
        file: source.filename.clone(),
        line: source.line,
        column: source.column + 1,
    }
}
