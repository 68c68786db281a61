//! Loading of registers, counters, meters, value sets, calculations, field lists and checksums.

use super::{find, number, LoadError, Loader, Scope};
use crate::exec::big::Big;
use crate::exec::join::Join;
use crate::exec::node::{Kind, Node};
use crate::exec::ops::{Op, Pc, Slot};
use crate::exec::words::words_of;
use crate::externs::hash::{Algorithm, CrcParams};
use crate::program::{
    Calculation, Checksum, CounterArray, Input, JoinedInputs, LearnList, ListItem, MeterArray,
    RegisterArray, ValueSet,
};
use alfirk_bmv2_json::{CrcParameters, Expr, FieldList};
use rustc_hash::FxHashMap;

/// Maximum total size of all registers, counters and meters, in 64-bit words (2 GiB).
const MAX_STATE_WORDS: u64 = 1 << 28;

impl Loader<'_> {
    pub(super) fn declare_objects(&mut self) -> Result<(), LoadError> {
        let json = self.json;
        let names = json.register_arrays.iter().map(|r| r.name.as_str());
        self.register_names = number("register array", names)?;
        let names = json.counter_arrays.iter().map(|c| c.name.as_str());
        self.counter_names = number("counter array", names)?;
        let names = json.meter_arrays.iter().map(|m| m.name.as_str());
        self.meter_names = number("meter array", names)?;
        self.vset_names = number(
            "parser value set",
            json.parse_vsets.iter().map(|v| v.name.as_str()),
        )?;

        let mut words = 0u64;
        let mut size_of = |size: u64, words_each: usize| {
            words = words.saturating_add(size.saturating_mul(words_each as u64));
            if words > MAX_STATE_WORDS {
                let what = "64-bit words of registers, counters and meters";
                return Err(LoadError::TooLarge {
                    what,
                    need: words,
                    limit: MAX_STATE_WORDS,
                });
            }
            Ok(size as usize)
        };
        for register in &json.register_arrays {
            if register.bitwidth == 0 {
                let at = format!("register array {}", register.name);
                return Err(LoadError::invalid(at, "the bitwidth of cells is 0"));
            }
            self.registers.push(RegisterArray {
                name: register.name.clone(),
                size: size_of(register.size, words_of(register.bitwidth))?,
                bits: register.bitwidth,
                initial: match &register.initial_value {
                    None => Big::default(),
                    Some(value) => {
                        let at = format!("register array {}", register.name);
                        (self.hex(value, Scope::plain(&at))?).truncate(register.bitwidth)
                    }
                },
            });
        }
        let mut tables = Vec::new();
        for pipeline in &json.pipelines {
            tables.extend(pipeline.tables.iter().map(|t| t.name.as_str()));
        }
        let table = |binding: &Option<String>, at: String| match binding {
            Some(name) => match tables.iter().position(|t| t == name) {
                Some(i) => Ok(Some(i as u16)),
                None => Err(LoadError::Undefined {
                    at,
                    what: "table",
                    name: name.clone(),
                }),
            },
            None => Ok(None),
        };
        for counter in &json.counter_arrays {
            let at = format!("counter array {}", counter.name);
            let size = if counter.is_direct {
                0
            } else {
                counter.size.unwrap_or(0)
            };
            self.counters.push(CounterArray {
                name: counter.name.clone(),
                size: size_of(size, 2)?,
                table: if counter.is_direct {
                    table(&counter.binding, at)?
                } else {
                    None
                },
            });
        }
        for meter in &json.meter_arrays {
            let at = format!("meter array {}", meter.name);
            if meter.rate_count != 2 {
                let why = format!("{} rates are not supported, only 2", meter.rate_count);
                return Err(LoadError::invalid(at, why));
            }
            let size = if meter.is_direct {
                0
            } else {
                meter.size.unwrap_or(0)
            };
            self.meters.push(MeterArray {
                name: meter.name.clone(),
                size: size_of(size, 1)?,
                kind: meter.kind,
                table: if meter.is_direct {
                    table(&meter.binding, at)?
                } else {
                    None
                },
            });
        }
        for set in &json.parse_vsets {
            self.vsets.push(ValueSet {
                name: set.name.clone(),
                bits: set.compressed_bitwidth,
                max_size: set.max_size,
            });
        }
        Ok(())
    }

    pub(super) fn calculations(&mut self) -> Result<Vec<Calculation>, LoadError> {
        let json = self.json;
        self.calculation_names = number(
            "calculation",
            json.calculations.iter().map(|c| c.name.as_str()),
        )?;
        json.calculations
            .iter()
            .map(|c| {
                let at = format!("calculation {}", c.name);
                let mut calculation = match &c.crc {
                    None => self.calculation(&c.algo, &c.input, Scope::plain(&at))?,
                    Some(_) => self.calculation("crc32_custom", &c.input, Scope::plain(&at))?,
                };
                if let Some(crc) = &c.crc {
                    calculation.algorithm = self.crc(crc, Scope::plain(&at))?;
                }
                let name = c.name.clone();
                Ok(Calculation {
                    name,
                    ..calculation
                })
            })
            .collect()
    }

    fn crc(&self, of: &CrcParameters, scope: Scope) -> Result<Algorithm, LoadError> {
        if !matches!(of.bitwidth, 8 | 16 | 32 | 64) {
            let why = format!("a CRC of {} bits is not supported", of.bitwidth);
            return Err(scope.invalid(why));
        }
        let bits = |text: &str| -> Result<u64, LoadError> {
            Ok(self.hex(text, scope)?.truncate(of.bitwidth).word(0))
        };
        Ok(Algorithm::Custom(CrcParams {
            bits: of.bitwidth,
            polynomial: bits(&of.polynomial)?,
            initial: bits(&of.initial)?,
            final_xor: bits(&of.final_xor)?,
            reflect_data: of.reflected,
            reflect_remainder: of.reflected,
        }))
    }

    pub(super) fn calculation(
        &mut self,
        algorithm: &str,
        input: &[Expr],
        scope: Scope,
    ) -> Result<Calculation, LoadError> {
        let algorithm = Algorithm::from_name(algorithm).ok_or_else(|| {
            scope.invalid(format!("hash algorithm {algorithm:?} is not supported"))
        })?;
        let mut inputs = Vec::new();
        let mut payload = false;
        for expr in input {
            match expr.unwrapped() {
                Expr::Payload => payload = true,
                Expr::Header(name) => inputs.push(Input::Header(self.header(name, scope.at)?)),
                Expr::Hexstr { value, bitwidth } => {
                    // Without a width, the number of digits determines it.
                    let digits =
                        value.trim_start_matches('-').trim_start_matches("0x").len() as u32;
                    let bits = bitwidth.unwrap_or(digits.saturating_mul(4));
                    if bits > 65536 {
                        return Err(scope.invalid(format!("a constant of {bits} bits is too wide")));
                    }
                    let value = self.hex(value, scope)?.truncate(bits);
                    let words = (0..words_of(bits)).map(|i| value.word(i)).collect();
                    inputs.push(Input::Const { words, bits });
                }
                Expr::Field(field) => {
                    let (header, field) = self.field(field, scope.at)?;
                    let h = &self.layout.headers[usize::from(header)];
                    let valid = (!h.metadata).then_some(h.valid);
                    inputs.push(match h.varbit {
                        Some(varbit) if field.varbit => Input::Varbit {
                            slot: field.slot,
                            length: varbit.length,
                            valid,
                        },
                        _ => Input::Field {
                            slot: field.slot,
                            bits: field.bits,
                            valid,
                        },
                    });
                }
                other => return Err(scope.invalid(format!("{other:?} cannot be hashed"))),
            }
        }
        let joined = self.joined(&inputs)?;
        Ok(Calculation {
            name: String::new(),
            algorithm,
            inputs,
            payload,
            joined,
        })
    }

    /// Creates the plan for concatenating the inputs of a calculation to a byte string. `None` if an input has a
    /// variable length.
    fn joined(&mut self, inputs: &[Input]) -> Result<Option<JoinedInputs>, LoadError> {
        let mut fields = Vec::new();
        let mut all_valid = Vec::new();
        for input in inputs {
            let valid = match input {
                Input::Varbit { .. } => return Ok(None),
                Input::Field { slot, bits, valid } => {
                    fields.push((*slot, *bits));
                    *valid
                }
                Input::Const { words, bits } => {
                    // From the most significant word down. Only this first word may be partly used.
                    for i in (0..words_of(*bits)).rev() {
                        let slot = self.constant(words[i])?;
                        fields.push((slot, (bits - 64 * i as u32).min(64)));
                    }
                    None
                }
                Input::Header(h) => {
                    let h = &self.layout.headers[usize::from(*h)];
                    if h.varbit.is_some() {
                        return Ok(None);
                    }
                    fields.extend(h.fields.iter().map(|f| (f.slot, f.bits)));
                    (!h.metadata).then_some(h.valid)
                }
            };
            if let Some(valid) = valid.filter(|v| !all_valid.contains(v)) {
                all_valid.push(valid);
            }
        }
        Ok(Some(JoinedInputs {
            valid: all_valid,
            join: Join::new(fields),
        }))
    }

    /// Loads the field lists of clone, resubmit and recirculate.
    pub(super) fn field_lists(&mut self) -> Result<FxHashMap<u32, Vec<ListItem>>, LoadError> {
        let mut lists = FxHashMap::default();
        for list in &self.json.field_lists {
            let at = format!("field list {}", list.name);
            let mut items = Vec::new();
            for element in &list.elements {
                match element.unwrapped() {
                    Expr::Field(field) => {
                        let (header, field) = self.field(field, &at)?;
                        items.push(ListItem {
                            slot: field.slot,
                            words: words_of(field.bits) as u16,
                        });
                        let h = &self.layout.headers[usize::from(header)];
                        if let (true, Some(varbit)) = (field.varbit, h.varbit) {
                            items.push(ListItem {
                                slot: varbit.length,
                                words: 1,
                            });
                        }
                    }
                    Expr::Header(name) => {
                        let h = &self.layout.headers[usize::from(self.header(name, &at)?)];
                        items.push(ListItem {
                            slot: h.start,
                            words: h.end - h.start,
                        });
                    }
                    // Constants have no value to keep.
                    Expr::Hexstr { .. } | Expr::Bool(_) => {}
                    other => {
                        return Err(LoadError::invalid(at, format!("{other:?} is not a field")))
                    }
                }
            }
            insert_list(&mut lists, list, merged(items))?;
        }
        Ok(lists)
    }

    pub(super) fn learn_lists(&mut self) -> Result<FxHashMap<u32, LearnList>, LoadError> {
        let mut lists = FxHashMap::default();
        for list in &self.json.learn_lists {
            let at = format!("learn list {}", list.name);
            let scope = Scope::plain(&at);
            let (mut items, mut bits) = (Vec::new(), Vec::new());
            for element in &list.elements {
                let node = self.node(element, scope)?;
                bits.push(match (&node.kind, element.unwrapped()) {
                    (Kind::Field { bits, .. }, _) => *bits,
                    (_, Expr::Hexstr { value, bitwidth }) => {
                        let digits = value.trim_start_matches('-').trim_start_matches("0x").len();
                        bitwidth.unwrap_or(digits.min(16384) as u32 * 4)
                    }
                    _ => match node.range {
                        Some((0.., high)) => 128 - high.leading_zeros(),
                        _ => 64,
                    },
                });
                items.push(node);
            }
            insert_list(
                &mut lists,
                list,
                LearnList {
                    name: list.name.clone(),
                    items,
                    bits,
                },
            )?;
        }
        Ok(lists)
    }

    /// Compiles the checksums to verify and to update, in the order of the file.
    pub(super) fn compile_checksums(
        &mut self,
    ) -> Result<(Vec<Checksum>, Vec<Checksum>), LoadError> {
        let (mut verify, mut update) = (Vec::new(), Vec::new());
        for checksum in &self.json.checksums {
            let at = format!("checksum {}", checksum.name);
            self.begin(|| at.clone());
            let calculation = find(
                &self.calculation_names,
                "calculation",
                &checksum.calculation,
                &at,
            )?;
            let (header, field) = self.field(&checksum.target, &at)?;
            if !(1..=64).contains(&field.bits) {
                let why = format!("the target must have 1 to 64 bits, not {}", field.bits);
                return Err(LoadError::invalid(at, why));
            }
            let condition = match &checksum.if_cond {
                None => None,
                Some(condition) => {
                    let node = self.node(condition, Scope::plain(&at))?;
                    match &node.kind {
                        Kind::Const(value) if !value.is_zero() => None,
                        _ => {
                            let (code, slot) = self.compile_value(&node)?;
                            let is_plain = self.code[code as usize] == Op::Return;
                            Some(((!is_plain).then_some(code), slot))
                        }
                    }
                }
            };
            let make = || Checksum {
                name: checksum.name.clone(),
                calculation,
                condition,
                header,
                slot: field.slot,
                bits: field.bits,
            };
            if checksum.verify {
                verify.push(make());
            }
            if checksum.update {
                update.push(make());
            }
        }
        Ok((verify, update))
    }

    /// Emits the code of an expression as a separate routine. Returns its first instruction, and the word of its
    /// result.
    pub(super) fn compile_value(&mut self, node: &Node) -> Result<(Pc, Slot), LoadError> {
        let code = self.pc();
        let slot = self.low(node)?;
        self.emit(Op::Return);
        self.end_statement();
        Ok((code, slot))
    }

    /// Emits the code of a number of bits as a separate routine. Negative and too large values become `u64::MAX`.
    pub(super) fn compile_amount(&mut self, node: &Node) -> Result<(Pc, Slot), LoadError> {
        let code = self.pc();
        let slot = self.amount(node)?;
        self.emit(Op::Return);
        self.end_statement();
        Ok((code, slot))
    }

    /// Returns a hexadecimal constant, wrapped to `bits` bits, as 64-bit words, least significant first.
    pub(super) fn hex_words(
        &self,
        text: &str,
        bits: u32,
        scope: Scope,
    ) -> Result<Vec<u64>, LoadError> {
        let value: Big = self.hex(text, scope)?.truncate(bits);
        Ok((0..words_of(bits).max(1)).map(|i| value.word(i)).collect())
    }
}

/// Returns the items of a list, with ranges of words that touch as one.
fn merged(mut items: Vec<ListItem>) -> Vec<ListItem> {
    items.sort_unstable_by_key(|item| item.slot);
    let mut all: Vec<ListItem> = Vec::new();
    for item in items {
        match all.last_mut() {
            Some(last) if item.slot <= last.slot + last.words => {
                last.words = last.words.max(item.slot + item.words - last.slot);
            }
            _ => all.push(item),
        }
    }
    all
}

pub(super) fn insert_list<T>(
    lists: &mut FxHashMap<u32, T>,
    list: &FieldList,
    value: T,
) -> Result<(), LoadError> {
    let id = u32::try_from(list.id).map_err(|_| {
        LoadError::invalid(
            format!("list {}", list.name),
            format!("id {} is not from 0 to 2^32 - 1", list.id),
        )
    })?;
    if lists.insert(id, value).is_some() {
        return Err(LoadError::Duplicate {
            what: "list",
            name: format!("id {id}"),
        });
    }
    Ok(())
}
