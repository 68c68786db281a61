//! Externs. Elaboration evaluates arguments, and records objects and calls for the pass [`crate::passes::externs`]. Only the functions of
//! core.p4 are lowered here.

use std::rc::Rc;

use num_bigint::BigInt;

use super::call::Argument as Passed;
use super::frame::{Binding, ExternObject, Frame, Instance, ReturnTarget};
use super::instance::InstanceName;
use super::{join, method_base, Elaborator, Region};
use crate::diag::{Code, Diagnostic, Span};
use crate::ir::{CallId, Expr, Take};
use crate::passes::builder::data::Data;
use crate::passes::externs::call::{
    Argument, Call, CallResult, Callee, DeclaredObject, ExternArg, Implementation, InstanceId,
};
use crate::passes::inlined::Pending;
use crate::sema::{CallInfo, Type};
use crate::syntax::ast::{self, Arg, Decl, DeclId, ExprKind, FunctionDecl, Name};

/// The program's implementations of an object's abstract methods, with their environment.
pub struct AbstractMethods {
    functions: Vec<Rc<FunctionDecl>>,
    enclosing: Rc<Frame>,
}

impl Elaborator<'_> {
    /// Records an object for the pass `externs`.
    pub fn declare(
        &mut self,
        ty: Name,
        info: &CallInfo,
        args: &[Arg],
        name: InstanceName,
        frame: &Rc<Frame>,
    ) -> InstanceId {
        let type_args = info.type_args.iter();
        let type_args = type_args.map(|ty| ty.substitute(&frame.substitution));
        let type_args = type_args.collect();
        let args = self.extern_arguments(info, args, frame);
        let kind = self.options.arch.target().control_kind(&ty);
        let meta =
            kind.map(|kind| self.named_meta(kind, name.name.clone(), name.annotations, name.span));
        let instances = &mut self.into.externs.instances;
        instances.push(DeclaredObject {
            ty,
            type_args,
            args,
            name: name.name,
            meta,
            annotations: name.annotations.to_vec(),
            span: name.span,
        });
        InstanceId(instances.len() - 1)
    }

    /// Records the implementations of an object's abstract methods.
    pub fn implement(&mut self, id: InstanceId, body: &[Decl], frame: &Rc<Frame>) {
        let functions = body.iter().filter_map(|decl| match decl {
            Decl::Function(decl) => Some(Rc::clone(decl)),
            _ => None,
        });
        let bodies = AbstractMethods {
            functions: functions.collect(),
            enclosing: Rc::clone(frame),
        };
        self.bodies.insert(id, Rc::new(bodies));
    }

    /// Evaluates the arguments of an extern's constructor or of an extern call.
    fn extern_arguments(
        &mut self,
        info: &CallInfo,
        args: &[Arg],
        frame: &Rc<Frame>,
    ) -> Vec<ExternArg> {
        let checked = self.checked;
        let bound = self.arguments(info, args, frame).into_iter();
        let given = bound.map(|bound| ExternArg {
            param: bound.param.map(|id| checked.name(id)),
            ty: bound.ty,
            argument: match bound.argument {
                Passed::Value(data) => Argument::Value(data),
                Passed::Place(place) => Argument::Place(place),
                Passed::Instance(Instance::Extern(ExternObject::Object(id))) => {
                    Argument::Object(id)
                }
                Passed::Instance(_) | Passed::Omitted => Argument::Omitted,
            },
            span: bound.span,
        });
        given.collect()
    }

    /// Elaborates a call of an extern function.
    pub fn call_extern(
        &mut self,
        id: DeclId,
        info: &CallInfo,
        call: &ast::Call,
        span: Span,
        frame: &Rc<Frame>,
    ) -> Data {
        let name = self.checked.name(id);
        if self.region != Region::Parser && &*name != "static_assert" {
            self.program.control_types.type_info_present = true;
        }
        // The calls are removed with the evaluation of their arguments, as by p4c.
        if self.options.no_assertions && matches!(&*name, "assert" | "assume") {
            return Data::Nothing;
        }
        let args = self.extern_arguments(info, &call.args, frame);
        match &*name {
            "verify" => {
                let scalar = |position: usize| match args.get(position).and_then(ExternArg::data) {
                    Some(Data::Scalar(expr)) => Some(expr.clone()),
                    _ => None,
                };
                match (scalar(0), scalar(1)) {
                    (Some(cond), Some(error)) => {
                        self.emit(span, Take::Verify { cond, error });
                        Data::Nothing
                    }
                    _ => self.no_data(span, "`verify` has an argument that is not a number"),
                }
            }
            "static_assert" => self.static_assert(&args, span),
            _ => self.record_call(Callee::Function(name), args, info, Vec::new(), span, frame),
        }
    }

    /// Elaborates a call of a method of an extern object.
    pub fn call_method(
        &mut self,
        id: DeclId,
        info: &CallInfo,
        call: &ast::Call,
        span: Span,
        frame: &Rc<Frame>,
    ) -> Data {
        let method = self.checked.name(id);
        let base = method_base(&call.callee);
        if matches!(base, Some(base) if matches!(base.kind, ExprKind::This)) {
            let args = self.extern_arguments(info, &call.args, frame);
            return self.record_call(Callee::This(method), args, info, Vec::new(), span, frame);
        }
        let instance = base.and_then(|base| self.instance_of(base, frame));
        let Some(Instance::Extern(object)) = instance else {
            return self.no_data(span, "a method is called of a value that is not an object");
        };
        match object {
            ExternObject::PacketIn => self.packet_in(&method, info, call, span, frame),
            ExternObject::PacketOut => {
                self.emit_header(info, call, span, frame);
                Data::Nothing
            }
            ExternObject::Object(id) => {
                let args = self.extern_arguments(info, &call.args, frame);
                let implementations = self.implementations(id, span);
                let callee = Callee::Method(id, method);
                self.record_call(callee, args, info, implementations, span, frame)
            }
        }
    }

    /// Records a call for the pass `externs`, or evaluates it if it is pure. Returns its result.
    fn record_call(
        &mut self,
        callee: Callee,
        args: Vec<ExternArg>,
        info: &CallInfo,
        implementations: Vec<Implementation>,
        span: Span,
        frame: &Rc<Frame>,
    ) -> Data {
        let target = self.options.arch.target();
        let ret = info.ret.substitute(&frame.substitution);
        let mut call = Call {
            callee,
            args,
            ret,
            result: CallResult::None,
            implementations,
            region: self.region,
            scope: frame.name.clone(),
            span,
        };
        if let Some(value) = target.fold_pure_call(&mut self.build, &call) {
            return value;
        }
        let id = CallId::from(self.into.externs.calls.len());
        let mut data = Data::Nothing;
        if call.ret != Type::Void && target.calls_have_results() {
            (call.result, data) = match self.scalar(&call.ret) {
                Some(ty) => (
                    CallResult::Scalar(ty),
                    Data::Scalar(Expr::Result { call: id, ty }),
                ),
                None => {
                    let place = self.allocate(&call.ret, &join(&frame.name, "tmp"));
                    let data = self.value_of(&place, span);
                    (CallResult::Place(place), data)
                }
            };
        }
        self.into.externs.calls.push(call);
        self.emit(span, Pending::Call(id));
        data
    }

    /// The placeholder for the result of an extern call on a target whose calls have no results. Its own externs have none, so the extern is
    /// unknown to it.
    pub fn missing_result(&mut self, span: Span) -> Data {
        if self.options.only_check {
            return self.skip().into();
        }
        let error = Diagnostic::error(
            Code::TARGET,
            span,
            "this target has no calls of externs with a result",
        )
        .help("declare the extern with an `out` parameter in place of the result");
        self.diagnostics.report_error(error).into()
    }

    /// The implementations of an object's abstract methods, elaborated with new variables for a call at `span`.
    fn implementations(&mut self, id: InstanceId, span: Span) -> Vec<Implementation> {
        let Some(bodies) = self.bodies.get(&id).map(Rc::clone) else {
            return Vec::new();
        };
        let mut made = Vec::new();
        for decl in &bodies.functions {
            let Some(body) = &decl.body else { continue };
            let mut callee = Frame::inside(&bodies.enclosing);
            callee.name = join(&bodies.enclosing.name, "cell");
            callee.in_action = true;
            let mut params = Vec::new();
            for param in &decl.params {
                let ty = self.written_type(&param.ty, &callee);
                let place = self.allocate(&ty, &join(&callee.name, &param.name.name));
                callee.bind(param.id, Binding::Place(place.clone()));
                params.push((param.direction, ty, place));
            }
            let label = self.label();
            callee.returns = Some(ReturnTarget {
                label,
                result: None,
            });
            let callee = Rc::new(callee);
            let loops = std::mem::take(&mut self.loops);
            let code = self.block(|this| {
                let code = this.block(|this| this.statements(&body.stmts, &callee));
                this.emit_block(span, label, code);
            });
            self.loops = loops;
            made.push(Implementation {
                name: Rc::clone(&decl.name.name),
                params,
                code,
            });
        }
        made
    }

    /// Evaluates `static_assert`, and reports a false or unknown condition.
    fn static_assert(&mut self, args: &[ExternArg], span: Span) -> Data {
        let holds = args
            .first()
            .and_then(ExternArg::data)
            .and_then(Data::constant);
        let message = match args.get(1).and_then(ExternArg::data) {
            Some(Data::String(text)) => format!("static assertion failed: {text}"),
            _ => "static assertion failed".to_owned(),
        };
        match holds {
            Some(value) if value != BigInt::ZERO => Data::boolean(true),
            Some(_) => self.error(Code::EVALUATION, span, message).into(),
            None => self
                .error(
                    Code::NOT_CONSTANT,
                    span,
                    "a static assertion must be known at compile time",
                )
                .into(),
        }
    }
}
