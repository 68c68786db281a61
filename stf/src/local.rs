//! A switch under test in this process: P4Runtime server and switch, without ports, root or real time.

use std::convert::Infallible;
use std::fmt::Display;
use std::time::Duration;

use alfirk_bmv2::choices::Choice;
use alfirk_bmv2::coverage::Covered;
use alfirk_bmv2::trace::stops::{Override, Stops};
use alfirk_bmv2::trace::TraceLine;
use alfirk_bmv2::{CloneSession, QueueState, Replica, Switch, SwitchOptions};
use alfirk_p4rt::{ClientId, Event, Programs, Server};
use alfirk_p4runtime::p4::config::v1::P4Info;
use alfirk_p4runtime::p4::v1::{Entity, ReadRequest, WriteRequest};
use alfirk_p4runtime::Status;

use crate::control::{arbitration, pipeline_config};
use crate::packets::Packets;
use crate::program_info::program_info;
use crate::target::{Target, DEVICE_ID};

/// Virtual time between two packets or requests of a test, in nanoseconds.
const STEP_NS: u64 = 1_000_000;

/// Maximum number of copies and recirculations of one packet, in case a program makes them endlessly.
const MAX_EVENTS: usize = 100_000;

/// What a switch records about packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Records {
    /// The steps of each packet.
    pub traces: bool,
    /// The start and the end of each block among these steps.
    pub blocks: bool,
    /// How often packets execute each place of the program.
    pub coverage: bool,
}

/// A switch in this process, driven by method calls.
pub struct Local {
    server: Server,
    client: ClientId,
    /// Virtual time in nanoseconds.
    now: u64,
}

impl Local {
    /// Starts a switch with the program in this BMv2 JSON. The returned P4Info has all objects of the JSON under the
    /// names in the JSON, as `simple_switch_CLI` has. Traces have statements and conditions.
    ///
    /// # Errors
    /// When the program cannot be loaded.
    pub fn start(json: &str, seed: u64, records: Records) -> Result<(Local, P4Info), String> {
        let Records {
            traces,
            blocks,
            coverage,
        } = records;
        // The server finds the loaded program in this cache.
        let mut programs = match traces {
            true => Programs::with_notes(),
            false => Programs::default(),
        };
        if coverage {
            programs = programs.with_coverage();
        }
        let program = programs.load(json).map_err(to_text)?;
        let options = SwitchOptions {
            seed,
            device_id: DEVICE_ID,
            ..SwitchOptions::default()
        };
        let mut loaded = Switch::new(options.clone());
        loaded.load(program);
        let info = program_info(&loaded).map_err(to_text)?;
        let mut server = Server::with_programs(Switch::new(options), programs);
        let client = server.stream_open();
        server.stream_message(client, arbitration(), 0);
        server
            .set_forwarding_pipeline_config(&pipeline_config(&info, json), 0)
            .map_err(to_text)?;
        server.switch_mut().set_trace(traces);
        server.switch_mut().set_block_trace(blocks);
        let now = 0;
        let local = Local {
            server,
            client,
            now,
        };
        Ok((local, info))
    }

    /// Returns a copy of the switch with its state.
    pub fn fork(&self) -> Local {
        Local {
            server: self.server.fork(),
            client: self.client,
            now: self.now,
        }
    }

    /// Returns the switch.
    pub fn switch(&self) -> &Switch {
        self.server.switch()
    }

    /// Starts taking what is left open from a script; see [`Switch::script_choices`].
    pub fn script_choices(&mut self, script: Vec<u64>, fills_undefined: bool) {
        let mut switch = self.server.switch_mut();
        switch.script_choices(script, fills_undefined);
    }

    /// Ends the script, and returns the choices that were made.
    pub fn take_choices(&mut self) -> Vec<Choice> {
        self.server.switch_mut().take_choices()
    }

    /// Starts recording a debugger's stops; see [`Switch::record_stops`].
    pub fn record_stops(&mut self, overrides: Vec<Override>) {
        self.server.switch_mut().record_stops(overrides);
    }

    /// Ends the recording of stops, and returns them.
    pub fn take_stops(&mut self) -> Stops {
        self.server.switch_mut().take_stops()
    }

    /// Returns the trace since the last call.
    pub fn take_trace(&mut self) -> Vec<TraceLine> {
        self.server.take_trace()
    }

    /// Returns how often packets have executed each place of the program.
    pub fn coverage(&self) -> Vec<Covered> {
        self.server.switch().coverage()
    }

    /// Processes everything that one packet causes, such as copies and recirculations.
    fn drain(&mut self, packets: &mut Packets) -> Result<(), String> {
        let mut events = 0;
        while let Some(event) = self.server.poll() {
            events += 1;
            match event {
                // Packets beyond the limit are dropped.
                Event::Enqueue(_) if events > MAX_EVENTS => {}
                Event::Enqueue(packet) => {
                    let queue = QueueState {
                        enq_timestamp: self.now,
                        ..QueueState::default()
                    };
                    self.server.dequeue(packet, self.now, queue);
                }
                Event::Output { port, frame } => packets.received(port, frame.into_bytes()),
                // Digests and notifications, which no test command checks.
                Event::Stream { .. } => {}
                Event::Close { client, status } if client == self.client => {
                    return Err(format!("the switch has closed the stream: {status}"));
                }
                Event::Close { .. } => {}
            }
        }
        match events > MAX_EVENTS {
            true => Err("the packet causes endless copies or recirculations".to_owned()),
            false => Ok(()),
        }
    }
}

impl Target for Local {
    type Error = Infallible;

    async fn send(&mut self, port: u32, data: &[u8], packets: &mut Packets) -> Result<(), String> {
        self.now += STEP_NS;
        self.server.frame_in(port, data, self.now);
        self.drain(packets)
    }

    async fn settle(&mut self, _: &mut Packets) -> Result<(), Infallible> {
        Ok(())
    }

    async fn pass(&mut self, time: Duration) {
        self.now += u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
    }

    async fn write(&mut self, request: WriteRequest) -> Result<(), Status> {
        self.now += STEP_NS;
        self.server.write(&request, self.now).map(drop)
    }

    async fn read(&mut self, request: ReadRequest) -> Result<Vec<Entity>, Status> {
        Ok(self.server.read(&request, self.now)?.entities)
    }

    fn clone_session_0(&mut self, copies: Option<&[(u32, u16)]>) -> Result<(), String> {
        let mut switch = self.server.switch_mut();
        let pre = switch.pre_mut().map_err(to_text)?;
        let Some(copies) = copies else {
            return pre.delete_session(0).map_err(to_text);
        };
        let replicas = copies.iter().map(|&(port, rid)| Replica { port, rid });
        let session = CloneSession {
            replicas: replicas.collect(),
            ..CloneSession::default()
        };
        pre.set_session(0, session).map_err(to_text)
    }

    fn exclude(&mut self, group: u32, rid: u32, xid: u16) -> Result<(), String> {
        let mut switch = self.server.switch_mut();
        let pre = switch.pre_mut().map_err(to_text)?;
        let of_group = pre.nodes().filter(|(_, node)| node.group == Some(group));
        let mut found = of_group.filter(|(_, node)| u32::from(node.rid) == rid);
        let node = found.next().map(|(handle, _)| handle);
        drop(found);
        match node {
            Some(node) => pre.set_exclusion_id(node, Some(xid)).map_err(to_text),
            None => Ok(()),
        }
    }

    fn prune(&mut self, yid: u16, ports: &[u32]) -> Result<(), String> {
        let mut switch = self.server.switch_mut();
        switch.pre_mut().map_err(to_text)?.prune(yid, ports);
        Ok(())
    }
}

/// Converts an error to its text.
fn to_text(error: impl Display) -> String {
    error.to_string()
}
