//! Runs a test against a switch core in this process.

use std::collections::BTreeMap;

use alfirk_bmv2::{
    CloneSession, Counter, CounterInfo, Effects, EntryHandle, EntryTarget, KeyMatch, MeterConfig,
    MeterInfo, NodeHandle, Replica, Switch, TableId,
};

use super::keys::{by_suffix, hex, key_match, keys_in_order, no_handle, not_counted, trimmed};
use super::packets::{Failure, Packets};
use super::parse::{Call, Command, CounterIndex, KeyValue, Line, MeterRates};

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
                let mut effects = Effects::default();
                self.switch
                    .process_into(*port, data, self.now, &mut effects);
                for message in effects.logs {
                    tracing::info!("{message}");
                }
                for output in effects.output {
                    self.packets.received(output.port, output.frame);
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
                    .ok_or_else(|| no_handle(handle))?;
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
            Command::MirroringDelete { session } => {
                let pre = self.switch.pre_mut().map_err(text)?;
                pre.delete_session(*session).map_err(text)?;
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
            Command::NodeUpdate { node, ports } => {
                let handle = self.node(*node)?;
                let pre = self.switch.pre_mut().map_err(text)?;
                pre.update_node(handle, ports, &[]).map_err(text)?;
            }
            Command::NodeAssociate { group, node } => {
                let handle = self.node(*node)?;
                let pre = self.switch.pre_mut().map_err(text)?;
                pre.associate(*group, handle).map_err(text)?;
            }
            Command::NodeExclude { node, xid } => {
                let handle = self.node(*node)?;
                let pre = self.switch.pre_mut().map_err(text)?;
                pre.exclude(handle, Some(*xid)).map_err(text)?;
            }
            Command::ExcludePorts { yid, ports } => {
                let pre = self.switch.pre_mut().map_err(text)?;
                pre.prune(*yid, ports);
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
                self.count(name, &CounterIndex::Cell(*index))?;
            }
            Command::CounterWrite {
                name,
                index,
                packets,
                bytes,
            } => {
                let value = Counter {
                    packets: *packets,
                    bytes: *bytes,
                };
                let counter = self.counter(name)?;
                match counter.table {
                    None => self.switch.write_counter(&counter.name, *index, value),
                    Some(table) => {
                        let entry = self.entry_at(table, *index)?;
                        self.switch.set_direct_counter(table, entry, value)
                    }
                }
                .map_err(text)?;
            }
            Command::MeterGetRates { name, index } => {
                let meter = self.meter(name)?;
                match meter.table {
                    None => drop(self.switch.read_meter(&meter.name, *index).map_err(text)?),
                    Some(table) => drop(self.entry_at(table, *index)?),
                }
            }
            Command::MeterSetRates { name, index, rates } => {
                let meter = self.meter(name)?;
                self.set_rates(&meter, *index, *rates)?;
            }
            Command::MeterArraySetRates { name, rates } => {
                let meter = self.meter(name)?;
                for index in 0..meter.size as u64 {
                    self.set_rates(&meter, index, *rates)?;
                }
            }
            Command::CheckCounter {
                name,
                index,
                unit,
                comparison,
                value,
            } => {
                let found = self.count(name, index)?;
                unit.check((found.packets, found.bytes), *comparison, *value)
                    .map_err(|found| format!("counter {name}[{index}] has {found}"))?;
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

    fn counter(&self, name: &str) -> Result<CounterInfo, String> {
        let counters = self.switch.counters();
        let names = counters.iter().map(|info| info.name.clone());
        let full = by_suffix(names, name, "counter")?;
        let mut counters = counters.into_iter();
        counters
            .find(|info| info.name == full)
            .ok_or_else(|| format!("there is no counter {name}"))
    }

    fn meter(&self, name: &str) -> Result<MeterInfo, String> {
        let meters = self.switch.meters();
        let names = meters.iter().map(|info| info.name.clone());
        let full = by_suffix(names, name, "meter")?;
        let mut meters = meters.into_iter();
        meters
            .find(|info| info.name == full)
            .ok_or_else(|| format!("there is no meter {name}"))
    }

    fn node(&self, node: u32) -> Result<NodeHandle, String> {
        let handle = self.nodes.get(node as usize).copied();
        handle.ok_or_else(|| format!("node {node} was not made"))
    }

    /// The entry in a table's place.
    fn entry_at(&self, table: TableId, index: u64) -> Result<EntryHandle, String> {
        let entries = self.switch.entry_handles(table).map_err(text)?;
        let entry = usize::try_from(index).ok().and_then(|i| entries.get(i));
        entry
            .copied()
            .ok_or_else(|| format!("the table has no entry {index}"))
    }

    fn set_rates(
        &mut self,
        meter: &MeterInfo,
        index: u64,
        rates: MeterRates,
    ) -> Result<(), String> {
        let config = Some(MeterConfig {
            cir: rates.cir,
            cburst: rates.cburst,
            pir: rates.pir,
            pburst: rates.pburst,
        });
        match meter.table {
            None => self
                .switch
                .write_meter(&meter.name, index, config, self.now),
            Some(table) => {
                let entry = self.entry_at(table, index)?;
                self.switch.set_direct_meter(table, entry, config, self.now)
            }
        }
        .map_err(text)
    }

    /// A cell of a counter, or of a direct counter an entry.
    fn count(&self, name: &str, index: &CounterIndex) -> Result<Counter, String> {
        let counter = self.counter(name)?;
        let (table, entry) = match (counter.table, index) {
            (None, CounterIndex::Cell(index)) => {
                return self
                    .switch
                    .read_counter(&counter.name, *index)
                    .map_err(text);
            }
            (Some(table), CounterIndex::Cell(index)) => (table, self.entry_at(table, *index)?),
            (direct, CounterIndex::Entry(handle)) => {
                let known = self.handles.get(handle).copied();
                let known = known.ok_or_else(|| no_handle(handle))?;
                match direct == Some(known.0) {
                    true => known,
                    false => return Err(not_counted(&counter.name, handle)),
                }
            }
        };
        let entry = self.switch.entry(table, entry).map_err(text)?;
        entry
            .counter
            .ok_or_else(|| format!("counter {} has no entry {index}", counter.name))
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
