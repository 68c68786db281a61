//! The switch: parser, pipelines and deparser in order, and the decisions at the end of ingress and egress.
//!
//! The decisions follow `simple_switch.md`, "Pseudocode for what happens at the end of ingress and egress
//! processing".

mod batch;
mod copies;
mod direct;
mod egress;
mod exchange;
mod frames;
mod pool;
mod port_modes;
mod receive;
mod recording;

use crate::choices::{undefined_words, Choice, Choices};
use crate::coverage::{Covered, History};
use crate::drop_reason::DropReason;
use crate::effects::{get, set, set_all, Digest, Effects, Packet, QueueState, Queued};
use crate::exec::expr::eval;
use crate::exec::ops::Pc;
use crate::exec::parse::parse;
use crate::exec::run::{run, Context};
use crate::exec::verdict::{Part, Verdict};
use crate::jit::{Compiled, V1model};
use crate::numbers::number_of_bytes;
use crate::pre::PreLimits;
use crate::program::LoadedProgram;
use crate::state::State;
use crate::steps::Step;
use crate::trace::stops::{Override, StopRecorder, Stops};
use crate::trace::TraceEvent;
use alfirk_packet_io::frame::SplitFrame;
use direct::DirectPorts;
pub use frames::RecordedFrame;
pub(crate) use pool::Pool;
pub use pool::SparePackets;
pub use port_modes::PortMode;
use port_modes::PortModes;
use recording::Recording;
use std::sync::Arc;

/// What executes programs. The effects are the same. Switches that record traces or the log always interpret.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "clap", derive(clap::ValueEnum))]
pub enum Engine {
    /// Machine code once it is compiled, the interpreter until then
    ///
    /// The owner of a program calls [`LoadedProgram::compile`] at any time, or never.
    #[default]
    Auto,
    /// Machine code from the first packet on
    ///
    /// The owner of a program calls [`LoadedProgram::compile`] before a switch runs it. Without that, the switch interprets.
    Compiled,
    /// The interpreter
    Interpreter,
}

impl Engine {
    /// Whether this build has a compiler.
    pub const HAS_COMPILER: bool = cfg!(feature = "jit");
}

/// Options that are constant for the lifetime of a switch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SwitchOptions {
    /// Device id of P4Runtime; not used by this crate.
    pub device_id: u64,
    /// Port of the controller; this crate treats it like any other port.
    pub cpu_port: Option<u32>,
    /// Port whose packets are dropped; 511 in BMv2.
    pub drop_port: u32,
    /// Number of queues per port. A packet whose `standard_metadata.priority` is not below it is dropped.
    pub priority_queues: u32,
    /// Limits of multicast groups and their nodes.
    pub pre_limits: PreLimits,
    /// Whether P4Runtime may replace the running program.
    pub may_swap: bool,
    /// Seed of the switch's random numbers.
    pub seed: u64,
    /// What executes programs.
    pub engine: Engine,
}

impl Default for SwitchOptions {
    fn default() -> SwitchOptions {
        SwitchOptions {
            device_id: 0,
            cpu_port: None,
            drop_port: 511,
            priority_queues: 1,
            pre_limits: PreLimits::default(),
            may_swap: true,
            seed: 0,
            engine: Engine::default(),
        }
    }
}

/// Values of v1model's `standard_metadata.instance_type`.
mod instance {
    pub const NORMAL: u64 = 0;
    pub const INGRESS_CLONE: u64 = 1;
    pub const EGRESS_CLONE: u64 = 2;
    pub const RECIRCULATED: u64 = 4;
    pub const REPLICATION: u64 = 5;
    pub const RESUBMITTED: u64 = 6;
}

/// Limit of resubmissions per packet. BMv2 has none, but processes other packets between them.
const MAX_RESUBMITS: u32 = 1000;

/// Maximum number of egress passes per frame in [`Switch::process`]. Recirculations and copies cause further passes.
const MAX_PASSES: u32 = 10_000;

/// Maximum length of a recirculated frame in bytes; longer than any received frame.
pub(crate) const MAX_RECIRCULATED: usize = 1 << 17;

/// A switch: a program with all of its state.
#[derive(Debug)]
pub struct Switch {
    options: SwitchOptions,
    pub(crate) loaded: Option<Loaded>,
    /// Number of changes after which queued packets are examined: loads and exchanges of programs, and starts of a recorder.
    generation: u64,
    /// The generation that the last load has started. Packets of older generations are dropped.
    loaded_at: u64,
    recording: Recording,
    pool: Pool,
    direct: DirectPorts,
    port_modes: PortModes,
    /// Coverage of previous programs.
    covered: History,
}

/// A loaded program, and the state that belongs to it.
#[derive(Debug)]
pub(crate) struct Loaded {
    pub program: Arc<LoadedProgram>,
    pub state: State,
}

/// The parts of a switch that are needed to process a packet. They are borrowed separately from each other.
pub(crate) struct Processor<'a> {
    pub program: &'a LoadedProgram,
    /// Machine code that executes the program; `None` for the interpreter.
    pub compiled: Option<&'a Compiled>,
    pub state: &'a mut State,
    pub pool: &'a mut Pool,
    drop_port: u32,
    pub cpu_port: Option<u32>,
    pub priority_queues: u32,
    pub port_modes: &'a PortModes,
    /// Number of recirculated frames in this call of the switch.
    pub recirculated: u32,
    generation: u64,
    /// Ports to which the current packet passes egress at once; `None` if it must be enqueued.
    direct: Option<&'a DirectPorts>,
}

impl Switch {
    /// Creates a switch without a program, which drops all packets.
    pub fn new(options: SwitchOptions) -> Switch {
        Switch {
            options,
            loaded: None,
            generation: 0,
            loaded_at: 0,
            recording: Recording::default(),
            pool: Pool::default(),
            direct: DirectPorts::default(),
            port_modes: PortModes::default(),
            covered: History::default(),
        }
    }

    /// Returns the options that [`Switch::new`] received.
    pub fn options(&self) -> &SwitchOptions {
        &self.options
    }

    /// Loads a program with empty tables and registers. Packets still queued for the old program are dropped at egress.
    pub fn load(&mut self, program: Arc<LoadedProgram>) {
        self.start_generation();
        let mut state = State::new(&program, self.options.seed);
        state.pre.limits = self.options.pre_limits;
        self.count_logged();
        self.keep_coverage();
        self.loaded = Some(Loaded { program, state });
        self.restart_recorder();
    }

    /// Moves the program and state of another switch into this one. Queued packets of the old program are dropped
    /// as after [`Switch::load`].
    pub fn adopt(&mut self, other: Switch) {
        self.start_generation();
        self.count_logged();
        self.keep_coverage();
        self.loaded = other.loaded;
        self.restart_recorder();
    }

    /// Starts the generation of packets of a program that is about to be loaded.
    fn start_generation(&mut self) {
        self.pool = Pool::default();
        self.generation += 1;
        self.loaded_at = self.generation;
    }

    /// Returns a number that identifies the last load of a program. It differs after another load of the same program.
    pub fn load_number(&self) -> u64 {
        self.loaded_at
    }

    /// Starts recording stops of a debugger, which sets these values at them. Tracing must be on ([`Switch::set_trace`]).
    pub fn record_stops(&mut self, overrides: Vec<Override>) {
        let state = self.loaded.as_mut().map(|loaded| &mut loaded.state);
        if let Some(recorder) = state.and_then(|state| state.recorder.as_mut()) {
            recorder.stops = Some(Box::new(StopRecorder::new(overrides)));
        }
    }

    /// Ends the recording of stops, and returns them.
    pub fn take_stops(&mut self) -> Stops {
        let state = self.loaded.as_mut().map(|loaded| &mut loaded.state);
        let stops = state
            .and_then(|state| state.recorder.as_mut())
            .and_then(|recorder| recorder.stops.take());
        stops.map(|mut stops| stops.take()).unwrap_or_default()
    }

    /// Starts taking what is left open by program, entries and packets from a script: the number of the alternative of
    /// each choice. Needs the interpreter, and tracing ([`Switch::set_trace`]).
    ///
    /// `fills_undefined`: whether values that P4 leaves undefined have all bits set instead of none.
    pub fn script_choices(&mut self, script: Vec<u64>, fills_undefined: bool) {
        if let Some(Loaded { program, state }) = &mut self.loaded {
            state.random.choices = Some(Box::new(Choices::new(script)));
            self.pool.undefined = match fills_undefined {
                true => undefined_words(program),
                false => Vec::new(),
            };
        }
    }

    /// Ends the script of choices, and returns the choices that were made.
    pub fn take_choices(&mut self) -> Vec<Choice> {
        self.pool.undefined.clear();
        let state = self.loaded.as_mut().map(|loaded| &mut loaded.state);
        let choices = state.and_then(|state| state.random.choices.take());
        choices.map_or_else(Vec::new, |choices| choices.into_made())
    }

    /// Returns a copy of the switch with its state. Packets that wait in queues cannot enter the copy.
    pub fn fork(&self) -> Switch {
        Switch {
            options: self.options.clone(),
            loaded: self.loaded.as_ref().map(|loaded| Loaded {
                program: loaded.program.clone(),
                state: loaded.state.clone(),
            }),
            generation: self.generation,
            loaded_at: self.loaded_at,
            recording: self.recording.clone(),
            pool: self.pool.fork(),
            direct: self.direct.clone(),
            port_modes: self.port_modes.clone(),
            covered: self.covered.copy(),
        }
    }

    /// Adds the coverage of the current program to that of previous ones.
    fn keep_coverage(&mut self) {
        if let Some(Loaded { program, state }) = &self.loaded {
            self.covered.add(program, &state.coverage);
        }
    }

    /// Returns how often packets have executed each place of the programs that were loaded for coverage
    /// ([`LoadOptions::coverage`](crate::LoadOptions::coverage)), since the switch was created.
    pub fn coverage(&self) -> Vec<Covered> {
        let mut all = self.covered.copy();
        if let Some(Loaded { program, state }) = &self.loaded {
            all.add(program, &state.coverage);
        }
        all.covered()
    }

    /// Returns the loaded program; `None` if there is none.
    pub fn program(&self) -> Option<&Arc<LoadedProgram>> {
        self.loaded.as_ref().map(|loaded| &loaded.program)
    }

    /// Returns the number of register reads and writes by packets since the program was loaded. Registers wider than 64
    /// bits are not counted.
    pub fn register_accesses(&self) -> u64 {
        let state = self.loaded.as_ref().map(|loaded| &loaded.state);
        state.map_or(0, |state| state.register_accesses)
    }

    /// Exchanges the memory of packets that are not in use with `spare`. A caller with several switches lends them the same
    /// memory in turn, so that it stays in the processor's caches: it exchanges before and after it calls a switch.
    ///
    /// No effect if `spare` has memory for another program, or if the switch records packets.
    pub fn exchange_packets(&mut self, spare: &mut SparePackets) {
        if let Some(Loaded { program, .. }) = &self.loaded {
            self.pool.exchange(program, spare);
        }
    }

    fn processor(&mut self) -> Option<Processor<'_>> {
        let Loaded { program, state } = self.loaded.as_mut()?;
        let is_compiled = self.options.engine != Engine::Interpreter && state.recorder.is_none();
        Some(Processor {
            program,
            compiled: if is_compiled {
                program.compiled_for(&mut state.interpreted)
            } else {
                None
            },
            state,
            pool: &mut self.pool,
            drop_port: self.options.drop_port,
            cpu_port: self.options.cpu_port,
            priority_queues: self.options.priority_queues,
            port_modes: &self.port_modes,
            recirculated: 0,
            generation: self.generation,
            direct: Some(&self.direct),
        })
    }

    /// Returns the next random number from `low..=high` of the stream that the program's `random` uses; `low`
    /// without a program.
    pub fn random(&mut self, low: u64, high: u64) -> u64 {
        let Some(processor) = self.processor() else {
            return low;
        };
        processor.state.random.between(low, high)
    }

    /// Processes a received frame in parser and ingress, up to the queues; for [direct ports](Switch::set_queued_ports)
    /// also in egress. `now` is in nanoseconds since the switch started.
    pub fn ingress(&mut self, port: u32, frame: &[u8], now: u64, fx: &mut Effects) {
        let Some(mut m) = self.processor() else {
            fx.dropped.push(DropReason::NoProgram);
            return;
        };
        if let Some(tofino) = &m.program.tofino {
            m.tofino_in(tofino, port, frame, now, fx);
            return m.move_records(fx);
        }
        let mut packet = m.pool.uncleared(m.program);
        m.pool.fill(&mut packet, frame);
        m.received(port, packet, now, fx);
    }

    /// Processes a received frame in parser and ingress, as [`Switch::ingress`] does, but takes over the frame's buffer
    /// instead of copying it. A pooled buffer that this frees is added to `fx.spare`. A tail that the program does not
    /// parse is shared with the sent frames.
    pub fn ingress_owned(
        &mut self,
        port: u32,
        frame: impl Into<SplitFrame>,
        now: u64,
        fx: &mut Effects,
    ) {
        let Some(mut m) = self.processor() else {
            fx.dropped.push(DropReason::NoProgram);
            return;
        };
        let frame = frame.into();
        if let Some(tofino) = &m.program.tofino {
            m.tofino_in(tofino, port, &frame.into_bytes(), now, fx);
            return m.move_records(fx);
        }
        let mut packet = m.pool.uncleared(m.program);
        m.pool.adopt(&mut packet, frame, &mut fx.spare);
        m.received(port, packet, now, fx);
    }

    /// Processes a dequeued packet in egress and deparser. Clones and recirculated packets are enqueued again.
    pub fn egress(&mut self, packet: Queued, now: u64, queue: QueueState, fx: &mut Effects) {
        let packet = match packet.generation == self.generation {
            true => Some(packet),
            false => self.renewed(packet),
        };
        match (packet, self.processor()) {
            (Some(packet), Some(mut m)) => {
                m.direct = None;
                let program = m.program;
                match &program.tofino {
                    Some(tofino) => m.tofino_egress(tofino, packet, now, queue, fx),
                    None => m.egress(packet, now, queue, fx),
                }
                m.move_records(fx);
            }
            _ => fx.dropped.push(DropReason::NoProgram),
        }
    }

    /// Processes a frame in ingress and egress with empty queues, and returns port and bytes of the sent frames, in
    /// order.
    pub fn process(&mut self, port: u32, frame: &[u8], now: u64) -> Vec<(u32, Vec<u8>)> {
        let mut fx = Effects::default();
        self.process_into(port, frame, now, &mut fx);
        fx.output
            .into_iter()
            .map(|output| (output.port, output.frame.into_bytes()))
            .collect()
    }

    /// Processes a frame in ingress and egress with empty queues, as [`Switch::process`] does, but adds all effects to
    /// `fx`.
    pub fn process_into(&mut self, port: u32, frame: &[u8], now: u64, fx: &mut Effects) {
        self.ingress(port, frame, now, fx);
        let mut passes = 0;
        while !fx.enqueued.is_empty() {
            for packet in std::mem::take(&mut fx.enqueued) {
                passes += 1;
                if passes > MAX_PASSES {
                    fx.dropped.push(DropReason::EndlessLoop);
                    continue;
                }
                let queue = QueueState {
                    enq_timestamp: now,
                    enq_qdepth: 0,
                    deq_qdepth: 0,
                };
                self.egress(packet, now, queue, fx);
            }
        }
    }
}

impl<'a> Processor<'a> {
    /// Returns the program, and its machine code if it is used.
    #[inline]
    pub fn code(&self) -> (&'a LoadedProgram, Option<&'a Compiled>) {
        (self.program, self.compiled)
    }

    /// Processes a received packet of v1model, whose words are not cleared.
    #[inline]
    fn received(&mut self, port: u32, mut packet: Box<Packet>, now: u64, fx: &mut Effects) {
        let program = self.program;
        let length = packet.frame().len() as u64;
        let metadata = [port.into(), length, instance::NORMAL, now / 1000];
        if let Some(code) = self.v1model() {
            return self.received_compiled(code, packet, metadata, now, fx);
        }
        self.pool.clear(self.code(), &mut packet.words);
        let fields = program.intrinsic.ingress_fields();
        set_all(&mut packet.words, &fields, &metadata);
        if let Some(recorder) = &mut self.state.recorder {
            packet.ctx.number = recorder.begin(packet.frame().bytes());
            packet.ctx.copy = 0;
            recorder.select_packet(packet.ctx.number, 0, &packet.words);
            recorder.record(TraceEvent::In {
                port,
                bytes: length as usize,
            });
        }
        self.ingress(packet, now, fx);
        self.move_records(fx);
    }

    /// Records a trace event of the current packet, if the switch traces.
    #[inline]
    pub fn record(&mut self, event: impl FnOnce() -> TraceEvent) {
        if let Some(recorder) = &mut self.state.recorder {
            recorder.record(event());
        }
    }

    /// Sets the block that processes the packet, and records its start, if the switch records.
    #[inline]
    pub fn enter_block(&mut self, name: &'static str) {
        if let Some(recorder) = &mut self.state.recorder {
            recorder.enter_block(name);
        }
    }

    /// Records the end of a block, if the switch records.
    #[inline]
    pub fn leave_block(&mut self, name: &'static str) {
        if let Some(recorder) = &mut self.state.recorder {
            recorder.leave_block(name);
        }
    }

    /// Records a log step of the current packet, if the switch logs.
    #[inline]
    pub fn log(&mut self, step: impl FnOnce() -> Step) {
        if let Some(recorder) = &mut self.state.recorder {
            recorder.log(step);
        }
    }

    /// Sets the numbers by which traces and the log identify a copy: `of`, the number of the packet, and the next
    /// number of a copy of it.
    pub fn number_copy(&mut self, copy: &mut Packet, of: u64) {
        copy.ctx.number = of;
        copy.ctx.copy = self.copy_number(copy, of);
    }

    /// Returns the number of the next copy of the packet with number `of`. If the switch records nothing, returns the
    /// copy number that `packet` has already.
    fn copy_number(&mut self, packet: &Packet, of: u64) -> u32 {
        match &mut self.state.recorder {
            Some(recorder) => recorder.copy_number(of),
            None => packet.ctx.copy,
        }
    }

    /// Records the fields that the packet has changed, if the switch traces.
    #[inline]
    fn record_changes(&mut self, packet: &Packet) {
        if let Some(recorder) = &mut self.state.recorder {
            recorder.changes(self.program, &packet.words);
        }
    }

    #[inline]
    /// Moves recorded traces and log lines to the effects.
    fn move_records(&mut self, fx: &mut Effects) {
        if let Some(recorder) = &mut self.state.recorder {
            fx.trace.append(&mut recorder.lines);
            fx.log.append(&mut recorder.log);
        }
    }

    /// Runs parser and ingress, and does what they decide.
    fn ingress(&mut self, mut packet: Box<Packet>, now: u64, fx: &mut Effects) {
        let verdict = self.run_ingress(&mut packet, now);
        self.decide(packet, verdict, now, fx);
    }

    /// Does what ingress has decided about a packet. `None`: it may have requested more than a verdict says. Runs ingress again
    /// for a resubmitted packet.
    fn decide(
        &mut self,
        mut packet: Box<Packet>,
        mut verdict: Option<Verdict>,
        now: u64,
        fx: &mut Effects,
    ) {
        for _ in 0..MAX_RESUBMITS {
            if verdict.is_none() {
                match self.requests(packet, fx) {
                    Some(next) => (packet, verdict) = next,
                    None => return,
                }
            }
            let words = &mut packet.words;
            let instance_type = self.program.intrinsic.instance_type;
            match verdict {
                Some(Verdict::Unicast(port)) => {
                    set(words, instance_type, instance::NORMAL);
                    return self.forward(port, packet, fx);
                }
                Some(Verdict::Multicast(group)) => {
                    set(words, instance_type, instance::REPLICATION);
                    self.log(|| Step::Multicast);
                    return self.multicast(packet, group, fx);
                }
                Some(Verdict::Dropped) => {
                    self.log(|| Step::Dropped("ingress"));
                    return self.drop(packet, DropReason::Ingress, fx);
                }
                None => verdict = self.run_ingress(&mut packet, now),
            }
        }
        self.drop(packet, DropReason::EndlessLoop, fx);
    }

    /// Runs parser and ingress. Returns what is to happen with the packet; `None` if it may have requested more than that, so
    /// that [`Processor::requests`] has to find out.
    fn run_ingress(&mut self, packet: &mut Packet, now: u64) -> Option<Verdict> {
        if let Some(code) = self.v1model() {
            return self.run_compiled_ingress(code, packet, &Part::Whole, now);
        }
        let intrinsic = &self.program.intrinsic;
        if let Some(recorder) = &mut self.state.recorder {
            recorder.select_packet(packet.ctx.number, packet.ctx.copy, &packet.words);
            let port = get(&packet.words, intrinsic.ingress_port);
            recorder.log(|| Step::Received { port });
        }
        self.parse(packet, now);
        if packet.ctx.fault.is_none() {
            self.run_pipeline(packet, "ingress", self.program.ingress);
        }
        packet.ctx.exit = false;
        None
    }

    /// Runs the machine code of a part of parser and ingress. Returns what ingress has decided, as
    /// [`Processor::run_ingress`] does.
    fn run_compiled_ingress(
        &mut self,
        code: V1model,
        packet: &mut Packet,
        part: &Part,
        now: u64,
    ) -> Option<Verdict> {
        let port = get(&packet.words, self.program.intrinsic.ingress_port);
        packet.ctx.start(packet.frame().len(), port, now);
        let mut run = code.start(self.machine_parts(), packet);
        let verdict = run.ingress(part);
        packet.payload = run.payload();
        verdict
    }

    /// Returns the machine code of a program for v1model; `None` if there is none.
    #[inline]
    fn v1model(&self) -> Option<V1model> {
        self.compiled?.v1model()
    }

    /// Returns what machine code works on besides the packet.
    #[inline(always)]
    fn machine_parts(&mut self) -> (&LoadedProgram, &mut State, u32) {
        (self.program, self.state, self.drop_port)
    }

    /// Does what a packet has requested in ingress. Returns the packet and what is to happen with it; a packet and `None` if
    /// the packet was resubmitted as this one; `None` if the packet was dropped.
    fn requests(
        &mut self,
        mut packet: Box<Packet>,
        fx: &mut Effects,
    ) -> Option<(Box<Packet>, Option<Verdict>)> {
        let intrinsic = &self.program.intrinsic;
        move_logs(&mut packet.ctx, fx);
        if let Some(reason) = packet.ctx.fault {
            self.drop(packet, reason, fx);
            return None;
        }
        if let Some(clone) = packet.ctx.clone.take() {
            self.log(|| Step::Cloning("ingress"));
            self.clone_ingress(&packet, clone, fx);
        }
        if packet.ctx.digest != 0 {
            let list = packet.ctx.digest;
            self.log(|| Step::Learn { list });
            self.digest(&packet.words, list, fx);
            packet.ctx.digest = 0;
        }
        if packet.ctx.resubmit != 0 {
            let frame = packet.frame.clone().unwrap_or_default();
            let length = frame.len() as u64;
            let mut fresh = self.pool.packet(self.code(), frame);
            self.keep(&packet.words, &mut fresh.words, packet.ctx.resubmit);
            let words = &mut fresh.words;
            set(words, intrinsic.instance_type, instance::RESUBMITTED);
            set(words, intrinsic.packet_length, length);
            self.log(|| Step::Resubmit);
            self.number_copy(&mut fresh, packet.ctx.number);
            self.record(|| TraceEvent::Resubmitted {
                as_copy: fresh.ctx.copy,
            });
            self.pool.recycle(packet);
            return Some((fresh, None));
        }
        let group = get(&packet.words, intrinsic.mcast_grp);
        let egress_spec = get(&packet.words, intrinsic.egress_spec);
        let verdict = match group {
            0 => {
                self.log(|| Step::EgressPort(egress_spec));
                match egress_spec == u64::from(self.drop_port) {
                    true => Verdict::Dropped,
                    false => Verdict::Unicast(egress_spec as u32),
                }
            }
            group => Verdict::Multicast(group as u32),
        };
        Some((packet, Some(verdict)))
    }

    /// Runs the parser on the packet's frame.
    fn parse(&mut self, packet: &mut Packet, now: u64) {
        if let Some(code) = self.v1model() {
            self.run_compiled_ingress(code, packet, &Part::Parser, now);
            return;
        }
        let port = get(&packet.words, self.program.intrinsic.ingress_port);
        packet.ctx.start(packet.frame().len(), port, now);
        if let Packet {
            words,
            frame: Some(frame),
            payload,
            ctx,
        } = packet
        {
            if let Some(recorder) = &mut self.state.recorder {
                recorder.select_packet(ctx.number, ctx.copy, words);
                recorder.enter_block("parser");
            }
            *payload = parse(self.program, self.state, words, frame, ctx);
            if let Some(recorder) = &mut self.state.recorder {
                recorder.parsed(self.program, words, frame.len() - *payload);
                recorder.leave_block("parser");
            }
        }
    }

    /// Runs the code of a pipeline on a packet, and records traces and log lines.
    pub fn run_pipeline(&mut self, packet: &mut Packet, name: &'static str, start: Pc) {
        self.enter_block(name);
        self.log(|| Step::PipelineStart(name));
        self.run(packet, start);
        self.record_changes(packet);
        if packet.ctx.exit {
            self.log(|| Step::Exit);
        }
        self.log(|| Step::PipelineEnd(name));
        self.leave_block(name);
    }

    /// Runs the code of a pipeline on a packet.
    fn run(&mut self, packet: &mut Packet, start: Pc) {
        let Packet {
            words,
            frame,
            payload,
            ctx,
        } = packet;
        let rest = Packet::rest(frame, *payload);
        let is_done = self.compiled.is_some_and(|compiled| {
            let (program, state) = (self.program, &mut *self.state);
            compiled.run(program, state, self.drop_port, words, rest, ctx, start)
        });
        if is_done {
            return;
        }
        run(
            self.program,
            self.state,
            self.drop_port,
            words,
            rest,
            ctx,
            start,
        );
    }

    /// Drops a packet: records the reason, and returns the packet's buffers to the pool.
    pub fn drop(&mut self, packet: Box<Packet>, reason: DropReason, fx: &mut Effects) {
        self.record_drop(reason, fx);
        self.pool.recycle(packet);
    }

    /// Adds the reason for a drop to the effects and the trace.
    fn record_drop(&mut self, reason: DropReason, fx: &mut Effects) {
        self.record(|| TraceEvent::Dropped {
            reason: reason.name(),
        });
        fx.dropped.push(reason);
    }

    /// Copies the fields of a field list from the words `from` to the words `to`.
    fn keep(&self, from: &[u64], to: &mut [u64], list: u32) {
        for item in self.program.field_lists.get(&list).into_iter().flatten() {
            let range = usize::from(item.slot)..usize::from(item.slot) + usize::from(item.words);
            to[range.clone()].copy_from_slice(&from[range]);
        }
    }

    /// Creates the digest message of a learn list from a packet's fields.
    pub fn digest(&mut self, words: &[u64], list: u32, fx: &mut Effects) {
        let Some(learn) = self.program.learn_lists.get(&list) else {
            return;
        };
        let field = |(node, bits): (&crate::exec::node::Node, &u32)| {
            let value = eval(node, self.program, self.state, words).truncate(*bits);
            let bytes = bits.div_ceil(8).max(1) as usize;
            (0..bytes)
                .rev()
                .map(|i| (value.word(i / 8) >> (8 * (i % 8))) as u8)
                .collect()
        };
        let fields: Vec<Vec<u8>> = learn.items.iter().zip(&learn.bits).map(field).collect();
        self.record(|| TraceEvent::Digest {
            digest: learn.name.clone(),
            fields: fields.iter().map(|field| number_of_bytes(field)).collect(),
        });
        fx.digests.push(Digest {
            list,
            name: learn.name.clone(),
            fields,
        });
    }
}

/// Moves the texts that a packet has logged to the effects.
#[inline]
fn move_logs(ctx: &mut Context, fx: &mut Effects) {
    if !ctx.logs.is_empty() {
        fx.logs.append(&mut ctx.logs);
    }
}
