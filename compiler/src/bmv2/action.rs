//! Actions: lowers statements to a linear list of primitives with jumps.

use std::collections::BTreeMap;

use alfirk_bmv2_json as json;
use num_bigint::BigInt;

use super::{
    effect::effect,
    expr::{hex, Exprs},
    source_info,
};
use crate::ir::{Expr, FlatProgram, Label, Source, Stmt, StmtKind};
use crate::names::Names;

/// All actions of the output: those of the program, then generated ones for statements outside tables.
pub struct Actions<'a> {
    exprs: Exprs<'a>,
    list: Vec<json::Action>,
    names: Names,
}

impl<'a> Actions<'a> {
    /// The program's actions, which keep their ids as positions.
    pub fn of(program: &'a FlatProgram) -> Self {
        let exprs = Exprs::new(program);
        let list: Vec<_> = (program.objects.actions.iter())
            .zip(&program.action_bodies)
            .enumerate()
            .map(|(id, (action, body))| json::Action {
                name: action.meta.name.clone(),
                id: id as i64,
                runtime_data: (action.params.iter())
                    .map(|param| json::ActionParam {
                        name: param.name.clone(),
                        bitwidth: param.ty.width(),
                    })
                    .collect(),
                primitives: primitives(exprs, body),
            })
            .collect();
        let mut names = Names::default();
        names.extend(list.iter().map(|action| action.name.clone()));
        Actions { exprs, list, names }
    }

    /// Adds an action for statements of a control; returns its id and name.
    pub fn add_hidden(&mut self, body: &[Stmt]) -> (i64, String) {
        let first = body
            .first()
            .map(|stmt| stmt.source.clone())
            .unwrap_or_default();
        let name = self.names.unique(&hidden_stem(&first));
        let id = self.list.len() as i64;
        self.list.push(json::Action {
            name: name.clone(),
            id,
            runtime_data: Vec::new(),
            primitives: primitives(self.exprs, body),
        });
        (id, name)
    }

    /// The finished list.
    pub fn finish(self) -> Vec<json::Action> {
        self.list
    }
}

/// File stem and line, as p4c names such actions: `basic115`.
fn hidden_stem(source: &Source) -> String {
    let file = source.file.rsplit(['/', '\\']).next().unwrap_or_default();
    let stem: String = file
        .split('.')
        .next()
        .unwrap_or_default()
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() { c } else { '_' })
        .collect();
    match source.line {
        0 => "act".to_owned(),
        line => format!("{stem}{line}"),
    }
}

/// Writes a body.
pub fn primitives(exprs: Exprs, body: &[Stmt]) -> Vec<json::Primitive> {
    let mut code = Code {
        exprs,
        list: Vec::new(),
        targets: BTreeMap::new(),
        jumps: Vec::new(),
    };
    code.body(body);
    // A jump at the end is not needed.
    if let (Some((at, Target::End)), Some(StmtKind::Exit)) =
        (code.jumps.last(), body.last().map(|stmt| &stmt.kind))
    {
        code.list.truncate(*at);
        code.jumps.pop();
    }
    code.resolve()
}

/// Target of a jump.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Target {
    After(Label),
    Before(Label),
    /// Made for an `if`.
    Local(usize),
    /// After the last primitive.
    End,
}

struct Code<'a> {
    exprs: Exprs<'a>,
    list: Vec<json::Primitive>,
    targets: BTreeMap<Target, usize>,
    /// Primitives whose last operand is to become the position of the target.
    jumps: Vec<(usize, Target)>,
}

impl Code<'_> {
    fn body(&mut self, body: &[Stmt]) {
        for stmt in body {
            self.stmt(stmt);
        }
    }

    fn stmt(&mut self, stmt: &Stmt) {
        match &stmt.kind {
            StmtKind::If {
                cond, then, other, ..
            } => self.branch(stmt, cond, then, other),
            StmtKind::Block { label, body } => {
                self.body(body);
                self.targets.insert(Target::After(*label), self.list.len());
            }
            StmtKind::Loop { label, body } => {
                self.targets.insert(Target::Before(*label), self.list.len());
                self.body(body);
                self.jump("_jump", Vec::new(), Target::Before(*label), stmt);
                self.targets.insert(Target::After(*label), self.list.len());
            }
            StmtKind::Break(label) => self.jump("_jump", Vec::new(), Target::After(*label), stmt),
            // BMv2 executes `exit` at the end of the action.
            StmtKind::Exit => {
                self.list.push(json::Primitive {
                    op: "exit".to_owned(),
                    parameters: Vec::new(),
                    source_info: source_info(&stmt.source),
                });
                self.jump("_jump", Vec::new(), Target::End, stmt);
            }
            StmtKind::Effect(what) => self.list.push(effect(self.exprs, what, &stmt.source)),
            // Actions do not apply tables, as `passes::check` verifies.
            StmtKind::Apply(_) => {}
        }
    }

    fn branch(&mut self, stmt: &Stmt, cond: &Expr, then: &[Stmt], other: &[Stmt]) {
        let local = self.jumps.len();
        // Positions of jumps number the targets; each `if` takes two.
        let (to_other, to_end) = (Target::Local(2 * local), Target::Local(2 * local + 1));
        self.jump(
            "_jump_if_zero",
            vec![self.exprs.number(cond).wrapped()],
            to_other,
            stmt,
        );
        self.body(then);
        if !other.is_empty() {
            self.jump("_jump", Vec::new(), to_end, stmt);
        }
        self.targets.insert(to_other, self.list.len());
        self.body(other);
        self.targets.insert(to_end, self.list.len());
    }

    fn jump(&mut self, op: &str, operands: Vec<json::Expr>, target: Target, stmt: &Stmt) {
        self.jumps.push((self.list.len(), target));
        self.list.push(json::Primitive {
            op: op.to_owned(),
            parameters: operands,
            source_info: source_info(&stmt.source),
        });
    }

    fn resolve(mut self) -> Vec<json::Primitive> {
        for (position, target) in &self.jumps {
            // The body cannot leave to a label outside it, so jump to the end.
            let to = self.targets.get(target).copied().unwrap_or(self.list.len());
            self.list[*position]
                .parameters
                .push(json::Expr::hex(hex(&BigInt::from(to), 32)));
        }
        self.list
    }
}
