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

/// A command of a test, with the number of its line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    /// Line number, from 1.
    pub number: usize,
    /// Parsed command.
    pub command: Command,
}

/// A command of a test.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    /// `packet PORT DATA`: sends a packet into the switch.
    Packet {
        /// Ingress port.
        port: u32,
        /// Bytes of the frame, from the Ethernet header.
        data: Vec<u8>,
    },
    /// `expect PORT [DATA] [$]`: expects a packet from the switch.
    Expect {
        /// Egress port.
        port: u32,
        /// Pattern of the packet; `None` matches any packet.
        data: Option<Pattern>,
    },
    /// `no_packet`: expects no packets at ports without `packet` or `expect`.
    NoPacket,
    /// `wait`: waits for a second.
    Wait,
    /// `or`: the `expect` commands that follow describe another set of packets than those since the last other command.
    Or,
    /// `add TABLE [PRIORITY] KEY:VALUE ... ACTION(NAME:VALUE, ...) [| ACTION(...)]... [= HANDLE]`: inserts a table entry.
    Add {
        /// Name of the table, or a unique suffix of it.
        table: String,
        /// The largest priority wins; `None` is the same as 0.
        priority: Option<i32>,
        /// Names and values of key elements, in any order. An omitted key matches 0 if it is exact, else every value.
        keys: Vec<(String, KeyValue)>,
        /// Actions of the entry with their arguments: one, or those among which an action selector chooses.
        actions: Vec<Call>,
        /// Name by which later commands refer to the entry, without `$`.
        handle: Option<String>,
    },
    /// `setdefault TABLE ACTION(NAME:VALUE, ...)`: sets the default action of a table.
    SetDefault {
        /// Name of the table, or a unique suffix of it.
        table: String,
        /// Default action with its arguments.
        action: Call,
    },
    /// `remove all`: deletes the entries of all tables, except const ones.
    RemoveAll,
    /// `remove HANDLE`: deletes a table entry.
    Remove {
        /// Handle of the `add` command, without `$`.
        handle: String,
    },
    /// `mirroring_add SESSION PORT`: adds a port to a clone session.
    MirroringAdd {
        /// Number of the clone session; it is created if it does not exist.
        session: u32,
        /// Egress port of the copy.
        port: u32,
    },
    /// `mirroring_add_mc SESSION GROUP`: adds the copies of a multicast group to a clone session.
    MirroringAddMc {
        /// Number of the clone session; it is created if it does not exist.
        session: u32,
        /// Number of the multicast group.
        group: u32,
    },
    /// `mirroring_delete SESSION`: deletes a clone session.
    MirroringDelete {
        /// Number of the clone session.
        session: u32,
    },
    /// `mirroring_get SESSION`: checks nothing.
    MirroringGet {
        /// Number of the clone session.
        session: u32,
    },
    /// `mc_mgrp_create GROUP`: creates a multicast group without nodes.
    GroupCreate {
        /// Number of the multicast group.
        group: u32,
    },
    /// `mc_node_create RID PORT ...`: creates a multicast node. Nodes are numbered from 0 in the order of creation.
    NodeCreate {
        /// Replication id of the node's copies: `egress_rid` in v1model.
        rid: u16,
        /// Egress ports, one copy each.
        ports: Vec<u32>,
    },
    /// `mc_node_update NODE PORT ...`: replaces the ports of a node.
    NodeUpdate {
        /// Number of the node.
        node: u32,
        /// Egress ports, one copy each.
        ports: Vec<u32>,
    },
    /// `mc_node_associate GROUP NODE`: adds a node to a multicast group.
    NodeAssociate {
        /// Number of the multicast group.
        group: u32,
        /// Number of the node.
        node: u32,
    },
    /// `mc_node_exclude NODE XID`: packets with this level 1 exclusion id get no copies from the node (Tofino).
    NodeExclude {
        /// Number of the node.
        node: u32,
        /// Level 1 exclusion id.
        xid: u16,
    },
    /// `mc_exclude YID PORT ...`: packets with this level 2 exclusion id get no copies at these ports from nodes of
    /// their rid (Tofino).
    ExcludePorts {
        /// Level 2 exclusion id.
        yid: u16,
        /// Excluded egress ports; they replace those of an earlier command.
        ports: Vec<u32>,
    },
    /// `register_read NAME INDEX [VALUE]`: reads a register cell, and checks its value if there is one.
    RegisterRead {
        /// Name of the register array, or a unique suffix of it.
        name: String,
        /// Index of the cell.
        index: u64,
        /// Expected value in big endian, of any length.
        value: Option<Vec<u8>>,
    },
    /// `register_write NAME INDEX VALUE`: writes a register cell.
    RegisterWrite {
        /// Name of the register array, or a unique suffix of it.
        name: String,
        /// Index of the cell.
        index: u64,
        /// New value in big endian, of any length.
        value: Vec<u8>,
    },
    /// `register_reset NAME`: sets all cells of a register array to 0.
    RegisterReset {
        /// Name of the register array, or a unique suffix of it.
        name: String,
    },
    /// `counter_read NAME INDEX`: checks only that the counter exists.
    CounterRead {
        /// Name of the counter array, or a unique suffix of it.
        name: String,
        /// Index of the counter; in a direct array, of the table's entry.
        index: u64,
    },
    /// `counter_write NAME INDEX PACKETS BYTES`: sets a counter.
    CounterWrite {
        /// Name of the counter array, or a unique suffix of it.
        name: String,
        /// Index of the counter; in a direct array, of the table's entry.
        index: u64,
        /// New number of packets.
        packets: u64,
        /// New number of bytes.
        bytes: u64,
    },
    /// `meter_get_rates NAME INDEX`: checks only that the meter exists.
    MeterGetRates {
        /// Name of the meter array, or a unique suffix of it.
        name: String,
        /// Index of the meter; in a direct array, of the table's entry.
        index: u64,
    },
    /// `meter_set_rates NAME INDEX RATE:BURST RATE:BURST`: sets the rates of a meter, the committed one first.
    MeterSetRates {
        /// Name of the meter array, or a unique suffix of it.
        name: String,
        /// Index of the meter; in a direct array, of the table's entry.
        index: u64,
        /// New rates and burst sizes.
        rates: MeterRates,
    },
    /// `meter_array_set_rates NAME RATE:BURST RATE:BURST`: sets the rates of all meters of an indirect array.
    MeterArraySetRates {
        /// Name of the meter array, or a unique suffix of it.
        name: String,
        /// New rates and burst sizes.
        rates: MeterRates,
    },
    /// `check_counter NAME(INDEX) [[packets|bytes] == N]`: compares a counter with a number. Without a comparison the
    /// counter must be 0, as in p4c's grammar.
    CheckCounter {
        /// Name of the counter array, or a unique suffix of it.
        name: String,
        /// The counter within the array.
        index: CounterIndex,
        /// Whether packets or bytes are compared.
        unit: CounterUnit,
        /// Operator, with the counter as its left operand.
        comparison: Comparison,
        /// Right operand.
        value: u64,
    },
    /// `dump ...`: checks nothing.
    Dump,
}

/// Error of [`parse`]: a line of the test is not a valid command.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {message}")]
pub struct ParseError {
    /// Line number, from 1.
    pub line: usize,
    /// Description of the error, without the line number.
    pub message: String,
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
        let command = command(text).map_err(|message| ParseError {
            line: number,
            message,
        })?;
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
        "or" => Command::Or,
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

/// Names of all commands, for suggestions in error messages.
const COMMANDS: [&str; 29] = [
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
    "or",
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

    /// Parses the only line of a test.
    pub(super) fn command_of(text: &str) -> Command {
        parse(text).expect("it is a command").remove(0).command
    }

    #[test]
    fn commands_are_case_insensitive() {
        assert_eq!(command_of("WAIT"), Command::Wait);
        assert_eq!(command_of("Remove ALL"), Command::RemoveAll);
    }

    #[test]
    fn errors_have_the_line_number() {
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
