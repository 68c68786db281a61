//! Allocation of the packet's words to headers, stacks, unions and metadata.

use super::{number, LoadError, Loader};
use crate::exec::join::{FieldReader, Join};
use crate::exec::words::{param_words, words_of};
use crate::program::{
    Field, FieldPlan, Header, Intrinsic, Meta, Place, Queueing, Stack, Union, UnionStack, Varbit,
};
use alfirk_bmv2_json::{FieldRef, FieldWidth, HeaderType};
use rustc_hash::{FxHashMap, FxHashSet};

impl Loader<'_> {
    /// Allocates words to metadata first, then to the elements of each stack contiguously, then to all other headers.
    pub(super) fn place_headers(&mut self) -> Result<(), LoadError> {
        let json = self.json;
        self.header_names = number("header", json.headers.iter().map(|h| h.name.as_str()))?;
        let types = number(
            "header type",
            json.header_types.iter().map(|t| t.name.as_str()),
        )?;
        let mut type_of = Vec::new();
        for header in &json.headers {
            let at = format!("header {}", header.name);
            let index = super::find(&types, "header type", &header.header_type, &at)?;
            type_of.push(usize::from(index));
        }
        let mut fields = json.header_types.iter().flat_map(|t| &t.fields);
        if fields.any(|f| f.width == FieldWidth::Bits(0)) {
            self.void = self.words(1)?;
        }
        let mut placed: Vec<Option<Header>> = json.headers.iter().map(|_| None).collect();
        for (i, header) in json.headers.iter().enumerate() {
            if header.metadata {
                placed[i] = Some(self.place(i, type_of[i])?);
            }
        }
        self.layout.metadata_end = self.layout.initial.len();

        let ids = unique_ids("header", json.headers.iter().map(|h| h.id))?;
        let by_id = |id: &i64, at: &str| {
            ids.get(id).copied().ok_or_else(|| LoadError::Undefined {
                at: at.to_owned(),
                what: "header with id",
                name: id.to_string(),
            })
        };
        self.stack_names = number(
            "header stack",
            json.header_stacks.iter().map(|s| s.name.as_str()),
        )?;
        for stack in &json.header_stacks {
            let at = format!("header stack {}", stack.name);
            let start = self.layout.initial.len();
            let mut headers = Vec::new();
            for id in &stack.header_ids {
                let i = by_id(id, &at)?;
                self.place_element(i, &type_of, &mut placed, &at)?;
                if type_of[i] != type_of[usize::from(*headers.first().unwrap_or(&(i as u16)))] {
                    return Err(LoadError::invalid(
                        at,
                        "the elements have different header types",
                    ));
                }
                headers.push(i as u16);
            }
            let stride = (self.layout.initial.len() - start) / headers.len().max(1);
            self.layout.stacks.push(Stack {
                headers,
                stride,
                start,
                next: 0,
            });
        }

        self.union_names = number(
            "header union",
            json.header_unions.iter().map(|u| u.name.as_str()),
        )?;
        for (i, union) in json.header_unions.iter().enumerate() {
            let at = format!("header union {}", union.name);
            let mut headers = Vec::new();
            for id in &union.header_ids {
                headers.push(by_id(id, &at)? as u16);
            }
            self.layout.unions.push(Union {
                name: union.name.clone(),
                headers,
            });
            debug_assert_eq!(self.layout.unions.len(), i + 1);
        }
        let union_ids = unique_ids("header union", json.header_unions.iter().map(|u| u.id))?;
        let names = json.header_union_stacks.iter().map(|s| s.name.as_str());
        self.union_stack_names = number("header union stack", names)?;
        for stack in &json.header_union_stacks {
            let at = format!("header union stack {}", stack.name);
            let start = self.layout.initial.len();
            let mut unions: Vec<u16> = Vec::new();
            for id in &stack.header_union_ids {
                let Some(&i) = union_ids.get(id) else {
                    let name = id.to_string();
                    return Err(LoadError::Undefined {
                        at,
                        what: "header union with id",
                        name,
                    });
                };
                let members = self.layout.unions[i].headers.clone();
                let types = |u: usize| {
                    self.layout.unions[u]
                        .headers
                        .iter()
                        .map(|h| type_of[usize::from(*h)])
                };
                if !types(i).eq(types(usize::from(*unions.first().unwrap_or(&(i as u16))))) {
                    return Err(LoadError::invalid(
                        at,
                        "the elements have different header types",
                    ));
                }
                for member in members {
                    self.place_element(usize::from(member), &type_of, &mut placed, &at)?;
                }
                unions.push(i as u16);
            }
            let stride = (self.layout.initial.len() - start) / unions.len().max(1);
            self.layout.union_stacks.push(UnionStack {
                unions,
                stride,
                start,
                next: 0,
            });
        }

        for i in 0..placed.len() {
            if placed[i].is_none() {
                placed[i] = Some(self.place(i, type_of[i])?);
            }
        }
        self.layout.headers = placed
            .into_iter()
            .map(|h| h.expect("all headers are placed by now"))
            .collect();
        for (u, union) in self.layout.unions.iter().enumerate() {
            for &member in &union.headers {
                let header = &mut self.layout.headers[usize::from(member)];
                if header.metadata {
                    let at = format!("header union {}", union.name);
                    return Err(LoadError::invalid(
                        at,
                        format!("{} is metadata", header.name),
                    ));
                }
                header.union = Some(u as u16);
            }
        }
        for i in 0..self.layout.stacks.len() {
            self.layout.stacks[i].next = self.words(1)?;
        }
        for i in 0..self.layout.union_stacks.len() {
            self.layout.union_stacks[i].next = self.words(1)?;
        }
        self.layout.state_end = self.layout.initial.len();
        self.layout.varbits = self.large_varbits();

        let most = json.actions.iter().map(|action| {
            action
                .runtime_data
                .iter()
                .map(|p| param_words(p.bitwidth))
                .sum::<usize>()
        });
        self.layout.params = self.words(most.max().unwrap_or(0))?;
        Ok(())
    }

    /// Returns the variable-length fields of more than `MIN_WORDS` words, in the order of their words. Fields in stacks
    /// are excluded, because push and pop move their elements.
    fn large_varbits(&self) -> Vec<Varbit> {
        const MIN_WORDS: usize = 8;
        let (stacks, layout) = (&self.layout.stacks, &self.layout);
        let unions = layout.union_stacks.iter().flat_map(|s| &s.unions);
        let in_union = unions.flat_map(|union| &layout.unions[usize::from(*union)].headers);
        let in_stack = stacks.iter().flat_map(|stack| &stack.headers);
        let moved: FxHashSet<u16> = in_stack.chain(in_union).copied().collect();
        let headers = (0..).zip(&layout.headers);
        let fixed = headers.filter(|(i, _)| !moved.contains(i));
        let mut varbits: Vec<Varbit> = fixed.filter_map(|(_, header)| header.varbit).collect();
        varbits.retain(|varbit| words_of(varbit.max_bits) > MIN_WORDS);
        varbits.sort_by_key(|varbit| varbit.slot);
        varbits
    }

    fn place_element(
        &mut self,
        i: usize,
        type_of: &[usize],
        placed: &mut [Option<Header>],
        at: &str,
    ) -> Result<(), LoadError> {
        if placed[i].is_some() {
            let name = &self.json.headers[i].name;
            let why = format!("header {name} is metadata, or belongs to another stack or union");
            return Err(LoadError::invalid(at, why));
        }
        placed[i] = Some(self.place(i, type_of[i])?);
        Ok(())
    }

    fn place(&mut self, i: usize, type_id: usize) -> Result<Header, LoadError> {
        let header = &self.json.headers[i];
        let kind = &self.json.header_types[type_id];
        let at = format!("header type {}", kind.name);
        let fixed: u64 = kind
            .fields
            .iter()
            .map(|f| {
                if let FieldWidth::Bits(bits) = f.width {
                    u64::from(bits)
                } else {
                    0
                }
            })
            .sum();
        // Only headers have a validity word, at `start - 1`; metadata is always valid.
        let valid = if header.metadata { 0 } else { self.words(1)? };
        let start = self.layout.initial.len() as u16;
        let mut fields = Vec::new();
        let mut plan = Vec::new();
        let mut varbit = None;
        let mut offset = 0;
        for field in &kind.fields {
            let (bits, is_varbit) = match field.width {
                FieldWidth::Bits(0) => {
                    fields.push(Field {
                        name: field.name.clone(),
                        slot: self.void,
                        bits: 0,
                        signed: false,
                        varbit: false,
                    });
                    continue;
                }
                FieldWidth::Bits(bits) => (bits, false),
                FieldWidth::Variable if varbit.is_some() => {
                    return Err(LoadError::invalid(
                        at,
                        "more than one variable-length field",
                    ));
                }
                FieldWidth::Variable => (varbit_bits(kind, fixed)?, true),
            };
            let slot = self.words(words_of(bits))?;
            if field.saturating {
                self.saturating.insert(slot);
            }
            let place = match (is_varbit, varbit.is_some()) {
                (true, _) => Place::Varbit,
                (false, true) => Place::AfterVarbit,
                (false, false) => Place::Fixed,
            };
            if is_varbit {
                let length = self.words(1)?;
                varbit = Some(Varbit {
                    slot,
                    max_bits: bits,
                    length,
                });
            }
            let name = field.name.clone();
            fields.push(Field {
                name,
                slot,
                bits,
                signed: field.signed,
                varbit: is_varbit,
            });
            plan.push(FieldPlan {
                slot,
                bits,
                signed: field.signed,
                place,
                offset,
            });
            if !is_varbit {
                offset += bits;
            }
        }
        let end = self.layout.initial.len() as u16;
        let (bytes, whole_bytes) = ((fixed / 8) as usize, fixed % 8 == 0);
        let name = header.name.clone();
        let metadata = header.metadata;
        let union = None;
        let fixed = || varbit.is_none().then_some(&plan);
        let join = fixed().map(|plan| Join::new(plan.iter().map(|f| (f.slot, f.bits))));
        let cut = fixed().and_then(|plan| {
            FieldReader::new(plan.iter().map(|f| (f.offset, f.slot, f.bits, f.signed)))
        });
        Ok(Header {
            name,
            type_id,
            metadata,
            valid,
            start,
            end,
            fields,
            bytes,
            varbit,
            union,
            plan,
            join,
            cut,
            whole_bytes,
        })
    }

    /// Resolves the metadata fields that simple_switch itself reads or writes, such as `egress_spec`.
    pub(super) fn intrinsic(&self) -> Result<Intrinsic, LoadError> {
        let required = |header: &str, field: &str| {
            self.meta(header, field)?
                .map(Some)
                .ok_or_else(|| LoadError::Undefined {
                    at: "simple_switch's metadata".to_owned(),
                    what: "field",
                    name: format!("{header}.{field}"),
                })
        };
        let queueing = |field: &str| self.meta("queueing_metadata", field);
        let all = (
            queueing("enq_timestamp")?,
            queueing("enq_qdepth")?,
            queueing("deq_timedelta")?,
            queueing("deq_qdepth")?,
        );
        let queue = match all {
            (Some(enq_timestamp), Some(enq_qdepth), Some(deq_timedelta), Some(deq_qdepth)) => {
                Some(Queueing {
                    enq_timestamp,
                    enq_qdepth,
                    deq_timedelta,
                    deq_qdepth,
                })
            }
            _ => None,
        };
        Ok(Intrinsic {
            ingress_port: required("standard_metadata", "ingress_port")?,
            packet_length: required("standard_metadata", "packet_length")?,
            instance_type: required("standard_metadata", "instance_type")?,
            egress_spec: required("standard_metadata", "egress_spec")?,
            egress_port: required("standard_metadata", "egress_port")?,
            parser_error: self.meta("standard_metadata", "parser_error")?,
            checksum_error: self.meta("standard_metadata", "checksum_error")?,
            ingress_global_timestamp: self
                .meta("intrinsic_metadata", "ingress_global_timestamp")?,
            egress_global_timestamp: self.meta("intrinsic_metadata", "egress_global_timestamp")?,
            mcast_grp: self.meta("intrinsic_metadata", "mcast_grp")?,
            egress_rid: self.meta("intrinsic_metadata", "egress_rid")?,
            priority: self.meta("intrinsic_metadata", "priority")?,
            qid: queueing("qid")?,
            queueing: queue,
        })
    }

    /// Resolves the metadata field `header.field`: by an alias of this name in the JSON file, else by the names of
    /// header and field. `None` if there is neither.
    pub(super) fn meta(&self, header: &str, field: &str) -> Result<Option<Meta>, LoadError> {
        let wanted = FieldRef::new(header, field);
        let name = wanted.to_string();
        let at = format!("alias of {name}");
        let field = match self.aliases.get(name.as_str()) {
            Some(alias) => self.field(alias, &at)?.1,
            None => match self.field(&wanted, &at) {
                Ok((_, field)) => field,
                Err(_) => return Ok(None),
            },
        };
        if !(1..=64).contains(&field.bits) {
            let why = format!("it must have 1 to 64 bits, not {}", field.bits);
            return Err(LoadError::invalid(at, why));
        }
        Ok(Some(Meta {
            slot: field.slot,
            mask: u64::MAX >> (64 - field.bits),
        }))
    }
}

fn varbit_bits(kind: &HeaderType, fixed: u64) -> Result<u32, LoadError> {
    let at = || format!("header type {}", kind.name);
    let max = kind
        .max_length
        .ok_or_else(|| LoadError::invalid(at(), "has a variable-length field and no max_length"))?;
    let bits = max.checked_mul(8).and_then(|max| max.checked_sub(fixed));
    match bits.and_then(|bits| u32::try_from(bits).ok()) {
        Some(0) | None => Err(LoadError::invalid(
            at(),
            format!("max_length of {max} bytes leaves no bits for the variable-length field, or too many"),
        )),
        Some(bits) => Ok(bits),
    }
}

fn unique_ids(
    what: &'static str,
    ids: impl Iterator<Item = i64>,
) -> Result<FxHashMap<i64, usize>, LoadError> {
    let mut numbers = FxHashMap::default();
    for (i, id) in ids.enumerate() {
        if numbers.insert(id, i).is_some() {
            return Err(LoadError::Duplicate {
                what,
                name: format!("id {id}"),
            });
        }
    }
    Ok(numbers)
}
