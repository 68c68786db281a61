//! Application of controls and tables.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use super::frame::{Binding, ControlInstance, Frame, Instance, ParserInstance, ReturnTarget};
use super::{join, method_base, Elaborator};
use crate::diag::Span;
use crate::ir::{self, Effect, Follow, Scalar};
use crate::passes::builder::data::Data;
use crate::passes::inlined::{has_exit, Apply, AtExit, Stmt, StmtKind};
use crate::sema::{CallInfo, Callee, DefKind, Resolution};
use crate::syntax::ast::{
    Block, Call, Decl, DeclId, Expr, ExprKind, Param, Stmt as AstStmt, StmtKind as Ast,
};

/// The statements that follow a table application, by its result.
#[derive(Debug, Default)]
pub struct Outcome {
    /// Statements after a hit.
    pub hit: Vec<Stmt>,
    /// Statements after a miss.
    pub miss: Vec<Stmt>,
    /// Whether the statements depend on the executed action (`actions`, `other`) instead of hit and miss.
    pub by_action: bool,
    /// Statements, each with the actions after which they run.
    pub actions: Vec<(Vec<DeclId>, Vec<Stmt>)>,
    /// Statements after any other action.
    pub other: Vec<Stmt>,
}

impl Elaborator<'_> {
    /// Elaborates a control of the package. `arguments` are the bindings of its parameters.
    pub fn apply_top(&mut self, instance: &Rc<ControlInstance>, arguments: Vec<Binding>) {
        let params = instance.decl.params.clone();
        let span = instance.decl.span;
        if params.len() != arguments.len() {
            let message = format!(
                "control {} has {} parameters, but its position in the package provides {}",
                instance.decl.name,
                params.len(),
                arguments.len()
            );
            self.target(span, message);
            return;
        }
        let frame = self.control_frame(instance);
        for (param, binding) in params.iter().zip(arguments) {
            frame.bind(param.id, binding);
        }
        self.run_control(instance, frame, span);
    }

    /// The environment of a control's body, with its constructor arguments.
    fn control_frame(&self, instance: &Rc<ControlInstance>) -> Frame {
        let mut frame = Frame::inside(&self.top);
        frame.substitution = instance.substitution.clone();
        frame.name = instance.name.clone();
        frame.control = Some(Rc::clone(instance));
        for (param, binding) in &instance.arguments {
            frame.bind(*param, binding.clone());
        }
        frame
    }

    /// Elaborates `instance.apply(...)`, an application of a declared instance of a control.
    pub fn apply_sub_control(
        &mut self,
        info: &CallInfo,
        call: &Call,
        span: Span,
        frame: &Rc<Frame>,
    ) {
        let instance = method_base(&call.callee).and_then(|base| self.instance_of(base, frame));
        if let Some(Instance::Control(instance)) = instance {
            self.apply_control(&instance, info, call, span, frame);
        }
    }

    /// Elaborates `Type.apply(...)` of a control or parser. Each such call has an implicit instance.
    pub fn apply_direct(
        &mut self,
        id: DeclId,
        info: &CallInfo,
        call: &Call,
        expr: &Expr,
        frame: &Rc<Frame>,
    ) {
        let checked = self.checked;
        let type_args: Vec<_> = info.type_args.clone();
        match &checked.def(id).kind {
            DefKind::Control(decl) => {
                let enclosing = frame.control.clone();
                let known = enclosing
                    .as_ref()
                    .and_then(|enclosing| enclosing.state.borrow().direct.get(&expr.id).cloned());
                let instance = known.unwrap_or_else(|| {
                    // The instance has the name of its type; a `@name` of the type is ignored, as in p4c.
                    let name = join(&frame.name, &decl.name.name);
                    let ctor_params = decl.body.as_ref().map(|body| &body.ctor_params[..]);
                    let instance = Rc::new(ControlInstance {
                        decl: Rc::clone(decl),
                        name: self.free_name(name),
                        arguments: self.default_arguments(ctor_params.unwrap_or_default(), frame),
                        substitution: self.call_types(&decl.type_params, &type_args, frame),
                        shared: Cell::new(shared_by(frame)),
                        state: RefCell::default(),
                    });
                    self.controls.push(Rc::clone(&instance));
                    if let Some(enclosing) = &enclosing {
                        let mut state = enclosing.state.borrow_mut();
                        state.direct.insert(expr.id, Rc::clone(&instance));
                    }
                    instance
                });
                self.apply_control(&instance, info, call, expr.span, frame);
            }
            DefKind::Parser(decl) => {
                let name = join(&frame.name, &decl.name.name);
                let ctor_params = decl.body.as_ref().map(|body| &body.ctor_params[..]);
                let instance = Rc::new(ParserInstance {
                    decl: Rc::clone(decl),
                    name: self.free_name(name),
                    arguments: self.default_arguments(ctor_params.unwrap_or_default(), frame),
                    substitution: self.call_types(&decl.type_params, &type_args, frame),
                    value_sets: RefCell::default(),
                    instances: RefCell::default(),
                });
                self.enter_parser(&instance, false, info, call, expr.span, frame);
            }
            _ => {
                self.impossible(
                    expr.span,
                    "an applied type is neither a control nor a parser",
                );
            }
        }
    }

    /// Inlines an application of a control.
    fn apply_control(
        &mut self,
        instance: &Rc<ControlInstance>,
        info: &CallInfo,
        call: &Call,
        span: Span,
        frame: &Rc<Frame>,
    ) {
        let bound = self.arguments_for(&instance.decl.params, info, &call.args, frame);
        let known = instance.state.borrow().frame.clone();
        let copies = match (known, instance.shared.get()) {
            // All applications share the variables of the parameters.
            (Some(callee), _) => self.assign_parameters(bound, &callee, frame),
            (None, true) => {
                let callee = self.control_frame(instance);
                for param in &instance.decl.params {
                    self.allocate_parameter(param, &callee, instance);
                }
                let callee = Rc::new(callee);
                instance.state.borrow_mut().frame = Some(Rc::clone(&callee));
                self.assign_parameters(bound, &callee, frame)
            }
            (None, false) => {
                let callee = self.control_frame(instance);
                let copies = self.bind_arguments(bound, &callee, false, frame);
                instance.state.borrow_mut().frame = Some(Rc::new(callee));
                copies
            }
        };
        let callee = instance.state.borrow().frame.clone();
        let Some(callee) = callee else {
            self.impossible(span, "an applied control has no environment");
            return;
        };
        self.pending_copies.push(copies);
        self.elaborate_body(instance, &callee, span);
        let copies = self.pending_copies.pop().unwrap_or_default();
        self.copy_out(copies, span, frame);
    }

    /// Creates a variable for a parameter of a control.
    fn allocate_parameter(
        &mut self,
        param: &Rc<Param>,
        callee: &Frame,
        instance: &ControlInstance,
    ) {
        let ty = self.written_type(&param.ty, callee);
        if !ty.is_instance() {
            let place = self.allocate(&ty, &super::join(&instance.name, &param.name.name));
            callee.bind(param.id, Binding::Place(place));
        }
    }

    /// Copies arguments to the variables of the parameters. Returns the copies at the end of the application.
    fn assign_parameters(
        &mut self,
        bound: Vec<super::call::BoundArg>,
        callee: &Rc<Frame>,
        frame: &Rc<Frame>,
    ) -> super::call::Copies {
        use super::call::Argument;
        let mut moves = Vec::new();
        let mut outs = Vec::new();
        let mut copies = Vec::new();
        for bound in bound {
            let Some(param) = bound.param else { continue };
            if let Argument::Instance(instance) = &bound.argument {
                callee.bind(param, Binding::Instance(instance.clone()));
                continue;
            }
            let Some(Binding::Place(inner)) = callee.find(param) else {
                self.impossible(bound.span, "a parameter of a control has no variable");
                continue;
            };
            match bound.argument {
                Argument::Value(data) => moves.push((inner, data, bound.ty)),
                Argument::Place(place) => {
                    match bound.direction {
                        crate::syntax::ast::Direction::InOut => {
                            let data = match bound.saved {
                                Some(data) => data,
                                None => self.read(&place, &bound.ty, bound.span, &frame.name),
                            };
                            moves.push((inner.clone(), data, bound.ty.clone()));
                        }
                        _ => outs.push((inner.clone(), bound.span)),
                    }
                    let data = self.value_of(&inner, bound.span);
                    copies.push((place, data, bound.ty));
                }
                _ => {}
            }
        }
        let span = outs.first().map_or(callee_span(callee), |(_, span)| *span);
        self.assign_all(moves, span, &frame.name);
        for (place, span) in outs {
            self.invalidate(&place, span);
        }
        copies
    }

    /// Elaborates a control of the package in a new environment.
    fn run_control(&mut self, instance: &Rc<ControlInstance>, frame: Frame, span: Span) {
        let frame = Rc::new(frame);
        instance.state.borrow_mut().frame = Some(Rc::clone(&frame));
        self.elaborate_body(instance, &frame, span);
    }

    /// Elaborates the declarations and statements of a control, whose parameters are bound.
    fn elaborate_body(&mut self, instance: &Rc<ControlInstance>, callee: &Rc<Frame>, span: Span) {
        let Some(body) = &instance.decl.body else {
            self.impossible(span, "an applied control has no body");
            return;
        };
        let loops = std::mem::take(&mut self.loops);
        for decl in &body.locals {
            self.control_local(decl, instance, callee, &body.apply);
        }
        let label = self.label();
        let mut inner = Frame::inside(callee);
        inner.returns = Some(ReturnTarget {
            label,
            result: None,
        });
        let inner = Rc::new(inner);
        let code = self.block(|this| this.statements(&body.apply.stmts, &inner));
        self.emit_block(span, label, code);
        self.loops = loops;
    }

    /// Elaborates a local declaration of a control: a variable, a constant or an instance. Actions and tables are elaborated at their uses.
    fn control_local(
        &mut self,
        decl: &Decl,
        instance: &Rc<ControlInstance>,
        callee: &Rc<Frame>,
        apply: &Block,
    ) {
        match decl {
            Decl::Var(decl) => self.variable(decl, callee, false),
            Decl::Const(decl) => {
                let ty = self.written_type(&decl.ty, callee);
                let data = match self.checked.const_value(decl.id) {
                    Some(value) => self.data_of(value, &ty),
                    None => {
                        let data = self.eval(&decl.value, callee);
                        self.cast(data, &ty)
                    }
                };
                callee.bind(decl.id, Binding::Data(data));
            }
            Decl::Instantiation(decl) => {
                if callee.find(decl.id).is_some() {
                    return;
                }
                if let Some(Instance::Control(made)) = self.instantiate(decl, callee) {
                    let count = self.applications(&apply.stmts, decl.id);
                    made.shared
                        .set(made.shared.get() || instance.shared.get() || count > 1);
                }
            }
            _ => {}
        }
    }

    /// Number of applications of an instance in statements of the source.
    fn applications(&self, stmts: &[AstStmt], id: DeclId) -> usize {
        stmts
            .iter()
            .map(|stmt| self.applications_in(stmt, id))
            .sum()
    }

    /// Number of applications of an instance in one statement of the source.
    fn applications_in(&self, stmt: &AstStmt, id: DeclId) -> usize {
        match &stmt.kind {
            Ast::Call(expr) => match &expr.kind {
                ExprKind::Call(call) => {
                    let is_apply = matches!(
                        self.checked.call(expr.id).map(|info| info.callee),
                        Some(Callee::ControlApply(_))
                    );
                    let named = method_base(&call.callee)
                        .is_some_and(|base| self.checked.resolution(base) == Resolution::Decl(id));
                    usize::from(is_apply && named)
                }
                _ => 0,
            },
            Ast::If {
                then, otherwise, ..
            } => {
                self.applications_in(then, id)
                    + otherwise
                        .as_ref()
                        .map_or(0, |otherwise| self.applications_in(otherwise, id))
            }
            Ast::Block(block) => self.applications(&block.stmts, id),
            Ast::Switch { cases, .. } => cases
                .iter()
                .filter_map(|case| case.body.as_ref())
                .map(|block| self.applications(&block.stmts, id))
                .sum(),
            // Twice stands for more than once: an unrolled loop applies the instance in each iteration.
            Ast::For { body, .. } | Ast::ForIn { body, .. } => {
                self.applications_in(body, id).saturating_mul(2)
            }
            _ => 0,
        }
    }

    /// Applies a table whose result is not used.
    pub fn apply_table_without_result(&mut self, table: DeclId, span: Span, frame: &Rc<Frame>) {
        self.apply_table(table, span, frame, Outcome::default());
    }

    /// Applies a table; `outcome` has the statements that follow.
    pub fn apply_table(&mut self, table: DeclId, span: Span, frame: &Rc<Frame>, outcome: Outcome) {
        let Some(instance) = frame.control.clone() else {
            self.impossible(span, "a table is applied outside of a control");
            return;
        };
        let callee = body_frame(frame);
        let Some(info) = self.table(table, &instance, &callee) else {
            self.impossible(span, "an applied table is not a table");
            return;
        };
        self.compute_keys(table, &info, &callee);
        let action = |id: &DeclId| {
            info.actions
                .iter()
                .filter(move |(known, _)| known == id)
                .map(|(_, action)| *action)
                .collect::<Vec<_>>()
        };
        let actions = outcome
            .actions
            .into_iter()
            .map(|(labels, body)| (labels.iter().flat_map(action).collect(), body))
            .collect::<Vec<(Vec<ir::ActionId>, Vec<Stmt>)>>();
        let may_exit = info
            .actions
            .iter()
            .any(|(_, action)| has_exit(&self.into.action_bodies[action.index()]));
        let exit = match may_exit {
            true => self.block(|this| this.copy_out(this.all_pending_copies(), span, frame)),
            false => Vec::new(),
        };
        let then = match outcome.by_action {
            false => Follow::Hit {
                hit: outcome.hit,
                miss: outcome.miss,
            },
            // A switch with only a default case is unconditional.
            true if actions.is_empty() => Follow::Hit {
                hit: outcome.other.clone(),
                miss: outcome.other,
            },
            true => Follow::Action {
                actions,
                other: outcome.other,
            },
        };
        let apply = Apply {
            table: info.id,
            then,
            own: AtExit { stores: exit },
        };
        self.emit(span, StmtKind::Apply(Box::new(apply)));
    }

    /// Applies a table and returns the boolean value of `t.apply().hit`, or of `t.apply().miss` if `hit` is false.
    pub fn apply_as_value(&mut self, base: &Expr, hit: bool, frame: &Rc<Frame>) -> Data {
        let Some(table) = self.applied_table(base) else {
            return self.no_data(base.span, "`hit` or `miss` is not that of a table");
        };
        let result = self.temporary(&frame.name, "tmp", Scalar::Bool);
        let mut set = |value| {
            self.block(|this| {
                let value = ir::Expr::Bool(value);
                this.emit(
                    base.span,
                    Effect::Assign {
                        target: result.into(),
                        value,
                    },
                );
            })
        };
        let (then, other) = (set(hit), set(!hit));
        self.apply_table(
            table,
            base.span,
            frame,
            Outcome {
                hit: then,
                miss: other,
                ..Outcome::default()
            },
        );
        Data::Scalar(ir::Expr::field(result, Scalar::Bool))
    }
}

/// The environment that binds the local declarations of the current control.
pub fn body_frame(frame: &Rc<Frame>) -> Rc<Frame> {
    match &frame.control {
        Some(instance) => instance
            .state
            .borrow()
            .frame
            .clone()
            .unwrap_or_else(|| Rc::clone(frame)),
        None => Rc::clone(frame),
    }
}

/// Whether the enclosing control has several applications, which share its parameters.
fn shared_by(frame: &Frame) -> bool {
    frame
        .control
        .as_ref()
        .is_some_and(|instance| instance.shared.get())
}

/// Source position of the control to which an environment belongs; the default position outside controls.
fn callee_span(callee: &Frame) -> Span {
    callee
        .control
        .as_ref()
        .map_or(Span::default(), |instance| instance.decl.name.span)
}
