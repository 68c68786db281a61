//! Commands for multicast groups, which the switch's packet replication engine implements.

use super::{at_least, exactly, number, Arg, Command, Session};
use crate::runtime_cli::error::{Error, Result};
use crate::runtime_cli::format;
use crate::runtime_cli::Pre;

const GROUP: Arg = Arg::Other("<group id>");
const NODE: Arg = Arg::Other("<node handle>");
const PORTS: Arg = Arg::Other("<ports> [| <lags>]");

/// Largest accepted number of a port or link aggregation group, which limits the length of bit maps.
const MAX_PORT: u32 = 0xffff;

/// Commands for multicast groups and nodes.
pub const COMMANDS: &[Command] = &[
    Command {
        name: "mc_mgrp_create",
        args: &[GROUP],
        help: "Creates a multicast group.",
        run: |session, args| {
            let engine = session.pre.engine()?;
            let [group] = exactly(args)?;
            let group = group_id(group)?;
            writeln!(session.out, "Creating multicast group {group}")?;
            match engine {
                Engine::Plain => drop(session.connection.simple_pre().bm_mc_mgrp_create(0, group)?),
                Engine::Lag => {
                    let mut client = session.connection.simple_pre_lag();
                    client.bm_mc_mgrp_create(0, group)?;
                }
            }
            Ok(())
        },
    },
    Command {
        name: "mc_mgrp_destroy",
        args: &[GROUP],
        help: "Removes a multicast group.",
        run: |session, args| {
            let engine = session.pre.engine()?;
            let [group] = exactly(args)?;
            let group = group_id(group)?;
            writeln!(session.out, "Destroying multicast group {group}")?;
            match engine {
                Engine::Plain => session.connection.simple_pre().bm_mc_mgrp_destroy(0, group)?,
                Engine::Lag => {
                    let mut client = session.connection.simple_pre_lag();
                    client.bm_mc_mgrp_destroy(0, group)?;
                }
            }
            Ok(())
        },
    },
    Command {
        name: "mc_node_create",
        args: &[Arg::Other("<rid>"), PORTS],
        help: "Creates a node, which makes one copy for each of its ports, and prints its handle.\n\
            Copies carry the replication id <rid>. A node is of use when it is associated with a group.",
        run: node_create,
    },
    Command {
        name: "mc_node_update",
        args: &[NODE, PORTS],
        help: "Changes the ports of a node.",
        run: node_update,
    },
    Command {
        name: "mc_node_associate",
        args: &[GROUP, NODE],
        help: "Adds a node to a group.",
        run: |session, args| {
            let engine = session.pre.engine()?;
            let [group, node] = exactly(args)?;
            let (group, node) = (group_id(group)?, number(node, "node handle")?);
            writeln!(session.out, "Associating node {node} to multicast group {group}")?;
            match engine {
                Engine::Plain => {
                    let mut client = session.connection.simple_pre();
                    client.bm_mc_node_associate(0, group, node)?;
                }
                Engine::Lag => {
                    let mut client = session.connection.simple_pre_lag();
                    client.bm_mc_node_associate(0, group, node)?;
                }
            }
            Ok(())
        },
    },
    Command {
        name: "mc_node_dissociate",
        args: &[GROUP, NODE],
        help: "Removes a node from its group.",
        run: |session, args| {
            let engine = session.pre.engine()?;
            let [group, node] = exactly(args)?;
            let (group, node) = (group_id(group)?, number(node, "node handle")?);
            writeln!(session.out, "Dissociating node {node} from multicast group {group}")?;
            match engine {
                Engine::Plain => {
                    let mut client = session.connection.simple_pre();
                    client.bm_mc_node_dissociate(0, group, node)?;
                }
                Engine::Lag => {
                    let mut client = session.connection.simple_pre_lag();
                    client.bm_mc_node_dissociate(0, group, node)?;
                }
            }
            Ok(())
        },
    },
    Command {
        name: "mc_node_destroy",
        args: &[NODE],
        help: "Removes a node.",
        run: |session, args| {
            let engine = session.pre.engine()?;
            let [node] = exactly(args)?;
            let node: i32 = number(node, "node handle")?;
            writeln!(session.out, "Destroying node {node}")?;
            match engine {
                Engine::Plain => session.connection.simple_pre().bm_mc_node_destroy(0, node)?,
                Engine::Lag => {
                    let mut client = session.connection.simple_pre_lag();
                    client.bm_mc_node_destroy(0, node)?;
                }
            }
            Ok(())
        },
    },
    Command {
        name: "mc_set_lag_membership",
        args: &[Arg::Other("<lag index> <ports>")],
        help: "Sets the ports of a link aggregation group; each copy to the group leaves through one of them.",
        run: |session, args| {
            if session.pre.engine()? != Engine::Lag {
                return Err(Error::input(
                    "Cannot execute this command with this type of PRE, SimplePreLAG is required",
                ));
            }
            at_least(args, 2)?;
            let lag: i16 = number(args[0], "lag index")?;
            let ports = bit_map(&args[1..], "lag")?;
            writeln!(session.out, "Setting lag membership: {lag} <- {ports}")?;
            let mut client = session.connection.simple_pre_lag();
            Ok(client.bm_mc_set_lag_membership(0, lag, ports)?)
        },
    },
    Command {
        name: "mc_dump",
        args: &[],
        help: "Shows groups with their nodes, and link aggregation groups.",
        run: |session, _| {
            let json = match session.pre.engine()? {
                Engine::Plain => session.connection.simple_pre().bm_mc_get_entries(0)?,
                Engine::Lag => session.connection.simple_pre_lag().bm_mc_get_entries(0)?,
            };
            let shown = format::multicast(&json)
                .unwrap_or_else(|| "Exception when retrieving MC entries\n".to_owned());
            Ok(write!(session.out, "{shown}")?)
        },
    },
];

/// Thrift service of the replication engine: without or with link aggregation groups (LAGs).
#[derive(Clone, Copy, PartialEq, Eq)]
enum Engine {
    Plain,
    Lag,
}

impl Pre {
    fn engine(self) -> Result<Engine> {
        match self {
            Pre::Simple => Ok(Engine::Plain),
            Pre::SimpleLag => Ok(Engine::Lag),
            Pre::None => Err(Error::input(
                "Cannot execute this command without packet replication engine",
            )),
        }
    }
}

fn group_id(text: &str) -> Result<i32> {
    number(text, "multicast group id")
}

fn node_create(session: &mut Session<'_>, args: &[&str]) -> Result<()> {
    let engine = session.pre.engine()?;
    at_least(args, 1)?;
    let rid: i32 = number(args[0], "rid")?;
    let (ports, lags) = parse_bit_maps(&args[1..])?;
    let handle = match engine {
        Engine::Plain => {
            let out = &mut session.out;
            writeln!(
                out,
                "Creating node with rid {rid} and with port map {ports}"
            )?;
            let mut client = session.connection.simple_pre();
            client.bm_mc_node_create(0, rid, ports)?
        }
        Engine::Lag => {
            let out = &mut session.out;
            writeln!(
                out,
                "Creating node with rid {rid} , port map {ports} and lag map {lags}"
            )?;
            let mut client = session.connection.simple_pre_lag();
            client.bm_mc_node_create(0, rid, ports, lags)?
        }
    };
    Ok(writeln!(
        session.out,
        "node was created with handle {handle}"
    )?)
}

fn node_update(session: &mut Session<'_>, args: &[&str]) -> Result<()> {
    let engine = session.pre.engine()?;
    at_least(args, 2)?;
    let node: i32 = number(args[0], "node handle")?;
    let (ports, lags) = parse_bit_maps(&args[1..])?;
    match engine {
        Engine::Plain => {
            writeln!(session.out, "Updating node {node} with port map {ports}")?;
            let mut client = session.connection.simple_pre();
            client.bm_mc_node_update(0, node, ports)?;
        }
        Engine::Lag => {
            writeln!(
                session.out,
                "Updating node {node} with port map {ports} and lag map {lags}"
            )?;
            let mut client = session.connection.simple_pre_lag();
            client.bm_mc_node_update(0, node, ports, lags)?;
        }
    }
    Ok(())
}

/// Parses port numbers, then numbers of link aggregation groups after a `|`, into two bit maps.
fn parse_bit_maps(args: &[&str]) -> Result<(String, String)> {
    let bar = args.iter().position(|arg| *arg == "|");
    let (ports, lags) = args.split_at(bar.unwrap_or(args.len()));
    let lags = lags.get(1..).unwrap_or_default();
    Ok((bit_map(ports, "port")?, bit_map(lags, "lag")?))
}

/// Bit map of a list of numbers, as BMv2's Thrift service expects it: a digit for each number up to the highest, number
/// 0 last, `1` if it is in the list. `what`: kind of number for messages.
fn bit_map(numbers: &[&str], what: &str) -> Result<String> {
    let mut listed = Vec::new();
    for text in numbers {
        let number: u32 = text
            .parse()
            .ok()
            .filter(|number| *number <= MAX_PORT)
            .ok_or_else(|| Error::input(format_args!("'{text}' is not a valid {what} number")))?;
        if listed.contains(&number) {
            return Err(Error::input(format_args!(
                "Found duplicate {what} number '{number}'"
            )));
        }
        listed.push(number);
    }
    let highest = listed.iter().max().copied();
    let digits = (0..=highest.unwrap_or(0)).rev();
    Ok(match highest {
        None => String::new(),
        Some(_) => digits
            .map(|number| if listed.contains(&number) { '1' } else { '0' })
            .collect(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn maps_have_port_0_last() {
        assert_eq!(
            parse_bit_maps(&["2", "0"]).unwrap(),
            ("101".into(), "".into())
        );
        assert_eq!(
            parse_bit_maps(&["1", "|", "0", "3"]).unwrap(),
            ("10".into(), "1001".into())
        );
        assert_eq!(parse_bit_maps(&[]).unwrap(), ("".into(), "".into()));
        assert_eq!(
            parse_bit_maps(&["0", "|"]).unwrap(),
            ("1".into(), "".into())
        );
    }

    #[test]
    fn invalid_ports_are_reported() {
        let error = |args: &[&str]| parse_bit_maps(args).unwrap_err().to_string();
        assert_eq!(error(&["x"]), "Error: 'x' is not a valid port number");
        assert_eq!(
            error(&["1", "|", "-1"]),
            "Error: '-1' is not a valid lag number"
        );
        assert_eq!(
            error(&["65536"]),
            "Error: '65536' is not a valid port number"
        );
        assert_eq!(
            error(&["1", "2", "1"]),
            "Error: Found duplicate port number '1'"
        );
    }
}
