//! Traces of packets in the event loop: their observers, which are the output of the command line and clients that watch.

use std::{collections::BTreeMap, sync::Arc};

use alfirk_bmv2::{trace::FrameFilter, LoadedProgram};
use alfirk_p4runtime::{Code, Status};
use tokio::sync::oneshot;
use tracing::{info, warn};

use super::Engine;
use crate::{
    trace::{Observer, Progress, TraceWriter},
    watch::{NewWatch, WatchSender, WatchedProgram},
};

/// Number of the observer that the command line has requested.
const COMMAND_LINE: u8 = 0;
/// Maximum number of clients that watch. Their observers have the numbers from 1 on.
const MAX_CLIENTS: u8 = 16;

/// Tracing in the event loop.
#[derive(Default)]
pub(super) struct Traces {
    /// Traces of the command line.
    writer: Option<Observer<TraceWriter>>,
    /// The clients that watch, by the numbers of their observers.
    clients: BTreeMap<u8, Client>,
    /// Number of clients so far, by which messages of earlier ones are recognised.
    started: u64,
    /// Number of the load of the program that is traced.
    load: u64,
    /// The program that runs when no client watches, if another one with notes runs in its place.
    without_notes: Option<Arc<LoadedProgram>>,
}

/// A client that watches.
struct Client {
    id: u64,
    observer: Observer<WatchSender>,
}

impl Engine {
    /// Enables the traces of the command line, of the frames that meet a filter.
    pub fn trace(&mut self, writer: TraceWriter, filter: Option<FrameFilter>, count: Option<u64>) {
        self.observe(COMMAND_LINE, filter);
        self.traces.load = self.server.switch().load_number();
        self.traces.writer = Some(Observer::new(writer, count));
    }

    /// Starts the traces of an observer in the switch.
    fn observe(&mut self, observer: u8, filter: Option<FrameFilter>) {
        let mut switch = self.server.switch_mut();
        // Each observer removes the blocks from its lines, if it does not need them.
        switch.set_block_trace(true);
        switch.observe(observer, filter);
    }

    /// Whether packets are traced.
    #[inline]
    pub(super) fn is_traced(&self) -> bool {
        self.traces.writer.is_some() || !self.traces.clients.is_empty()
    }

    /// Passes the trace since the last call to its observers. The traces of an observer end when the last packet of its count has
    /// left the switch.
    pub(super) fn write_traces(&mut self) {
        let lines = self.server.take_trace();
        if lines.is_empty() {
            return;
        }
        let traces = &mut self.traces;
        let writer = traces.writer.as_mut();
        let writer = writer.map(|writer| (COMMAND_LINE, writer.write(COMMAND_LINE, &lines)));
        let clients = traces.clients.iter_mut();
        let clients = clients.map(|(&of, client)| (of, client.observer.write(of, &lines)));
        let progress: Vec<_> = writer.into_iter().chain(clients).collect();
        for (observer, progress) in progress {
            match progress {
                Progress::Open => {}
                Progress::IsFull => {
                    let nothing = FrameFilter::new(|_| false);
                    self.observe(observer, Some(nothing));
                }
                Progress::Done => self.end_observer(observer, None),
            }
        }
    }

    /// Ends the traces of an observer; those of a client with a status, or without an error.
    fn end_observer(&mut self, observer: u8, status: Option<Status>) {
        if observer == COMMAND_LINE {
            if let Some(writer) = self.traces.writer.take() {
                writer.finish();
                info!("tracing has ended after the number of packets of --trace-count");
            }
        } else if let Some(client) = self.traces.clients.remove(&observer) {
            client.observer.finish().end(status);
        }
        self.server.switch_mut().end_observation(observer);
        self.restore_program();
    }

    /// Exchanges the program with notes for the one without, if no client watches.
    fn restore_program(&mut self) {
        if !self.traces.clients.is_empty() {
            return;
        }
        if let Some(program) = self.traces.without_notes.take() {
            self.server.switch_mut().exchange_program(&program);
        }
    }

    /// Returns the program that the switch runs when no client watches.
    pub(super) fn program(&self) -> Option<&Arc<LoadedProgram>> {
        let without_notes = self.traces.without_notes.as_ref();
        without_notes.or_else(|| self.server.switch().program())
    }

    /// Returns the JSON text of the running program, if the switch has it.
    pub(super) fn program_json(&self) -> Option<String> {
        let of_thrift = || self.config.as_deref().map(str::to_owned);
        let config = self.server.device_config().map(|text| text.into_owned());
        config
            .or_else(of_thrift)
            .or_else(|| self.json.as_deref().map(str::to_owned))
    }

    /// Returns the program for a client that is going to watch.
    pub(super) fn watched_program(&self) -> Result<WatchedProgram, Status> {
        self.check_clients()?;
        if self.program().is_none() {
            let why = "the switch has no program to trace; set a pipeline first";
            return Err(Status::new(Code::FailedPrecondition, why));
        }
        Ok(WatchedProgram {
            json: self.program_json(),
            load: self.server.switch().load_number(),
        })
    }

    fn check_clients(&self) -> Result<(), Status> {
        if self.traces.clients.len() < usize::from(MAX_CLIENTS) {
            return Ok(());
        }
        let why = format!("{MAX_CLIENTS} clients watch traces already, which is the limit");
        Err(Status::new(Code::ResourceExhausted, why))
    }

    /// Starts the traces of a client, or refuses them. Sends the number of the client.
    pub(super) fn start_watch(
        &mut self,
        watch: NewWatch,
        started: oneshot::Sender<Result<u64, Status>>,
    ) {
        let id = self.add_client(watch);
        let has_started = id.as_ref().ok().copied();
        if let (Err(_), Some(id)) = (started.send(id), has_started) {
            self.end_watch(id);
        }
    }

    fn add_client(&mut self, watch: NewWatch) -> Result<u64, Status> {
        self.check_clients()?;
        if watch.load != self.server.switch().load_number() {
            return Err(other_program());
        }
        let clients = &self.traces.clients;
        let mut free = (1..=MAX_CLIENTS).filter(|of| !clients.contains_key(of));
        let observer = free.next().unwrap_or(MAX_CLIENTS);
        if let (Some(notes), None) = (&watch.notes, &self.traces.without_notes) {
            let before = self.server.switch_mut().exchange_program(notes);
            if before.is_none() {
                warn!("traces have neither conditions nor statements, since the JSON text of the program is not known");
            }
            self.traces.without_notes = before;
        }
        self.observe(observer, watch.filter);
        self.traces.load = watch.load;
        self.traces.started += 1;
        let id = self.traces.started;
        let client = Client {
            id,
            observer: Observer::new(watch.client, watch.count),
        };
        self.traces.clients.insert(observer, client);
        info!(client = id, "a client watches traces");
        Ok(id)
    }

    /// Ends the traces of a client that has disconnected.
    pub(super) fn end_watch(&mut self, id: u64) {
        let mut clients = self.traces.clients.iter();
        let found = clients.find(|(_, client)| client.id == id);
        if let Some((&observer, _)) = found {
            info!(client = id, "a client ends to watch traces");
            self.end_observer(observer, None);
        }
    }

    /// Ends the traces of clients if another program was loaded. Those of the command line go on with it.
    pub(super) fn check_traced_program(&mut self) {
        let load = self.server.switch().load_number();
        if load == self.traces.load {
            return;
        }
        self.traces.load = load;
        self.traces.without_notes = None;
        if let Some(writer) = &mut self.traces.writer {
            writer.restart();
        }
        let clients: Vec<u8> = self.traces.clients.keys().copied().collect();
        for observer in clients {
            self.end_observer(observer, Some(other_program()));
        }
    }

    /// Ends all traces, since the switch is stopping.
    pub(super) fn finish_traces(&mut self) {
        if let Some(writer) = self.traces.writer.take() {
            writer.finish();
        }
        for (_, client) in std::mem::take(&mut self.traces.clients) {
            let status = Status::new(Code::Unavailable, "the switch is stopping");
            client.observer.finish().end(Some(status));
        }
    }
}

/// The status of traces whose program was replaced.
fn other_program() -> Status {
    let why = "the switch has loaded another program; start again to trace its packets";
    Status::new(Code::Aborted, why)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command;
    use crate::engine::PortDefaults;
    use crate::stream_queue::{stream_queue, StreamReceiver};
    use alfirk_bmv2::{QueueState, Switch, SwitchOptions};
    use alfirk_compiler::driver::{compile, CompileOptions};
    use alfirk_p4rt::{Event, Programs, Server};
    use alfirk_p4runtime::alfirk::trace::v1::{trace_message::Trace as Part, Format, TraceMessage};
    use tokio_stream::StreamExt;

    /// JSON of a program without a controller, which sends kind 1 and 2 to port 2.
    fn json() -> String {
        let source = concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/../debug/tests/programs/switch.p4"
        );
        let compiled = compile(&CompileOptions::new(source)).unwrap();
        compiled.json.to_text()
    }

    /// An engine without ports, and the cache of programs with notes.
    fn engine(json: &str) -> (Engine, Programs) {
        let mut switch = Switch::new(SwitchOptions::default());
        switch.load(Programs::default().load(json).unwrap());
        let (_, queue) = command::commands().unwrap();
        let defaults = PortDefaults {
            link: Default::default(),
            priority_queues: 1,
            queue_depth: 64,
            queue_rate: 0,
            seed: 0,
            ring: 0,
            send_socket: Default::default(),
            reserved: Vec::new(),
        };
        let mut engine = Engine::new(Server::new(switch), queue, defaults).unwrap();
        engine.set_program_json(Some(json.into()));
        (engine, Programs::with_notes())
    }

    /// Starts the traces of a client as the service does.
    fn watch(
        engine: &mut Engine,
        notes: &Programs,
        count: Option<u64>,
    ) -> Result<(u64, StreamReceiver<TraceMessage>), Status> {
        let program = engine.watched_program()?;
        let (queue, receiver) = stream_queue();
        let id = engine.add_client(NewWatch {
            notes: program.json.map(|json| notes.load(&json).unwrap()),
            load: program.load,
            filter: None,
            count,
            client: WatchSender::new(queue, Format::Text, false),
        })?;
        Ok((id, receiver))
    }

    fn receive(engine: &mut Engine, frame: [u8; 2]) {
        engine.server.frame_in(1, &frame, 0);
        engine.drain(0);
    }

    #[test]
    fn a_switch_runs_its_own_program_before_and_after_traces() {
        let json = json();
        let (mut engine, notes) = engine(&json);
        let before = engine.server.switch().program().unwrap().clone();
        let (first, _queue) = watch(&mut engine, &notes, None).unwrap();
        let (_, _other) = watch(&mut engine, &notes, Some(1)).unwrap();
        let is_running = |engine: &Engine, program| {
            let runs = engine.server.switch().program();
            runs.is_some_and(|runs| Arc::ptr_eq(runs, program))
        };
        assert!(!is_running(&engine, &before));
        assert!(Arc::ptr_eq(engine.program().unwrap(), &before));
        assert!(engine.server.switch().is_recording());
        receive(&mut engine, [1, 1]);
        assert_eq!(engine.traces.clients.len(), 1);
        assert!(!is_running(&engine, &before));
        engine.end_watch(first);
        // A later message about a client that has ended is ignored.
        engine.end_watch(first);
        assert!(is_running(&engine, &before));
        assert!(!engine.server.switch().is_recording());
        assert!(!engine.is_traced());
    }

    #[test]
    fn the_number_of_clients_is_limited_and_places_are_free_again() {
        let json = json();
        let (mut engine, notes) = engine(&json);
        let all = (0..MAX_CLIENTS).map(|_| watch(&mut engine, &notes, None).unwrap());
        let all: Vec<_> = all.collect();
        let refused = watch(&mut engine, &notes, None).map(drop).unwrap_err();
        assert_eq!(refused.canonical_code(), Code::ResourceExhausted);
        engine.end_watch(all[3].0);
        watch(&mut engine, &notes, None).unwrap();
    }

    #[tokio::test]
    async fn a_load_ends_clients_with_an_error() {
        let json = json();
        let (mut engine, notes) = engine(&json);
        let (_, mut queue) = watch(&mut engine, &notes, None).unwrap();
        receive(&mut engine, [1, 1]);
        let program = Programs::default().load(&json).unwrap();
        engine.server.switch_mut().load(program.clone());
        engine.check_traced_program();
        assert!(queue.next().await.unwrap().is_ok());
        let end = queue.next().await.unwrap().unwrap_err();
        assert_eq!(end.code(), tonic::Code::Aborted);
        assert!(queue.next().await.is_none());
        assert!(!engine.server.switch().is_recording());
        assert!(Arc::ptr_eq(engine.program().unwrap(), &program));
        // A client whose program was replaced while it prepared.
        let (queue, _receiver) = stream_queue();
        let late = engine.add_client(NewWatch {
            notes: None,
            load: 0,
            filter: None,
            count: None,
            client: WatchSender::new(queue, Format::Text, false),
        });
        assert_eq!(late.unwrap_err().canonical_code(), Code::Aborted);
    }

    #[tokio::test]
    async fn the_last_packet_of_a_count_is_followed_to_its_end() {
        let json = json();
        let (mut engine, notes) = engine(&json);
        let (_, mut queue) = watch(&mut engine, &notes, Some(1)).unwrap();
        engine.server.frame_in(1, &[1, 1], 0);
        let Some(Event::Enqueue(packet)) = engine.server.poll() else {
            panic!("the packet waits for its port");
        };
        engine.write_traces();
        receive(&mut engine, [1, 1]);
        assert!(engine.is_traced());
        engine.server.dequeue(packet, 0, QueueState::default());
        engine.drain(0);
        assert!(!engine.is_traced());
        let mut text = String::new();
        while let Some(message) = queue.next().await {
            if let Some(Part::Text(lines)) = message.unwrap().trace {
                text += &lines;
            }
        }
        assert!(text.ends_with("#1 out port 2, 2 bytes\n"), "{text}");
        assert!(!text.contains("#2"), "{text}");
    }

    #[test]
    fn a_packet_dropped_at_a_full_queue_ends_a_count() {
        let json = json();
        let (mut engine, notes) = engine(&json);
        let (_, _queue) = watch(&mut engine, &notes, Some(1)).unwrap();
        engine.server.frame_in(1, &[1, 1], 0);
        let Some(Event::Enqueue(packet)) = engine.server.poll() else {
            panic!("the packet waits for its port");
        };
        engine.write_traces();
        assert!(engine.is_traced());
        engine.server.drop_queued(&packet);
        engine.write_traces();
        assert!(!engine.is_traced());
    }
}
