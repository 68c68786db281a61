//! Instances of controls, parsers and extern objects.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use super::call::Argument;
use super::frame::{Binding, ControlInstance, ExternObject, Frame, Instance, ParserInstance};
use super::Elaborator;
use crate::diag::Span;
use crate::passes::annotations::full_name;
use crate::sema::{CallInfo, Callee, DefKind, Resolution};
use crate::syntax::ast::{Annotation, Arg, DeclId, Expr, ExprKind, Instantiation, Param};

/// Number of parts of an instance for the limit of [`crate::passes::builder`]: its name, environment and arguments.
const INSTANCE_PARTS: usize = 4;

/// Name and annotations of an instance.
pub struct InstanceName<'n> {
    /// Fully qualified control-plane name.
    pub name: String,
    /// Annotations of the declaration; empty for an instance that is not declared by name.
    pub annotations: &'n [Annotation],
    /// Source position of the declaration or of the constructor call.
    pub span: Span,
}

impl Elaborator<'_> {
    /// Elaborates the declaration of an instance and binds its name. `None` after a reported error.
    pub fn instantiate(&mut self, decl: &Rc<Instantiation>, frame: &Rc<Frame>) -> Option<Instance> {
        let checked = self.checked;
        let info = checked.call(decl.call)?;
        let name = InstanceName {
            name: full_name(&frame.name, &decl.annotations, &decl.name.name),
            annotations: &decl.annotations,
            span: decl.name.span,
        };
        let instance = self.construct(info, &decl.args, name, frame)?;
        if let Instance::Extern(object) = instance {
            self.program.control_types.type_info_present = true;
            if let (ExternObject::Object(id), Some(body)) = (object, &decl.body) {
                self.implement(id, body, frame);
            }
        }
        frame.bind(decl.id, Binding::Instance(instance.clone()));
        Some(instance)
    }

    /// The instance that an expression names or constructs; `None` after a reported error.
    pub fn instance_of(&mut self, expr: &Expr, frame: &Rc<Frame>) -> Option<Instance> {
        let checked = self.checked;
        match &expr.kind {
            ExprKind::Name(_) => {
                let Resolution::Decl(id) = checked.resolution(expr) else {
                    return None;
                };
                if let Some(Binding::Instance(instance)) = frame.find(id) {
                    return Some(instance);
                }
                // Instances at the top level are elaborated on first use.
                match &checked.def(id).kind {
                    DefKind::Instance(decl) => {
                        let top = Rc::clone(&self.top);
                        if let Some(Binding::Instance(instance)) = top.find(id) {
                            return Some(instance);
                        }
                        self.instantiate(decl, &top)
                    }
                    _ => None,
                }
            }
            ExprKind::Call(call) => {
                let info = checked.call(expr.id)?;
                let declared = self.callee_name(info)?;
                let name = InstanceName {
                    name: self.free_name(super::join(&frame.name, &declared)),
                    annotations: &[],
                    span: expr.span,
                };
                self.construct(info, &call.args, name, frame)
            }
            _ => None,
        }
    }

    /// Name of the control, parser or extern that a constructor call constructs; `None` for other calls.
    fn callee_name(&self, info: &CallInfo) -> Option<String> {
        let id = match info.callee {
            Callee::ControlConstructor(id) | Callee::ParserConstructor(id) => id,
            Callee::ExternConstructor { ext, .. } => ext,
            _ => return None,
        };
        Some(self.checked.name(id).to_string())
    }

    /// Elaborates a constructor call; `None` after a reported error.
    pub fn construct(
        &mut self,
        info: &CallInfo,
        args: &[Arg],
        name: InstanceName,
        frame: &Rc<Frame>,
    ) -> Option<Instance> {
        let checked = self.checked;
        if self.count_parts(name.span, INSTANCE_PARTS).is_err() {
            return None;
        }
        match info.callee {
            Callee::ControlConstructor(id) => {
                let DefKind::Control(decl) = &checked.def(id).kind else {
                    return None;
                };
                // Blocks of the architecture have the name of their type, however they are instantiated. Neither a `@name` of
                // the type nor one of the instance has an effect, as in p4c.
                let name = match frame.parent {
                    None if frame.control.is_none() => decl.name.name.to_string(),
                    _ => name.name,
                };
                let instance = Rc::new(ControlInstance {
                    decl: Rc::clone(decl),
                    name,
                    arguments: self.constructor_arguments(info, args, frame),
                    substitution: self.call_types(&decl.type_params, &info.type_args, frame),
                    shared: Cell::new(false),
                    state: RefCell::default(),
                });
                self.controls.push(Rc::clone(&instance));
                Some(Instance::Control(instance))
            }
            Callee::ParserConstructor(id) => {
                let DefKind::Parser(decl) = &checked.def(id).kind else {
                    return None;
                };
                let name = match frame.parent {
                    None if frame.parser.is_none() => decl.name.name.to_string(),
                    _ => name.name,
                };
                Some(Instance::Parser(Rc::new(ParserInstance {
                    decl: Rc::clone(decl),
                    name,
                    arguments: self.constructor_arguments(info, args, frame),
                    substitution: self.call_types(&decl.type_params, &info.type_args, frame),
                    value_sets: RefCell::default(),
                    instances: RefCell::default(),
                })))
            }
            Callee::ExternConstructor { ext, .. } => {
                let id = self.declare(checked.name(ext), info, args, name, frame);
                Some(Instance::Extern(ExternObject::Object(id)))
            }
            _ => None,
        }
    }

    /// Bindings of constructor parameters to their default values, for an instance without constructor arguments.
    pub fn default_arguments(
        &mut self,
        params: &[Rc<Param>],
        frame: &Rc<Frame>,
    ) -> Vec<(DeclId, Binding)> {
        params
            .iter()
            .map(|param| {
                let ty = self.declared_type(param.id, frame);
                let data = match &param.default {
                    Some(default) => {
                        let data = self.eval(default, frame);
                        self.cast(data, &ty)
                    }
                    None => self.default_value(&ty),
                };
                (param.id, Binding::Data(data))
            })
            .collect()
    }

    /// Bindings of constructor parameters to the arguments of a constructor call.
    fn constructor_arguments(
        &mut self,
        info: &CallInfo,
        args: &[Arg],
        frame: &Rc<Frame>,
    ) -> Vec<(DeclId, Binding)> {
        let bound = self.arguments(info, args, frame);
        bound
            .into_iter()
            .filter_map(|bound| {
                let binding = match bound.argument {
                    Argument::Value(data) => Binding::Data(data),
                    Argument::Instance(instance) => {
                        // A control or parser that receives the instance may apply it.
                        if let Instance::Control(control) = &instance {
                            control.shared.set(true);
                        }
                        Binding::Instance(instance)
                    }
                    Argument::Place(place) => Binding::Place(place),
                    Argument::Omitted => Binding::Data(self.default_value(&bound.ty)),
                };
                Some((bound.param?, binding))
            })
            .collect()
    }
}
