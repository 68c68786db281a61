//! Actions, which tables list and statements call.

use std::rc::Rc;

use super::call::{Argument, Copies};
use super::control::body_frame;
use super::frame::{Binding, ControlInstance, Frame, ReturnTarget};
use super::Elaborator;
use crate::diag::Span;
use crate::ir::{self, ActionId};
use crate::passes::annotations::{documentation, field_annotations, field_name, full_name};
use crate::passes::builder::data::Data;
use crate::passes::inlined::Stmt;
use crate::sema::{CallInfo, Callee, DefKind};
use crate::syntax::ast::{
    ActionDecl, Arg, Call, DeclId, Direction, Stmt as AstStmt, StmtKind as Ast,
};

impl Elaborator<'_> {
    /// The declaration of an action, and whether it is at the top level; `None` if `id` is not an action.
    fn action_decl(&self, id: DeclId) -> Option<(Rc<ActionDecl>, bool)> {
        let def = self.checked.def(id);
        match &def.kind {
            DefKind::Action(decl) => Some((Rc::clone(decl), def.parent.is_none())),
            _ => None,
        }
    }

    /// The environment of an action's body.
    fn action_frame(&self, decl: &ActionDecl, global: bool, frame: &Rc<Frame>) -> Frame {
        let enclosing = if global {
            Rc::clone(&self.top)
        } else {
            body_frame(frame)
        };
        let mut inner = Frame::inside(&enclosing);
        inner.control = frame.control.clone();
        inner.in_action = true;
        inner.name = if global {
            super::join(&frame.name, &decl.name.name)
        } else {
            enclosing.name.clone()
        };
        inner
    }

    /// Elaborates an action that a table lists. `args` are the arguments of the list element for the parameters with a direction. An action
    /// without such parameters is elaborated once for all tables.
    pub fn table_action(
        &mut self,
        id: DeclId,
        info: Option<&CallInfo>,
        args: &[Arg],
        instance: &Rc<ControlInstance>,
        frame: &Rc<Frame>,
    ) -> Option<ActionId> {
        let (decl, global) = self.action_decl(id)?;
        let binds = decl
            .params
            .iter()
            .any(|param| param.direction != Direction::None);
        if !binds {
            let known = match global {
                true => self.top_actions.get(&id).copied(),
                false => instance.state.borrow().actions.get(&id).copied(),
            };
            if let Some(action) = known {
                return Some(action);
            }
        }
        let callee = self.action_frame(&decl, global, frame);
        let mut prologue = Vec::new();
        let mut copies = Vec::new();
        if let (true, Some(info)) = (binds, info) {
            let bound: Vec<_> = {
                let mut bound = Vec::new();
                prologue = self.block(|this| {
                    bound = this.arguments(info, args, frame);
                    bound.retain(|bound| bound.direction != Direction::None);
                });
                bound
            };
            let code =
                self.block(|this| copies = this.bind_arguments(bound, &callee, !global, frame));
            prologue.extend(code);
        }
        let params = self.run_time_params(&decl, &callee);
        let owner = self.owner_name(global, instance);
        let name = full_name(owner, &decl.annotations, &decl.name.name);
        let meta = self.named_meta("action", name, &decl.annotations, decl.name.span);
        let body = self.action_body(&decl, callee, prologue, copies);
        let action = ActionId::from(self.program.actions.len());
        self.program.actions.push(ir::Action { meta, params });
        self.into.action_bodies.push(body);
        if !binds {
            match global {
                true => self.top_actions.insert(id, action),
                false => instance.state.borrow_mut().actions.insert(id, action),
            };
        }
        Some(action)
    }

    /// Prefix of an action's control-plane name; empty for an action at the top level.
    fn owner_name<'n>(&self, global: bool, instance: &'n ControlInstance) -> &'n str {
        if global {
            ""
        } else {
            &instance.name
        }
    }

    /// Binds each parameter without a direction, which the control plane sets, to its position. Returns these
    /// parameters.
    fn run_time_params(&mut self, decl: &ActionDecl, callee: &Frame) -> Vec<ir::Param> {
        let mut params = Vec::new();
        for param in decl
            .params
            .iter()
            .filter(|param| param.direction == Direction::None)
        {
            let ty = self.written_type(&param.ty, callee);
            let Some(scalar) = self.scalar(&ty) else {
                let message =
                    format!("a parameter set by the control plane must be a number, not {ty}");
                self.target(param.span, message);
                continue;
            };
            let value = ir::Expr::Param {
                index: params.len(),
                ty: scalar,
            };
            callee.bind(param.id, Binding::Data(Data::Scalar(value)));
            let (control_width, type_name) = self.control_type(&ty);
            let (id, annotations, structured) =
                field_annotations(self.checked, self.diagnostics, &param.annotations);
            let (brief, description) = documentation(&param.annotations);
            params.push(ir::Param {
                name: field_name(&param.annotations, &param.name.name),
                ty: scalar,
                control_width,
                type_name,
                id,
                annotations,
                structured,
                brief,
                description,
            });
        }
        params
    }

    /// The body of an action, after `prologue` and before the copies of `out` and `inout` parameters.
    fn action_body(
        &mut self,
        decl: &ActionDecl,
        mut callee: Frame,
        prologue: Vec<Stmt>,
        copies: Copies,
    ) -> Vec<Stmt> {
        let label = self.label();
        callee.returns = Some(ReturnTarget {
            label,
            result: None,
        });
        let callee = Rc::new(callee);
        let pending = std::mem::replace(&mut self.pending_copies, vec![copies.clone()]);
        let loops = std::mem::take(&mut self.loops);
        let body = self.block(|this| this.statements(&decl.body.stmts, &callee));
        let body = self.block(|this| {
            this.out = prologue;
            this.emit_block(decl.span, label, body);
            this.copy_out(copies, decl.span, &callee);
        });
        self.loops = loops;
        self.pending_copies = pending;
        body
    }

    /// Inlines a direct call of an action.
    pub fn call_action(
        &mut self,
        id: DeclId,
        info: &CallInfo,
        call: &Call,
        span: Span,
        frame: &Rc<Frame>,
    ) {
        let Some((decl, global)) = self.action_decl(id) else {
            self.impossible(span, "a called action is not an action");
            return;
        };
        let mut bound = self.arguments(info, &call.args, frame);
        for bound in &mut bound {
            // In a direct call, a parameter without a direction is passed like an `in` parameter.
            if let (Direction::None, Argument::Place(place)) = (bound.direction, &bound.argument) {
                bound.argument = Argument::Value(self.value_of(place, bound.span));
            }
        }
        if !frame.in_action {
            self.list_called_action(&decl, global, frame);
        }
        let mut callee = self.action_frame(&decl, global, frame);
        let copies = self.bind_arguments(bound, &callee, !global, frame);
        let label = self.label();
        callee.returns = Some(ReturnTarget {
            label,
            result: None,
        });
        let callee = Rc::new(callee);
        self.pending_copies.push(copies);
        let loops = std::mem::take(&mut self.loops);
        let body = self.block(|this| this.statements(&decl.body.stmts, &callee));
        self.loops = loops;
        self.emit_block(span, label, body);
        let copies = self.pending_copies.pop().unwrap_or_default();
        self.copy_out(copies, span, frame);
    }

    /// Lists actions in P4Info that are called only in unreachable statements after an `exit`, as p4c does.
    pub fn list_actions_after_exit(&mut self, stmts: &[AstStmt], frame: &Rc<Frame>) {
        for stmt in stmts {
            let Ast::Call(expr) = &stmt.kind else {
                continue;
            };
            let callee = self.checked.call(expr.id).map(|info| info.callee);
            let (Some(Callee::Action(id)), false) = (callee, frame.in_action) else {
                continue;
            };
            if let Some((decl, global)) = self.action_decl(id) {
                self.list_called_action(&decl, global, frame);
            }
        }
    }

    /// Lists an action in P4Info that the control's body calls directly, without its parameters. Actions that other actions call are inlined
    /// and not listed.
    fn list_called_action(&mut self, decl: &ActionDecl, global: bool, frame: &Rc<Frame>) {
        let Some(instance) = frame.control.clone() else {
            return;
        };
        let name = full_name(
            self.owner_name(global, &instance),
            &decl.annotations,
            &decl.name.name,
        );
        if self
            .program
            .called_actions
            .iter()
            .any(|action| action.meta.name == name)
        {
            return;
        }
        if global {
            let mut state = instance.state.borrow_mut();
            state.called_globals.push(name.clone());
        }
        let meta = self.named_meta("action", name, &decl.annotations, decl.name.span);
        self.program.called_actions.push(ir::Action {
            meta,
            params: Vec::new(),
        });
    }
}
