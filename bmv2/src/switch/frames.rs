//! Recording of single frames for a debugger, in copies of a switch that executes them as always.

use super::recording::Recording;
use super::Switch;
use crate::effects::Effects;
use crate::program::LoadedProgram;
use crate::trace::stops::{Override, Stops};
use crate::trace::TraceLine;
use std::sync::Arc;

/// The effects of a frame that a copy of a switch has processed: its stops, its trace, and ports and bytes of the sent frames.
pub type RecordedFrame = (Stops, Vec<TraceLine>, Vec<(u32, Vec<u8>)>);

impl Switch {
    /// Returns a copy of the switch with its state, whose traces and stops can be recorded. `notes`: the running program, loaded
    /// with notes ([`LoadedProgram::with_notes`]). Returns `None` if the switch has no program, or one with other objects.
    ///
    /// A frame has the same effects in the copy as in the switch.
    pub fn recording_copy(&self, notes: &Arc<LoadedProgram>) -> Option<Switch> {
        let running = &self.loaded.as_ref()?.program;
        if !running.has_objects_of(notes) {
            return None;
        }
        let mut copy = self.fork();
        copy.loaded.as_mut()?.exchange(notes);
        copy.recording = Recording::default();
        // Lines and packets of the switch's own recorder are not those of the copy.
        copy.restart_recorder();
        copy.set_trace(true);
        Some(copy)
    }

    /// Processes a frame in a copy of this switch, which records, with values that a debugger sets at stops. Queues are empty.
    pub fn process_again(
        &self,
        port: u32,
        frame: &[u8],
        at: u64,
        set: Vec<Override>,
    ) -> RecordedFrame {
        let mut copy = self.fork();
        copy.record_stops(set);
        let mut fx = Effects::default();
        copy.process_into(port, frame, at, &mut fx);
        let outputs = fx.output.into_iter();
        let sent = outputs.map(|output| (output.port, output.frame.into_bytes()));
        (copy.take_stops(), fx.trace, sent.collect())
    }
}
