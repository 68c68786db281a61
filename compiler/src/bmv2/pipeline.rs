//! Lowers the statements of a control to BMv2's graph of tables and conditionals.
//!
//! Statements are processed from the end to the start, so that the successor node of each is known. A sequence of statements without a table
//! or a branch becomes one action of a table without a key, as in p4c. Nodes are then numbered in the order of execution.

use std::collections::BTreeMap;

use alfirk_bmv2_json as json;

use super::{action::Actions, expr::Exprs, source_info, table};
use crate::diag::fault;
use crate::ir::{
    ActionId, Apply, Expr, FlatProgram, Follow, Label, Pipeline, Source, Stmt, StmtKind, TableId,
};
use crate::names::Names;

/// Allocates names and ids of nodes, unique in the output.
#[derive(Default)]
pub struct NodeNames {
    /// Number of conditionals so far.
    conditionals: u64,
    /// Number of tables so far.
    tables: u64,
    /// Number of action profiles so far.
    action_profiles: u64,
    /// Used names of tables.
    used: Names,
}

impl NodeNames {
    /// The id and the name of a new conditional.
    fn conditional(&mut self) -> (i64, String) {
        let id = self.conditionals;
        self.conditionals += 1;
        (id as i64, format!("node_{}", id + 2))
    }

    /// The id of a new table.
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
    graph.branch_to_sites();
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

/// A successor: the position of a node in [`Graph::nodes`], or `None` for the end of the pipeline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Next(Option<usize>);

/// A node of the control-flow graph.
enum Node<'a> {
    /// A generated table without a key, whose action runs the statements.
    Hidden(&'a [Stmt], Next),
    /// A conditional.
    Branch {
        cond: &'a Expr,
        source: &'a Source,
        then: Next,
        other: Next,
    },
    /// A table of the program.
    Table {
        table: TableId,
        results: TableSuccessors,
    },
    /// The start of a loop: a placeholder for the first node of its body, which is built later.
    Forward(Next),
}

/// The successors of a table.
#[derive(Clone, Debug)]
enum TableSuccessors {
    /// The successor depends on hit or miss.
    Hit { hit: Next, miss: Next },
    /// The successor depends on the executed action; `other` follows all actions that are not listed.
    Action {
        actions: Vec<(ActionId, Next)>,
        other: Next,
    },
}

/// One of several applications of a table.
struct Site<'a> {
    /// A condition that is true if this application executed the table.
    here: &'a Expr,
    source: &'a Source,
    results: TableSuccessors,
}

/// The control-flow graph of a pipeline.
#[derive(Default)]
struct Graph<'a> {
    nodes: Vec<Node<'a>>,
    /// For each enclosing block or loop, the node after it, to which its breaks lead.
    after: BTreeMap<Label, Next>,
    /// Tables with several applications, each with its node and its applications.
    shared: BTreeMap<TableId, (usize, Vec<Site<'a>>)>,
}

impl<'a> Graph<'a> {
    /// Adds a node.
    fn add(&mut self, node: Node<'a>) -> Next {
        self.nodes.push(node);
        Next(Some(self.nodes.len() - 1))
    }

    /// Builds the nodes of `body`, whose successor is `next`; returns the first node.
    fn body(&mut self, body: &'a [Stmt], mut next: Next) -> Next {
        // Statements after `position` and before `end` are collected for one action.
        let mut end = body.len();
        for (position, stmt) in body.iter().enumerate().rev() {
            if is_part_of_action(stmt) {
                continue;
            }
            next = self.add_hidden_table(&body[position + 1..end], next);
            end = position;
            next = self.control(stmt, next);
        }
        self.add_hidden_table(&body[..end], next)
    }

    /// Adds a generated table for statements without control flow, if there are any; returns the first node.
    fn add_hidden_table(&mut self, run: &'a [Stmt], next: Next) -> Next {
        match run {
            [] => next,
            run => self.add(Node::Hidden(run, next)),
        }
    }

    /// Builds the nodes of a statement with control flow; returns the first node.
    fn control(&mut self, stmt: &'a Stmt, next: Next) -> Next {
        match &stmt.kind {
            StmtKind::If {
                cond, then, other, ..
            } => {
                let then = self.body(then, next);
                let other = self.body(other, next);
                match then == other {
                    true => then,
                    false => self.add(Node::Branch {
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
            StmtKind::Break(label) => match self.after.get(label) {
                Some(next) => *next,
                None => fault(Some(stmt.source.span), "a break leaves no block"),
            },
            StmtKind::Exit => Next(None),
            StmtKind::Apply(apply) => self.table(apply, &stmt.source, next),
            StmtKind::Effect(_) => {
                fault(Some(stmt.source.span), "an effect is not part of an action")
            }
            StmtKind::Own(never) => match *never {},
        }
    }

    /// Builds the nodes of a table application; returns the table's node, which all applications of a table share.
    fn table(&mut self, apply: &'a Apply, source: &'a Source, next: Next) -> Next {
        let results = match &apply.then {
            Follow::Hit { hit, miss } => {
                let hit = self.body(hit, next);
                let miss = self.body(miss, next);
                TableSuccessors::Hit { hit, miss }
            }
            Follow::Action { actions, other } => {
                let mut after = Vec::new();
                for (named, body) in actions {
                    let next = self.body(body, next);
                    after.extend(named.iter().map(|action| (*action, next)));
                }
                let other = self.body(other, next);
                TableSuccessors::Action {
                    actions: after,
                    other,
                }
            }
        };
        let table = apply.table;
        let Some(here) = &apply.own.here else {
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

    /// Adds conditionals after each table with several applications. They continue after the application that executed the table.
    fn branch_to_sites(&mut self) {
        for (table, (node, sites)) in std::mem::take(&mut self.shared) {
            let dispatch = |graph: &mut Self, of: &dyn Fn(&TableSuccessors) -> Next| {
                let mut remaining = sites.iter();
                let mut next = remaining
                    .next()
                    .map_or(Next(None), |site| of(&site.results));
                for site in remaining {
                    let then = of(&site.results);
                    if then != next {
                        let (cond, source) = (site.here, site.source);
                        next = graph.add(Node::Branch {
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
                .any(|site| matches!(site.results, TableSuccessors::Action { .. }));
            let results = match by_action {
                false => TableSuccessors::Hit {
                    hit: dispatch(self, &|results| results.after_hit()),
                    miss: dispatch(self, &|results| results.after_miss()),
                },
                true => {
                    let mut actions: Vec<ActionId> = Vec::new();
                    for site in &sites {
                        if let TableSuccessors::Action { actions: named, .. } = &site.results {
                            actions.extend(named.iter().map(|(action, _)| *action));
                        }
                    }
                    actions.sort_unstable();
                    actions.dedup();
                    let actions = actions
                        .into_iter()
                        .map(|action| (action, dispatch(self, &|results| results.after(action))))
                        .collect();
                    let other = dispatch(self, &|results| results.after_hit());
                    TableSuccessors::Action { actions, other }
                }
            };
            self.nodes[node] = Node::Table { table, results };
        }
    }

    /// The node of a successor, after placeholders of loop starts are resolved. `None` for the end of the pipeline.
    fn resolve(&self, mut next: Next) -> Option<usize> {
        let mut steps = 0;
        while let Next(Some(node)) = next {
            match self.nodes[node] {
                // A loop with an empty body is a cycle of placeholders, which the bound ends.
                Node::Forward(to) if steps <= self.nodes.len() => next = to,
                Node::Forward(_) => return None,
                _ => return Some(node),
            }
            steps += 1;
        }
        None
    }
}

impl TableSuccessors {
    fn all(&self) -> Vec<Next> {
        match self {
            TableSuccessors::Hit { hit, miss } => vec![*hit, *miss],
            TableSuccessors::Action { actions, other } => actions
                .iter()
                .map(|(_, next)| *next)
                .chain([*other])
                .collect(),
        }
    }

    /// The successor after a hit. If the successor depends on the action: the one after an action that is not listed.
    fn after_hit(&self) -> Next {
        match self {
            TableSuccessors::Hit { hit: next, .. }
            | TableSuccessors::Action { other: next, .. } => *next,
        }
    }

    /// The successor after a miss. If the successor depends on the action: the one after an action that is not listed.
    fn after_miss(&self) -> Next {
        match self {
            TableSuccessors::Hit { miss: next, .. }
            | TableSuccessors::Action { other: next, .. } => *next,
        }
    }

    /// The successor after an action.
    fn after(&self, action: ActionId) -> Next {
        match self {
            TableSuccessors::Hit { hit, .. } => *hit,
            TableSuccessors::Action { actions, other } => actions
                .iter()
                .find(|(named, _)| *named == action)
                .map_or(*other, |(_, next)| *next),
        }
    }
}

/// Whether a statement is compiled into an action, and not into nodes of the graph.
fn is_part_of_action(stmt: &Stmt) -> bool {
    match &stmt.kind {
        StmtKind::If { inline, .. } => *inline,
        StmtKind::Block { .. }
        | StmtKind::Loop { .. }
        | StmtKind::Break(_)
        | StmtKind::Exit
        | StmtKind::Apply(_) => false,
        StmtKind::Effect(_) => true,
        StmtKind::Own(never) => match *never {},
    }
}

/// Writes the nodes of a graph as tables and conditionals.
struct Writer<'g, 'a, 'o> {
    program: &'a FlatProgram,
    exprs: Exprs<'a>,
    actions: &'o mut Actions<'a>,
    names: &'o mut NodeNames,
    graph: &'g Graph<'a>,
    /// Names and ids of the visited nodes.
    named: BTreeMap<usize, NamedNode>,
    /// The visited nodes, in the order of the output.
    order: Vec<usize>,
    tables: Vec<json::Table>,
    conditionals: Vec<json::Conditional>,
    profiles: Vec<json::ActionProfile>,
}

/// The identity of a node in the output.
struct NamedNode {
    name: String,
    id: i64,
    /// Id and name of the action of a generated table; `None` for other nodes.
    action: Option<(i64, String)>,
}

impl<'a> Writer<'_, 'a, '_> {
    /// Names a node and all nodes reachable from it, in the order of execution. Returns the name of the first; `None` for the end.
    fn visit(&mut self, next: Next) -> Option<String> {
        let first = self.graph.resolve(next)?;
        // An explicit stack, as recursion over a long program would overflow the thread's stack.
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
                Node::Branch { then, other, .. } => vec![*then, *other],
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

    /// Allocates the name and id of a node.
    fn name(&mut self, node: usize) -> NamedNode {
        match &self.graph.nodes[node] {
            Node::Hidden(body, _) => {
                let action = self.actions.add_hidden(body);
                let name = self.names.used.unique(&format!("tbl_{}", action.1));
                NamedNode {
                    name,
                    id: self.names.table(),
                    action: Some(action),
                }
            }
            Node::Branch { .. } | Node::Forward(_) => {
                let (id, name) = self.names.conditional();
                NamedNode {
                    name,
                    id,
                    action: None,
                }
            }
            Node::Table { table, .. } => {
                let name = self.program.objects.table(*table).meta.name.clone();
                NamedNode {
                    name,
                    id: self.names.table(),
                    action: None,
                }
            }
        }
    }

    /// The name of a successor; `None` for the end of the pipeline.
    fn next(&self, next: Next) -> Option<String> {
        self.graph
            .resolve(next)
            .and_then(|node| self.named.get(&node))
            .map(|named| named.name.clone())
    }

    /// Writes the visited nodes.
    fn write(&mut self) {
        for node in std::mem::take(&mut self.order) {
            let Some(named) = self.named.get(&node) else {
                fault(None, "a node of a pipeline has no name");
            };
            let (name, id) = (named.name.clone(), named.id);
            match &self.graph.nodes[node] {
                Node::Hidden(body, next) => {
                    let Some(action) = named.action.clone() else {
                        fault(None, "a generated table has no action");
                    };
                    let source = body.first().map(|stmt| &stmt.source);
                    let next = self.next(*next);
                    self.tables
                        .push(table::hidden(name, id, action, source, next));
                }
                Node::Branch {
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
                Node::Forward(_) => fault(None, "the start of a loop is not resolved"),
            }
        }
    }

    /// The successors of a table by action, or by hit and miss if these differ.
    fn successors(&self, table: TableId, results: &TableSuccessors) -> table::Successors {
        if let TableSuccessors::Hit { hit, miss } = results {
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

    /// Writes the action profile of a table, if it has one and it is not written yet.
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
