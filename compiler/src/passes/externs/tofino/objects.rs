//! Construction of Tofino's extern objects.

use num_bigint::BigInt;

use super::super::call::{Declared, ExternArg};
use super::super::{enum_argument, named, number, LoweredObject, Lowering};
use super::math_unit::MathUnit;
use super::ObjectId;
use crate::ir::{
    ActionProfileId, Algorithm, CounterUnit, CrcParameters, FieldRef, Meta, Partitions, Register,
    RegisterId, Scalar, Selector,
};
use crate::sema::Type;

/// An extern object without an equivalent in v1model.
#[derive(Clone, Debug)]
pub enum Object {
    /// `RegisterAction` and similar externs: an operation of a stateful ALU on a cell.
    RegisterAction {
        register: RegisterId,
        /// Of a `DirectRegisterAction`: the entry that was hit.
        entry: Option<FieldRef>,
    },
    /// `Hash`; without an algorithm it is the identity.
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
    /// `Lpf`, and `DirectLpf` with the hit entry: configuration and state.
    Lpf {
        spec: RegisterId,
        memory: RegisterId,
        entry: Option<FieldRef>,
    },
    /// `Wred` and `DirectWred`: a register of thresholds, and the results for dropping a packet or not.
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
    /// `Atcam` and `Alpm`: the layout of a table, which the model ignores.
    Layout(Partitions),
    /// `ParserPriority`, which the model ignores.
    ParserPriority,
}

impl Lowering<'_> {
    /// The partitions of a table with an `Atcam` or `Alpm`, used only for the chip's memories.
    pub fn layout(&self, id: ObjectId) -> Option<Partitions> {
        match &self.tofino.objects[id.0] {
            Object::Layout(partitions) => Some(*partitions),
            _ => None,
        }
    }

    /// Makes an object.
    pub fn make_for_tofino(&mut self, declared: Declared) -> LoweredObject {
        let args = &declared.args;
        let size = number(args, "size")
            .and_then(|size| u64::try_from(size).ok())
            .unwrap_or(0);
        let ty = &*declared.ty;
        match ty {
            "Counter" | "DirectCounter" => {
                let direct = ty == "DirectCounter";
                let meta = meta_of(&declared);
                let unit = match enum_argument(self, args, "type").as_deref() {
                    Some("PACKETS") => CounterUnit::Packets,
                    Some("BYTES") => CounterUnit::Bytes,
                    _ => CounterUnit::Both,
                };
                let width = declared.type_args.first().and_then(|ty| self.cell_bits(ty));
                self.add_counter(meta, size, unit, width.unwrap_or(64), direct)
            }
            "Meter" | "DirectMeter" => self.tofino_meter(ty, args, size, meta_of(&declared)),
            "Register" => match self.tofino_register(&declared, size) {
                Some(register) => LoweredObject::Register(register),
                None => LoweredObject::Invalid,
            },
            "RegisterParam" => match self.tofino_register(&declared, 1) {
                Some(register) => self.object(Object::RegisterParam(register)),
                None => LoweredObject::Invalid,
            },
            "DirectRegister" => {
                let entry = self.entry_field(&declared.name);
                match self.tofino_register(&declared, 1) {
                    Some(register) => {
                        self.program.registers[register.index()].hidden = true;
                        self.into.direct_registers.insert(register);
                        self.object(Object::DirectRegister { register, entry })
                    }
                    None => LoweredObject::Invalid,
                }
            }
            "Wred" => self.wred(&declared, size, None),
            "DirectWred" => {
                let entry = self.entry_field(&declared.name);
                self.wred(&declared, 1, Some(entry))
            }
            "Lpf" => self.lpf(&declared, size, None),
            "DirectLpf" => {
                let entry = self.entry_field(&declared.name);
                self.lpf(&declared, 1, Some(entry))
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
                let register =
                    args.iter()
                        .find_map(|given| match self.lowered_object(given.object()?) {
                            LoweredObject::Register(id) => Some((id, None)),
                            LoweredObject::Tofino(id) => match self.tofino.objects.get(id.0) {
                                Some(Object::DirectRegister { register, entry }) => {
                                    Some((*register, Some(*entry)))
                                }
                                _ => None,
                            },
                            _ => None,
                        });
                match register {
                    Some((register, entry)) => {
                        self.object(Object::RegisterAction { register, entry })
                    }
                    None => LoweredObject::Invalid,
                }
            }
            "MathUnit" => match self.math_unit(args) {
                Some(unit) => self.object(Object::MathUnit(unit)),
                None => {
                    self.target(
                        declared.span,
                        "the arguments of a MathUnit must be constants",
                    );
                    LoweredObject::Invalid
                }
            },
            "ParserCounter" => self.object(Object::ParserCounter { fields: Vec::new() }),
            "CRCPolynomial" => match self.polynomial(&declared) {
                Some(parameters) => self.object(Object::Polynomial(parameters)),
                None => LoweredObject::Invalid,
            },
            "Hash" => match self.hash_algorithm(&declared) {
                Some(algorithm) => self.object(Object::Hash { algorithm }),
                None => LoweredObject::Invalid,
            },
            "Random" => self.object(Object::Random),
            "Checksum" => self.object(Object::Checksum { sum: None }),
            "Mirror" => self.object(Object::Mirror),
            "Resubmit" => self.object(Object::Resubmit),
            "Digest" => self.object(Object::Digest(declared.name)),
            "Atcam" | "Alpm" => {
                let given = |what: &str| number(args, what).and_then(|n| u64::try_from(n).ok());
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
                let meta = meta_of(&declared);
                let profile = self.profile(meta, size, None, &declared.annotations);
                let id = ActionProfileId::from(self.program.action_profiles.len());
                self.program.action_profiles.push(profile);
                LoweredObject::ActionProfile(id)
            }
            "ActionSelector" => self.tofino_selector(&declared, size),
            _ => {
                self.beyond_model(declared.span, format!("the model has no {ty} yet"));
                LoweredObject::Invalid
            }
        }
    }

    fn object(&mut self, object: Object) -> LoweredObject {
        self.tofino.objects.push(object);
        LoweredObject::Tofino(ObjectId(self.tofino.objects.len() - 1))
    }

    /// The object of this position.
    pub fn tofino_object(&mut self, id: ObjectId) -> &mut Object {
        &mut self.tofino.objects[id.0]
    }

    fn tofino_register(&mut self, declared: &Declared, size: u64) -> Option<RegisterId> {
        let cell = declared.type_args.first().cloned().unwrap_or(Type::Invalid);
        let Some(bits) = self.cell_bits(&cell) else {
            let message = format!("a register holds numbers, or a struct of them, not {cell}");
            self.target(declared.span, message);
            return None;
        };
        let initial = named(&declared.args, "initial_value").and_then(ExternArg::data);
        let initial = match initial {
            Some(data) => match self.packed(data.clone(), &cell) {
                Some(crate::ir::Expr::Number { value, .. }) => value,
                _ => {
                    self.target(
                        declared.span,
                        "the initial value of a register must be a constant",
                    );
                    BigInt::ZERO
                }
            },
            None => BigInt::ZERO,
        };
        let ty = self.scalar(&cell).unwrap_or(Scalar::Bit(bits));
        let type_spec = self.type_spec(&cell);
        let meta = meta_of(declared);
        let id = RegisterId::from(self.program.registers.len());
        self.program.registers.push(Register {
            meta,
            size: size.max(1),
            index_type: None,
            ty,
            initial,
            type_spec,
            hidden: false,
        });
        self.tofino.cells.insert(id, cell);
        Some(id)
    }

    /// A register of zeros.
    fn register_of_bits(&mut self, bits: u32, size: u64, meta: Meta) -> RegisterId {
        let id = RegisterId::from(self.program.registers.len());
        let cell = Type::Bit(bits);
        let type_spec = self.type_spec(&cell);
        self.program.registers.push(Register {
            meta,
            size: size.max(1),
            index_type: None,
            ty: Scalar::Bit(bits),
            initial: BigInt::ZERO,
            type_spec,
            hidden: false,
        });
        self.tofino.cells.insert(id, cell);
        id
    }

    /// A filter: a register with its name for the configuration, and a hidden register for its state.
    fn lpf(&mut self, declared: &Declared, size: u64, entry: Option<FieldRef>) -> LoweredObject {
        let spec = self.register_of_bits(super::lpf::SPEC_BITS, size, meta_of(declared));
        let name = format!("{}.memory", declared.name);
        let meta = self.named_meta("register", name, &declared.annotations, declared.span);
        let memory = self.register_of_bits(super::lpf::MEMORY_BITS, size, meta);
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

    fn math_unit(&mut self, args: &[ExternArg]) -> Option<MathUnit> {
        let signed = |wanted: &str| number(args, wanted).and_then(|n| i32::try_from(n).ok());
        if let Some(op) = enum_argument(self, args, "op") {
            let whole = |wanted: &str| signed(wanted).map(f64::from);
            let factor = match whole("factor") {
                Some(factor) => factor,
                None => whole("A")? / whole("B").filter(|divisor| *divisor != 0.0)?,
            };
            return MathUnit::of(&op, factor);
        }
        let given = named(args, "data")?;
        // The entry of 15 comes first.
        let leaves = self
            .leaves(given.data()?.clone(), &given.ty)
            .into_iter()
            .rev();
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
    fn wred(&mut self, declared: &Declared, size: u64, entry: Option<FieldRef>) -> LoweredObject {
        let args = &declared.args;
        let thresholds = self.register_of_bits(super::wred::CELL_BITS, size, meta_of(declared));
        self.object(Object::Wred {
            thresholds,
            entry,
            drop: number(args, "drop_value").unwrap_or_default(),
            no_drop: number(args, "no_drop_value").unwrap_or_default(),
        })
    }

    fn polynomial(&mut self, declared: &Declared) -> Option<CrcParameters> {
        let args = &declared.args;
        let ty = declared.type_args.first().cloned().unwrap_or(Type::Invalid);
        let flag = |wanted: &str| number(args, wanted).is_some_and(|value| value != BigInt::ZERO);
        let extended = flag("extended");
        let own = self.scalar(&ty).map_or(0, |scalar| scalar.width());
        let width = own.saturating_sub(u32::from(extended));
        if !matches!(width, 8 | 16 | 32) {
            let message = format!("the model computes CRCs of 8, 16 and 32 bits, not of {width}");
            self.beyond_model(declared.span, message);
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

    /// The algorithm of a `Hash` or `ActionSelector`; the inner `None` is the identity.
    fn hash_algorithm(&mut self, declared: &Declared) -> Option<Option<Algorithm>> {
        let args = &declared.args;
        let polynomial = args
            .iter()
            .find_map(|given| match self.lowered_object(given.object()?) {
                LoweredObject::Tofino(id) => match self.tofino.objects.get(id.0) {
                    Some(Object::Polynomial(parameters)) => Some(*parameters),
                    _ => None,
                },
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
        let algorithm = enum_argument(self, args, "algo");
        Some(match algorithm.as_deref() {
            Some("IDENTITY") => None,
            Some("CRC8") => Some(Algorithm::Crc(crc(8, 0x07))),
            Some("CRC16") => Some(Algorithm::Crc16),
            Some("CRC32") => Some(Algorithm::Crc32),
            Some("XOR16") => Some(Algorithm::Xor16),
            // Any deterministic hash function: CRC-32C.
            Some("RANDOM") => Some(Algorithm::Crc(crc(32, 0x1edc_6f41))),
            _ => {
                let what = algorithm.unwrap_or_default();
                let message = format!("the model has no hash {what} without a polynomial");
                self.beyond_model(declared.span, message);
                return None;
            }
        })
    }

    /// A selector is its action profile, with a hash.
    fn tofino_selector(&mut self, declared: &Declared, size: u64) -> LoweredObject {
        let args = &declared.args;
        let objects: Vec<LoweredObject> = (args.iter())
            .filter_map(|given| Some(self.lowered_object(given.object()?)))
            .collect();
        let of_profile = objects.iter().find_map(|object| match object {
            LoweredObject::ActionProfile(id) => Some(*id),
            _ => None,
        });
        if objects
            .iter()
            .any(|object| matches!(object, LoweredObject::Register(_)))
        {
            self.beyond_model(
                declared.span,
                "the model's selectors have no register of their members' states: leave it out, and change groups by P4Runtime",
            );
        }
        let hash = objects.iter().find_map(|object| match object {
            LoweredObject::Tofino(id) => match self.tofino.objects.get(id.0) {
                Some(Object::Hash { algorithm }) => Some(*algorithm),
                _ => None,
            },
            _ => None,
        });
        let selector = Selector {
            algorithm: hash.flatten().unwrap_or(Algorithm::Identity),
            inputs: Vec::new(),
            resilient: enum_argument(self, args, "mode").as_deref() == Some("RESILIENT"),
        };
        let most = number(args, "max_group_size").and_then(|most| u32::try_from(most).ok());
        let meta = meta_of(declared);
        let size = match of_profile {
            Some(id) => self.program.action_profiles[id.index()].size,
            None => size,
        };
        let mut profile = self.profile(meta, size, Some(selector), &declared.annotations);
        profile.max_group_size = most.unwrap_or(profile.max_group_size);
        let groups = number(args, "num_groups").and_then(|groups| u64::try_from(groups).ok());
        profile.groups = groups.unwrap_or(0);
        match of_profile {
            Some(id) => {
                // The control plane writes members and groups to the selector, under its name.
                self.program.action_profiles[id.index()] = profile;
                LoweredObject::ActionProfile(id)
            }
            None => {
                let id = ActionProfileId::from(self.program.action_profiles.len());
                self.program.action_profiles.push(profile);
                LoweredObject::ActionProfile(id)
            }
        }
    }
}

/// Control-plane metadata of an object.
fn meta_of(declared: &Declared) -> Meta {
    declared.meta.clone().unwrap_or_default()
}

/// What the control plane calls objects of an extern type, if it knows such objects. What it sees of filters and profiles is a register.
pub fn control_kind(ty: &str) -> Option<&'static str> {
    Some(match ty {
        "ActionProfile" | "ActionSelector" => "action profile",
        "Counter" => "counter",
        "DirectCounter" => "direct counter",
        "Meter" => "meter",
        "DirectMeter" => "direct meter",
        "Register" | "RegisterParam" | "DirectRegister" | "Wred" | "DirectWred" | "Lpf"
        | "DirectLpf" => "register",
        _ => return None,
    })
}
