//! Runs a test against a switch core in this process.

use std::collections::BTreeMap;

use alfirk_bmv2::{
    CloneSession, Counter, EntryHandle, EntryTarget, KeyMatch, NodeHandle, Replica, Switch, TableId,
};
use alfirk_bmv2_json::MatchType;

use super::parse::{Call, Command, CounterUnit, KeyValue, Line, Pattern};

/// Time between two commands, in nanoseconds.
const STEP: u64 = 1_000_000;

/// One thing that did not go as the test says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// Line of the test, from 1; none for what only shows at the end.
    pub line: Option<usize>,
    /// What is wrong.
    pub what: String,
}

/// Runs all commands and returns what went wrong.
pub fn run(switch: &mut Switch, lines: &[Line]) -> Vec<Failure> {
    let mut runner = Runner {
        switch,
        now: 0,
        expected: BTreeMap::new(),
        received: BTreeMap::new(),
        handles: BTreeMap::new(),
        nodes: Vec::new(),
        no_packet: None,
        failures: Vec::new(),
    };
    for line in lines {
        runner.now += STEP;
        if let Err(what) = runner.command(line) {
            runner.failures.push(Failure {
                line: Some(line.number),
                what,
            });
        }
    }
    runner.finish();
    runner.failures
}

struct Runner<'a> {
    switch: &'a mut Switch,
    now: u64,
    /// By port of the test: line and pattern of each expected packet.
    expected: BTreeMap<u32, Vec<(usize, Option<Pattern>)>>,
    received: BTreeMap<u32, Vec<Vec<u8>>>,
    handles: BTreeMap<String, (TableId, EntryHandle)>,
    nodes: Vec<NodeHandle>,
    no_packet: Option<usize>,
    failures: Vec<Failure>,
}

/// Shows an error of the switch.
fn text(error: impl std::fmt::Display) -> String {
    error.to_string()
}

impl Runner<'_> {
    fn command(&mut self, line: &Line) -> Result<(), String> {
        match &line.command {
            Command::Packet { port, data } => {
                self.expected.entry(*port).or_default();
                for (port, frame) in self.switch.process(*port, data, self.now) {
                    self.received.entry(port).or_default().push(frame);
                }
            }
            Command::Expect { port, data } => {
                let expected = self.expected.entry(*port).or_default();
                expected.push((line.number, data.clone()));
            }
            Command::NoPacket => self.no_packet = Some(line.number),
            Command::Wait => self.now += 1_000_000_000,
            Command::Add {
                table,
                priority,
                keys,
                action,
                handle,
            } => {
                let table = self.table(table)?;
                let keys = self.keys(table, keys)?;
                let target = self.target(table, action)?;
                let entry = self
                    .switch
                    .insert_entry(table, &keys, rank(*priority), &target, 0, self.now)
                    .map_err(text)?;
                if let Some(handle) = handle {
                    self.handles.insert(handle.clone(), (table, entry));
                }
            }
            Command::SetDefault { table, action } => {
                let table = self.table(table)?;
                let target = self.target(table, action)?;
                self.switch.set_default(table, &target).map_err(text)?;
            }
            Command::RemoveAll => {
                for table in self.switch.tables() {
                    let info = self.switch.table_info(table).map_err(text)?;
                    if !info.const_entries {
                        self.switch.clear_table(table).map_err(text)?;
                    }
                }
                self.handles.clear();
            }
            Command::Remove { handle } => {
                let (table, entry) = self
                    .handles
                    .remove(handle)
                    .ok_or_else(|| format!("no entry was added as {handle}"))?;
                self.switch.delete_entry(table, entry).map_err(text)?;
            }
            Command::MirroringAdd { session, port } => {
                let replicas = vec![Replica {
                    port: *port,
                    rid: 0,
                }];
                self.mirror(*session, replicas, None)?;
            }
            Command::MirroringAddMc { session, group } => {
                self.mirror(*session, Vec::new(), Some(*group))?;
            }
            Command::MirroringGet { .. } | Command::Dump => {}
            Command::GroupCreate { group } => {
                let pre = self.switch.pre_mut().map_err(text)?;
                pre.create_group(*group).map_err(text)?;
            }
            Command::NodeCreate { rid, ports } => {
                let pre = self.switch.pre_mut().map_err(text)?;
                self.nodes.push(pre.create_node(*rid, ports));
            }
            Command::NodeAssociate { group, node } => {
                let handle = self
                    .nodes
                    .get(*node as usize)
                    .ok_or_else(|| format!("node {node} was not made"))?;
                let pre = self.switch.pre_mut().map_err(text)?;
                pre.associate(*group, *handle).map_err(text)?;
            }
            Command::RegisterRead { name, index, value } => {
                let name = self.register(name)?;
                let found = self.switch.read_register(&name, *index).map_err(text)?;
                if let Some(value) = value {
                    if trimmed(&found) != trimmed(value) {
                        return Err(format!(
                            "register {name}[{index}] is 0x{}, not 0x{}",
                            hex(trimmed(&found)),
                            hex(trimmed(value))
                        ));
                    }
                }
            }
            Command::RegisterWrite { name, index, value } => {
                let name = self.register(name)?;
                self.switch
                    .write_register(&name, *index, trimmed(value))
                    .map_err(text)?;
            }
            Command::RegisterReset { name } => {
                let name = self.register(name)?;
                self.switch.clear_register(&name).map_err(text)?;
            }
            Command::CounterRead { name, index } => {
                let name = self.counter(name)?;
                self.switch.read_counter(&name, *index).map_err(text)?;
            }
            Command::CounterWrite {
                name,
                index,
                packets,
                bytes,
            } => {
                let name = self.counter(name)?;
                let value = Counter {
                    packets: *packets,
                    bytes: *bytes,
                };
                self.switch
                    .write_counter(&name, *index, value)
                    .map_err(text)?;
            }
            Command::CheckCounter {
                name,
                index,
                unit,
                comparison,
                value,
            } => {
                let found = self.count(name, *index)?;
                let (found, unit) = match unit {
                    CounterUnit::Packets => (found.packets, "packets"),
                    CounterUnit::Bytes => (found.bytes, "bytes"),
                };
                if !comparison.holds(found, *value) {
                    return Err(format!("counter {name}[{index}] has {found} {unit}"));
                }
            }
        }
        Ok(())
    }

    fn mirror(
        &mut self,
        session: u32,
        replicas: Vec<Replica>,
        group: Option<u32>,
    ) -> Result<(), String> {
        let pre = self.switch.pre_mut().map_err(text)?;
        let mut clone: CloneSession = pre.session(session).cloned().unwrap_or_default();
        clone.replicas.extend(replicas);
        clone.group = group.or(clone.group);
        pre.set_session(session, clone).map_err(text)
    }

    /// Compares what came with what was expected, port by port and in order. Ports that the test does not name have no interface in
    /// p4c's tester, so that what goes there is lost.
    fn finish(&mut self) {
        let mut failures = Vec::new();
        for (port, expected) in &self.expected {
            let received = self.received.get(port).map_or(&[][..], Vec::as_slice);
            let patterns: Vec<_> = expected
                .iter()
                .filter_map(|(line, pattern)| Some((*line, pattern.as_ref()?)))
                .collect();
            match expected.iter().find(|(_, pattern)| pattern.is_none()) {
                // Whatever comes out of this port is right.
                Some(_) if patterns.is_empty() => continue,
                Some((line, _)) => failures.push(Failure {
                    line: Some(*line),
                    what: format!("port {port} is expected to send any packets, and certain ones"),
                }),
                None => {}
            }
            for (position, (line, pattern)) in patterns.iter().enumerate() {
                let what = match received.get(position) {
                    None => format!("no packet came out of port {port}"),
                    Some(packet) if pattern.matches(packet) => continue,
                    Some(packet) => format!(
                        "another packet came out of port {port}\n  expected {pattern}\n  received {}",
                        hex(packet)
                    ),
                };
                failures.push(Failure {
                    line: Some(*line),
                    what,
                });
            }
            for packet in received.iter().skip(patterns.len()) {
                let what = format!(
                    "one packet too many came out of port {port}: {}",
                    hex(packet)
                );
                failures.push(Failure { line: None, what });
            }
        }
        if let Some(line) = self.no_packet {
            for (port, packets) in &self.received {
                if !self.expected.contains_key(port) {
                    let what = format!(
                        "a packet came out of port {port}, where none was expected: {}",
                        hex(&packets[0])
                    );
                    failures.push(Failure {
                        line: Some(line),
                        what,
                    });
                }
            }
        }
        self.failures.extend(failures);
    }

    /// A table by its full name, or by a suffix that only it has.
    fn table(&self, name: &str) -> Result<TableId, String> {
        if let Ok(table) = self.switch.table(name) {
            return Ok(table);
        }
        let suffix = format!(".{name}");
        let mut found = Vec::new();
        for table in self.switch.tables() {
            let info = self.switch.table_info(table).map_err(text)?;
            if info.name.ends_with(&suffix) {
                found.push(table);
            }
        }
        match found[..] {
            [table] => Ok(table),
            [] => Err(format!("there is no table {name}")),
            _ => Err(format!("there are several tables named {name}")),
        }
    }

    fn register(&self, name: &str) -> Result<String, String> {
        let names = self.switch.registers().into_iter().map(|info| info.name);
        by_suffix(names, name, "register")
    }

    fn counter(&self, name: &str) -> Result<String, String> {
        let names = self.switch.counters().into_iter().map(|info| info.name);
        by_suffix(names, name, "counter")
    }

    /// A cell of a counter, or of a direct counter the entry with that position.
    fn count(&self, name: &str, index: u64) -> Result<Counter, String> {
        let full = self.counter(name)?;
        let info = self
            .switch
            .counters()
            .into_iter()
            .find(|info| info.name == full);
        match info.and_then(|info| info.table) {
            None => self.switch.read_counter(&full, index).map_err(text),
            Some(table) => {
                let entries = self.switch.entries(table).map_err(text)?;
                usize::try_from(index)
                    .ok()
                    .and_then(|index| entries.get(index)?.counter)
                    .ok_or_else(|| format!("counter {full} has no entry {index}"))
            }
        }
    }

    fn keys(&self, table: TableId, given: &[(String, KeyValue)]) -> Result<Vec<KeyMatch>, String> {
        let info = self.switch.table_info(table).map_err(text)?;
        let names: Vec<&str> = info.keys.iter().map(|key| key.name.as_str()).collect();
        let values = keys_in_order(&info.name, &names, given)?;
        info.keys
            .iter()
            .zip(values)
            .map(|(key, value)| {
                key_match(key.match_type, key.bits, value)
                    .map_err(|what| format!("key {} of table {}: {what}", key.name, info.name))
            })
            .collect()
    }

    fn target(&self, table: TableId, call: &Call) -> Result<EntryTarget, String> {
        let info = self.switch.table_info(table).map_err(text)?;
        let mut found = None;
        for id in &info.actions {
            let action = self.switch.action_info(*id).map_err(text)?;
            let same =
                action.name == call.name || action.name.ends_with(&format!(".{}", call.name));
            // The full name wins over a suffix.
            if same && (found.is_none() || action.name == call.name) {
                found = Some(action);
            }
        }
        let action =
            found.ok_or_else(|| format!("table {} has no action {}", info.name, call.name))?;
        let mut args = Vec::new();
        for (position, param) in action.params.iter().enumerate() {
            let named = call
                .args
                .iter()
                .find(|(name, _)| name.as_deref() == Some(param.name.as_str()));
            let unnamed = call.args.get(position).filter(|(name, _)| name.is_none());
            let (_, value) = named
                .or(unnamed)
                .ok_or_else(|| format!("action {} needs parameter {}", action.name, param.name))?;
            args.push(trimmed(value).to_vec());
        }
        if call.args.len() > action.params.len() {
            return Err(format!(
                "action {} has only {} parameters",
                action.name,
                action.params.len()
            ));
        }
        Ok(EntryTarget::Action {
            name: action.name,
            args,
        })
    }
}

/// The rank of an entry in the switch, where the smallest wins; in tests the largest does.
fn rank(priority: Option<i32>) -> i32 {
    10_000 - priority.unwrap_or(0)
}

/// The values given for a table's keys, in their order. A name may leave out what it begins with.
fn keys_in_order<'v>(
    table: &str,
    keys: &[&str],
    given: &'v [(String, KeyValue)],
) -> Result<Vec<Option<&'v KeyValue>>, String> {
    let mut used = vec![false; given.len()];
    let values = keys
        .iter()
        .map(|key| {
            let wanted = plain(key);
            let position = given
                .iter()
                .position(|(name, _)| plain(name) == wanted)
                .or_else(|| {
                    given.iter().position(|(name, _)| {
                        wanted.ends_with(&format!(".{}", plain(name)))
                            || plain(name).ends_with(&format!(".{wanted}"))
                    })
                })?;
            used[position] = true;
            Some(&given[position].1)
        })
        .collect();
    match used.iter().position(|used| !used) {
        Some(position) => Err(format!(
            "table {table} has no key {}; its keys are {}",
            given[position].0,
            keys.join(", ")
        )),
        None => Ok(values),
    }
}

/// A key's name without the marks that different tools put in.
fn plain(name: &str) -> String {
    let name = name.replace("isValid()", "$valid$").replace(['"', ' '], "");
    let header = [".valid", ".$valid"]
        .iter()
        .find_map(|end| name.strip_suffix(end));
    let name = match header {
        Some(header) => format!("{header}.$valid$"),
        None => name,
    };
    // `stack$1` is the element that programs call `stack[1]`.
    let mut plain = String::new();
    let mut rest = name.as_str();
    while let Some((before, after)) = rest.split_once('$') {
        let digits = after.len() - after.trim_start_matches(|c: char| c.is_ascii_digit()).len();
        plain += before;
        match digits {
            0 => plain.push('$'),
            digits => plain += &format!("[{}]", &after[..digits]),
        }
        rest = &after[digits..];
    }
    plain + rest
}

fn key_match(kind: MatchType, bits: u32, value: Option<&KeyValue>) -> Result<KeyMatch, String> {
    let full = vec![0xff; (bits as usize).div_ceil(8)];
    let full = masked_to(full, bits);
    let any = KeyValue::Wildcards {
        value: vec![0],
        mask: vec![0],
    };
    let zero = KeyValue::Number(vec![0]);
    // What p4c's tester fills in.
    let value = value.unwrap_or(match kind {
        MatchType::Exact | MatchType::Valid => &zero,
        _ => &any,
    });
    let number = |value: &[u8]| trimmed(value).to_vec();
    let wrong = || Err(format!("the value does not fit a key matched by {kind:?}"));
    match (kind, value) {
        (MatchType::Exact, KeyValue::Number(value) | KeyValue::Digits { value, .. }) => {
            Ok(KeyMatch::Exact {
                value: number(value),
            })
        }
        (MatchType::Valid, KeyValue::Number(value) | KeyValue::Digits { value, .. }) => {
            Ok(KeyMatch::Valid {
                value: !trimmed(value).is_empty(),
            })
        }
        (MatchType::Lpm, KeyValue::Number(value) | KeyValue::Digits { value, .. }) => {
            Ok(KeyMatch::Lpm {
                value: number(value),
                prefix_len: bits,
            })
        }
        (MatchType::Lpm, KeyValue::Prefix { value, length }) => Ok(KeyMatch::Lpm {
            value: number(&under_prefix(value, bits, *length)),
            prefix_len: *length,
        }),
        (MatchType::Lpm, KeyValue::Wildcards { value, mask }) => {
            let length = mask.iter().map(|byte| byte.count_ones()).sum();
            Ok(KeyMatch::Lpm {
                value: number(value),
                prefix_len: length,
            })
        }
        (MatchType::Ternary | MatchType::Optional, value) => match value {
            KeyValue::Number(value) => Ok(KeyMatch::Ternary {
                value: number(value),
                mask: full,
            }),
            KeyValue::Wildcards { value, mask }
            | KeyValue::Digits { value, mask }
            | KeyValue::Masked { value, mask } => {
                let mask = number(mask);
                Ok(KeyMatch::Ternary {
                    value: under_mask(value, &mask),
                    mask,
                })
            }
            KeyValue::Prefix { value, length } => {
                let mask = prefix_mask(bits, *length);
                Ok(KeyMatch::Ternary {
                    value: under_mask(value, &mask),
                    mask,
                })
            }
            KeyValue::Range { .. } => wrong(),
        },
        (MatchType::Range, KeyValue::Number(value) | KeyValue::Digits { value, .. }) => {
            Ok(KeyMatch::Range {
                low: number(value),
                high: number(value),
            })
        }
        (MatchType::Range, KeyValue::Range { low, high }) => Ok(KeyMatch::Range {
            low: number(low),
            high: number(high),
        }),
        (MatchType::Range, KeyValue::Wildcards { mask, .. }) if trimmed(mask).is_empty() => {
            Ok(KeyMatch::Range {
                low: Vec::new(),
                high: full,
            })
        }
        _ => wrong(),
    }
}

fn masked_to(mut bytes: Vec<u8>, bits: u32) -> Vec<u8> {
    if let (Some(first), 1..) = (bytes.first_mut(), bits % 8) {
        *first >>= 8 - bits % 8;
    }
    bytes
}

fn prefix_mask(bits: u32, length: u32) -> Vec<u8> {
    let bytes = (bits as usize).div_ceil(8);
    let mut mask = vec![0; bytes];
    for position in 0..length.min(bits) {
        let bit = bits - 1 - position;
        mask[bytes - 1 - (bit / 8) as usize] |= 1 << (bit % 8);
    }
    mask
}

fn under_prefix(value: &[u8], bits: u32, length: u32) -> Vec<u8> {
    under_mask(value, &prefix_mask(bits, length))
}

/// Both numbers end at the same bit.
fn under_mask(value: &[u8], mask: &[u8]) -> Vec<u8> {
    let mut result: Vec<u8> = value
        .iter()
        .rev()
        .zip(mask.iter().rev())
        .map(|(value, mask)| value & mask)
        .collect();
    result.reverse();
    trimmed(&result).to_vec()
}

/// Without leading zeros.
fn trimmed(bytes: &[u8]) -> &[u8] {
    let zeros = bytes.iter().take_while(|byte| **byte == 0).count();
    &bytes[zeros..]
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn by_suffix(
    names: impl Iterator<Item = String>,
    wanted: &str,
    what: &str,
) -> Result<String, String> {
    let suffix = format!(".{wanted}");
    let mut found = Vec::new();
    for name in names {
        if name == wanted {
            return Ok(name);
        }
        if name.ends_with(&suffix) {
            found.push(name);
        }
    }
    match found.len() {
        1 => Ok(found.remove(0)),
        0 => Err(format!("there is no {what} {wanted}")),
        _ => Err(format!(
            "{what} {wanted} may be {}; give the full name",
            found.join(" or ")
        )),
    }
}
