//! Recording of single frames for a debugger, in copies of a switch that executes them as always.

use super::{Loaded, Switch};
use crate::coverage::Counters;
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
        let Loaded { program, state } = copy.loaded.as_mut()?;
        *program = notes.clone();
        for (table, of_table) in notes.tables.iter().zip(&mut state.tables) {
            of_table.relink(table, notes);
        }
        for profile in &mut state.profiles {
            for member in profile.members.values_mut() {
                member.action.relink(notes);
            }
        }
        state.coverage = Counters::new(notes.sites.counters());
        (copy.filter, copy.logs) = (None, false);
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

impl LoadedProgram {
    /// Whether state and entries of a switch with this program are valid for another one.
    fn has_objects_of(&self, other: &LoadedProgram) -> bool {
        let tables = |program: &LoadedProgram| -> Vec<_> {
            let tables = program.tables.iter();
            let of = |table: &crate::program::Table| (table.name.clone(), table.keys.len());
            tables.map(of).collect()
        };
        let actions = |program: &LoadedProgram| -> Vec<_> {
            let actions = program.actions.iter();
            actions.map(|a| (a.name.clone(), a.words)).collect()
        };
        let arrays = |program: &LoadedProgram| -> Vec<_> {
            let registers = program.registers.iter().map(|r| (r.name.clone(), r.size));
            let counters = program.counters.iter().map(|c| (c.name.clone(), c.size));
            let meters = program.meters.iter().map(|m| (m.name.clone(), m.size));
            registers.chain(counters).chain(meters).collect()
        };
        tables(self) == tables(other)
            && actions(self) == actions(other)
            && arrays(self) == arrays(other)
            && self.vsets.len() == other.vsets.len()
            && self.profiles.len() == other.profiles.len()
            && self.calculations.len() == other.calculations.len()
    }
}
