//! Runs a test on a switch, line by line.

use std::time::Duration;

use crate::control::Control;
use crate::packets::{Failure, Packets};
use crate::parse::{Command, Line};
use crate::target::Target;

/// Duration of the command `wait`.
const WAIT_DURATION: Duration = Duration::from_secs(1);

/// Executes all commands of a test, and returns its failures, ordered by line; failures without a line are last.
///
/// `json`: BMv2 JSON of the program, whose headers messages about packets name.
///
/// # Errors
/// When the connection to the switch is lost.
pub async fn run<T: Target>(
    control: &mut Control<T>,
    lines: &[Line],
    json: &str,
) -> Result<Vec<Failure>, T::Error> {
    let mut packets = Packets::default();
    let mut failures = Vec::new();
    for line in lines {
        if let Err(message) = command(control, &mut packets, line).await {
            failures.push(Failure {
                line: Some(line.number),
                message,
            });
        }
    }
    control.target().settle(&mut packets).await?;
    failures.extend(packets.failures(json));
    failures.sort_by_key(|failure| failure.line.unwrap_or(usize::MAX));
    Ok(failures)
}

/// Executes one command of a test.
pub(crate) async fn command<T: Target>(
    control: &mut Control<T>,
    packets: &mut Packets,
    line: &Line,
) -> Result<(), String> {
    if !matches!(line.command, Command::Expect { .. } | Command::Or) {
        packets.end_expectations();
    }
    match &line.command {
        Command::Or => packets.or(line.number),
        Command::Packet { port, data } => {
            packets.sent(*port);
            control.target().send(*port, data, packets).await
        }
        Command::Expect { port, data } => {
            packets.expect(*port, line.number, data.clone());
            Ok(())
        }
        Command::NoPacket => {
            packets.expect_none(line.number);
            Ok(())
        }
        command => {
            // Packets sent before this command must see the tables as they were.
            let settled = control.target().settle(packets).await;
            settled.map_err(|_| "cannot receive packets".to_owned())?;
            match command {
                Command::Wait => {
                    control.target().pass(WAIT_DURATION).await;
                    Ok(())
                }
                command => control.apply(command).await,
            }
        }
    }
}
