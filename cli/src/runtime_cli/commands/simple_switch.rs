//! Commands for simple_switch only: queues, clone sessions and clocks.

use alfirk_thrift::simple_switch::MirroringSessionConfig;

use super::{at_least, exactly, number, Arg, Command};
use crate::runtime_cli::error::Result;
use crate::runtime_cli::format;

const SESSION: Arg = Arg::Other("<mirror id>");

/// Commands for queues, clone sessions and clocks of simple_switch.
pub const COMMANDS: &[Command] = &[
    Command {
        name: "set_queue_depth",
        args: &[Arg::Other("<packets> [<egress port> [<priority>]]")],
        help:
            "Sets the capacity of egress queues in packets: of all, of those of a port, or of one.",
        run: |session, args| {
            at_least(args, 1)?;
            let depth = integer(args[0], "nb_pkts")?;
            let (port, priority) = queue(args)?;
            let mut client = session.connection.simple_switch();
            match (port, priority) {
                (Some(port), Some(priority)) => {
                    client.set_egress_priority_queue_depth(port, priority, depth)?
                }
                (Some(port), None) => client.set_egress_queue_depth(port, depth)?,
                (None, _) => client.set_all_egress_queue_depths(depth)?,
            };
            Ok(())
        },
    },
    Command {
        name: "set_queue_rate",
        args: &[Arg::Other(
            "<packets per second> [<egress port> [<priority>]]",
        )],
        help:
            "Sets the rate of egress queues: of all, of those of a port, or of one. 0 means no limit.",
        run: |session, args| {
            at_least(args, 1)?;
            let rate = integer(args[0], "rate_pps")?;
            let (port, priority) = queue(args)?;
            let mut client = session.connection.simple_switch();
            match (port, priority) {
                (Some(port), Some(priority)) => {
                    client.set_egress_priority_queue_rate(port, priority, rate)?
                }
                (Some(port), None) => client.set_egress_queue_rate(port, rate)?,
                (None, _) => client.set_all_egress_queue_rates(rate)?,
            };
            Ok(())
        },
    },
    Command {
        name: "mirroring_add",
        args: &[SESSION, Arg::Other("<egress port>")],
        help: "Sends the clones of a session to a port.",
        run: |session, args| {
            let [id, port] = exactly(args)?;
            let id = integer(id, "mirror_id")?;
            let config = MirroringSessionConfig {
                port: Some(integer(port, "egress_port")?),
                mgid: None,
            };
            let mut client = session.connection.simple_switch();
            Ok(client.mirroring_session_add(id, config)?)
        },
    },
    Command {
        name: "mirroring_add_mc",
        args: &[SESSION, Arg::Other("<group id>")],
        help: "Sends the clones of a session to a multicast group.",
        run: |session, args| {
            let [id, group] = exactly(args)?;
            let id = integer(id, "mirror_id")?;
            let config = MirroringSessionConfig {
                port: None,
                mgid: Some(integer(group, "mgrp")?),
            };
            let mut client = session.connection.simple_switch();
            Ok(client.mirroring_session_add(id, config)?)
        },
    },
    Command {
        name: "mirroring_delete",
        args: &[SESSION],
        help: "Removes a clone session.",
        run: |session, args| {
            let [id] = exactly(args)?;
            let id = integer(id, "mirror_id")?;
            let mut client = session.connection.simple_switch();
            Ok(client.mirroring_session_delete(id)?)
        },
    },
    Command {
        name: "mirroring_get",
        args: &[SESSION],
        help: "Shows the port or group of a clone session.",
        run: |session, args| {
            let [id] = exactly(args)?;
            let id = integer(id, "mirror_id")?;
            let mut client = session.connection.simple_switch();
            let config = client.mirroring_session_get(id)?;
            Ok(write!(
                session.out,
                "{}",
                format::mirroring_session(&config)
            )?)
        },
    },
    Command {
        name: "get_time_elapsed",
        args: &[],
        help: "Shows the microseconds since the switch has started.",
        run: |session, _| {
            let time = session.connection.simple_switch().get_time_elapsed_us()?;
            Ok(writeln!(session.out, "{time}")?)
        },
    },
    Command {
        name: "get_time_since_epoch",
        args: &[],
        help: "Shows the switch's clock in microseconds.",
        run: |session, _| {
            let mut client = session.connection.simple_switch();
            let time = client.get_time_since_epoch_us()?;
            Ok(writeln!(session.out, "{time}")?)
        },
    },
];

fn integer<T: std::str::FromStr>(text: &str, what: &str) -> Result<T> {
    number(text, &format!("{what}, expected integer"))
}

/// Parses the optional port and the optional priority of an egress queue.
fn queue(args: &[&str]) -> Result<(Option<i32>, Option<i32>)> {
    let port = args.get(1).map(|text| integer(text, "egress_port"));
    let priority = args.get(2).map(|text| integer(text, "priority"));
    Ok((port.transpose()?, priority.transpose()?))
}
