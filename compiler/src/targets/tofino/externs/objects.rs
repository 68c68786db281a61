//! Lowering of Tofino's extern objects.

use num_bigint::BigInt;

use super::math_unit::MathUnit;
use super::ObjectId;
use crate::ir::{
    ActionProfileId, Algorithm, CounterUnit, CrcParameters, FieldRef, Meta, Partitions, Register,
    RegisterId, RegisterRole, Scalar, Selector,
};
use crate::passes::builder::data::Data;
use crate::passes::builder::Absent;
use crate::passes::externs::call::{DeclaredObject, ExternArg};
use crate::passes::externs::{enum_argument, named, number, LoweredObject, Lowering};
use crate::sema::Type;

/// An extern object without an equivalent in v1model.
#[derive(Clone, Debug)]
pub enum Object {
    /// `RegisterAction` and similar externs: an operation of a stateful ALU on a cell.
    RegisterAction {
        register: RegisterId,
        /// For a `DirectRegisterAction`, the field with the index of the hit entry; `None` for others.
        entry: Option<FieldRef>,
    },
    /// `Hash`; `None` is the identity.
    Hash { algorithm: Option<Algorithm> },
    /// An object of the extern `CRCPolynomial`.
    Polynomial(CrcParameters),
    /// An object of the extern `Random`.
    Random,
    /// `Checksum`. `sum` is the variable with the sum so far; `None` before the first call.
    Checksum { sum: Option<FieldRef> },
    /// `DirectRegister`. `entry` is the field with the index of the hit entry.
    DirectRegister {
        register: RegisterId,
        entry: FieldRef,
    },
    /// `RegisterParam`: a register of one cell.
    RegisterParam(RegisterId),
    /// An object of the extern `MathUnit`.
    MathUnit(MathUnit),
    /// `ParserCounter`. `fields` are the variables of the current counter and of the stack below it; empty before the first call.
    ParserCounter { fields: Vec<FieldRef> },
    /// An object of the extern `Lpf` or `DirectLpf`.
    Lpf {
        /// Register with the configurations.
        spec: RegisterId,
        /// Register with the states.
        memory: RegisterId,
        /// For a `DirectLpf`, the field with the index of the hit entry; `None` for an `Lpf`.
        entry: Option<FieldRef>,
    },
    /// An object of the extern `Wred` or `DirectWred`.
    Wred {
        /// Register with the profiles; a `DirectWred` has one profile for all entries.
        thresholds: RegisterId,
        /// For a `DirectWred`, the field with the index of the hit entry; `None` for a `Wred`.
        entry: Option<FieldRef>,
        /// Result of `execute` if the packet is to be dropped.
        drop: BigInt,
        /// Result of `execute` if the packet is not to be dropped.
        no_drop: BigInt,
    },
    /// An object of the extern `Mirror`.
    Mirror,
    /// An object of the extern `Resubmit`.
    Resubmit,
    /// `Digest`, by its control-plane name.
    Digest(String),
    /// `Atcam` or `Alpm`: the partitions of a table, which the model ignores.
    Partitions(Partitions),
    /// `ParserPriority`, which the model ignores.
    ParserPriority,
}

impl Lowering<'_> {
    /// The partitions of an `Atcam` or `Alpm`, which only the stage report uses; `None` for other objects.
    pub fn partitions_of(&self, id: ObjectId) -> Option<Partitions> {
        match &self.tofino().objects[id] {
            Object::Partitions(partitions) => Some(*partitions),
            _ => None,
        }
    }

    /// Lowers a declared object.
    pub fn lower_tofino_object(&mut self, declared: DeclaredObject) -> LoweredObject {
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
                Ok(register) => LoweredObject::Register(register),
                Err(absent) => LoweredObject::Invalid(absent),
            },
            "RegisterParam" => match self.tofino_register(&declared, 1) {
                Ok(register) => {
                    self.set_role(register, RegisterRole::Parameter);
                    self.object(Object::RegisterParam(register))
                }
                Err(absent) => LoweredObject::Invalid(absent),
            },
            "DirectRegister" => {
                let entry = self.entry_field(&declared.name);
                match self.tofino_register(&declared, 1) {
                    Ok(register) => {
                        self.program.registers[register.index()].hidden = true;
                        self.set_role(register, RegisterRole::Direct);
                        self.into.direct_registers.insert(register);
                        self.object(Object::DirectRegister { register, entry })
                    }
                    Err(absent) => LoweredObject::Invalid(absent),
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
                            LoweredObject::Own(id) => match self.tofino().objects.get(id) {
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
                    None => {
                        let what = "a RegisterAction has no register";
                        LoweredObject::Invalid(self.impossible(declared.span, what))
                    }
                }
            }
            "MathUnit" => match self.math_unit(args) {
                Some(unit) => self.object(Object::MathUnit(unit)),
                None => LoweredObject::Invalid(self.target(
                    declared.span,
                    "the arguments of a MathUnit must be constants",
                )),
            },
            "ParserCounter" => self.object(Object::ParserCounter { fields: Vec::new() }),
            "CRCPolynomial" => match self.polynomial(&declared) {
                Ok(parameters) => self.object(Object::Polynomial(parameters)),
                Err(absent) => LoweredObject::Invalid(absent),
            },
            "Hash" => match self.hash_algorithm(&declared) {
                Ok(algorithm) => self.object(Object::Hash { algorithm }),
                Err(absent) => LoweredObject::Invalid(absent),
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
                self.object(Object::Partitions(partitions))
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
                let message = format!("the software model does not support {ty}");
                LoweredObject::Invalid(self.beyond_model(declared.span, message))
            }
        }
    }

    /// Adds an object without an equivalent in v1model.
    fn object(&mut self, object: Object) -> LoweredObject {
        let objects = &mut self.tofino_mut().objects;
        objects.push(object);
        LoweredObject::Own(objects.len() - 1)
    }

    /// The object without an equivalent in v1model that has this id.
    pub fn tofino_object(&mut self, id: ObjectId) -> &mut Object {
        &mut self.tofino_mut().objects[id]
    }

    /// Creates a register of `size` cells of the declared cell type.
    ///
    /// # Errors
    /// A register cannot hold the type, which is reported.
    fn tofino_register(
        &mut self,
        declared: &DeclaredObject,
        size: u64,
    ) -> Result<RegisterId, Absent> {
        let cell = declared.type_args.first().cloned().unwrap_or(Type::Unknown);
        let Some(bits) = self.cell_bits(&cell) else {
            let message = format!("a register holds numbers, or a struct of them, not {cell}");
            return Err(self.target(declared.span, message));
        };
        let initial = named(&declared.args, "initial_value").and_then(ExternArg::data);
        let initial = match initial {
            Some(data) => match self.packed_constant(data.clone(), &cell) {
                Some(value) => value,
                None => {
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
            role: Default::default(),
        });
        self.tofino_mut().cells.insert(id, cell);
        Ok(id)
    }

    /// The number of a cell with this constant value: its parts, with the first in the most significant bits. `None` for other values.
    fn packed_constant(&mut self, data: Data, cell: &Type) -> Option<BigInt> {
        let mut number = BigInt::ZERO;
        for leaf in self.leaves(data, cell) {
            let width = self.scalar(&leaf.ty)?.width();
            number = (number << width) | (leaf.data.constant()? & crate::ir::mask(width));
        }
        Some(number)
    }

    /// Sets the object of the program that a register implements.
    fn set_role(&mut self, register: RegisterId, role: RegisterRole) {
        self.program.registers[register.index()].role = role;
    }

    /// Creates a register of `size` cells of `bits` bits, which are initially 0.
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
            role: Default::default(),
        });
        self.tofino_mut().cells.insert(id, cell);
        id
    }

    /// Creates a filter: a register with the filter's name for the configuration, and a hidden register for the state.
    fn lpf(
        &mut self,
        declared: &DeclaredObject,
        size: u64,
        entry: Option<FieldRef>,
    ) -> LoweredObject {
        let spec = self.register_of_bits(super::lpf::SPEC_BITS, size, meta_of(declared));
        let name = format!("{}.memory", declared.name);
        let meta = self.named_meta("register", name, &declared.annotations, declared.span);
        let memory = self.register_of_bits(super::lpf::MEMORY_BITS, size, meta);
        self.program.registers[memory.index()].hidden = true;
        let direct = entry.is_some();
        self.set_role(spec, RegisterRole::Filter { direct });
        self.set_role(memory, RegisterRole::FilterState);
        if entry.is_some() {
            // The control plane accesses the configurations as data of the table's entries.
            self.program.registers[spec.index()].hidden = true;
            self.into.direct_registers.extend([spec, memory]);
        }
        self.object(Object::Lpf {
            spec,
            memory,
            entry,
        })
    }

    /// The math unit that the constructor arguments of a `MathUnit` describe; `None` if they are not constant.
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
        // The list begins with the entry for the mantissa 15.
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

    /// Creates a `Wred` or `DirectWred` with a profile of random early detection per index.
    ///
    /// The control plane accesses the profiles of a `Wred` as a register with the object's name, and those of a `DirectWred` as data of
    /// the table's entries. A cell has the type bit<72>: the minimum threshold, the
    /// maximum threshold, and the maximum drop probability in percent (8 bits). Above the minimum threshold, the drop probability rises
    /// linearly. From the maximum threshold on, all packets are dropped. A cell of 0 drops none.
    fn wred(
        &mut self,
        declared: &DeclaredObject,
        size: u64,
        entry: Option<FieldRef>,
    ) -> LoweredObject {
        let args = &declared.args;
        let thresholds = self.register_of_bits(super::wred::CELL_BITS, size, meta_of(declared));
        let direct = entry.is_some();
        self.set_role(thresholds, RegisterRole::EarlyDetection { direct });
        if direct {
            self.program.registers[thresholds.index()].hidden = true;
            self.into.direct_registers.insert(thresholds);
        }
        self.object(Object::Wred {
            thresholds,
            entry,
            drop: number(args, "drop_value").unwrap_or_default(),
            no_drop: number(args, "no_drop_value").unwrap_or_default(),
        })
    }

    /// The CRC for the constructor arguments of a `CRCPolynomial`.
    ///
    /// # Errors
    /// The model does not support the width, which is reported.
    fn polynomial(&mut self, declared: &DeclaredObject) -> Result<CrcParameters, Absent> {
        let args = &declared.args;
        let ty = declared.type_args.first().cloned().unwrap_or(Type::Unknown);
        let flag = |wanted: &str| number(args, wanted).is_some_and(|value| value != BigInt::ZERO);
        let extended = flag("extended");
        let own = self.scalar(&ty).map_or(0, |scalar| scalar.width());
        let width = own.saturating_sub(u32::from(extended));
        if !matches!(width, 8 | 16 | 32 | 64) {
            let message = format!(
                "the software model computes CRCs of 8, 16, 32 and 64 bits, not of {width}"
            );
            return Err(self.beyond_model(declared.span, message));
        }
        let bits = |wanted: &str| {
            let value = number(args, wanted).unwrap_or_default() & crate::ir::mask(width);
            u64::try_from(value).unwrap_or(0)
        };
        Ok(CrcParameters {
            width,
            polynomial: bits("coeff"),
            initial: bits("init"),
            final_xor: bits("xor"),
            reflected: flag("reversed"),
        })
    }

    /// The algorithm for the constructor arguments of a `Hash`; `None` is the identity.
    ///
    /// # Errors
    /// The model does not support the algorithm, which is reported.
    fn hash_algorithm(&mut self, declared: &DeclaredObject) -> Result<Option<Algorithm>, Absent> {
        let args = &declared.args;
        let polynomial = args
            .iter()
            .find_map(|given| match self.lowered_object(given.object()?) {
                LoweredObject::Own(id) => match self.tofino().objects.get(id) {
                    Some(Object::Polynomial(parameters)) => Some(*parameters),
                    _ => None,
                },
                _ => None,
            });
        if let Some(parameters) = polynomial {
            return Ok(Some(Algorithm::Crc(parameters)));
        }
        let crc = |width, polynomial| CrcParameters {
            width,
            polynomial,
            initial: 0,
            final_xor: 0,
            reflected: false,
        };
        let algorithm = enum_argument(self, args, "algo");
        Ok(match algorithm.as_deref() {
            Some("IDENTITY") => None,
            Some("CRC8") => Some(Algorithm::Crc(crc(8, 0x07))),
            Some("CRC16") => Some(Algorithm::Crc16),
            Some("CRC32") => Some(Algorithm::Crc32),
            Some("CRC64") => Some(Algorithm::Crc(crc(64, 0x42f0_e1eb_a9ea_3693))),
            Some("XOR16") => Some(Algorithm::Xor16),
            // The chip uses an unspecified deterministic hash function; the model uses CRC-32C.
            Some("RANDOM") => Some(Algorithm::Crc(crc(32, 0x1edc_6f41))),
            _ => {
                let what = algorithm.unwrap_or_default();
                let message = format!(
                    "the software model does not support the hash algorithm {what} without a CRCPolynomial"
                );
                return Err(self.beyond_model(declared.span, message));
            }
        })
    }

    /// Lowers an `ActionSelector`. If it names an `ActionProfile`, it replaces the profile.
    fn tofino_selector(&mut self, declared: &DeclaredObject, size: u64) -> LoweredObject {
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
                "the software model does not support a register of member states in a selector: omit it, and change groups by P4Runtime",
            );
        }
        let hash = objects.iter().find_map(|object| match object {
            LoweredObject::Own(id) => match self.tofino().objects.get(*id) {
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
                // P4Runtime accesses members and groups by the name of the selector, BfRuntime members by that of the profile.
                let members = &mut self.program.action_profiles[id.index()];
                profile.members = Some(std::mem::take(&mut members.meta));
                *members = profile;
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

/// Control-plane metadata of a declared object; empty if it is not visible to the control plane.
fn meta_of(declared: &DeclaredObject) -> Meta {
    declared.meta.clone().unwrap_or_default()
}

/// The control plane's name for the kind of objects of an extern type; `None` if they are not visible to it. Configurations of filters and
/// profiles of `Wred` are registers.
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
