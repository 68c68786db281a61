//! Execution of commands one by one on a switch in this process.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use alfirk_bmv2::choices::Choice;
use alfirk_bmv2::coverage::Covered;
use alfirk_bmv2::trace::stops::{Override, Stops};
use alfirk_bmv2::trace::TraceLine;
use alfirk_bmv2::Switch;
use alfirk_p4runtime::p4::config::v1::P4Info;

use crate::control::Control;
use crate::local::{Local, Records};
use crate::packets::{Failure, Packets, Variant};
use crate::parse::{Command, CounterIndex, Line};
use crate::run::{command, run};

/// A switch in this process, and the packets that it has sent.
pub struct Session {
    control: Control<Local>,
    packets: Packets,
    /// BMv2 JSON of the program, whose headers name the fields in which packets differ.
    json: Arc<str>,
}

/// A value that a command has read from the switch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reading {
    /// Value of a register, most significant byte first, without leading zeros.
    Register(Vec<u8>),
    /// Value of a counter.
    Counter {
        /// Number of packets.
        packets: u64,
        /// Number of bytes.
        bytes: u64,
    },
}

impl Session {
    /// Starts a switch that runs the program in this BMv2 JSON. `seed` initialises its random numbers; `records` turns on
    /// traces of packets ([`Session::take_trace`]) and coverage ([`Session::coverage`]).
    ///
    /// # Errors
    /// When the program cannot be loaded.
    pub fn start(json: &str, seed: u64, records: Records) -> Result<Session, String> {
        let (local, info) = Local::start(json, seed, records)?;
        Ok(Session {
            control: Control::new(local, info),
            packets: Packets::default(),
            json: json.into(),
        })
    }

    /// Executes a command. Returns the value that it reads: a register of `register_read`, or a counter of `counter_read`.
    /// Packets that leave the switch are returned by [`Session::take_packets`].
    ///
    /// # Errors
    /// The reason why the switch or the session does not execute the command.
    pub fn execute(&mut self, line: &Line) -> Result<Option<Reading>, String> {
        match &line.command {
            Command::Expect { .. } | Command::NoPacket | Command::Or => Err(
                "`expect`, `or` and `no_packet` belong to a test; here the result shows all packets"
                    .to_owned(),
            ),
            Command::RegisterRead { name, index, .. } => {
                let value = ready(self.control.read_register(name, *index))?;
                self.apply(line)?;
                Ok(Some(Reading::Register(value)))
            }
            Command::CounterRead { name, index } => {
                let count = ready(self.control.count(name, &CounterIndex::Cell(*index)))?;
                let [packets, bytes] = [count.packet_count, count.byte_count]
                    .map(|count| u64::try_from(count).unwrap_or(0));
                Ok(Some(Reading::Counter { packets, bytes }))
            }
            _ => self.apply(line).map(|()| None),
        }
    }

    fn apply(&mut self, line: &Line) -> Result<(), String> {
        ready(command(&mut self.control, &mut self.packets, line))
    }

    /// Returns the packets that have left the switch since the last call, with their ports: ordered by port, and for each
    /// port in the order of their departure.
    pub fn take_packets(&mut self) -> Vec<(u32, Vec<u8>)> {
        self.packets.take_received()
    }

    /// Returns the packets that have left the switch and are not taken, by port in the order of their departure. They stay for
    /// [`Session::failures`].
    pub fn packets_by_port(&self) -> &BTreeMap<u32, Vec<Vec<u8>>> {
        self.packets.by_port()
    }

    /// Returns the P4Info of the program, with the names that commands use.
    pub fn info(&self) -> &P4Info {
        self.control.info()
    }

    /// Returns the trace since the last call.
    pub fn take_trace(&mut self) -> Vec<TraceLine> {
        self.control.target().take_trace()
    }

    /// Returns how often packets have executed each place of the program, if the session records coverage.
    pub fn coverage(&mut self) -> Vec<Covered> {
        self.control.target().coverage()
    }
}

/// Executes all commands of a test on a switch in this process, which runs the program in this BMv2 JSON. Returns the
/// failures. `seed` initialises the switch's random numbers.
///
/// # Errors
/// When the program cannot be loaded.
pub fn run_here(json: &str, lines: &[Line], seed: u64) -> Result<Vec<Failure>, String> {
    let mut session = Session::start(json, seed, Records::default())?;
    Ok(session.run(lines))
}

impl Session {
    /// Executes one command of a test. Returns the failure, if the command is not executed; packets are compared by
    /// [`Session::failures`].
    pub fn step(&mut self, line: &Line) -> Option<Failure> {
        let failed = self.apply(line).err();
        failed.map(|message| Failure {
            line: Some(line.number),
            message,
        })
    }

    /// Starts taking what is left open from a script; see [`Switch::script_choices`].
    pub(crate) fn script_choices(&mut self, script: Vec<u64>, fills_undefined: bool) {
        let local = self.control.target();
        local.script_choices(script, fills_undefined);
    }

    /// Ends the script, and returns the choices that were made.
    pub(crate) fn take_choices(&mut self) -> Vec<Choice> {
        self.control.target().take_choices()
    }

    /// Returns the alternatives of the test that agree best with the packets, and the failed checks.
    pub(crate) fn best_variant(&self) -> (Variant, Vec<Failure>) {
        self.packets.best_variant(&self.json)
    }

    /// Returns the alternatives of a test: group, number, and line of the `or` command before it.
    pub(crate) fn alternatives(&self, lines: &[Line]) -> Vec<(usize, usize, Option<usize>)> {
        let mut packets = Packets::default();
        for line in lines {
            match &line.command {
                Command::Expect { port, .. } => packets.expect(*port, line.number, None),
                // Too many alternatives are an error of the command.
                Command::Or => drop(packets.or(line.number)),
                _ => packets.end_expectations(),
            }
        }
        packets.alternatives()
    }

    /// Compares the packets that have left since the start with those that the executed commands expect.
    pub fn failures(&self) -> Vec<Failure> {
        self.packets.failures(&self.json)
    }

    /// Returns a copy of the session: the switch with its state, and the packets.
    pub fn fork(&self) -> Session {
        Session {
            control: self.control.with_target(self.control.target_ref().fork()),
            packets: self.packets.clone(),
            json: self.json.clone(),
        }
    }

    /// Returns the switch.
    pub fn switch(&self) -> &Switch {
        self.control.target_ref().switch()
    }

    /// Starts recording a debugger's stops; see [`Switch::record_stops`].
    pub fn record_stops(&mut self, overrides: Vec<Override>) {
        self.control.target().record_stops(overrides);
    }

    /// Ends the recording of stops, and returns them.
    pub fn take_stops(&mut self) -> Stops {
        self.control.target().take_stops()
    }

    /// Executes all commands of a test, and returns its failures, ordered by line; failures without a line are last.
    pub fn run(&mut self, lines: &[Line]) -> Vec<Failure> {
        let done: Result<_, Infallible> = ready(run(&mut self.control, lines, &self.json));
        let Ok(failures) = done;
        failures
    }
}

/// Returns the output of a future that waits for nothing.
fn ready<F: Future>(future: F) -> F::Output {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(output) => output,
        Poll::Pending => unreachable!("a switch in this process waits for nothing"),
    }
}
