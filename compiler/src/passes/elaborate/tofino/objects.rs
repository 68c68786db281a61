//! Construction of Tofino's extern objects.

use std::rc::Rc;

use num_bigint::BigInt;

use super::super::call::{Argument, Bound};
use super::super::frame::{ExternObject, Frame, Instance, ObjectId};
use super::super::instance::InstanceName;
use super::super::Elaborator;
use super::math_unit::MathUnit;
use crate::ir::{
    ActionProfileId, Algorithm, Counter, CounterId, CounterUnit, CrcParameters, FieldRef,
    Partitions, Register, RegisterId, Scalar, Selector,
};
use crate::sema::Type;
use crate::syntax::ast::{Decl, FunctionDecl, Name};

/// An extern object that v1model has no equal of.
#[derive(Clone, Debug)]
pub enum Object {
    /// `RegisterAction` and its relatives: what a stateful ALU does with a cell.
    RegisterAction {
        register: RegisterId,
        /// Of a `DirectRegisterAction`: the entry that was hit.
        entry: Option<FieldRef>,
        /// `apply`, and the names around it; none before they are known.
        apply: Option<(Rc<FunctionDecl>, Rc<Frame>)>,
    },
    /// `Hash`; no algorithm stands for the bits themselves.
    Hash { algorithm: Option<Algorithm> },
    /// `CRCPolynomial`.
    Polynomial(CrcParameters),
    /// `Random`.
    Random,
    /// `Checksum`, and the sum so far, once a parser has begun one.
    Checksum { sum: Option<FieldRef> },
    /// `DirectRegister`, and the entry that was hit.
    DirectRegister {
        register: RegisterId,
        entry: FieldRef,
    },
    /// `RegisterParam`: a register of one cell.
    RegisterParam(RegisterId),
    /// `MathUnit`.
    MathUnit(MathUnit),
    /// `ParserCounter`: its numbers, once a parser has begun to count.
    ParserCounter { fields: Vec<FieldRef> },
    /// `Lpf`, and `DirectLpf` with the entry that was hit: how it is set, and what it remembers.
    Lpf {
        spec: RegisterId,
        memory: RegisterId,
        entry: Option<FieldRef>,
    },
    /// `Wred` and `DirectWred`: a register of thresholds, and what it gives for a packet to drop or not.
    Wred {
        thresholds: RegisterId,
        /// Of a `DirectWred`, which has one profile for all entries.
        entry: Option<FieldRef>,
        drop: BigInt,
        no_drop: BigInt,
    },
    /// `Mirror`.
    Mirror,
    /// `Resubmit`.
    Resubmit,
    /// `Digest`, by its name.
    Digest(String),
    /// `Atcam` and `Alpm`: how a table is laid out, which means nothing to the model.
    Layout(Partitions),
    /// `ParserPriority`, which means nothing to it, either.
    ParserPriority,
}

pub(super) type Arguments = Vec<(Option<Name>, Bound)>;

impl Elaborator<'_> {
    /// The partitions of a table that an object says how to lay out, which only the chip's memories are about.
    pub fn layout(&mut self, id: ObjectId) -> Option<Partitions> {
        match self.tofino_object(id) {
            Object::Layout(partitions) => Some(*partitions),
            _ => None,
        }
    }

    /// Makes an extern object of Tofino's.
    pub fn construct_for_tofino(
        &mut self,
        ty: &str,
        type_args: &[Type],
        args: Arguments,
        name: InstanceName,
    ) -> ExternObject {
        let size = number(&args, "size")
            .and_then(|size| u64::try_from(size).ok())
            .unwrap_or(0);
        let kind = self.enum_argument(&args, "type");
        match ty {
            "Counter" | "DirectCounter" => {
                let direct = ty == "DirectCounter";
                let what = if direct { "direct counter" } else { "counter" };
                let meta = self.named_meta(what, name.name, name.annotations, name.span);
                let unit = match kind.as_deref() {
                    Some("PACKETS") => CounterUnit::Packets,
                    Some("BYTES") => CounterUnit::Bytes,
                    _ => CounterUnit::Both,
                };
                let width = type_args.first().and_then(|ty| self.cell_bits(ty));
                let id = CounterId::from(self.program.counters.len());
                self.program.counters.push(Counter {
                    meta,
                    size,
                    unit,
                    width: width.unwrap_or(64),
                    direct,
                    table: None,
                });
                match direct {
                    true => ExternObject::DirectCounter(id),
                    false => ExternObject::Counter(id),
                }
            }
            "Meter" | "DirectMeter" => self.tofino_meter(ty, &args, size, name),
            "Register" => match self.tofino_register(type_args, &args, size, name) {
                Some(register) => ExternObject::Register(register),
                None => ExternObject::Invalid,
            },
            "RegisterParam" => match self.tofino_register(type_args, &args, 1, name) {
                Some(register) => self.object(Object::RegisterParam(register)),
                None => ExternObject::Invalid,
            },
            "DirectRegister" => {
                let entry = self.entry_field(&name.name);
                match self.tofino_register(type_args, &args, 1, name) {
                    Some(register) => {
                        self.program.registers[register.index()].hidden = true;
                        self.into.direct_registers.insert(register);
                        self.object(Object::DirectRegister { register, entry })
                    }
                    None => ExternObject::Invalid,
                }
            }
            "Wred" => self.wred(&args, size, None, name),
            "DirectWred" => {
                let entry = self.entry_field(&name.name);
                self.wred(&args, 1, Some(entry), name)
            }
            "Lpf" => self.lpf(size, None, name),
            "DirectLpf" => {
                let entry = self.entry_field(&name.name);
                self.lpf(1, Some(entry), name)
            }
            "RegisterAction"
            | "RegisterAction2"
            | "RegisterAction3"
            | "RegisterAction4"
            | "MinMaxAction"
            | "MinMaxAction2"
            | "MinMaxAction3"
            | "MinMaxAction4"
            | "DirectRegisterAction"
            | "DirectRegisterAction2"
            | "DirectRegisterAction3"
            | "DirectRegisterAction4" => {
                let objects = &self.tofino.objects;
                let register = args.iter().find_map(|(_, bound)| match &bound.argument {
                    Argument::Instance(Instance::Extern(ExternObject::Register(id))) => {
                        Some((*id, None))
                    }
                    Argument::Instance(Instance::Extern(ExternObject::Tofino(id))) => {
                        match objects.get(id.0) {
                            Some(Object::DirectRegister { register, entry }) => {
                                Some((*register, Some(*entry)))
                            }
                            _ => None,
                        }
                    }
                    _ => None,
                });
                match register {
                    Some((register, entry)) => self.object(Object::RegisterAction {
                        register,
                        entry,
                        apply: None,
                    }),
                    None => ExternObject::Invalid,
                }
            }
            "MathUnit" => match self.math_unit(&args) {
                Some(unit) => self.object(Object::MathUnit(unit)),
                None => {
                    self.target(name.span, "a MathUnit is set by constants");
                    ExternObject::Invalid
                }
            },
            "ParserCounter" => self.object(Object::ParserCounter { fields: Vec::new() }),
            "CRCPolynomial" => match self.polynomial(type_args, &args, &name) {
                Some(parameters) => self.object(Object::Polynomial(parameters)),
                None => ExternObject::Invalid,
            },
            "Hash" => match self.hash_algorithm(&args, &name) {
                Some(algorithm) => self.object(Object::Hash { algorithm }),
                None => ExternObject::Invalid,
            },
            "Random" => self.object(Object::Random),
            "Checksum" => self.object(Object::Checksum { sum: None }),
            "Mirror" => self.object(Object::Mirror),
            "Resubmit" => self.object(Object::Resubmit),
            "Digest" => self.object(Object::Digest(name.name)),
            "Atcam" | "Alpm" => {
                let given = |what: &str| number(&args, what).and_then(|n| u64::try_from(n).ok());
                let usual = Partitions::ALPM;
                let partitions = Partitions {
                    count: given("number_partitions").unwrap_or(usual.count),
                    subtrees: match ty {
                        "Alpm" => given("subtrees_per_partition").unwrap_or(usual.subtrees),
                        _ => 0,
                    },
                };
                self.object(Object::Layout(partitions))
            }
            "ParserPriority" => self.object(Object::ParserPriority),
            "ActionProfile" => {
                let meta =
                    self.named_meta("action profile", name.name, name.annotations, name.span);
                let profile = self.profile(meta, size, None, name.annotations);
                let id = ActionProfileId::from(self.program.action_profiles.len());
                self.program.action_profiles.push(profile);
                ExternObject::ActionProfile(id)
            }
            "ActionSelector" => self.tofino_selector(&args, size, name),
            _ => {
                self.beyond_model(name.span, format!("the model has no {ty} yet"));
                ExternObject::Invalid
            }
        }
    }

    fn object(&mut self, object: Object) -> ExternObject {
        self.tofino.objects.push(object);
        ExternObject::Tofino(ObjectId(self.tofino.objects.len() - 1))
    }

    /// The object of this position.
    pub fn tofino_object(&mut self, id: ObjectId) -> &mut Object {
        &mut self.tofino.objects[id.0]
    }

    /// Gives an object the implementation of its abstract method.
    pub fn implement(&mut self, object: ExternObject, body: &[Decl], frame: &Rc<Frame>) {
        let ExternObject::Tofino(id) = object else {
            return;
        };
        let wanted = body.iter().find_map(|decl| match decl {
            Decl::Function(decl) if &*decl.name.name == "apply" => Some(Rc::clone(decl)),
            _ => None,
        });
        if let (Object::RegisterAction { apply, .. }, Some(decl)) =
            (&mut self.tofino.objects[id.0], wanted)
        {
            *apply = Some((decl, Rc::clone(frame)));
        }
    }

    fn tofino_register(
        &mut self,
        type_args: &[Type],
        args: &Arguments,
        size: u64,
        name: InstanceName,
    ) -> Option<RegisterId> {
        let cell = type_args.first().cloned().unwrap_or(Type::Invalid);
        let Some(bits) = self.cell_bits(&cell) else {
            let message = format!("a register holds numbers, or a struct of them, not {cell}");
            self.target(name.span, message);
            return None;
        };
        let initial = (args.iter())
            .find(|(param, _)| param.as_deref() == Some("initial_value"))
            .map(|(_, bound)| bound.argument.clone());
        let initial = match initial {
            Some(Argument::Value(data)) => match self.packed(data, &cell) {
                Some(crate::ir::Expr::Number { value, .. }) => value,
                _ => {
                    self.target(name.span, "the initial value of a register is a constant");
                    BigInt::ZERO
                }
            },
            _ => BigInt::ZERO,
        };
        let ty = self.scalar(&cell).unwrap_or(Scalar::Bit(bits));
        let type_spec = self.type_spec(&cell);
        let meta = self.named_meta("register", name.name, name.annotations, name.span);
        let id = RegisterId::from(self.program.registers.len());
        self.program.registers.push(Register {
            meta,
            size: size.max(1),
            ty,
            initial,
            type_spec,
            hidden: false,
        });
        self.tofino.cells.insert(id, cell);
        Some(id)
    }

    /// A register of zeros.
    fn register_of_bits(&mut self, bits: u32, size: u64, name: &InstanceName) -> RegisterId {
        let id = RegisterId::from(self.program.registers.len());
        let cell = Type::Bit(bits);
        let type_spec = self.type_spec(&cell);
        let meta = self.named_meta("register", name.name.clone(), name.annotations, name.span);
        self.program.registers.push(Register {
            meta,
            size: size.max(1),
            ty: Scalar::Bit(bits),
            initial: BigInt::ZERO,
            type_spec,
            hidden: false,
        });
        self.tofino.cells.insert(id, cell);
        id
    }

    /// A filter: how it is set is a register of its name, what it remembers one that nobody sees.
    fn lpf(&mut self, size: u64, entry: Option<FieldRef>, name: InstanceName) -> ExternObject {
        let spec = self.register_of_bits(super::lpf::SPEC_BITS, size, &name);
        let of_memory = InstanceName {
            name: format!("{}.memory", name.name),
            ..name
        };
        let memory = self.register_of_bits(super::lpf::MEMORY_BITS, size, &of_memory);
        self.program.registers[memory.index()].hidden = true;
        if entry.is_some() {
            self.into.direct_registers.insert(memory);
        }
        self.object(Object::Lpf {
            spec,
            memory,
            entry,
        })
    }

    fn math_unit(&mut self, args: &Arguments) -> Option<MathUnit> {
        let signed = |wanted: &str| number(args, wanted).and_then(|n| i32::try_from(n).ok());
        if let Some(op) = self.enum_argument(args, "op") {
            let whole = |wanted: &str| signed(wanted).map(f64::from);
            let factor = match whole("factor") {
                Some(factor) => factor,
                None => whole("A")? / whole("B").filter(|divisor| *divisor != 0.0)?,
            };
            return MathUnit::of(&op, factor);
        }
        let data = args
            .iter()
            .find(|(name, _)| name.as_deref() == Some("data"));
        let Argument::Value(data) = data?.1.argument.clone() else {
            return None;
        };
        let ty = data_type(args)?;
        // The entry of 15 comes first.
        let leaves = self.leaves(data, &ty).into_iter().rev();
        let entries: Option<Vec<u8>> = leaves
            .map(|leaf| u8::try_from(leaf.data.constant()?).ok())
            .collect();
        Some(MathUnit {
            invert: number(args, "invert")? != BigInt::ZERO,
            shift: signed("shift")?,
            scale: signed("scale")?,
            table: entries?.try_into().ok()?,
        })
    }

    /// A profile of random early detection for each index. The control plane reaches the thresholds as a register of the
    /// profile's name, whose cells are bit<72>: the value above which some packets are dropped ++ the value from which on
    /// all are ++ of how many in a hundred just below it, 8 bits. A cell of 0 drops none.
    fn wred(
        &mut self,
        args: &Arguments,
        size: u64,
        entry: Option<FieldRef>,
        name: InstanceName,
    ) -> ExternObject {
        let thresholds = self.register_of_bits(super::wred::CELL_BITS, size, &name);
        self.object(Object::Wred {
            thresholds,
            entry,
            drop: number(args, "drop_value").unwrap_or_default(),
            no_drop: number(args, "no_drop_value").unwrap_or_default(),
        })
    }

    fn polynomial(
        &mut self,
        type_args: &[Type],
        args: &Arguments,
        name: &InstanceName,
    ) -> Option<CrcParameters> {
        let ty = type_args.first().cloned().unwrap_or(Type::Invalid);
        let flag = |wanted: &str| number(args, wanted).is_some_and(|value| value != BigInt::ZERO);
        let extended = flag("extended");
        let own = self.scalar(&ty).map_or(0, |scalar| scalar.width());
        let width = own.saturating_sub(u32::from(extended));
        if !matches!(width, 8 | 16 | 32) {
            let message = format!("the model computes CRCs of 8, 16 and 32 bits, not of {width}");
            self.beyond_model(name.span, message);
            return None;
        }
        let bits = |wanted: &str| {
            let value = number(args, wanted).unwrap_or_default() & crate::ir::mask(width);
            u64::try_from(value).unwrap_or(0)
        };
        Some(CrcParameters {
            width,
            polynomial: bits("coeff"),
            initial: bits("init"),
            final_xor: bits("xor"),
            reflected: flag("reversed"),
        })
    }

    /// What a `Hash` or `ActionSelector` computes; none inside for the bits themselves.
    fn hash_algorithm(
        &mut self,
        args: &Arguments,
        name: &InstanceName,
    ) -> Option<Option<Algorithm>> {
        let polynomial = args.iter().find_map(|(_, bound)| match &bound.argument {
            Argument::Instance(Instance::Extern(ExternObject::Tofino(id))) => {
                match self.tofino.objects.get(id.0) {
                    Some(Object::Polynomial(parameters)) => Some(*parameters),
                    _ => None,
                }
            }
            _ => None,
        });
        if let Some(parameters) = polynomial {
            return Some(Some(Algorithm::Crc(parameters)));
        }
        let crc = |width, polynomial| CrcParameters {
            width,
            polynomial,
            initial: 0,
            final_xor: 0,
            reflected: false,
        };
        let algorithm = self.enum_argument(args, "algo");
        Some(match algorithm.as_deref() {
            Some("IDENTITY") => None,
            Some("CRC8") => Some(Algorithm::Crc(crc(8, 0x07))),
            Some("CRC16") => Some(Algorithm::Crc16),
            Some("CRC32") => Some(Algorithm::Crc32),
            Some("XOR16") => Some(Algorithm::Xor16),
            // Any function that scatters, the same for each packet: CRC-32C.
            Some("RANDOM") => Some(Algorithm::Crc(crc(32, 0x1edc_6f41))),
            _ => {
                let what = algorithm.unwrap_or_default();
                let message = format!("the model has no hash {what} without a polynomial");
                self.beyond_model(name.span, message);
                return None;
            }
        })
    }

    /// A selector is its action profile, with a hash.
    fn tofino_selector(&mut self, args: &Arguments, size: u64, name: InstanceName) -> ExternObject {
        let of_profile = args.iter().find_map(|(_, bound)| match &bound.argument {
            Argument::Instance(Instance::Extern(ExternObject::ActionProfile(id))) => Some(*id),
            _ => None,
        });
        let is_register = |(_, bound): &(Option<Name>, Bound)| {
            matches!(
                bound.argument,
                Argument::Instance(Instance::Extern(ExternObject::Register(_)))
            )
        };
        if args.iter().any(is_register) {
            self.beyond_model(
                name.span,
                "the model's selectors have no register of their members' states: leave it out, and change groups by P4Runtime",
            );
        }
        let hash = args.iter().find_map(|(_, bound)| match &bound.argument {
            Argument::Instance(Instance::Extern(ExternObject::Tofino(id))) => {
                match self.tofino.objects.get(id.0) {
                    Some(Object::Hash { algorithm }) => Some(*algorithm),
                    _ => None,
                }
            }
            _ => None,
        });
        let selector = Selector {
            algorithm: hash.flatten().unwrap_or(Algorithm::Identity),
            inputs: Vec::new(),
            resilient: self.enum_argument(args, "mode").as_deref() == Some("RESILIENT"),
        };
        let most = number(args, "max_group_size").and_then(|most| u32::try_from(most).ok());
        let meta = self.named_meta("action profile", name.name, name.annotations, name.span);
        let size = match of_profile {
            Some(id) => self.program.action_profiles[id.index()].size,
            None => size,
        };
        let mut profile = self.profile(meta, size, Some(selector), name.annotations);
        profile.max_group_size = most.unwrap_or(profile.max_group_size);
        let groups = number(args, "num_groups").and_then(|groups| u64::try_from(groups).ok());
        profile.groups = groups.unwrap_or(0);
        match of_profile {
            Some(id) => {
                // The control plane writes members and groups to the selector, under its name.
                self.program.action_profiles[id.index()] = profile;
                ExternObject::ActionProfile(id)
            }
            None => {
                let id = ActionProfileId::from(self.program.action_profiles.len());
                self.program.action_profiles.push(profile);
                ExternObject::ActionProfile(id)
            }
        }
    }
}

/// The type of a parameter called `data`.
fn data_type(args: &Arguments) -> Option<Type> {
    let (_, bound) = args
        .iter()
        .find(|(name, _)| name.as_deref() == Some("data"))?;
    Some(bound.ty.clone())
}

/// The number that an argument is.
pub(super) fn number(args: &Arguments, wanted: &str) -> Option<BigInt> {
    args.iter()
        .find_map(|(param, bound)| match (param, &bound.argument) {
            (Some(param), Argument::Value(data)) if &**param == wanted => data.constant(),
            _ => None,
        })
}
