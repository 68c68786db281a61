//! Graphs of the parser and the control flow in the DOT language, for `--graph`.

use std::fmt::Write;

use alfirk_bmv2_json as json;
use json::TransitionOn;

/// A graph of the parser or a pipeline.
pub struct Graph {
    /// Stem of the file name: the name of the block, such as `parser` or `ingress`.
    pub name: String,
    /// The graph in the DOT language.
    pub dot: String,
}

/// The graphs of a program, one for each parser and one for each pipeline.
pub fn graphs(program: &json::BmV2Json) -> Vec<Graph> {
    let parsers = program.parsers.iter().map(parser);
    parsers
        .chain(program.pipelines.iter().map(pipeline))
        .collect()
}

fn parser(parser: &json::Parser) -> Graph {
    let mut dot = Dot::new(&parser.name);
    let end = "accept";
    dot.node(end, end, "doublecircle");
    for state in &parser.parse_states {
        dot.node(&state.name, &state.name, "box");
        for transition in &state.transitions {
            let to = transition.next_state.as_deref().unwrap_or(end);
            let label = match &transition.on {
                TransitionOn::Default if state.transition_key.is_empty() => String::new(),
                TransitionOn::Default => "default".to_owned(),
                TransitionOn::Hexstr { value, mask: None } => value.clone(),
                TransitionOn::Hexstr {
                    value,
                    mask: Some(mask),
                } => format!("{value} &&& {mask}"),
                TransitionOn::ParseVset { name, .. } => name.clone(),
            };
            dot.edge(&state.name, to, &label);
        }
    }
    if let Some(start) = &parser.init_state {
        dot.start(start);
    }
    dot.finish(&parser.name)
}

fn pipeline(pipeline: &json::Pipeline) -> Graph {
    let mut dot = Dot::new(&pipeline.name);
    let end = "end";
    dot.node(end, end, "doublecircle");
    let or_end = |next: &Option<String>| next.clone().unwrap_or_else(|| end.to_owned());
    for table in &pipeline.tables {
        let hidden = table.key.is_empty() && table.name.starts_with("tbl_");
        let shape = if hidden { "box" } else { "box3d" };
        let source = table
            .source_info
            .as_ref()
            .map(|source| source.source_fragment.as_str());
        let label = match (hidden, source) {
            (true, Some(source)) => source,
            _ => &table.name,
        };
        dot.node(&table.name, label, shape);
        // Results with the same successor share an edge.
        let mut edges: Vec<(String, Vec<&str>)> = Vec::new();
        for (result, next) in &table.next_tables {
            let next = or_end(next);
            match edges.iter_mut().find(|(to, _)| *to == next) {
                Some((_, results)) => results.push(result),
                None => edges.push((next, vec![result])),
            }
        }
        let single = edges.len() == 1;
        for (to, results) in edges {
            let results: Vec<&str> = results
                .into_iter()
                .map(|result| match result {
                    "__HIT__" => "hit",
                    "__MISS__" => "miss",
                    other => other,
                })
                .collect();
            let label = if single {
                String::new()
            } else {
                results.join("\\n")
            };
            dot.edge(&table.name, &to, &label);
        }
    }
    for conditional in &pipeline.conditionals {
        let source = conditional
            .source_info
            .as_ref()
            .map(|source| source.source_fragment.as_str());
        dot.node(
            &conditional.name,
            source.unwrap_or(&conditional.name),
            "diamond",
        );
        dot.edge(&conditional.name, &or_end(&conditional.true_next), "true");
        dot.edge(&conditional.name, &or_end(&conditional.false_next), "false");
    }
    dot.start(&or_end(&pipeline.init_table));
    dot.finish(&pipeline.name)
}

/// A graph under construction.
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

    fn finish(mut self, name: &str) -> Graph {
        self.text.push_str("}\n");
        Graph {
            name: name.to_owned(),
            dot: self.text,
        }
    }
}

/// A quoted string of the DOT language. `\n` in the text is kept as a line break.
fn quoted(text: &str) -> String {
    let mut quoted = String::from("\"");
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '"' => quoted.push_str("\\\""),
            '\\' if chars.peek() == Some(&'n') => quoted.push('\\'),
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
        assert_eq!(quoted("hit\\nmiss"), "\"hit\\nmiss\"");
    }

    #[test]
    fn results_with_the_same_successor_share_an_edge() {
        let next = |name: &str, to: Option<&str>| (name.to_owned(), to.map(str::to_owned));
        let table = json::Table {
            name: "t".to_owned(),
            next_tables: vec![next("a", Some("u")), next("b", Some("u")), next("c", None)],
            ..json::Table::default()
        };
        let graph = pipeline(&json::Pipeline {
            name: "ingress".to_owned(),
            init_table: Some("t".to_owned()),
            tables: vec![table],
            ..json::Pipeline::default()
        });
        assert!(
            graph.dot.contains("\"t\" -> \"u\" [label=\"a\\nb\"];"),
            "{}",
            graph.dot
        );
        assert!(
            graph.dot.contains("\"t\" -> \"end\" [label=\"c\"];"),
            "{}",
            graph.dot
        );
        assert!(graph.dot.contains("\"\" -> \"t\";"), "{}", graph.dot);
    }
}
