//! Construction of extern objects.

use super::call::{Argument, Bound};
use super::frame::ExternObject;
use super::instance::InstanceName;
use super::Elaborator;
use crate::diag::{Code, Diagnostic};
use crate::ir::{
    self, ActionProfile, ActionProfileId, Counter, CounterId, CounterUnit, ExternAttribute,
    ExternInstance, ExternInstanceId, Meter, MeterId, MeterUnit, Register, RegisterId, Selector,
    SizeSemantics,
};
use crate::passes::annotations::{self, unstructured_but};
use crate::passes::builder::data::Data;
use crate::sema::Type;
use crate::syntax::ast::{Annotated, Annotation, Name};

/// What a profile says of itself in fields of its own.
const OF_PROFILES: [&str; 3] = [
    "max_group_size",
    "max_member_weight",
    "selector_size_semantics",
];

impl Elaborator<'_> {
    /// Makes an extern object.
    pub fn construct_extern(
        &mut self,
        ty: &str,
        type_args: &[Type],
        args: Vec<(Option<Name>, Bound)>,
        name: InstanceName,
    ) -> ExternObject {
        if self.program.arch.is_tofino() {
            return self.construct_for_tofino(ty, type_args, args, name);
        }
        let full_name = name.name.clone();
        let meta = match kind_of(ty) {
            Some(kind) => self.named_meta(kind, full_name, name.annotations, name.span),
            None => self.meta(full_name, name.annotations, name.span),
        };
        let number = |wanted: &str| {
            args.iter()
                .find_map(|(param, bound)| match (param, &bound.argument) {
                    (Some(param), Argument::Value(data)) if &**param == wanted => data.constant(),
                    _ => None,
                })
        };
        let size = number("size")
            .and_then(|size| u64::try_from(size).ok())
            .unwrap_or(0);
        let kind = self.enum_argument(&args, "type");
        match ty {
            "counter" | "direct_counter" => {
                let unit = match kind.as_deref() {
                    Some("packets") => CounterUnit::Packets,
                    Some("bytes") => CounterUnit::Bytes,
                    _ => CounterUnit::Both,
                };
                let direct = ty == "direct_counter";
                let id = CounterId::from(self.program.counters.len());
                self.program.counters.push(Counter {
                    meta,
                    size,
                    unit,
                    width: 64,
                    direct,
                    table: None,
                });
                if direct {
                    ExternObject::DirectCounter(id)
                } else {
                    ExternObject::Counter(id)
                }
            }
            "meter" | "direct_meter" => {
                let unit = match kind.as_deref() {
                    Some("bytes") => MeterUnit::Bytes,
                    _ => MeterUnit::Packets,
                };
                let direct = ty == "direct_meter";
                let id = MeterId::from(self.program.meters.len());
                self.program.meters.push(Meter {
                    meta,
                    size,
                    unit,
                    direct,
                    table: None,
                    result: None,
                    precolor: None,
                });
                if direct {
                    ExternObject::DirectMeter(id)
                } else {
                    ExternObject::Meter(id)
                }
            }
            "register" => {
                let cell = type_args.first().cloned().unwrap_or(Type::Invalid);
                let Some(scalar) = self.scalar(&cell) else {
                    let message = format!("a register holds numbers on this target, not {cell}");
                    self.target(name.span, message);
                    return ExternObject::Invalid;
                };
                if size == 0 {
                    self.target(name.span, "a register has at least one cell on this target");
                }
                let type_spec = self.type_spec(&cell);
                let id = RegisterId::from(self.program.registers.len());
                self.program.registers.push(Register {
                    meta,
                    size,
                    ty: scalar,
                    initial: Default::default(),
                    type_spec,
                    hidden: false,
                });
                ExternObject::Register(id)
            }
            "action_profile" | "action_selector" => {
                let selector = match ty {
                    "action_selector" => {
                        let algorithm = self.algorithm(&args, "algorithm", name.span);
                        Some(Selector {
                            algorithm,
                            inputs: Vec::new(),
                            resilient: false,
                        })
                    }
                    _ => None,
                };
                let profile = self.profile(meta, size, selector, name.annotations);
                let id = ActionProfileId::from(self.program.action_profiles.len());
                self.program.action_profiles.push(profile);
                ExternObject::ActionProfile(id)
            }
            _ if self.options.emit_externs => self.foreign_instance(ty, args, meta),
            _ => {
                let what = Diagnostic::error(
                    Code::TARGET,
                    name.span,
                    format!("extern {ty} is not part of v1model, so this target does not have it"),
                )
                .help("a switch extended with it takes its instances from the output of --emit-externs");
                self.diagnostics.report(what);
                ExternObject::Invalid
            }
        }
    }

    pub fn profile(
        &mut self,
        mut meta: ir::Meta,
        size: u64,
        selector: Option<Selector>,
        annotations: &[Annotation],
    ) -> ActionProfile {
        meta.annotations = unstructured_but(annotations, &OF_PROFILES);
        let number = |name: &str| match annotations.annotation(name).and_then(Annotation::exprs) {
            Some([expr]) => annotations::number(self.checked, expr),
            _ => None,
        };
        let (max_group_size, max_member_weight) =
            (number("max_group_size"), number("max_member_weight"));
        let semantics = annotations
            .annotation("selector_size_semantics")
            .and_then(Annotation::string)
            .map(str::to_ascii_lowercase);
        let semantics = match semantics.as_deref() {
            Some("sum_of_weights") => Some(SizeSemantics::SumOfWeights),
            Some("sum_of_members") => Some(SizeSemantics::SumOfMembers {
                max_weight: max_member_weight.unwrap_or(0),
            }),
            _ => None,
        };
        ActionProfile {
            meta,
            size,
            max_group_size: max_group_size.unwrap_or(0),
            groups: 0,
            semantics,
            selector,
            tables: Vec::new(),
        }
    }

    fn foreign_instance(
        &mut self,
        ty: &str,
        args: Vec<(Option<Name>, Bound)>,
        meta: ir::Meta,
    ) -> ExternObject {
        let mut attributes = Vec::new();
        for (param, bound) in args {
            let Some(param) = param else { continue };
            let value = match bound.argument {
                Argument::Value(Data::String(text)) => ExternAttribute::String(text.to_string()),
                Argument::Value(data) => {
                    match (self.enum_member(&data, &bound.ty), data.constant()) {
                        (Some(member), _) => ExternAttribute::String(member),
                        (None, Some(value)) => ExternAttribute::Number(value),
                        _ => continue,
                    }
                }
                _ => continue,
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
        ExternObject::Other(id)
    }
}

/// What the control plane calls objects of an extern type of v1model, if it knows such objects.
fn kind_of(ty: &str) -> Option<&'static str> {
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
