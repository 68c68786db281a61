//! Runs a test against a started switch: tables over P4Runtime, packets over veth pairs.
//!
//! Everything happens in a network namespace of its own, which goes with this process: interfaces and addresses disturb nobody.

mod control;
mod process;
mod wires;

use std::path::Path;
use std::time::Duration;

use alfirk_compiler::driver::Compiled;

use super::packets::{Failure as TestFailure, Packets};
use super::parse::{Command, Line};
use crate::exit::Failure;
use control::Control;
use process::Process;
use wires::Wires;

/// Where the switch serves P4Runtime, in the namespace.
const ADDRESS: &str = "127.0.0.1:9559";

/// How long expected packets may take.
const PATIENCE: Duration = Duration::from_secs(2);

/// How long a switch that has nothing more to send is silent. Packets that nobody expects are noticed within it.
const SILENCE: Duration = Duration::from_millis(100);

/// Between two looks at the ports.
const INTERVAL: Duration = Duration::from_millis(2);

/// Runs all commands on the switch `exe` and returns what went wrong.
pub fn run(exe: &Path, program: &Compiled, lines: &[Line]) -> Result<Vec<TestFailure>, Failure> {
    let ports = lines.iter().filter_map(|line| match line.command {
        Command::Packet { port, .. } | Command::Expect { port, .. } => Some(port),
        _ => None,
    });
    let wires = Wires::new(ports.collect())?;
    // One thread, which is in the namespace, and whose sockets so are.
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::failed(format_args!("cannot set up the client: {error}")))?;
    let mut process = Process::start(exe, ADDRESS, &wires.interfaces())?;
    runtime.block_on(async {
        let control = Control::connect(ADDRESS, &mut process, program).await?;
        let runner = Runner {
            wires,
            control,
            packets: Packets::default(),
            under_way: false,
        };
        runner.run(lines).await
    })
}

struct Runner {
    wires: Wires,
    control: Control,
    packets: Packets,
    /// A packet was sent since the switch was last silent.
    under_way: bool,
}

impl Runner {
    async fn run(mut self, lines: &[Line]) -> Result<Vec<TestFailure>, Failure> {
        let mut failures = Vec::new();
        for line in lines {
            if let Err(what) = self.command(line).await {
                failures.push(TestFailure {
                    line: Some(line.number),
                    what,
                });
            }
        }
        self.settle().await?;
        failures.extend(self.packets.failures());
        Ok(failures)
    }

    async fn command(&mut self, line: &Line) -> Result<(), String> {
        match &line.command {
            Command::Packet { port, data } => {
                self.packets.sent(*port);
                self.under_way = true;
                self.wires.send(*port, data)
            }
            Command::Expect { port, data } => {
                self.packets.expect(*port, line.number, data.clone());
                Ok(())
            }
            Command::NoPacket => {
                self.packets.expect_none(line.number);
                Ok(())
            }
            command => {
                // Packets before it find the tables as they were.
                self.settle()
                    .await
                    .map_err(|_| "cannot receive packets".to_owned())?;
                self.control.apply(command).await
            }
        }
    }

    /// Waits until the packets under way have come out.
    async fn settle(&mut self) -> Result<(), Failure> {
        if !std::mem::take(&mut self.under_way) {
            return Ok(());
        }
        let start = tokio::time::Instant::now();
        let mut heard = start;
        loop {
            let packets = &mut self.packets;
            if self
                .wires
                .receive(|port, frame| packets.received(port, frame.to_vec()))?
            {
                heard = tokio::time::Instant::now();
            }
            let patient = !self.packets.are_complete() && start.elapsed() < PATIENCE;
            if !patient && heard.elapsed() >= SILENCE {
                return Ok(());
            }
            tokio::time::sleep(INTERVAL).await;
        }
    }
}
