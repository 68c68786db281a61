//! `for` loops. Loops over a constant range are unrolled; others become loops of the target.

use std::rc::Rc;

use num_bigint::BigInt;

use super::frame::{Binding, Frame};
use super::Elaborator;
use crate::diag::Span;
use crate::ir::{self, HeaderPlace};
use crate::passes::builder::data::{Data, Place};
use crate::passes::inlined::StmtKind;
use crate::sema::Type;
use crate::syntax::ast::{BinaryOp, Expr, ExprKind, Stmt, VarDecl};

/// Maximum number of values of a range whose loop is unrolled.
const MAX_UNROLLED: u32 = 256;

impl Elaborator<'_> {
    /// Elaborates the loop `for (init; condition; update) body`.
    pub fn for_loop(
        &mut self,
        init: &[Stmt],
        condition: &Expr,
        update: &[Stmt],
        body: &Stmt,
        span: Span,
        frame: &Rc<Frame>,
    ) {
        let frame = &Rc::new(Frame::inside(frame));
        self.statements(init, frame);
        let (label, round) = (self.label(), self.label());
        let code = self.block(|this| {
            let cond = this.eval_scalar(condition, frame);
            let leave = this.block(|this| this.emit(condition.span, StmtKind::Break(label)));
            if cond != ir::Expr::Bool(true) {
                let inline = false;
                this.emit(
                    condition.span,
                    StmtKind::If {
                        cond: cond.not(),
                        then: leave,
                        other: Vec::new(),
                        inline,
                    },
                );
            }
            this.iteration(body, (label, round), frame);
            this.statements(update, frame);
        });
        self.emit(span, StmtKind::Loop { label, body: code });
    }

    /// Emits an iteration of a loop's body. `labels` are the targets of `break` and `continue`.
    fn iteration(&mut self, body: &Stmt, labels: (ir::Label, ir::Label), frame: &Rc<Frame>) {
        self.loops.push(labels);
        let code = self.block(|this| this.statement(body, &Rc::new(Frame::inside(frame))));
        self.loops.pop();
        self.emit_block(body.span, labels.1, code);
    }

    /// Elaborates the loop `for (T x in collection) body`.
    pub fn for_in(
        &mut self,
        variable: &Rc<VarDecl>,
        collection: &Expr,
        body: &Stmt,
        span: Span,
        frame: &Rc<Frame>,
    ) {
        let ty = self.written_type(&variable.ty, frame);
        if let ExprKind::Range(low, high) = &collection.kind {
            return self.for_range((variable, &ty), low, high, body, span, frame);
        }
        let values: Vec<Data> = match self.eval(collection, frame) {
            Data::Struct(items) => items.into_iter().map(|(_, data)| data).collect(),
            Data::Stack(id) => {
                let elements = self.program.storage.stack(id).elements.clone();
                elements
                    .into_iter()
                    .map(|header| Data::Header(HeaderPlace::Fixed(header)))
                    .collect()
            }
            Data::UnionStack(id) => self
                .program
                .storage
                .union_stack(id)
                .elements
                .iter()
                .map(|id| Data::Union(*id))
                .collect(),
            _ => {
                self.impossible(span, "a loop traverses a value without elements");
                return;
            }
        };
        let label = self.label();
        let code = self.block(|this| {
            for data in values {
                let data = this.cast(data, &ty);
                this.iterate_once((variable, &ty), data, body, label, frame);
            }
        });
        self.emit_block(span, label, code);
    }

    /// Elaborates the loop `for (T x in low .. high) body`, which is unrolled if the range is constant and small.
    fn for_range(
        &mut self,
        variable: (&Rc<VarDecl>, &Type),
        low: &Expr,
        high: &Expr,
        body: &Stmt,
        span: Span,
        frame: &Rc<Frame>,
    ) {
        let mut ends = self.eval_operands(&[low, high], frame);
        let (Some(high), Some(low)) = (ends.pop(), ends.pop()) else {
            self.impossible(span, "a range has no ends");
            return;
        };
        let (low, high) = (self.cast(low, variable.1), self.cast(high, variable.1));
        let label = self.label();
        if let (Some(first), Some(last)) = (low.constant(), high.constant()) {
            if last < first {
                return;
            }
            if &last - &first < BigInt::from(MAX_UNROLLED) {
                let code = self.block(|this| {
                    let mut value = first;
                    while value <= last {
                        let data = this.cast(Data::Int(value.clone()), variable.1);
                        this.iterate_once(variable, data, body, label, frame);
                        value += 1;
                    }
                });
                self.emit_block(span, label, code);
                return;
            }
        }
        // The condition is tested after the body, as the last value may be the largest value of the variable's type.
        let (Some(scalar), Data::Scalar(low), Data::Scalar(high)) =
            (self.scalar(variable.1), low, high)
        else {
            self.impossible(span, "the ends of a range are not numbers");
            return;
        };
        let high = self.save_value(high, span, &frame.name);
        let name = super::join(&frame.name, &variable.0.name.name);
        let place = self.allocate(variable.1, &name);
        let Place::Scalar(field, _) = place else {
            self.impossible(span, "the variable of a loop is not a number");
            return;
        };
        self.assign(&place, Data::Scalar(low), variable.1, span, &frame.name);
        let current = ir::Expr::field(field, scalar);
        let loop_frame = Frame::inside(frame);
        loop_frame.bind(variable.0.id, Binding::Place(place.clone()));
        let loop_frame = Rc::new(loop_frame);
        let round = self.label();
        let code = self.block(|this| {
            this.iteration(body, (label, round), &loop_frame);
            let cond = ir::Expr::binary(ir::BinaryOp::Ge, current.clone(), high.clone());
            let leave = this.block(|this| this.emit(span, StmtKind::Break(label)));
            this.emit(
                span,
                StmtKind::If {
                    cond,
                    then: leave,
                    other: Vec::new(),
                    inline: false,
                },
            );
            let one = Data::Scalar(ir::Expr::number(1, scalar));
            let next = this.binary(BinaryOp::Add, Data::Scalar(current.clone()), one, span);
            this.assign(&place, next, variable.1, span, &frame.name);
        });
        let looped = self.block(|this| this.emit(span, StmtKind::Loop { label, body: code }));
        let cond = ir::Expr::binary(ir::BinaryOp::Le, current, high);
        self.emit(
            span,
            StmtKind::If {
                cond,
                then: looped,
                other: Vec::new(),
                inline: false,
            },
        );
    }

    /// Emits an iteration with `data` as the value of the loop's variable. The variable is a copy, so the body cannot change the collection.
    fn iterate_once(
        &mut self,
        variable: (&Rc<VarDecl>, &Type),
        data: Data,
        body: &Stmt,
        label: ir::Label,
        frame: &Rc<Frame>,
    ) {
        if self.count_parts(body.span, 1).is_err() {
            return;
        }
        let round = self.label();
        let inner = Frame::inside(frame);
        let constant = matches!(&data, Data::Scalar(expr) if expr.is_constant());
        let binding = match constant && !assigns(body, variable.0.id, self) {
            true => Binding::Data(data),
            false => {
                let place =
                    self.allocate(variable.1, &super::join(&frame.name, &variable.0.name.name));
                self.assign(&place, data, variable.1, variable.0.span, &frame.name);
                Binding::Place(place)
            }
        };
        inner.bind(variable.0.id, binding);
        self.iteration(body, (label, round), &Rc::new(inner));
    }
}

/// Whether a loop's body may assign to the loop's variable, which then needs storage.
fn assigns(body: &Stmt, variable: crate::syntax::ast::DeclId, this: &Elaborator) -> bool {
    use crate::sema::Resolution;
    use crate::syntax::ast::{StmtKind as Ast, StmtPart};
    let is_variable = |expr: &Expr| {
        let mut expr = expr;
        while let ExprKind::Slice { base, .. } | ExprKind::SlicePlus { base, .. } = &expr.kind {
            expr = base;
        }
        matches!(this.checked.resolution(expr), Resolution::Decl(id) if id == variable)
    };
    match &body.kind {
        Ast::Assign { left, .. } => is_variable(left),
        Ast::Call(expr) => match (&expr.kind, this.checked.call(expr.id)) {
            (ExprKind::Call(call), Some(info)) => info.args.iter().any(|arg| match arg.source {
                crate::sema::ArgSource::Arg(index) => {
                    arg.direction.writes()
                        && call
                            .args
                            .get(index)
                            .is_some_and(|arg| is_variable(&arg.value))
                }
                _ => false,
            }),
            _ => false,
        },
        kind => {
            let mut found = false;
            kind.for_each_part(&mut |part| {
                if let StmtPart::Stmt(stmt) = part {
                    found = found || assigns(stmt, variable, this);
                }
            });
            found
        }
    }
}
