//! Calls: evaluation of arguments, parameter passing, and inlining of functions.
//!
//! P4 passes arguments by copy-in and copy-out. Here a parameter is an alias of its argument if the difference cannot be observed: other
//! arguments do not overlap with the storage, and the callee cannot access the storage by another name.

use std::rc::Rc;

use super::frame::{Binding, Frame, Instance, ReturnTarget};
use super::stacks::is_next;
use super::{method_base, Elaborator, MAX_DEPTH};
use crate::diag::{Code, Span};
use crate::ir::{self, Effect, Storage, UnionId};
use crate::passes::builder::data::{Data, Footprint, Place};
use crate::passes::inlined::{has_break_to, Stmt, StmtKind};
use crate::sema::{ArgSource, BuiltinMethod, CallInfo, Callee, DefKind, Type};
use crate::syntax::ast::{
    Arg, Call, DeclId, Direction, Expr, ExprKind, FunctionDecl, Param, StmtKind as AstStmt,
};

/// An evaluated argument.
#[derive(Clone, Debug)]
pub enum Argument {
    /// The value for an `in` parameter or a parameter without a direction.
    Value(Data),
    /// The storage for an `out` or `inout` parameter.
    Place(Place),
    /// An instance of a control, parser or extern.
    Instance(Instance),
    /// A missing argument, or `_`.
    Omitted,
}

/// A parameter with its argument.
#[derive(Clone, Debug)]
pub struct BoundArg {
    /// The parameter; `None` for built-in methods.
    pub param: Option<DeclId>,
    /// Direction of the parameter.
    pub direction: Direction,
    /// Type of the parameter.
    pub ty: Type,
    /// The evaluated argument.
    pub argument: Argument,
    /// For an `inout` argument that a later argument may change: a copy of its value. `None` if the copy is not needed.
    pub saved: Option<Data>,
    /// Position of the argument in the source.
    pub span: Span,
    /// Position of the argument in the call. Results are copied out in this order (P4_16 spec § 6.8), not in that of the parameters.
    pub position: usize,
}

impl Elaborator<'_> {
    /// Elaborates a call and returns its result.
    pub fn eval_call(&mut self, expr: &Expr, call: &Call, frame: &Rc<Frame>) -> Data {
        let checked = self.checked;
        let Some(info) = checked.call(expr.id) else {
            return self.no_data(expr.span, "a call is not resolved");
        };
        if let Err(reported) = self.count_parts(expr.span, 1) {
            return reported.into();
        }
        self.depth += 1;
        let result = match self.depth > MAX_DEPTH {
            true => self
                .report_last(
                    Code::RECURSION,
                    expr.span,
                    format!(
                        "calls are nested more than {MAX_DEPTH} levels deep, the limit of inlining"
                    ),
                )
                .into(),
            false => self.dispatch(expr, call, info, frame),
        };
        self.depth -= 1;
        result
    }

    /// Elaborates a call by the kind of its callee.
    fn dispatch(&mut self, expr: &Expr, call: &Call, info: &CallInfo, frame: &Rc<Frame>) -> Data {
        let checked = self.checked;
        match info.callee {
            Callee::Builtin(method) => self.builtin(method, call, expr.span, frame),
            Callee::Function(id) => match &checked.def(id).kind {
                DefKind::Function(decl) => {
                    self.call_function(&Rc::clone(decl), info, call, expr.span, frame)
                }
                _ => self.no_data(expr.span, "a called function is not a function"),
            },
            Callee::Action(id) => {
                self.call_action(id, info, call, expr.span, frame);
                Data::Nothing
            }
            Callee::ExternFunction(id) => self.call_extern(id, info, call, expr.span, frame),
            Callee::Method(id) => self.call_method(id, info, call, expr.span, frame),
            Callee::ParserApply(_) => {
                self.apply_sub_parser(info, call, expr.span, frame);
                Data::Nothing
            }
            Callee::ControlApply(_) => {
                self.apply_sub_control(info, call, expr.span, frame);
                Data::Nothing
            }
            Callee::DirectApply(id) => {
                self.apply_direct(id, info, call, expr, frame);
                Data::Nothing
            }
            Callee::TableApply(id) => {
                self.apply_table_without_result(id, expr.span, frame);
                Data::Nothing
            }
            _ => self.no_data(expr.span, "a constructor is called in a statement"),
        }
    }

    /// Evaluates the arguments in source order and returns them in the order of the parameters.
    pub fn arguments(&mut self, info: &CallInfo, args: &[Arg], frame: &Rc<Frame>) -> Vec<BoundArg> {
        let mut slots: Vec<Option<BoundArg>> = info.args.iter().map(|_| None).collect();
        for (position, arg) in args.iter().enumerate() {
            let Some(slot) = info
                .args
                .iter()
                .position(|known| known.source == ArgSource::Arg(position))
            else {
                continue;
            };
            let param = &info.args[slot];
            let ty = param.ty.substitute(&frame.substitution);
            let later_effects = args[position + 1..]
                .iter()
                .any(|later| self.has_effects(&later.value));
            let span = arg.value.span;
            let argument = match (info.callee, param.direction) {
                // `stack.next` is passed to a sub-parser as such, since extraction to the parameter must advance the stack.
                (Callee::ParserApply(_) | Callee::DirectApply(_), Direction::Out) => {
                    Argument::Place(self.extracted_place(&arg.value, frame))
                }
                (_, direction) => self.argument(&arg.value, direction, &ty, later_effects, frame),
            };
            let saved = match &argument {
                Argument::Place(place)
                    if param.direction == Direction::InOut && later_effects && !is_next(place) =>
                {
                    let data = self.read(place, &ty, span, &frame.name);
                    Some(self.materialize(data, &ty, span, &frame.name))
                }
                _ => None,
            };
            slots[slot] = Some(BoundArg {
                param: param.param,
                direction: param.direction,
                ty,
                argument,
                saved,
                span,
                position,
            });
        }
        let checked = self.checked;
        slots
            .into_iter()
            .zip(&info.args)
            .map(|(slot, param)| {
                if let Some(bound) = slot {
                    return bound;
                }
                let ty = param.ty.substitute(&frame.substitution);
                let mut span = Span::default();
                let mut argument = Argument::Omitted;
                let default = param.param.and_then(|id| match &checked.def(id).kind {
                    DefKind::Param(decl) | DefKind::CtorParam(decl) => decl.default.as_ref(),
                    _ => None,
                });
                if let (ArgSource::Default, Some(default)) = (param.source, default) {
                    span = default.span;
                    argument = self.argument(default, Direction::In, &ty, false, frame);
                }
                BoundArg {
                    param: param.param,
                    direction: param.direction,
                    ty,
                    argument,
                    saved: None,
                    span,
                    position: args.len(),
                }
            })
            .collect()
    }

    /// The arguments of an application of a control or parser, with `params` as parameters. The checker may have resolved the call by a
    /// control or parser type, which has its own parameters in the same order.
    pub fn arguments_for(
        &mut self,
        params: &[Rc<Param>],
        info: &CallInfo,
        args: &[Arg],
        frame: &Rc<Frame>,
    ) -> Vec<BoundArg> {
        let mut bound = self.arguments(info, args, frame);
        for (position, bound) in bound.iter_mut().enumerate() {
            bound.param = params.get(position).map(|param| param.id);
        }
        bound
    }

    /// Evaluates an argument. Its value is saved if a later argument may change it.
    fn argument(
        &mut self,
        expr: &Expr,
        direction: Direction,
        ty: &Type,
        later_effects: bool,
        frame: &Rc<Frame>,
    ) -> Argument {
        if ty.is_instance() {
            return match self.instance_of(expr, frame) {
                Some(instance) => Argument::Instance(instance),
                None => Argument::Omitted,
            };
        }
        if direction.writes() {
            return Argument::Place(self.place(expr, frame));
        }
        if matches!(expr.kind, ExprKind::DontCare(_)) {
            return Argument::Omitted;
        }
        let data = match &expr.kind {
            ExprKind::List(_) | ExprKind::Struct { .. } => self.eval(expr, frame),
            _ => {
                let data = self.eval(expr, frame);
                self.cast(data, ty)
            }
        };
        match later_effects {
            true => {
                let own = self.type_as_used(expr, frame);
                Argument::Value(self.materialize(data, &own, expr.span, &frame.name))
            }
            false => Argument::Value(data),
        }
    }

    /// Binds parameters to arguments in `callee`, as aliases or as new variables. If `closure`, the callee can access variables of the caller
    /// by name, so its arguments must not be aliased. Returns the copies at the end of the call.
    pub fn bind_arguments(
        &mut self,
        bound: Vec<BoundArg>,
        callee: &Frame,
        closure: bool,
        frame: &Rc<Frame>,
    ) -> Copies {
        let storage = &self.program.storage;
        let footprints: Vec<Footprint> = bound
            .iter()
            .map(|bound| match &bound.argument {
                Argument::Value(data) => data.footprint(storage),
                Argument::Place(place) => place.footprint(storage),
                _ => Footprint::default(),
            })
            .collect();
        let overlaps: Vec<bool> = (0..bound.len())
            .map(|position| {
                (bound.iter().enumerate())
                    .filter(|(other, bound)| {
                        *other != position && matches!(bound.argument, Argument::Place(_))
                    })
                    .any(|(other, _)| footprints[other].overlaps(&footprints[position]))
            })
            .collect();

        // Values are saved first, before an `out` header is made invalid.
        for (position, bound) in bound.iter().enumerate() {
            let Some(param) = bound.param else { continue };
            let binding = match &bound.argument {
                Argument::Instance(instance) => Binding::Instance(instance.clone()),
                Argument::Omitted => match bound.direction.writes() {
                    true => {
                        Binding::Place(self.allocate(&bound.ty, &super::join(&frame.name, "tmp")))
                    }
                    false => Binding::Data(self.default_value(&bound.ty)),
                },
                Argument::Value(data) => {
                    let mut data = data.clone();
                    let changes =
                        !footprints[position].is_empty() && (overlaps[position] || closure);
                    if changes || data.is_long() {
                        data = self.materialize(data, &bound.ty, bound.span, &frame.name);
                    }
                    Binding::Data(data)
                }
                Argument::Place(_) => continue,
            };
            callee.bind(param, binding);
        }
        let mut copies = Vec::new();
        for (position, bound) in bound.into_iter().enumerate() {
            let (Some(param), Argument::Place(place)) = (bound.param, bound.argument) else {
                continue;
            };
            if bound.direction == Direction::Out && is_next(&place) {
                // Extraction to the parameter writes directly to the stack.
                callee.bind(param, Binding::Place(place));
                continue;
            }
            let is_saved = bound.saved.is_some();
            let inner = match place.is_fixed() && !overlaps[position] && !closure && !is_saved {
                true => {
                    if let Place::Header(header) = place {
                        // Copying out an invalid member of a union invalidates the union.
                        if !self.program.storage.union_siblings(header).is_empty() {
                            let copy = (place.clone(), Data::Header(header), bound.ty.clone());
                            copies.push((bound.position, copy));
                        }
                    }
                    place
                }
                false => {
                    let inner = self.allocate(&bound.ty, &super::join(&frame.name, "tmp"));
                    if bound.direction == Direction::InOut {
                        let data = match bound.saved {
                            Some(data) => data,
                            None => self.read(&place, &bound.ty, bound.span, &frame.name),
                        };
                        self.assign(&inner, data, &bound.ty, bound.span, &frame.name);
                    }
                    let data = self.value_of(&inner, bound.span);
                    copies.push((bound.position, (place, data, bound.ty.clone())));
                    inner
                }
            };
            if bound.direction == Direction::Out {
                self.invalidate(&inner, bound.span);
            }
            callee.bind(param, Binding::Place(inner));
        }
        copies.sort_by_key(|(position, _)| *position);
        copies.into_iter().map(|(_, copy)| copy).collect()
    }

    /// The copies at the end of all enclosing calls, beginning with the innermost call.
    pub fn all_pending_copies(&self) -> Copies {
        let copies = self.pending_copies.iter().rev();
        copies.flatten().cloned().collect()
    }

    /// Emits the copies at the end of a call.
    pub fn copy_out(&mut self, copies: Copies, span: Span, frame: &Rc<Frame>) {
        for (place, data, ty) in copies {
            self.assign(&place, data, &ty, span, &frame.name);
        }
    }

    /// Inlines a call of a function.
    fn call_function(
        &mut self,
        decl: &Rc<FunctionDecl>,
        info: &CallInfo,
        call: &Call,
        span: Span,
        frame: &Rc<Frame>,
    ) -> Data {
        let Some(body) = &decl.body else {
            return self.no_data(span, "a called function has no body");
        };
        let bound = self.arguments(info, &call.args, frame);
        let mut callee = Frame::inside(&Rc::clone(&self.top));
        callee.substitution = self.call_types(&decl.type_params, &info.type_args, frame);
        callee.name = super::join(&frame.name, &decl.name.name);
        callee.control = frame.control.clone();
        callee.parser = frame.parser.clone();
        let copies = self.bind_arguments(bound, &callee, false, frame);
        let ret = info.ret.substitute(&frame.substitution);

        // A function that is a single `return` needs no variable for its result.
        if let ([only], true) = (&body.stmts[..], copies.is_empty()) {
            if let AstStmt::Return(Some(value)) = &only.kind {
                let callee = Rc::new(callee);
                let data = self.eval(value, &callee);
                return self.cast(data, &ret);
            }
        }
        let label = self.label();
        let result = match ret {
            Type::Void => None,
            _ => Some((
                self.allocate(&ret, &super::join(&callee.name, "retval")),
                ret,
            )),
        };
        callee.returns = Some(ReturnTarget {
            label,
            result: result.clone(),
        });
        let callee = Rc::new(callee);
        self.pending_copies.push(copies);
        let loops = std::mem::take(&mut self.loops);
        let body = self.block(|this| this.statements(&body.stmts, &callee));
        self.loops = loops;
        self.emit_block(span, label, body);
        let copies = self.pending_copies.pop().unwrap_or_default();
        self.copy_out(copies, span, frame);
        match result {
            Some((place, _)) => self.value_of(&place, span),
            None => Data::Nothing,
        }
    }

    /// Emits a body as a block with a label. The block is omitted if the body has no break to the label, except at its end.
    pub fn emit_block(&mut self, span: Span, label: ir::Label, mut body: Vec<Stmt>) {
        if matches!(body.last().map(|stmt| &stmt.kind), Some(StmtKind::Break(last)) if *last == label)
        {
            body.pop();
        }
        match has_break_to(&body, label) {
            true => self.emit(span, StmtKind::Block { label, body }),
            false => self.out.extend(body),
        }
    }

    /// Elaborates a call of a built-in method, such as `isValid` or `push_front`.
    fn builtin(
        &mut self,
        method: BuiltinMethod,
        call: &Call,
        span: Span,
        frame: &Rc<Frame>,
    ) -> Data {
        let Some(base) = method_base(&call.callee) else {
            return self.no_data(span, "a built-in method is called without a base");
        };
        match method {
            BuiltinMethod::IsValid => self.is_valid(base, span, frame),
            BuiltinMethod::SetValid => {
                let place = self.place(base, frame);
                self.set_valid(&place, span);
                Data::Nothing
            }
            BuiltinMethod::SetInvalid => {
                let place = self.place(base, frame);
                self.invalidate(&place, span);
                Data::Nothing
            }
            BuiltinMethod::PushFront | BuiltinMethod::PopFront => {
                let count = call
                    .args
                    .first()
                    .and_then(|arg| self.eval_u32(&arg.value, frame).ok());
                let (Some(count), place) = (count, self.place(base, frame)) else {
                    return self.no_data(span, "a stack is shifted by an unknown number");
                };
                let push = method == BuiltinMethod::PushFront;
                let opened = unions_to_invalidate(&self.program.storage, &place, count, push);
                match place {
                    Place::Stack(target) if push => self.emit(span, Effect::Push { target, count }),
                    Place::Stack(target) => self.emit(span, Effect::Pop { target, count }),
                    Place::UnionStack(target) if push => {
                        self.emit(span, Effect::PushUnion { target, count })
                    }
                    Place::UnionStack(target) => {
                        self.emit(span, Effect::PopUnion { target, count })
                    }
                    _ => {
                        self.impossible(span, "a place that is not a stack is shifted");
                    }
                }
                for union in opened {
                    self.invalidate(&Place::Union(union), span);
                }
                Data::Nothing
            }
            BuiltinMethod::MinSizeInBits => self.size_of(base, false, false, frame),
            BuiltinMethod::MinSizeInBytes => self.size_of(base, false, true, frame),
            BuiltinMethod::MaxSizeInBits => self.size_of(base, true, false, frame),
            BuiltinMethod::MaxSizeInBytes => self.size_of(base, true, true, frame),
        }
    }

    /// The validity of a header or union, as a boolean value.
    fn is_valid(&mut self, base: &Expr, span: Span, frame: &Rc<Frame>) -> Data {
        if self.is_path(base, frame) {
            let place = self.place(base, frame);
            return self.validity(&place, span, &frame.name);
        }
        match self.eval(base, frame) {
            Data::Header(place) => Data::Scalar(ir::Expr::Valid(place)),
            Data::Union(id) => Data::Scalar(ir::Expr::UnionValid(id)),
            Data::HeaderOf(_) => Data::boolean(true),
            Data::InvalidHeader => Data::boolean(false),
            _ => self.no_data(
                span,
                "a value that is neither a header nor a union has no validity",
            ),
        }
    }

    /// The size of an expression's type: the maximum if `max`, in bytes if `bytes`, else in bits.
    fn size_of(&mut self, base: &Expr, max: bool, bytes: bool, frame: &Rc<Frame>) -> Data {
        let ty = self.type_of(base, frame);
        if let Err(reported) = self.count_type_parts(&ty) {
            return reported.into();
        }
        let bits = self.bits(&ty, max);
        Data::Int(if bytes { bits.div_ceil(8) } else { bits }.into())
    }
}

/// The unions of a stack that `push_front` or `pop_front` by `count` elements must invalidate, since the switch does not. Empty for a stack of
/// headers.
fn unions_to_invalidate(storage: &Storage, stack: &Place, count: u32, push: bool) -> Vec<UnionId> {
    let Place::UnionStack(id) = stack else {
        return Vec::new();
    };
    let elements = &storage.union_stack(*id).elements;
    let count = elements.len().min(count as usize);
    match push {
        true => elements[..count].to_vec(),
        false => elements[elements.len() - count..].to_vec(),
    }
}

/// The copies at the end of a call: destination, value and type.
pub type Copies = Vec<(Place, Data, Type)>;
