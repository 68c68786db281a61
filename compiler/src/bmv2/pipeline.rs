//! Lowers a control's statements to BMv2's graph of tables and conditionals.
//!
//! Statements are processed from the end to the start, each with its successor node. A sequence of statements without a table or a branch
//! becomes one action of a table without a key, as in p4c. Nodes are then numbered in the order of execution.

use std::collections::BTreeMap;

use alfirk_bmv2_json as json;

use super::{action::Actions, expr::Exprs, source_info, table};
use crate::ir::{
    ActionId, Apply, Expr, FlatProgram, Follow, Label, Pipeline, Source, Stmt, StmtKind, TableId,
};
use crate::names::Names;

/// Names of nodes that are not tables of the source, unique in the output.
#[derive(Default)]
pub struct NodeNames {
    conditionals: u64,
    tables: u64,
    action_profiles: u64,
    used: Names,
}

impl NodeNames {
    fn conditional(&mut self) -> (i64, String) {
        let id = self.conditionals;
        self.conditionals += 1;
        (id as i64, format!("node_{}", id + 2))
    }

    fn table(&mut self) -> i64 {
        self.tables += 1;
        self.tables as i64 - 1
    }
}

/// Writes a pipeline.
pub fn emit<'a>(
    program: &'a FlatProgram,
    pipeline: &'a Pipeline,
    id: i64,
    actions: &mut Actions<'a>,
    names: &mut NodeNames,
) -> json::Pipeline {
    if id == 0 {
        names.used.extend(
            program
                .objects
                .tables
                .iter()
                .map(|table| table.meta.name.clone()),
        );
    }
    let mut graph = Graph::default();
    let first = graph.body(&pipeline.body, Next(None));
    graph.part_ways();
    let mut writer = Writer {
        program,
        exprs: Exprs::new(program),
        actions,
        names,
        graph: &graph,
        named: BTreeMap::new(),
        order: Vec::new(),
        tables: Vec::new(),
        conditionals: Vec::new(),
        profiles: Vec::new(),
    };
    let init_table = writer.visit(first);
    writer.write();
    let (tables, conditionals, action_profiles) =
        (writer.tables, writer.conditionals, writer.profiles);
    json::Pipeline {
        name: pipeline.name.to_owned(),
        id,
        source_info: source_info(&pipeline.source),
        init_table,
        tables,
        action_profiles,
        conditionals,
        action_calls: Vec::new(),
    }
}

/// The node that follows, or the end of the pipeline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Next(Option<usize>);

enum Node<'a> {
    /// Statements run by an action of their own.
    Hidden(&'a [Stmt], Next),
    Choice {
        cond: &'a Expr,
        source: &'a Source,
        then: Next,
        other: Next,
    },
    Table {
        table: TableId,
        results: Results,
    },
    /// Placeholder of a loop's start while its body is built.
    Forward(Next),
}

/// The successors of a table.
#[derive(Clone, Debug)]
enum Results {
    /// By hit or miss.
    Hit { hit: Next, miss: Next },
    /// By the action that ran; `other` after any that is not named.
    Action {
        actions: Vec<(ActionId, Next)>,
        other: Next,
    },
}

/// One of several applications of a table.
struct Site<'a> {
    /// Whether the packet came from this application.
    here: &'a Expr,
    source: &'a Source,
    results: Results,
}

#[derive(Default)]
struct Graph<'a> {
    nodes: Vec<Node<'a>>,
    /// Target of a break, by label.
    after: BTreeMap<Label, Next>,
    /// Tables with several applications: their node, and the applications.
    shared: BTreeMap<TableId, (usize, Vec<Site<'a>>)>,
}

impl<'a> Graph<'a> {
    fn add(&mut self, node: Node<'a>) -> Next {
        self.nodes.push(node);
        Next(Some(self.nodes.len() - 1))
    }

    /// Builds the nodes for `body` followed by `next`; returns the first.
    fn body(&mut self, body: &'a [Stmt], mut next: Next) -> Next {
        // Statements up to `end` that are collected for an action.
        let mut end = body.len();
        for (position, stmt) in body.iter().enumerate().rev() {
            if stays_in_action(stmt) {
                continue;
            }
            next = self.run(&body[position + 1..end], next);
            end = position;
            next = self.control(stmt, next);
        }
        self.run(&body[..end], next)
    }

    fn run(&mut self, run: &'a [Stmt], next: Next) -> Next {
        match run {
            [] => next,
            run => self.add(Node::Hidden(run, next)),
        }
    }

    fn control(&mut self, stmt: &'a Stmt, next: Next) -> Next {
        match &stmt.kind {
            StmtKind::If {
                cond, then, other, ..
            } => {
                let then = self.body(then, next);
                let other = self.body(other, next);
                match then == other {
                    true => then,
                    false => self.add(Node::Choice {
                        cond,
                        source: &stmt.source,
                        then,
                        other,
                    }),
                }
            }
            StmtKind::Block { label, body } => {
                self.after.insert(*label, next);
                self.body(body, next)
            }
            StmtKind::Loop { label, body } => {
                let start = self.add(Node::Forward(Next(None)));
                self.after.insert(*label, next);
                let first = self.body(body, start);
                if let Some(forward) = start.0 {
                    self.nodes[forward] = Node::Forward(first);
                }
                first
            }
            StmtKind::Break(label) => self.after.get(label).copied().unwrap_or(Next(None)),
            StmtKind::Exit => Next(None),
            StmtKind::Apply(apply) => self.table(apply, &stmt.source, next),
            // Collected for an action.
            StmtKind::Effect(_) => next,
        }
    }

    fn table(&mut self, apply: &'a Apply, source: &'a Source, next: Next) -> Next {
        let results = match &apply.then {
            Follow::Hit { hit, miss } => {
                let hit = self.body(hit, next);
                let miss = self.body(miss, next);
                Results::Hit { hit, miss }
            }
            Follow::Action { actions, other } => {
                let mut after = Vec::new();
                for (named, body) in actions {
                    let next = self.body(body, next);
                    after.extend(named.iter().map(|action| (*action, next)));
                }
                let other = self.body(other, next);
                Results::Action {
                    actions: after,
                    other,
                }
            }
        };
        let table = apply.table;
        let Some(here) = &apply.site else {
            return self.add(Node::Table { table, results });
        };
        let site = Site {
            here,
            source,
            results: results.clone(),
        };
        if let Some((node, sites)) = self.shared.get_mut(&table) {
            sites.push(site);
            return Next(Some(*node));
        }
        let node = self.add(Node::Table { table, results });
        if let Next(Some(index)) = node {
            self.shared.insert(table, (index, vec![site]));
        }
        node
    }

    /// Adds conditionals after a table with several applications that continue at the one the packet came from.
    fn part_ways(&mut self) {
        for (table, (node, sites)) in std::mem::take(&mut self.shared) {
            let way = |graph: &mut Self, of: &dyn Fn(&Results) -> Next| {
                let mut ways = sites.iter();
                let mut next = ways.next().map_or(Next(None), |site| of(&site.results));
                for site in ways {
                    let then = of(&site.results);
                    if then != next {
                        let (cond, source) = (site.here, site.source);
                        next = graph.add(Node::Choice {
                            cond,
                            source,
                            then,
                            other: next,
                        });
                    }
                }
                next
            };
            let by_action = sites
                .iter()
                .any(|site| matches!(site.results, Results::Action { .. }));
            let results = match by_action {
                false => Results::Hit {
                    hit: way(self, &|results| results.after_hit()),
                    miss: way(self, &|results| results.after_miss()),
                },
                true => {
                    let mut actions: Vec<ActionId> = Vec::new();
                    for site in &sites {
                        if let Results::Action { actions: named, .. } = &site.results {
                            actions.extend(named.iter().map(|(action, _)| *action));
                        }
                    }
                    actions.sort_unstable();
                    actions.dedup();
                    let actions = actions
                        .into_iter()
                        .map(|action| (action, way(self, &|results| results.after(action))))
                        .collect();
                    let other = way(self, &|results| results.after_hit());
                    Results::Action { actions, other }
                }
            };
            self.nodes[node] = Node::Table { table, results };
        }
    }

    /// Resolves placeholders of loop starts.
    fn resolve(&self, mut next: Next) -> Option<usize> {
        let mut steps = 0;
        while let Next(Some(node)) = next {
            match self.nodes[node] {
                // The bound stops at an empty loop body.
                Node::Forward(to) if steps <= self.nodes.len() => next = to,
                Node::Forward(_) => return None,
                _ => return Some(node),
            }
            steps += 1;
        }
        None
    }
}

impl Results {
    fn all(&self) -> Vec<Next> {
        match self {
            Results::Hit { hit, miss } => vec![*hit, *miss],
            Results::Action { actions, other } => actions
                .iter()
                .map(|(_, next)| *next)
                .chain([*other])
                .collect(),
        }
    }

    /// After a hit; by action, after one that is not named.
    fn after_hit(&self) -> Next {
        match self {
            Results::Hit { hit: next, .. } | Results::Action { other: next, .. } => *next,
        }
    }

    fn after_miss(&self) -> Next {
        match self {
            Results::Hit { miss: next, .. } | Results::Action { other: next, .. } => *next,
        }
    }

    fn after(&self, action: ActionId) -> Next {
        match self {
            Results::Hit { hit, .. } => *hit,
            Results::Action { actions, other } => actions
                .iter()
                .find(|(named, _)| *named == action)
                .map_or(*other, |(_, next)| *next),
        }
    }
}

/// Whether a statement becomes part of an action rather than nodes of its own.
fn stays_in_action(stmt: &Stmt) -> bool {
    match &stmt.kind {
        StmtKind::If { inline, .. } => *inline,
        StmtKind::Block { .. }
        | StmtKind::Loop { .. }
        | StmtKind::Break(_)
        | StmtKind::Exit
        | StmtKind::Apply(_) => false,
        StmtKind::Effect(_) => true,
    }
}

struct Writer<'g, 'a, 'o> {
    program: &'a FlatProgram,
    exprs: Exprs<'a>,
    actions: &'o mut Actions<'a>,
    names: &'o mut NodeNames,
    graph: &'g Graph<'a>,
    /// Names of nodes, assigned at the first visit.
    named: BTreeMap<usize, Named>,
    order: Vec<usize>,
    tables: Vec<json::Table>,
    conditionals: Vec<json::Conditional>,
    profiles: Vec<json::ActionProfile>,
}

struct Named {
    name: String,
    id: i64,
    /// The action behind a hidden table.
    action: Option<(i64, String)>,
}

impl<'a> Writer<'_, 'a, '_> {
    /// Names a node and its successors in order of execution; returns the name of the first.
    fn visit(&mut self, next: Next) -> Option<String> {
        let first = self.graph.resolve(next)?;
        // An explicit stack, as long programs would overflow the thread's.
        let mut waiting = vec![first];
        while let Some(node) = waiting.pop() {
            if self.named.contains_key(&node) {
                continue;
            }
            let named = self.name(node);
            self.named.insert(node, named);
            self.order.push(node);
            let mut successors: Vec<Next> = match &self.graph.nodes[node] {
                Node::Hidden(_, next) | Node::Forward(next) => vec![*next],
                Node::Choice { then, other, .. } => vec![*then, *other],
                Node::Table { results, .. } => results.all(),
            };
            successors.reverse();
            waiting.extend(
                successors
                    .into_iter()
                    .filter_map(|next| self.graph.resolve(next)),
            );
        }
        self.named.get(&first).map(|named| named.name.clone())
    }

    fn name(&mut self, node: usize) -> Named {
        match &self.graph.nodes[node] {
            Node::Hidden(body, _) => {
                let action = self.actions.add_hidden(body);
                let name = self.names.used.unique(&format!("tbl_{}", action.1));
                Named {
                    name,
                    id: self.names.table(),
                    action: Some(action),
                }
            }
            Node::Choice { .. } | Node::Forward(_) => {
                let (id, name) = self.names.conditional();
                Named {
                    name,
                    id,
                    action: None,
                }
            }
            Node::Table { table, .. } => {
                let name = self.program.objects.table(*table).meta.name.clone();
                Named {
                    name,
                    id: self.names.table(),
                    action: None,
                }
            }
        }
    }

    fn next(&self, next: Next) -> Option<String> {
        self.graph
            .resolve(next)
            .and_then(|node| self.named.get(&node))
            .map(|named| named.name.clone())
    }

    fn write(&mut self) {
        for node in std::mem::take(&mut self.order) {
            let Some(named) = self.named.get(&node) else {
                continue;
            };
            let (name, id) = (named.name.clone(), named.id);
            match &self.graph.nodes[node] {
                Node::Hidden(body, next) => {
                    let Some(action) = named.action.clone() else {
                        continue;
                    };
                    let source = body.first().map(|stmt| &stmt.source);
                    let next = self.next(*next);
                    self.tables
                        .push(table::hidden(name, id, action, source, next));
                }
                Node::Choice {
                    cond,
                    source,
                    then,
                    other,
                } => {
                    let (true_next, false_next) = (self.next(*then), self.next(*other));
                    self.conditionals.push(json::Conditional {
                        name,
                        id,
                        source_info: source_info(source),
                        expression: self.exprs.expr(cond),
                        true_next,
                        false_next,
                    });
                }
                Node::Table { table, results } => {
                    let next = self.successors(*table, results);
                    self.tables.push(table::emit(self.exprs, *table, id, next));
                    self.profile(*table);
                }
                Node::Forward(_) => {}
            }
        }
    }

    /// What follows a table: by action, or by hit and miss when those differ.
    fn successors(&self, table: TableId, results: &Results) -> table::Successors {
        if let Results::Hit { hit, miss } = results {
            if self.graph.resolve(*hit) != self.graph.resolve(*miss) {
                let (hit, miss) = (self.next(*hit), self.next(*miss));
                return table::Successors {
                    by_name: vec![
                        ("__HIT__".to_owned(), hit),
                        ("__MISS__".to_owned(), miss.clone()),
                    ],
                    base: miss,
                };
            }
        }
        let by_name = (self.program.objects.table(table).actions.iter())
            .map(|reference| {
                let name = self
                    .program
                    .objects
                    .action(reference.action)
                    .meta
                    .name
                    .clone();
                (name, self.next(results.after(reference.action)))
            })
            .collect();
        table::Successors {
            by_name,
            base: self.next(results.after_miss()),
        }
    }

    /// Adds the action profile of a table, once.
    fn profile(&mut self, table: TableId) {
        let Some(id) = self.program.objects.table(table).implementation else {
            return;
        };
        let profile = &self.program.objects.action_profiles[id.index()];
        if self
            .profiles
            .iter()
            .any(|written| written.name == profile.meta.name)
        {
            return;
        }
        let id = self.names.action_profiles as i64;
        self.names.action_profiles += 1;
        self.profiles.push(json::ActionProfile {
            name: profile.meta.name.clone(),
            id,
            source_info: source_info(&profile.meta.source),
            max_size: profile.size,
            selector: profile.selector.as_ref().map(|selector| json::Selector {
                algo: selector.algorithm.name().to_owned(),
                input: selector
                    .inputs
                    .iter()
                    .map(|field| self.exprs.field(*field))
                    .collect(),
            }),
        });
    }
}
