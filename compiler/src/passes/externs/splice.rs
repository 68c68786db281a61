//! Replacement of extern calls, in the bodies of a program, by their lowered statements and results.

use std::rc::Rc;

use crate::ir::{Effect, Expr, Take, UnaryOp};
use crate::passes::builder::data::{Data, Place};
use crate::passes::builder::ops;
use crate::passes::inlined::{
    Block, BlockCode, InlinedProgram, Pending, Stmt, StmtKind, Transition,
};

use super::call::{Argument, ExternArg};

/// The lowered calls of a program, by [`crate::ir::CallId`].
#[derive(Default)]
pub struct Lowered {
    /// Statements that replace each call.
    pub code: Vec<Vec<Stmt>>,
    /// Value that replaces the result of each call; `None` for a call without a scalar result.
    pub results: Vec<Option<Expr>>,
}

impl Lowered {
    /// Replaces all calls and their results in a program.
    pub fn replace_all(&self, program: &mut InlinedProgram) {
        for Block { code, .. } in &mut program.blocks {
            match code {
                BlockCode::Parser(states) => {
                    for code in states.iter_mut().filter_map(|state| state.code.as_mut()) {
                        self.body(&mut code.body);
                        if let Transition::Select { keys, .. } = &mut code.transition {
                            keys.iter_mut().for_each(|key| self.expr(&mut key.value));
                        }
                    }
                }
                BlockCode::Control(body)
                | BlockCode::Checksums(body)
                | BlockCode::Deparser(body) => self.body(body),
            }
        }
        for body in &mut program.action_bodies {
            self.body(body);
        }
        for division in &mut program.divisions {
            self.expr(&mut division.left);
            self.expr(&mut division.right);
        }
    }

    fn body(&self, body: &mut Vec<Stmt>) {
        for mut stmt in std::mem::take(body) {
            match &mut stmt.kind {
                StmtKind::Own(Pending::Call(id)) => {
                    // The lowered statements may contain an implementation of an abstract method, which may contain calls.
                    let mut code = self.code[id.index()].clone();
                    self.body(&mut code);
                    body.extend(code);
                    continue;
                }
                StmtKind::Effect(effect) => self.effect(effect),
                StmtKind::Own(Pending::Take(take)) => self.take(take),
                StmtKind::If {
                    cond, then, other, ..
                } => {
                    self.expr(cond);
                    self.body(then);
                    self.body(other);
                }
                StmtKind::Block { body, .. } | StmtKind::Loop { body, .. } => self.body(body),
                StmtKind::Apply(apply) => {
                    self.body(&mut apply.own.stores);
                    for body in apply.then.bodies_mut() {
                        self.body(body);
                    }
                }
                StmtKind::Break(_)
                | StmtKind::Exit
                | StmtKind::Own(Pending::Enter { .. } | Pending::Checksum(_) | Pending::Emit(_)) => {
                }
            }
            body.push(stmt);
        }
    }

    /// Replaces results in an assignment. In primitives, results were replaced in the arguments of the call.
    fn effect(&self, effect: &mut Effect) {
        if let Effect::Assign { value, .. } = effect {
            self.expr(value);
        }
    }

    fn take(&self, take: &mut Take) {
        match take {
            Take::Extract { varbit_bits, .. }
            | Take::ExtractNext { varbit_bits, .. }
            | Take::ExtractNextMember { varbit_bits, .. } => {
                varbit_bits.iter_mut().for_each(|bits| self.expr(bits));
            }
            Take::Verify { cond, error } => {
                self.expr(cond);
                self.expr(error);
            }
            Take::Advance(bits) => self.expr(bits),
        }
    }

    /// Replaces results in an expression, and folds constants.
    pub fn expr(&self, expr: &mut Expr) {
        let mut has_result = false;
        expr.walk(&mut |node| has_result |= matches!(node, Expr::Result { .. }));
        if has_result {
            let old = std::mem::replace(expr, Expr::Bool(false));
            *expr = self.replaced(old);
        }
    }

    fn replaced(&self, expr: Expr) -> Expr {
        match expr {
            Expr::Result { call, ty } => {
                let known = self.results.get(call.index()).cloned().flatten();
                known.unwrap_or_else(|| Expr::number(0, ty))
            }
            Expr::Unary { op, arg } => match (op, self.replaced(*arg)) {
                (UnaryOp::Not, arg) => arg.not(),
                (op, arg) => Expr::unary(op, arg),
            },
            Expr::Cast { to, arg } => ops::cast(self.replaced(*arg), to),
            Expr::Slice { high, low, arg } => ops::slice(self.replaced(*arg), high, low),
            Expr::Binary { op, left, right } => {
                Expr::binary(op, self.replaced(*left), self.replaced(*right))
            }
            Expr::Choose { cond, then, other } => ops::choose(
                self.replaced(*cond),
                self.replaced(*then),
                self.replaced(*other),
            ),
            other => other,
        }
    }

    /// Replaces results in the arguments of a call.
    pub fn arguments(&self, args: &mut [ExternArg]) {
        for given in args {
            match &mut given.argument {
                Argument::Value(data) => self.data(data),
                Argument::Place(place) => self.place(place),
                Argument::Object(_) | Argument::Omitted => {}
            }
        }
    }

    fn data(&self, data: &mut Data) {
        match data {
            Data::Scalar(expr) => self.expr(expr),
            Data::Struct(parts) => parts.iter_mut().for_each(|(_, part)| self.data(part)),
            Data::HeaderOf(parts) => parts.iter_mut().for_each(|part| self.data(part)),
            _ => {}
        }
    }

    fn place(&self, place: &mut Place) {
        match place {
            Place::Slice { base, low, .. } => {
                self.place(base);
                self.expr(low);
            }
            Place::Struct(parts) => {
                let parts = Rc::make_mut(parts).iter_mut();
                parts.for_each(|(_, part)| self.place(part));
            }
            Place::Dynamic { index, elements } => {
                self.expr(index);
                elements.iter_mut().for_each(|part| self.place(part));
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ir::{BinaryOp, CallId, FieldRef, HeaderId, Label, Scalar, Source};

    const BYTE: Scalar = Scalar::Bit(8);

    fn stmt(kind: impl Into<StmtKind>) -> Stmt {
        Stmt {
            kind: kind.into(),
            source: Source::default(),
        }
    }

    /// Field number `field` of header 0.
    fn field(field: u32) -> FieldRef {
        let header = HeaderId(0);
        FieldRef { header, field }
    }

    fn assign(target: u32, value: Expr) -> Stmt {
        let target = field(target).into();
        stmt(Effect::Assign { target, value })
    }

    fn result(call: u32) -> Expr {
        let call = CallId(call);
        Expr::Result { call, ty: BYTE }
    }

    #[test]
    fn calls_in_implementations_are_replaced() {
        let lowered = Lowered {
            code: vec![
                vec![assign(1, Expr::bits(1, 8))],
                vec![
                    stmt(StmtKind::Own(Pending::Call(CallId(0)))),
                    assign(2, result(0)),
                ],
            ],
            results: vec![Some(Expr::field(field(1), BYTE)), None],
        };
        let mut program = InlinedProgram::default();
        program.action_bodies.push(vec![stmt(StmtKind::Block {
            label: Label(0),
            body: vec![stmt(StmtKind::Own(Pending::Call(CallId(1))))],
        })]);
        lowered.replace_all(&mut program);
        let body = vec![
            assign(1, Expr::bits(1, 8)),
            assign(2, Expr::field(field(1), BYTE)),
        ];
        let label = Label(0);
        assert_eq!(
            program.action_bodies,
            [vec![stmt(StmtKind::Block { label, body })]]
        );
    }

    #[test]
    fn expressions_with_constant_results_are_folded() {
        let lowered = Lowered {
            code: Vec::new(),
            results: vec![Some(Expr::bits(0x5a, 8))],
        };
        let mut slice = ops::slice(result(0), 7, 4);
        lowered.expr(&mut slice);
        assert_eq!(slice, Expr::bits(5, 4));
        let mut wide = ops::cast(result(0), Scalar::Bit(16));
        lowered.expr(&mut wide);
        assert_eq!(wide, Expr::bits(0x5a, 16));
        // An expression without results is unchanged.
        let sum = Expr::binary(BinaryOp::Add, Expr::bits(1, 8), Expr::bits(2, 8));
        let mut same = sum.clone();
        lowered.expr(&mut same);
        assert_eq!(same, sum);
    }
}
