//! Runs a test on a switch, line by line.

use std::time::Duration;

use super::control::Control;
use super::packets::{Failure as TestFailure, Packets};
use super::parse::{Command, Line};
use super::target::Target;
use crate::exit::Failure;

/// What `wait` waits for.
const WAIT: Duration = Duration::from_secs(1);

/// Runs all commands and returns what went wrong.
///
/// # Errors
/// When the switch is not to be reached any more.
pub(super) async fn run<T: Target>(
    mut control: Control<T>,
    lines: &[Line],
) -> Result<Vec<TestFailure>, Failure> {
    let mut packets = Packets::default();
    let mut failures = Vec::new();
    for line in lines {
        if let Err(what) = command(&mut control, &mut packets, line).await {
            failures.push(TestFailure {
                line: Some(line.number),
                what,
            });
        }
    }
    control.target().settle(&mut packets).await?;
    failures.extend(packets.failures());
    Ok(failures)
}

async fn command<T: Target>(
    control: &mut Control<T>,
    packets: &mut Packets,
    line: &Line,
) -> Result<(), String> {
    match &line.command {
        Command::Packet { port, data } => {
            packets.sent(*port);
            control.target().send(*port, data, packets)
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
            // Packets before it find the tables as they were.
            let settled = control.target().settle(packets).await;
            settled.map_err(|_| "cannot receive packets".to_owned())?;
            match command {
                Command::Wait => {
                    control.target().pass(WAIT).await;
                    Ok(())
                }
                command => control.apply(command).await,
            }
        }
    }
}
