//! Loading of ingress and egress: compiles nodes to code, and loads the keys, actions and entries of tables.

use super::parser::missing;
use super::reached::Reached;
use super::{find, number, LoadError, Loader, Scope};
use crate::coverage::SiteKind;
use crate::exec::node::Kind;
use crate::exec::ops::{Op, Pc, Slot};
use crate::program::{
    source, DefaultAction, DirectMeter, DirectRegister, InitialEntry, Key, Note, Profile, Table,
};
use crate::tables::{ActionRef, KeyMatch, NewEntry, NewKey, Target};
use alfirk_bmv2_json::{
    self as json, Expr, FieldRef, MatchKey, MatchType, Pipeline, TableKeyTarget, TableType,
};
use rustc_hash::FxHashMap;

/// The compiled pipelines, and their tables and action profiles.
pub(super) struct Pipelines {
    /// First instruction of each pipeline, with the pipeline's name.
    pub starts: Vec<(String, Pc)>,
    pub tables: Vec<Table>,
    pub profiles: Vec<Profile>,
}

impl Pipelines {
    /// Returns the first instruction of the pipeline with this name.
    pub fn start(&self, name: &str) -> Result<Pc, LoadError> {
        let known = self.starts.iter().rev().find(|(known, _)| known == name);
        known
            .map(|(_, start)| *start)
            .ok_or_else(|| missing("pipeline", name))
    }
}

/// A node of a pipeline's control flow in the JSON file.
#[derive(Clone, Copy)]
enum Node<'a> {
    /// A table, with its number among the tables of all pipelines.
    Table(u16, &'a json::Table),
    Conditional(&'a json::Conditional),
    Call(&'a json::ActionCall),
}

impl<'a> Loader<'a> {
    pub(super) fn compile_pipelines(&mut self) -> Result<Pipelines, LoadError> {
        let json = self.json;
        let all = || json.pipelines.iter();
        let table_names = number(
            "table",
            all().flat_map(|p| &p.tables).map(|t| t.name.as_str()),
        )?;
        let profile_names = number(
            "action profile",
            all()
                .flat_map(|p| &p.action_profiles)
                .map(|p| p.name.as_str()),
        )?;
        let mut profiles = Vec::new();
        for profile in all().flat_map(|p| &p.action_profiles) {
            let at = format!("action profile {}", profile.name);
            let selector = profile
                .selector
                .as_ref()
                .map(|s| self.calculation(&s.algo, &s.input, Scope::plain(&at)));
            profiles.push(Profile {
                name: profile.name.clone(),
                max_size: profile.max_size,
                selector: selector.transpose()?,
            });
        }
        let mut tables = Vec::new();
        let mut starts = Vec::new();
        for pipeline in all() {
            self.begin(String::new);
            let (start, mut labels, reached) = self.compile_flow(pipeline, &table_names)?;
            let start = self.thread_jumps(start, &mut labels, pipeline, &table_names)?;
            let part = self
                .listing
                .as_mut()
                .and_then(|listing| listing.parts.last_mut());
            if let Some((_, name)) = part {
                *name = format!("pipeline {} from {start}", pipeline.name);
            }
            for table in &pipeline.tables {
                let number = tables.len() as u16;
                let loaded = self.table(number, table, &labels, &profile_names)?;
                self.end_apply(&reached, table, &loaded);
                tables.push(loaded);
            }
            starts.push((pipeline.name.clone(), start));
        }
        Ok(Pipelines {
            starts,
            tables,
            profiles,
        })
    }

    /// Compiles the control flow of a pipeline. Returns the first instruction, and the position of each node's code.
    fn compile_flow(
        &mut self,
        pipeline: &'a Pipeline,
        table_names: &super::Names,
    ) -> Result<(Pc, Labels<'a>, Reached<'a>), LoadError> {
        let mut nodes: FxHashMap<&str, Node> = FxHashMap::default();
        let tables = pipeline
            .tables
            .iter()
            .map(|t| (t.name.as_str(), Node::Table(table_names[&t.name], t)));
        let conditionals = pipeline
            .conditionals
            .iter()
            .map(|c| (c.name.as_str(), Node::Conditional(c)));
        let calls = pipeline
            .action_calls
            .iter()
            .map(|c| (c.name.as_str(), Node::Call(c)));
        let mut names = Vec::new();
        for (name, node) in tables.chain(conditionals).chain(calls) {
            if nodes.insert(name, node).is_some() {
                return Err(LoadError::Duplicate {
                    what: "control flow node",
                    name: name.to_owned(),
                });
            }
            names.push(name);
        }
        let end = self.pc();
        self.emit(Op::End);
        let start = self.pc();
        let reached = self.reached(pipeline);
        self.end_line();
        let name = || pipeline.name.clone();
        self.cover(
            || SiteKind::Function { name: name() },
            pipeline.source_info.as_ref(),
        );
        let mut flow = Flow {
            labels: Labels {
                at: FxHashMap::default(),
                end,
                pipeline: &pipeline.name,
            },
            fixes: Vec::new(),
            pending: Vec::new(),
            reached,
        };
        // Unreachable nodes are compiled too, to validate their names.
        flow.pending.extend(names.iter().rev());
        self.lead(&flow.reached, pipeline.init_table.as_deref());
        self.chain(pipeline.init_table.as_deref(), &nodes, &mut flow)?;
        while let Some(name) = flow.pending.pop() {
            if !flow.labels.at.contains_key(name) {
                self.chain(Some(name), &nodes, &mut flow)?;
            }
        }
        for (jump, name) in flow.fixes {
            let target = flow.labels.find(name, &pipeline.name)?;
            self.patch(jump, target);
        }
        Ok((start, flow.labels, flow.reached))
    }

    /// Compiles a node and the nodes that follow it, up to the next branch or to a node that is compiled already.
    fn chain(
        &mut self,
        first: Option<&'a str>,
        nodes: &FxHashMap<&'a str, Node<'a>>,
        flow: &mut Flow<'a>,
    ) -> Result<(), LoadError> {
        let mut current = first;
        loop {
            let Some(name) = current else {
                self.locate(None);
                self.emit(Op::End);
                return Ok(());
            };
            if let Some(&to) = flow.labels.at.get(name) {
                self.locate(None);
                self.emit(Op::Jump { to });
                return Ok(());
            }
            let at = format!("pipeline {}", flow.labels.pipeline);
            let Some(node) = nodes.get(name) else {
                return Err(LoadError::Undefined {
                    at,
                    what: "control flow node",
                    name: name.to_owned(),
                });
            };
            flow.labels.at.insert(name, self.pc());
            self.locate(None);
            self.begin_line(flow.reached.count(name));
            match *node {
                Node::Table(table, json) => match self.inline(json)? {
                    Some(next) => {
                        self.lead(&flow.reached, next);
                        current = next;
                    }
                    None => {
                        self.locate(json.source_info.as_ref());
                        let default = json.default_entry.as_ref();
                        let called = default.and_then(|default| {
                            let mut actions = self.json.actions.iter();
                            actions.find(|action| action.id == default.action_id)
                        });
                        if let Some(called) = called {
                            self.cover_call(json, called);
                        }
                        self.begin_apply(&mut flow.reached, json);
                        self.emit(Op::Apply { table });
                        let nexts = json
                            .next_tables
                            .iter()
                            .filter_map(|(_, next)| next.as_deref());
                        flow.pending.extend(nexts.filter(|n| nodes.contains_key(n)));
                        return Ok(());
                    }
                },
                Node::Conditional(json) => {
                    let at = format!("condition {}", json.name);
                    self.locate(json.source_info.as_ref());
                    self.note(|| Note::Test(json.source_info.clone()));
                    let cond = self.node(&json.expression, Scope::plain(&at))?;
                    let mut jumps = self.branch(&cond, false)?;
                    self.end_statement();
                    jumps = self.note_outcomes(jumps, |holds| condition(json, holds));
                    let is_likely = flow.reached.is_likely(name);
                    jumps = self.cover_outcomes(jumps, is_likely, json.source_info.as_ref());
                    let otherwise = self.take_otherwise();
                    if let Some(count) = otherwise {
                        self.count_reached(&flow.reached, json.false_next.as_deref(), &count);
                    }
                    self.lead(&flow.reached, json.true_next.as_deref());
                    match json.false_next.as_deref() {
                        Some(next) => {
                            flow.fixes
                                .extend(jumps.into_iter().map(|jump| (jump, next)));
                            flow.pending
                                .extend(nodes.get_key_value(next).map(|(name, _)| *name));
                        }
                        None => jumps
                            .into_iter()
                            .for_each(|jump| self.patch(jump, flow.labels.end)),
                    }
                    current = json.true_next.as_deref();
                }
                Node::Call(json) => {
                    let at = format!("action call {}", json.name);
                    let action = self.action_by_id(json.action_id, &at)?;
                    if self.actions[usize::from(action)].words > 0 {
                        return Err(LoadError::invalid(at, "the action has parameters"));
                    }
                    self.locate(json.source_info.as_ref());
                    self.cover(|| SiteKind::Statement, json.source_info.as_ref());
                    self.count_call(action);
                    self.emit(Op::Call { action });
                    // The action may end the pipeline.
                    self.end_line();
                    current = json.next_node.as_deref();
                    self.lead(&flow.reached, current);
                }
            }
        }
    }

    /// Compiles a table as an inlined action, if it has no key and its action is always the same. Compilers generate
    /// such tables for plain statements. Returns the next node; the outer `None` means that the table was not inlined.
    fn inline(&mut self, table: &'a json::Table) -> Result<Option<Option<&'a str>>, LoadError> {
        let plain = table.key.is_empty()
            && table.kind == TableType::Simple
            && !table.with_counters
            && table.direct_meters.is_none()
            && table.direct_registers.is_empty()
            && table.entries.is_none();
        let default = match &table.default_entry {
            // With notes, the log must contain every table, so no table is inlined.
            _ if self.options.notes => return Ok(None),
            Some(default) if plain && default.action_entry_const => default,
            _ => return Ok(None),
        };
        let at = format!("table {}", table.name);
        let action = self.action_by_id(default.action_id, &at)?;
        let info = &self.actions[usize::from(action)];
        let (name, params) = (info.name.clone(), info.params.clone());
        let data = default.action_data.as_deref().unwrap_or_default();
        if data.is_empty() && !params.is_empty() {
            return Ok(None);
        }
        let args = self.args(action, data, Scope::plain(&at))?;
        for (i, word) in args.into_iter().enumerate() {
            let (d, a) = (self.layout.params + i as Slot, self.constant(word)?);
            self.emit(Op::Mov { d, a });
        }
        let json = self.json;
        let called = &json.actions[usize::from(action)];
        self.cover_call(table, called);
        self.cover_inlined_table(table, called);
        let primitives = &called.primitives;
        let at = format!("action {name}");
        self.compile_primitives(
            primitives,
            Scope {
                params: &params,
                ..Scope::plain(&at)
            },
        )?;
        if primitives
            .iter()
            .any(|call| matches!(call.primitive, json::Primitive::Exit { .. }))
        {
            self.emit(Op::EndIfExit);
            self.end_line();
        }
        let named = |wanted: &str| table.next_tables.iter().find(|(n, _)| n == wanted);
        let next = named("__MISS__")
            .or_else(|| named(&name))
            .map(|(_, next)| next);
        Ok(Some(next.unwrap_or(&table.base_default_next).as_deref()))
    }

    fn table(
        &mut self,
        number: u16,
        table: &json::Table,
        labels: &Labels,
        profile_names: &super::Names,
    ) -> Result<Table, LoadError> {
        let at = format!("table {}", table.name);
        let scope = Scope::plain(&at);
        let label = |next: &Option<String>| match next {
            Some(name) => labels.find(name, &at),
            None => Ok(labels.end),
        };
        let keys = table
            .key
            .iter()
            .map(|k| self.key(k, scope))
            .collect::<Result<Vec<_>, _>>()?;
        let match_type = match_type(&keys, table.match_type, scope)?;

        let mut ids = Vec::new();
        for id in &table.action_ids {
            ids.push(self.action_by_id(*id, &at)?);
        }
        if ids.is_empty() {
            // Files of older compilers have only names of actions.
            for name in &table.actions {
                let position = self.actions.iter().position(|a| a.name == *name);
                ids.push(
                    position
                        .map(|i| i as u16)
                        .ok_or_else(|| LoadError::Undefined {
                            at: at.clone(),
                            what: "action",
                            name: name.clone(),
                        })?,
                );
            }
        }
        let after_miss = label(&table.base_default_next)?;
        let mut actions: Vec<(u16, Pc)> = ids.iter().map(|id| (*id, after_miss)).collect();
        let (mut on_hit, mut on_miss) = (None, None);
        for (name, next) in &table.next_tables {
            let next = label(next)?;
            match name.as_str() {
                "__HIT__" => on_hit = Some(next),
                "__MISS__" => on_miss = Some(next),
                name => {
                    // In P4_14, actions of different ids may have the same name; their next nodes are equal.
                    for (action, pc) in &mut actions {
                        if self.actions[usize::from(*action)].name == *name {
                            *pc = next;
                        }
                    }
                }
            }
        }
        let profile = match (&table.action_profile, table.kind) {
            (Some(name), TableType::Indirect | TableType::IndirectWs) => {
                Some(find(profile_names, "action profile", name, &at)?)
            }
            (None, TableType::Simple) => None,
            (Some(_), TableType::Simple) => {
                return Err(LoadError::invalid(
                    at,
                    "a simple table has no action profile",
                ));
            }
            (None, _) => {
                return Err(LoadError::invalid(
                    at,
                    "an indirect table needs an action profile",
                ))
            }
        };
        let direct_meter = table
            .direct_meters
            .as_ref()
            .map(|name| self.direct_meter(name, scope));
        let direct_registers = table.direct_registers.iter();
        let direct_registers = direct_registers
            .map(|cells| self.direct_register(cells, scope))
            .collect::<Result<_, _>>()?;
        let mut made = Table {
            name: table.name.clone(),
            kind: table.kind,
            match_type,
            keys,
            source: table.source_info.as_ref().map(source),
            max_size: table.max_size,
            with_counters: table.with_counters
                || self.counters.iter().any(|c| c.table == Some(number)),
            support_timeout: table.support_timeout,
            direct_meter: direct_meter.transpose()?,
            direct_registers,
            actions,
            on_hit,
            on_miss,
            after_miss,
            profile,
            coverage: None,
            default: None,
            entries: Vec::new(),
            const_entries: table.entries.is_some() && table.const_entries.unwrap_or(true),
            ranked: table.entries.is_some() && table.const_entries.is_none(),
        };
        if let Some(default) = &table.default_entry {
            let action = self.action_by_id(default.action_id, &at)?;
            // A default action that is not in the list continues at the common next node.
            if !made.actions.iter().any(|(a, _)| *a == action) {
                made.actions.push((action, after_miss));
            }
            let args = match &default.action_data {
                Some(data) => Some(self.args(action, data, scope)?),
                None if self.actions[usize::from(action)].words == 0 => Some(Vec::new()),
                // Only the choice of the action is const; nothing runs until the control plane sets its arguments.
                None => None,
            };
            made.default = args.map(|args| DefaultAction {
                action,
                args,
                action_const: default.action_const,
                entry_const: default.action_entry_const,
            });
        }
        let actions: Vec<u16> = made.actions.iter().map(|(action, _)| *action).collect();
        made.coverage = self.cover_table(table, &actions);
        if let Some(entries) = &table.entries {
            if made.kind != TableType::Simple {
                return Err(LoadError::invalid(
                    at,
                    "only simple tables can have entries in the program",
                ));
            }
            let entries = entries
                .iter()
                .enumerate()
                .map(|(i, e)| self.entry(&made, e, i, &at));
            let entries = entries.collect::<Result<Vec<_>, _>>()?;
            check_duplicates(&made, &entries, &at)?;
            made.entries = entries;
        }
        Ok(made)
    }

    fn key(&mut self, key: &json::TableKey, scope: Scope) -> Result<Key, LoadError> {
        let (slot, bits, default_name) = match (&key.target, key.match_type) {
            (TableKeyTarget::Header(name), MatchType::Valid) => {
                let h = &self.layout.headers[usize::from(self.header(name, scope.at)?)];
                if h.metadata {
                    return Err(scope.invalid(format!("{name} is metadata and always valid")));
                }
                (h.valid, 1, format!("{name}.{}", FieldRef::VALID))
            }
            (TableKeyTarget::Field(field), match_type) if match_type != MatchType::Valid => {
                let node = self.node(&Expr::Field(field.clone()), scope)?;
                let Kind::Field { slot, bits, .. } = node.kind else {
                    return Err(scope.invalid(format!("{field} cannot be matched")));
                };
                (slot, bits, field.to_string())
            }
            _ => return Err(scope.invalid("a key of type valid needs a header, others a field")),
        };
        let mask = key
            .mask
            .as_ref()
            .map(|mask| self.hex_words(mask, bits, scope))
            .transpose()?;
        let name = key.name.clone().unwrap_or(default_name);
        Ok(Key {
            name,
            match_type: key.match_type,
            slot,
            bits,
            mask,
        })
    }

    fn direct_meter(&self, name: &str, scope: Scope) -> Result<DirectMeter, LoadError> {
        let array = find(&self.meter_names, "meter array", name, scope.at)?;
        let json = &self.json.meter_arrays[usize::from(array)];
        let Some(target) = &json.result_target else {
            return Err(scope.invalid(format!("direct meter {name} has no result target")));
        };
        let (_, field) = self.field(target, scope.at)?;
        if !(1..=64).contains(&field.bits) || field.varbit {
            return Err(scope.invalid(format!(
                "direct meter {name}: result target {target} is not a field of 1 to 64 bits"
            )));
        }
        let precolor = match &json.precolor {
            Some(precolor) => Some(self.word_field(precolor, scope)?),
            None => None,
        };
        Ok(DirectMeter {
            slot: field.slot,
            bits: field.bits,
            kind: json.kind,
            precolor,
        })
    }

    fn direct_register(
        &self,
        cells: &json::DirectRegister,
        scope: Scope,
    ) -> Result<DirectRegister, LoadError> {
        Ok(DirectRegister {
            array: find(
                &self.register_names,
                "register array",
                &cells.name,
                scope.at,
            )?,
            slot: self.word_field(&cells.entry, scope)?,
        })
    }

    /// Resolves a field of up to 64 bits to its word.
    fn word_field(&self, name: &FieldRef, scope: Scope) -> Result<Slot, LoadError> {
        let (_, field) = self.field(name, scope.at)?;
        if !(1..=64).contains(&field.bits) || field.varbit {
            return Err(scope.invalid(format!("{name} is not a field of 1 to 64 bits")));
        }
        Ok(field.slot)
    }

    fn args(&self, action: u16, data: &[String], scope: Scope) -> Result<Vec<u64>, LoadError> {
        let action = &self.actions[usize::from(action)];
        if data.len() != action.params.len() {
            let (need, has) = (action.params.len(), data.len());
            let why = format!(
                "action {} has {need} parameters, but {has} arguments",
                action.name
            );
            return Err(scope.invalid(why));
        }
        let mut args = Vec::new();
        for (param, value) in action.params.iter().zip(data) {
            args.extend(self.hex_words(value, param.bits, scope)?);
        }
        Ok(args)
    }

    fn entry(
        &self,
        table: &Table,
        entry: &json::TableEntry,
        index: usize,
        at: &str,
    ) -> Result<InitialEntry, LoadError> {
        let at = format!("{at}, entry {index}");
        let scope = Scope::plain(&at);
        if entry.match_key.len() != table.keys.len() {
            let (need, has) = (table.keys.len(), entry.match_key.len());
            return Err(scope.invalid(format!("the key has {need} fields, not {has}")));
        }
        let mut keys = Vec::new();
        for (key, value) in table.keys.iter().zip(&entry.match_key) {
            keys.push(self.entry_key(key, value, scope)?);
        }
        let action = self.action_by_id(entry.action_entry.action_id, &at)?;
        let Some(next) = table.next_on_hit(action) else {
            let name = &self.actions[usize::from(action)].name;
            return Err(scope.invalid(format!("the table does not have the action {name}")));
        };
        let args = self.args(action, &entry.action_entry.action_data, scope)?;
        let code = self.actions[usize::from(action)].code;
        let target = Target::Action(ActionRef {
            action,
            code,
            next,
            args: args.into(),
        });
        let priority = if table.has_priorities() {
            entry.priority
        } else {
            0
        };
        let priority = i32::try_from(priority)
            .map_err(|_| scope.invalid(format!("priority {priority} does not fit 32 bits")))?;
        let is_const = table.const_entries || entry.is_const;
        let entry = NewEntry {
            keys,
            priority,
            target,
            idle_timeout: 0,
        };
        Ok(InitialEntry { entry, is_const })
    }

    fn entry_key(&self, key: &Key, value: &MatchKey, scope: Scope) -> Result<NewKey, LoadError> {
        let bytes = |text: &str| -> Result<Vec<u8>, LoadError> {
            let words = self.hex_words(text, key.bits, scope)?;
            Ok(crate::numbers::shortest(&words))
        };
        // Files may set bits outside of the mask; these never match.
        let masked = |value: &[u8], mask: &[u8]| -> Vec<u8> {
            let n = value.len().max(mask.len());
            let at =
                |bytes: &[u8], i: usize| (i + bytes.len()).checked_sub(n).map_or(0, |i| bytes[i]);
            (0..n).map(|i| at(value, i) & at(mask, i)).collect()
        };
        let value = match value {
            MatchKey::Exact { key: value } => KeyMatch::Exact {
                value: bytes(value)?,
            },
            MatchKey::Valid { key: value } => KeyMatch::Valid { value: *value },
            MatchKey::Lpm {
                key: value,
                prefix_length,
            } => {
                let mask =
                    crate::numbers::shortest(&crate::numbers::prefix(key.bits, *prefix_length));
                let value = masked(&bytes(value)?, &mask);
                KeyMatch::Lpm {
                    value,
                    prefix_len: *prefix_length,
                }
            }
            MatchKey::Ternary { key: value, mask } | MatchKey::Optional { key: value, mask } => {
                let mask = bytes(mask)?;
                KeyMatch::Ternary {
                    value: masked(&bytes(value)?, &mask),
                    mask,
                }
            }
            MatchKey::Range { start, end } => KeyMatch::Range {
                low: bytes(start)?,
                high: bytes(end)?,
            },
        };
        NewKey::new(key, &value)
            .map_err(|fault| scope.invalid(format!("key {}: {fault}", key.name)))
    }
}

struct Flow<'a> {
    labels: Labels<'a>,
    /// Jumps whose targets must be set, each with the name of the node that it leads to.
    fixes: Vec<(usize, &'a str)>,
    pending: Vec<&'a str>,
    /// For coverage, how often each node is reached.
    reached: Reached<'a>,
}

/// Code positions of the nodes (tables, conditionals, calls) of a pipeline's control flow.
pub(super) struct Labels<'a> {
    pub at: FxHashMap<&'a str, Pc>,
    /// Position of the pipeline's `End` instruction, which is emitted before the code of the nodes.
    pub end: Pc,
    pipeline: &'a str,
}

impl Labels<'_> {
    fn find(&self, name: &str, at: &str) -> Result<Pc, LoadError> {
        self.at
            .get(name)
            .copied()
            .ok_or_else(|| LoadError::Undefined {
                at: at.to_owned(),
                what: "control flow node",
                name: name.to_owned(),
            })
    }
}

fn condition(json: &json::Conditional, holds: bool) -> Note {
    Note::Condition {
        info: json.source_info.clone(),
        name: json.name.clone(),
        holds,
    }
}

/// Determines the match type of a table from its keys. It must agree with the match type in the file, `stated`.
fn match_type(keys: &[Key], stated: MatchType, scope: Scope) -> Result<MatchType, LoadError> {
    let count = |wanted: MatchType| keys.iter().filter(|k| k.match_type == wanted).count();
    let needed = if count(MatchType::Range) > 0 {
        MatchType::Range
    } else if count(MatchType::Ternary) + count(MatchType::Optional) > 0 {
        MatchType::Ternary
    } else if count(MatchType::Lpm) > 0 {
        MatchType::Lpm
    } else {
        MatchType::Exact
    };
    let rank = |m: MatchType| match m {
        MatchType::Exact | MatchType::Valid => 0,
        MatchType::Lpm => 1,
        MatchType::Ternary | MatchType::Optional => 2,
        MatchType::Range => 3,
    };
    if rank(stated) < rank(needed) {
        return Err(scope.invalid(format!(
            "a key of type {needed:?} is not allowed in a table of type {stated:?}"
        )));
    }
    let chosen = if rank(stated) > rank(needed) {
        stated
    } else {
        needed
    };
    if chosen == MatchType::Lpm && count(MatchType::Lpm) > 1 {
        return Err(scope.invalid("a table can have at most one lpm key"));
    }
    Ok(chosen)
}

fn check_duplicates(table: &Table, entries: &[InitialEntry], at: &str) -> Result<(), LoadError> {
    let mut seen = rustc_hash::FxHashSet::default();
    for (i, InitialEntry { entry, .. }) in entries.iter().enumerate() {
        if !seen.insert(crate::tables::identity(table, &entry.keys, entry.priority)) {
            return Err(LoadError::invalid(
                format!("{at}, entry {i}"),
                "an earlier entry has the same key and priority",
            ));
        }
    }
    Ok(())
}
