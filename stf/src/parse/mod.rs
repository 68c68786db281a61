//! Parser of STF tests, compatible with p4c's testers: one command per line, `#` begins a comment, and every name may
//! be quoted.

mod counter;
mod entry;
mod meter;
mod number;
mod packet;
mod words;

pub use counter::{Comparison, CounterIndex, CounterUnit};
pub use entry::{Call, KeyValue};
pub use meter::MeterRates;
pub use packet::Pattern;

use crate::names::nearest;
use number::value;
use words::{without_comment, Words};

/// A command with its line number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    /// Line number, from 1.
    pub number: usize,
    /// The command.
    pub command: Command,
}

/// A command of a test.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    /// `packet PORT DATA`
    Packet { port: u32, data: Vec<u8> },
    /// `expect PORT [DATA] [$]`; without data, any packet matches.
    Expect { port: u32, data: Option<Pattern> },
    /// `no_packet`
    NoPacket,
    /// `wait`
    Wait,
    /// `add TABLE [PRIORITY] KEY:VALUE ... ACTION(NAME:VALUE, ...) [= HANDLE]`
    Add {
        table: String,
        priority: Option<i32>,
        keys: Vec<(String, KeyValue)>,
        action: Call,
        handle: Option<String>,
    },
    /// `setdefault TABLE ACTION(NAME:VALUE, ...)`
    SetDefault { table: String, action: Call },
    /// `remove all`
    RemoveAll,
    /// `remove HANDLE`
    Remove { handle: String },
    /// `mirroring_add SESSION PORT`
    MirroringAdd { session: u32, port: u32 },
    /// `mirroring_add_mc SESSION GROUP`
    MirroringAddMc { session: u32, group: u32 },
    /// `mirroring_delete SESSION`
    MirroringDelete { session: u32 },
    /// `mirroring_get SESSION`: checks nothing.
    MirroringGet { session: u32 },
    /// `mc_mgrp_create GROUP`
    GroupCreate { group: u32 },
    /// `mc_node_create RID PORT ...`; nodes are numbered from 0 in the order of creation.
    NodeCreate { rid: u16, ports: Vec<u32> },
    /// `mc_node_update NODE PORT ...`
    NodeUpdate { node: u32, ports: Vec<u32> },
    /// `mc_node_associate GROUP NODE`
    NodeAssociate { group: u32, node: u32 },
    /// `mc_node_exclude NODE XID`: packets with this level 1 exclusion id get no copies from the node (Tofino).
    NodeExclude { node: u32, xid: u16 },
    /// `mc_exclude YID PORT ...`: packets with this level 2 exclusion id get no copies at these ports from nodes of
    /// their rid (Tofino).
    ExcludePorts { yid: u16, ports: Vec<u32> },
    /// `register_read NAME INDEX [VALUE]`: checks the value, if there is one.
    RegisterRead {
        name: String,
        index: u64,
        value: Option<Vec<u8>>,
    },
    /// `register_write NAME INDEX VALUE`
    RegisterWrite {
        name: String,
        index: u64,
        value: Vec<u8>,
    },
    /// `register_reset NAME`
    RegisterReset { name: String },
    /// `counter_read NAME INDEX`: checks nothing.
    CounterRead { name: String, index: u64 },
    /// `counter_write NAME INDEX PACKETS BYTES`
    CounterWrite {
        name: String,
        index: u64,
        packets: u64,
        bytes: u64,
    },
    /// `meter_get_rates NAME INDEX`: checks nothing.
    MeterGetRates { name: String, index: u64 },
    /// `meter_set_rates NAME INDEX RATE:BURST RATE:BURST`
    MeterSetRates {
        name: String,
        index: u64,
        rates: MeterRates,
    },
    /// `meter_array_set_rates NAME RATE:BURST RATE:BURST`
    MeterArraySetRates { name: String, rates: MeterRates },
    /// `check_counter NAME(INDEX) [[packets|bytes] == N]`; without a comparison the counter must be 0, as in p4c's
    /// grammar.
    CheckCounter {
        name: String,
        index: CounterIndex,
        unit: CounterUnit,
        comparison: Comparison,
        value: u64,
    },
    /// `dump ...`: checks nothing.
    Dump,
}

/// A line that is not a valid command.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {what}")]
pub struct ParseError {
    /// Line number, from 1.
    pub line: usize,
    /// Description of the error.
    pub what: String,
}

/// Parses a whole test.
///
/// # Errors
/// The first invalid line.
pub fn parse(text: &str) -> Result<Vec<Line>, ParseError> {
    let mut lines = Vec::new();
    for (number, text) in (1..).zip(text.lines()) {
        let text = without_comment(text).trim();
        if text.is_empty() {
            continue;
        }
        let command = command(text).map_err(|what| ParseError { line: number, what })?;
        lines.push(Line { number, command });
    }
    Ok(lines)
}

fn command(text: &str) -> Result<Command, String> {
    let mut words = Words::new(text);
    let word = words.word("command")?;
    let command = match word.to_ascii_lowercase().as_str() {
        "packet" => packet::send(&mut words)?,
        "expect" => packet::expect(&mut words)?,
        "no_packet" => Command::NoPacket,
        "wait" => Command::Wait,
        "add" => entry::add(&mut words)?,
        "setdefault" => {
            let table = words.name("table")?;
            let action = entry::call(&mut words)?;
            Command::SetDefault { table, action }
        }
        "remove" => match words.name("entry")?.as_str() {
            all if all.eq_ignore_ascii_case("all") => Command::RemoveAll,
            handle => Command::Remove {
                handle: handle.trim_start_matches('$').to_owned(),
            },
        },
        "mirroring_add" => Command::MirroringAdd {
            session: words.number("session")?,
            port: words.number("port")?,
        },
        "mirroring_add_mc" => Command::MirroringAddMc {
            session: words.number("session")?,
            group: words.number("multicast group")?,
        },
        "mirroring_delete" => Command::MirroringDelete {
            session: words.number("session")?,
        },
        "mirroring_get" => Command::MirroringGet {
            session: words.number("session")?,
        },
        "mc_mgrp_create" => Command::GroupCreate {
            group: words.number("multicast group")?,
        },
        "mc_node_create" => Command::NodeCreate {
            rid: words.number("replica id")?,
            ports: words.ports()?,
        },
        "mc_node_update" => Command::NodeUpdate {
            node: words.number("node")?,
            ports: words.ports()?,
        },
        "mc_node_associate" => Command::NodeAssociate {
            group: words.number("multicast group")?,
            node: words.number("node")?,
        },
        "mc_node_exclude" => Command::NodeExclude {
            node: words.number("node")?,
            xid: words.number("exclusion id")?,
        },
        "mc_exclude" => Command::ExcludePorts {
            yid: words.number("exclusion id")?,
            ports: words.ports()?,
        },
        "register_read" => Command::RegisterRead {
            name: words.name("register")?,
            index: words.number("index")?,
            value: words.next().map(value).transpose()?,
        },
        "register_write" => Command::RegisterWrite {
            name: words.name("register")?,
            index: words.number("index")?,
            value: value(words.word("value")?)?,
        },
        "register_reset" => Command::RegisterReset {
            name: words.name("register")?,
        },
        "counter_read" => Command::CounterRead {
            name: words.name("counter")?,
            index: words.number("index")?,
        },
        "counter_write" => Command::CounterWrite {
            name: words.name("counter")?,
            index: words.number("index")?,
            packets: words.number("packets")?,
            bytes: words.number("bytes")?,
        },
        "meter_get_rates" => Command::MeterGetRates {
            name: words.name("meter")?,
            index: words.number("index")?,
        },
        "meter_set_rates" => Command::MeterSetRates {
            name: words.name("meter")?,
            index: words.number("index")?,
            rates: meter::rates(&mut words)?,
        },
        "meter_array_set_rates" => Command::MeterArraySetRates {
            name: words.name("meter")?,
            rates: meter::rates(&mut words)?,
        },
        "check_counter" => counter::check_counter(&mut words)?,
        "dump" | "mirroring_dump" | "mc_dump" => return Ok(Command::Dump),
        other => {
            return Err(match nearest(other, COMMANDS) {
                Some(near) => format!("unknown command `{other}`; did you mean `{near}`?"),
                None => format!("unknown command `{other}`"),
            });
        }
    };
    words.end()?;
    Ok(command)
}

/// All commands, for suggestions.
const COMMANDS: [&str; 28] = [
    "add",
    "check_counter",
    "counter_read",
    "counter_write",
    "dump",
    "expect",
    "mc_dump",
    "mc_exclude",
    "mc_mgrp_create",
    "mc_node_associate",
    "mc_node_create",
    "mc_node_exclude",
    "mc_node_update",
    "meter_array_set_rates",
    "meter_get_rates",
    "meter_set_rates",
    "mirroring_add",
    "mirroring_add_mc",
    "mirroring_delete",
    "mirroring_get",
    "no_packet",
    "packet",
    "register_read",
    "register_reset",
    "register_write",
    "remove",
    "setdefault",
    "wait",
];

#[cfg(test)]
mod tests {
    use super::*;

    /// Parses one line to its command.
    pub(super) fn one(text: &str) -> Command {
        parse(text).expect("it is a command").remove(0).command
    }

    #[test]
    fn commands_may_be_in_capitals() {
        assert_eq!(one("WAIT"), Command::Wait);
        assert_eq!(one("Remove ALL"), Command::RemoveAll);
    }

    #[test]
    fn errors_have_the_line() {
        let error = parse("wait\n\npacket x 00").expect_err("x is not a port");
        assert_eq!(error.to_string(), "line 3: the port `x` is not a number");
        let error = parse("pakket 1 00").expect_err("no such command");
        assert_eq!(
            error.to_string(),
            "line 1: unknown command `pakket`; did you mean `packet`?"
        );
        let error = parse("fly 1").expect_err("no such command");
        assert_eq!(error.to_string(), "line 1: unknown command `fly`");
    }
}
