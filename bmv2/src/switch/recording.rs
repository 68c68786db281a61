//! Settings of a switch's recorder: the observers of traces, and the log.

use std::collections::BTreeMap;

use super::Switch;
use crate::effects::{Effects, Queued, QueuedPacket};
use crate::trace::{FrameFilter, Recorder, TraceEvent};
use crate::DropReason;

/// What a switch records of packets.
#[derive(Clone, Debug, Default)]
pub(super) struct Recording {
    /// The observers of traces, each with its condition on the frames that it traces.
    pub observers: BTreeMap<u8, Option<FrameFilter>>,
    /// Whether traces have the start and the end of each block.
    pub blocks: bool,
    /// Whether the packet log is recorded.
    pub logs: bool,
    /// Number of frames logged under previous programs.
    pub logged: u64,
}

impl Recording {
    fn is_on(&self) -> bool {
        self.logs || !self.observers.is_empty()
    }

    /// Changes the settings of a recorder. The traces that it has begun go on.
    fn apply(&self, recorder: &mut Recorder) {
        recorder.set_observers(&self.observers);
        recorder.blocks = self.blocks;
        recorder.logs = self.logs;
    }
}

impl Switch {
    /// Turns tracing of all frames on or off; see [`Effects::trace`]. The traces belong to observer 0.
    pub fn set_trace(&mut self, on: bool) {
        match on {
            true => self.observe(0, None),
            false => self.end_observation(0),
        }
    }

    /// Starts the traces of an observer, or changes its condition: received frames that meet `filter` are traced for it, with
    /// their copies; all frames without a filter. Packets in queues stay as they were chosen, and so do the traces of others.
    ///
    /// `observer`: a number below [`Observers::MAX`](crate::trace::Observers::MAX), by which the lines of its packets are found ([`TraceLine::observers`]).
    ///
    /// [`TraceLine::observers`]: crate::trace::TraceLine::observers
    pub fn observe(&mut self, observer: u8, filter: Option<FrameFilter>) {
        self.recording.observers.insert(observer, filter);
        self.update_recorder();
    }

    /// Ends the traces of an observer. Those of others go on.
    pub fn end_observation(&mut self, observer: u8) {
        self.recording.observers.remove(&observer);
        self.update_recorder();
    }

    /// Whether tracing is on.
    pub fn is_tracing(&self) -> bool {
        !self.recording.observers.is_empty()
    }

    /// Whether steps of packets are recorded, for traces or the log. Such a switch interprets its program.
    pub fn is_recording(&self) -> bool {
        let loaded = self.loaded.as_ref();
        loaded.is_some_and(|loaded| loaded.state.recorder.is_some())
    }

    /// Sets whether traces have the start and the end of each block ([`TraceEvent::Block`]). They have not at first.
    pub fn set_block_trace(&mut self, on: bool) {
        self.recording.blocks = on;
        self.update_recorder();
    }

    /// Turns the log on or off; see [`Effects::log`].
    pub fn set_log(&mut self, on: bool) {
        self.recording.logs = on;
        self.update_recorder();
    }

    /// Records that a packet is dropped because its queue is full, if the switch traces. The caller has the queues, and counts
    /// the packet.
    pub fn drop_queued(&mut self, packet: &Queued, fx: &mut Effects) {
        let state = self.loaded.as_mut().map(|loaded| &mut loaded.state);
        let recorder = state.and_then(|state| state.recorder.as_mut());
        let Some(recorder) = recorder.filter(|recorder| packet.generation >= recorder.since) else {
            return;
        };
        let (packet, copy) = match &packet.packet {
            QueuedPacket::Own(packet) => (packet, packet.ctx.copy),
            QueuedPacket::Copy { of, copy, .. } => (&of.0, *copy),
        };
        recorder.select_packet(packet.ctx.number, copy, &[]);
        let reason = DropReason::QueueFull.name();
        recorder.record(TraceEvent::Dropped { reason });
        fx.trace.append(&mut recorder.lines);
    }

    /// Adds the number of frames of the current program to the count of logged frames. The next program continues this
    /// count.
    pub(super) fn count_logged(&mut self) {
        let state = self.loaded.as_ref().map(|loaded| &loaded.state);
        let recorder = state.and_then(|state| state.recorder.as_ref());
        self.recording.logged += recorder.map_or(0, |recorder| recorder.packets);
    }

    /// Changes the recorder of traces and log lines to the current settings: creates it, removes it, or keeps it with its
    /// packets.
    fn update_recorder(&mut self) {
        let recorder = self.loaded.as_mut().map(|of| &mut of.state.recorder);
        match recorder {
            Some(Some(recorder)) if self.recording.is_on() => self.recording.apply(recorder),
            _ => self.restart_recorder(),
        }
    }

    /// Creates a new recorder of traces and log lines, or removes it.
    pub(super) fn restart_recorder(&mut self) {
        let is_on = self.recording.is_on();
        self.pool.is_recorded = is_on;
        let Some(loaded) = &mut self.loaded else {
            return;
        };
        loaded.state.recorder = None;
        if is_on {
            // Packets that are in queues have no number of this recorder.
            self.generation += 1;
            let mut recorder = Recorder::new(self.recording.logged, self.generation);
            self.recording.apply(&mut recorder);
            loaded.state.recorder = Some(Box::new(recorder));
        }
    }
}
