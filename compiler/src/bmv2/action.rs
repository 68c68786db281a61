//! Lowers the statements of actions to lists of primitives with jumps.

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

/// All actions of the output: those of the program, then generated ones for statements of `apply` blocks.
pub struct Actions<'a> {
    exprs: Exprs<'a>,
    list: Vec<json::Action>,
    names: Names,
}

impl<'a> Actions<'a> {
    /// Lowers the actions of a program. The id of an action is its position.
    pub fn of(program: &'a FlatProgram) -> Self {
        let exprs = Exprs::new(program);
        let list: Vec<_> = (program.objects.actions.iter())
            .zip(&program.action_bodies)
            .enumerate()
            .map(|(id, (action, body))| json::Action {
                name: action.meta.name.clone(),
                id: id as i64,
                source_info: source_info(&action.meta.source),
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

    /// Adds an action for statements of an `apply` block; returns its id and name.
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
            source_info: None,
            runtime_data: Vec::new(),
            primitives: primitives(self.exprs, body),
        });
        (id, name)
    }

    /// Returns all actions, in the order of their ids.
    pub fn finish(self) -> Vec<json::Action> {
        self.list
    }
}

/// The name of a generated action: file stem and line, such as `basic115`, as in p4c.
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

/// Lowers the statements of an action to primitives.
pub fn primitives(exprs: Exprs, body: &[Stmt]) -> Vec<json::PrimitiveCall> {
    let mut code = Code {
        exprs,
        list: Vec::new(),
        targets: BTreeMap::new(),
        jumps: Vec::new(),
    };
    code.body(body);
    // An `exit` at the end needs no jump to the end.
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
    /// The end of a block or loop.
    After(Label),
    /// The start of a loop.
    Before(Label),
    /// A jump target within the code of an `if`, by its number.
    Local(usize),
    /// The end of the action, after its last primitive.
    End,
}

/// An action under construction.
struct Code<'a> {
    exprs: Exprs<'a>,
    /// The primitives generated so far.
    list: Vec<json::PrimitiveCall>,
    /// Positions of the jump targets.
    targets: BTreeMap<Target, usize>,
    /// Jumps: the position of each in `list`, and its target. [`Code::resolve`] fills in the targets' positions.
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
                self.jump(Target::Before(*label), stmt);
                self.targets.insert(Target::After(*label), self.list.len());
            }
            StmtKind::Break(label) => self.jump(Target::After(*label), stmt),
            // BMv2 executes `exit` at the end of the action.
            StmtKind::Exit => {
                self.push(json::Primitive::Exit {}, stmt);
                self.jump(Target::End, stmt);
            }
            StmtKind::Effect(what) => self.list.push(effect(self.exprs, what, &stmt.source)),
            // Actions do not apply tables, as `passes::check` verifies.
            StmtKind::Apply(_) => {}
            StmtKind::Own(never) => match *never {},
        }
    }

    fn branch(&mut self, stmt: &Stmt, cond: &Expr, then: &[Stmt], other: &[Stmt]) {
        let local = self.jumps.len();
        // The number of earlier jumps is unique for each `if`, which has two targets.
        let (to_other, to_end) = (Target::Local(2 * local), Target::Local(2 * local + 1));
        self.jumps.push((self.list.len(), to_other));
        let condition = self.exprs.number(cond).wrapped();
        let target = unresolved();
        self.push(json::Primitive::JumpIfZero { condition, target }, stmt);
        self.body(then);
        if !other.is_empty() {
            self.jump(to_end, stmt);
        }
        self.targets.insert(to_other, self.list.len());
        self.body(other);
        self.targets.insert(to_end, self.list.len());
    }

    /// Adds a jump to a target whose position may not be known yet.
    fn jump(&mut self, target: Target, stmt: &Stmt) {
        self.jumps.push((self.list.len(), target));
        let target = unresolved();
        self.push(json::Primitive::Jump { target }, stmt);
    }

    fn push(&mut self, primitive: json::Primitive, stmt: &Stmt) {
        self.list.push(json::PrimitiveCall {
            primitive,
            source_info: source_info(&stmt.source),
        });
    }

    /// Sets the positions of the jumps' targets; returns the primitives.
    fn resolve(mut self) -> Vec<json::PrimitiveCall> {
        for (position, target) in &self.jumps {
            // All labels are within the body, so this falls back to the end only after a compiler bug.
            let to = self.targets.get(target).copied().unwrap_or(self.list.len());
            if let json::Primitive::Jump { target } | json::Primitive::JumpIfZero { target, .. } =
                &mut self.list[*position].primitive
            {
                *target = json::Expr::hex(hex(&BigInt::from(to), 32));
            }
        }
        self.list
    }
}

/// The operand of a jump until [`Code::resolve`] sets it.
fn unresolved() -> json::Expr {
    json::Expr::Bool(false)
}
