//! Pass: externs.
//!
//! Input: the elaborated program, with extern objects as declared and extern calls with evaluated arguments ([`call`]). Output: the inlined
//! program. Invariants: every object is one of [`crate::ir::Objects`], and every call is replaced by statements and a value that the target
//! supports.
//!
//! The target has the names of its externs, the lowering of objects and calls, and the errors for unsupported uses
//! ([`crate::targets::Target`]). It emits statements with the [`Lowering`], which has the parts that targets share.
//!
//! Objects are lowered first, then attached to tables. Calls are lowered last, in the order of evaluation. So objects that calls create
//! (calculations, digests, field lists) are numbered in that order.

pub mod call;
pub mod digest;
mod hash;
mod log;
mod profiles;
mod splice;
mod tables;

use std::any::Any;
use std::collections::BTreeMap;
use std::ops::{Deref, DerefMut};

use crate::diag::Span;
use crate::ir::{
    ActionProfileId, Counter, CounterId, CounterUnit, DigestId, Effect, Expr, ExternInstanceId,
    FieldRef, Meta, Meter, MeterId, MeterUnit, ObjectKind, Primitive, RegisterId,
};
use crate::passes::builder::data::Data;
use crate::passes::builder::{ops, Absent, Builder};
use crate::passes::inlined::InlinedProgram;
use crate::sema::{DefKind, Type};

use call::{Call, CallResult, Callee, ExternArg, Externs, InstanceId, Listed, Region};
use splice::Lowered;

/// An extern object after lowering.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LoweredObject {
    /// A counter array.
    Counter(CounterId),
    /// A direct counter, with a cell for each entry of a table.
    DirectCounter(CounterId),
    /// A meter array.
    Meter(MeterId),
    /// A direct meter, with a cell for each entry of a table.
    DirectMeter(MeterId),
    /// A register array.
    Register(RegisterId),
    /// An action profile or action selector.
    ActionProfile(ActionProfileId),
    /// An object of an extern that only the target has, by its position in the target's state ([`Lowering::state`]).
    Own(usize),
    /// An object of an extern that the compiler does not know, kept with `--emit-externs`.
    Other(ExternInstanceId),
    /// An object that could not be lowered, with the reason.
    Invalid(Absent),
}

/// The lowering of extern objects and calls: results so far, and data that calls share.
pub struct Lowering<'a> {
    build: Builder<'a>,
    /// The block that contains the current call.
    pub region: Region,
    /// The lowered objects, by [`InstanceId`].
    objects: Vec<LoweredObject>,
    /// The calls lowered so far.
    lowered: Lowered,
    /// Fields of the user metadata with `@field_list`, by the number of the list.
    pub field_lists: BTreeMap<u32, Vec<FieldRef>>,
    /// Digests created so far.
    pub digests: BTreeMap<digest::DigestKey, DigestId>,
    /// State that only the target needs ([`crate::targets::Target::lowering_state`]).
    pub state: Box<dyn Any>,
}

impl<'a> Deref for Lowering<'a> {
    type Target = Builder<'a>;

    fn deref(&self) -> &Builder<'a> {
        &self.build
    }
}

impl<'a> DerefMut for Lowering<'a> {
    fn deref_mut(&mut self) -> &mut Builder<'a> {
        &mut self.build
    }
}

/// Lowers all externs of a program.
pub fn lower(mut build: Builder) -> InlinedProgram {
    let target = build.options.arch.target();
    let state = target.lowering_state();
    let externs = std::mem::take(&mut build.into.externs);
    let Externs {
        instances,
        calls,
        tables,
        listing,
        field_lists,
    } = externs;
    let mut lowering = Lowering {
        build,
        region: Region::default(),
        objects: Vec::with_capacity(instances.len()),
        lowered: Lowered::default(),
        field_lists,
        digests: BTreeMap::new(),
        state,
    };
    for declared in instances {
        let made = target.lower_object(&mut lowering, declared);
        lowering.objects.push(made);
    }
    for objects in tables {
        lowering.attach(objects);
    }
    for listed in listing {
        let object = lowering.listed(listed);
        lowering.program.listing.extend(object);
    }
    for call in calls {
        lowering.call(call);
    }
    let lowered = lowering.lowered;
    let mut program = lowering.build.finish();
    lowered.replace_all(&mut program);
    program
}

impl Lowering<'_> {
    /// Creates a counter with cells of `width` bits.
    pub fn add_counter(
        &mut self,
        meta: Meta,
        size: u64,
        unit: CounterUnit,
        width: u32,
        direct: bool,
    ) -> LoweredObject {
        let id = CounterId::from(self.program.counters.len());
        self.program.counters.push(Counter {
            meta,
            size,
            index_type: None,
            unit,
            width,
            direct,
            table: None,
        });
        match direct {
            true => LoweredObject::DirectCounter(id),
            false => LoweredObject::Counter(id),
        }
    }

    /// Creates a meter.
    pub fn add_meter(
        &mut self,
        meta: Meta,
        size: u64,
        unit: MeterUnit,
        direct: bool,
    ) -> (MeterId, LoweredObject) {
        let id = MeterId::from(self.program.meters.len());
        self.program.meters.push(Meter {
            meta,
            size,
            index_type: None,
            unit,
            direct,
            table: None,
            result: None,
            precolor: None,
        });
        let made = match direct {
            true => LoweredObject::DirectMeter(id),
            false => LoweredObject::Meter(id),
        };
        (id, made)
    }

    /// The lowered object for a declared object, which must be declared before the current one.
    pub fn lowered_object(&self, id: InstanceId) -> LoweredObject {
        self.objects[id.0]
    }

    /// Kind and name of an object in P4Info; `None` if it is not listed separately.
    fn listed(&self, listed: Listed) -> Option<(ObjectKind, String)> {
        let id = match listed {
            Listed::Object(kind, name) => return Some((kind, name)),
            Listed::Extern(id) => id,
        };
        let program = &self.program;
        let (kind, meta) = match self.lowered_object(id) {
            LoweredObject::Counter(id) => (ObjectKind::Counter, &program.counters[id.index()].meta),
            LoweredObject::Meter(id) => (ObjectKind::Meter, &program.meters[id.index()].meta),
            LoweredObject::Register(id) => {
                (ObjectKind::Register, &program.registers[id.index()].meta)
            }
            LoweredObject::ActionProfile(id) => {
                let profile = &program.action_profiles[id.index()];
                (ObjectKind::ActionProfile, &profile.meta)
            }
            // P4Info lists direct objects with their tables; the others are not visible to the control plane.
            LoweredObject::DirectCounter(_)
            | LoweredObject::DirectMeter(_)
            | LoweredObject::Own(_)
            | LoweredObject::Other(_)
            | LoweredObject::Invalid(_) => return None,
        };
        Some((kind, meta.name.clone()))
    }

    /// Lowers a call to statements and a result, and records both.
    fn call(&mut self, mut call: Call) {
        self.lowered.arguments(&mut call.args);
        self.region = call.region;
        let outer = std::mem::take(&mut self.out);
        let data = self.call_with_result(&mut call);
        let result = match call.result {
            CallResult::None => None,
            CallResult::Scalar(ty) => Some(match data {
                Data::Scalar(value) => ops::cast(value, ty),
                data => {
                    if !matches!(data, Data::Invalid(_)) {
                        self.impossible(call.span, "a call with a result has none");
                    }
                    Expr::number(0, ty)
                }
            }),
            CallResult::Place(place) => {
                if !matches!(data, Data::Nothing) {
                    self.assign(&place, data, &call.ret, call.span, &call.scope);
                }
                None
            }
        };
        let code = std::mem::replace(&mut self.out, outer);
        self.lowered.code.push(code);
        self.lowered.results.push(result);
    }

    /// Emits the statements of a call and returns its result. `Data::Nothing` if the call has no result or has stored it already.
    fn call_with_result(&mut self, call: &mut Call) -> Data {
        if let Callee::Function(name) = &call.callee {
            match &**name {
                "log_msg" => {
                    self.log_msg(&call.args, call.span);
                    return Data::Nothing;
                }
                "assert" | "assume" => {
                    let check = match self.number_at(&call.args, 0, call.span) {
                        Ok(check) => check,
                        Err(absent) => return absent.into(),
                    };
                    let primitive = match &**name {
                        "assert" => Primitive::Assert(check),
                        _ => Primitive::Assume(check),
                    };
                    self.emit(call.span, Effect::Primitive(primitive));
                    return Data::Nothing;
                }
                _ => {}
            }
        }
        self.options.arch.target().lower_call(self, call)
    }
}

impl Lowering<'_> {
    /// The number or boolean that is the argument at `position` of a call at `span`.
    ///
    /// # Errors
    /// The argument is missing or of another type, which is reported.
    pub fn number_at(
        &mut self,
        args: &[ExternArg],
        position: usize,
        span: Span,
    ) -> Result<Expr, Absent> {
        if let Some(number) = value(args, position) {
            return Ok(number);
        }
        if self.diagnostics.has_errors() {
            return Err(self.impossible(span, "an argument of an extern is not a number"));
        }
        match args.get(position) {
            Some(given) if !given.is_passed() => {
                let param = given.param.as_deref().unwrap_or("of this position");
                let message = format!("the argument {param} cannot be omitted on this target");
                Err(self.target(span, message))
            }
            Some(given) => {
                let message = format!(
                    "this argument must be a number on this target, not {}",
                    given.ty
                );
                Err(self.target(given.span, message))
            }
            None => Err(self.impossible(span, "an extern is called without an argument")),
        }
    }
}

/// The name of the enum member that is the argument for the parameter `wanted`; `None` for other arguments.
pub fn enum_argument(build: &Builder, args: &[ExternArg], wanted: &str) -> Option<String> {
    let given = named(args, wanted)?;
    enum_member(build, given.data()?, &given.ty)
}

/// The name of the enum member that is the constant `data` of type `ty`; `None` for other values.
pub fn enum_member(build: &Builder, data: &Data, ty: &Type) -> Option<String> {
    let Type::Enum(nominal) = ty else { return None };
    let index = usize::try_from(data.constant()?).ok()?;
    match &build.checked.def(nominal.id).kind {
        DefKind::Enum(decl) => (decl.members.get(index)).map(|member| member.name.name.to_string()),
        _ => None,
    }
}

/// The argument for the parameter `wanted`; `None` if there is no such parameter.
pub fn named<'g>(args: &'g [ExternArg], wanted: &str) -> Option<&'g ExternArg> {
    args.iter()
        .find(|given| given.param.as_deref() == Some(wanted))
}

/// The value of the constant argument for the parameter `wanted`; `None` for other arguments.
pub fn number(args: &[ExternArg], wanted: &str) -> Option<num_bigint::BigInt> {
    named(args, wanted)?.data()?.constant()
}

/// The number or boolean that is the argument at `position`; `None` for other arguments.
pub fn value(args: &[ExternArg], position: usize) -> Option<Expr> {
    scalar_of(args.get(position)?)
}

/// The number or boolean that is the argument for the parameter `wanted`; `None` for other arguments.
pub fn named_value(args: &[ExternArg], wanted: &str) -> Option<Expr> {
    scalar_of(named(args, wanted)?)
}

/// The number or boolean of an argument; `None` for other arguments.
fn scalar_of(given: &ExternArg) -> Option<Expr> {
    match given.data()? {
        Data::Scalar(expr) => Some(expr.clone()),
        Data::Int(value) => Some(Expr::bits(value.clone(), (value.bits() as u32).max(1))),
        _ => None,
    }
}
