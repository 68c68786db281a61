//! Runs a test against a switch core in this process.

use std::collections::BTreeMap;

use alfirk_bmv2::{
    CloneSession, Counter, EntryHandle, EntryTarget, KeyMatch, NodeHandle, Replica, Switch, TableId,
};

use super::keys::{by_suffix, hex, key_match, keys_in_order, trimmed};
use super::packets::{Failure, Packets};
use super::parse::{Call, Command, CounterUnit, KeyValue, Line};

/// Time between two commands, in nanoseconds.
const STEP: u64 = 1_000_000;

/// Runs all commands and returns what went wrong.
pub fn run(switch: &mut Switch, lines: &[Line]) -> Vec<Failure> {
    let mut runner = Runner {
        switch,
        now: 0,
        packets: Packets::default(),
        handles: BTreeMap::new(),
        nodes: Vec::new(),
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
    let Runner {
        packets,
        mut failures,
        ..
    } = runner;
    failures.extend(packets.failures());
    failures
}

struct Runner<'a> {
    switch: &'a mut Switch,
    now: u64,
    packets: Packets,
    handles: BTreeMap<String, (TableId, EntryHandle)>,
    nodes: Vec<NodeHandle>,
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
                self.packets.sent(*port);
                for (port, frame) in self.switch.process(*port, data, self.now) {
                    self.packets.received(port, frame);
                }
            }
            Command::Expect { port, data } => {
                self.packets.expect(*port, line.number, data.clone());
            }
            Command::NoPacket => self.packets.expect_none(line.number),
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
                self.nodes
                    .push(pre.create_node(*rid, ports, &[]).map_err(text)?);
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
