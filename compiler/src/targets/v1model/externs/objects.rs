//! Lowering of v1model's extern objects.

use crate::diag::{Code, Diagnostic};
use crate::ir::{
    self, ActionProfileId, CounterUnit, ExternAttribute, ExternInstance, ExternInstanceId,
    MeterUnit, Register, RegisterId, Selector,
};
use crate::passes::builder::data::Data;
use crate::passes::externs::call::{DeclaredObject, ExternArg};
use crate::passes::externs::{enum_argument, enum_member, number, LoweredObject, Lowering};
use crate::sema::Type;

impl Lowering<'_> {
    /// Lowers a declared object.
    pub fn lower_v1model_object(&mut self, declared: DeclaredObject) -> LoweredObject {
        let DeclaredObject {
            ty,
            type_args,
            args,
            name,
            meta,
            annotations,
            span,
        } = declared;
        let meta = meta.unwrap_or_else(|| self.meta(name, &annotations, span));
        let size = number(&args, "size")
            .and_then(|size| u64::try_from(size).ok())
            .unwrap_or(0);
        let kind = enum_argument(self, &args, "type");
        let ty = &*ty;
        match ty {
            "counter" | "direct_counter" => {
                let unit = match kind.as_deref() {
                    Some("packets") => CounterUnit::Packets,
                    Some("bytes") => CounterUnit::Bytes,
                    _ => CounterUnit::Both,
                };
                let direct = ty == "direct_counter";
                let made = self.add_counter(meta, size, unit, 64, direct);
                if let LoweredObject::Counter(id) = made {
                    let index = self.index_type(type_args.first());
                    self.program.counters[id.index()].index_type = index;
                }
                made
            }
            "meter" | "direct_meter" => {
                let unit = match kind.as_deref() {
                    Some("bytes") => MeterUnit::Bytes,
                    _ => MeterUnit::Packets,
                };
                let direct = ty == "direct_meter";
                let (id, made) = self.add_meter(meta, size, unit, direct);
                if !direct {
                    let index = self.index_type(type_args.first());
                    self.program.meters[id.index()].index_type = index;
                }
                made
            }
            "register" => {
                let cell = type_args.first().cloned().unwrap_or(Type::Unknown);
                let Some(scalar) = self.scalar(&cell) else {
                    let message = format!("a register holds numbers on this target, not {cell}");
                    return LoweredObject::Invalid(self.target(span, message));
                };
                if size == 0 {
                    self.target(span, "a register has at least one cell on this target");
                }
                let type_spec = self.type_spec(&cell);
                let index_type = self.index_type(type_args.get(1));
                let id = RegisterId::from(self.program.registers.len());
                self.program.registers.push(Register {
                    meta,
                    size,
                    index_type,
                    ty: scalar,
                    initial: Default::default(),
                    type_spec,
                    hidden: false,
                    role: Default::default(),
                });
                LoweredObject::Register(id)
            }
            "action_profile" | "action_selector" => {
                let selector = match ty {
                    "action_selector" => {
                        let algorithm = self.algorithm(&args, "algorithm", span);
                        Some(Selector {
                            algorithm,
                            inputs: Vec::new(),
                            resilient: false,
                        })
                    }
                    _ => None,
                };
                let profile = self.profile(meta, size, selector, &annotations);
                let id = ActionProfileId::from(self.program.action_profiles.len());
                self.program.action_profiles.push(profile);
                LoweredObject::ActionProfile(id)
            }
            _ if self.options.emit_externs => self.foreign_instance(ty, args, meta),
            _ => {
                let what = Diagnostic::error(
                    Code::TARGET,
                    span,
                    format!(
                        "extern {ty} is not part of v1model, so this target does not support it"
                    ),
                )
                .help("use --emit-externs to keep its instances, for a switch that implements it");
                LoweredObject::Invalid(self.diagnostics.report_error(what).into())
            }
        }
    }

    /// The name of the index type if that is declared with `type`. Only newer versions of v1model have the index type as a type parameter.
    fn index_type(&mut self, ty: Option<&Type>) -> Option<String> {
        self.control_type(ty?).1
    }

    /// Keeps an object of an extern that is not part of v1model.
    fn foreign_instance(
        &mut self,
        ty: &str,
        args: Vec<ExternArg>,
        meta: ir::Meta,
    ) -> LoweredObject {
        let mut attributes = Vec::new();
        for given in args {
            let (Some(param), Some(data)) = (&given.param, given.data()) else {
                continue;
            };
            let value = match data {
                Data::String(text) => ExternAttribute::String(text.to_string()),
                data => match (enum_member(self, data, &given.ty), data.constant()) {
                    (Some(member), _) => ExternAttribute::String(member),
                    (None, Some(value)) => ExternAttribute::Number(value),
                    (None, None) => continue,
                },
            };
            attributes.push((param.to_string(), value));
        }
        let id = ExternInstanceId::from(self.program.extern_instances.len());
        let (name, source) = (meta.name, meta.source);
        self.program.extern_instances.push(ExternInstance {
            name,
            ty: ty.to_owned(),
            attributes,
            source,
        });
        LoweredObject::Other(id)
    }
}

/// The control plane's name for the kind of objects of an extern type; `None` if they are not visible to the control plane.
pub fn control_kind(ty: &str) -> Option<&'static str> {
    Some(match ty {
        "action_profile" | "action_selector" => "action profile",
        "counter" => "counter",
        "direct_counter" => "direct counter",
        "meter" => "meter",
        "direct_meter" => "direct meter",
        "register" => "register",
        _ => return None,
    })
}
