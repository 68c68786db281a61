//! Exchange of the running program for the same one that was loaded with other options.
//!
//! Both have the same objects and the same packet state, but other code, constants and temporaries. State that refers to code
//! is linked anew; packets in queues are converted when they leave.

use super::{Loaded, Switch};
use crate::coverage::Counters;
use crate::effects::{set, Packet, Queued, QueuedPacket};
use crate::program::{Layout, LoadedProgram};
use std::sync::Arc;

impl Switch {
    /// Replaces the running program by the same one, loaded with other [`LoadOptions`](crate::LoadOptions), and keeps all
    /// state: entries, arrays, packets in queues, coverage, traces. Returns the program that ran before. Returns `None`,
    /// without effect, if the switch has no program, or one with other objects or another packet state.
    pub fn exchange_program(&mut self, program: &Arc<LoadedProgram>) -> Option<Arc<LoadedProgram>> {
        let running = self.program()?.clone();
        if Arc::ptr_eq(&running, program) {
            return Some(running);
        }
        let is_same =
            running.has_objects_of(program) && running.layout.has_state_of(&program.layout);
        if !is_same {
            return None;
        }
        self.keep_coverage();
        self.loaded.as_mut()?.exchange(program);
        // Pooled packets have the constants of the old program.
        self.pool = self.pool.fork();
        self.generation += 1;
        Some(running)
    }

    /// Returns a packet that was queued in an older generation, converted for the running program and recorder. Returns `None`
    /// if the packet belongs to a program that was replaced by a load.
    #[cold]
    pub(super) fn renewed(&mut self, queued: Queued) -> Option<Queued> {
        if queued.generation < self.loaded_at {
            return None;
        }
        let Loaded { program, state } = self.loaded.as_ref()?;
        let old = match &queued.packet {
            QueuedPacket::Own(packet) => packet,
            QueuedPacket::Copy { of, .. } => &of.0,
        };
        let end = program.layout.state_end;
        let mut words = program.layout.initial.clone();
        words[..end].copy_from_slice(&old.words[..end]);
        let mut packet = Box::new(Packet {
            words: words.into_boxed_slice(),
            frame: old.frame.clone(),
            payload: old.payload,
            ctx: old.ctx.clone(),
        });
        if let QueuedPacket::Copy { rid, copy, .. } = queued.packet {
            packet.ctx.copy = copy;
            let field = program.intrinsic.egress_rid;
            set(&mut packet.words, field, u64::from(rid));
        }
        let recorder = state.recorder.as_ref();
        if recorder.is_some_and(|recorder| queued.generation < recorder.since) {
            packet.ctx.number = 0;
        }
        Some(Queued {
            generation: self.generation,
            packet: QueuedPacket::Own(packet),
            ..queued
        })
    }
}

impl Loaded {
    /// Replaces the program by one with the same objects, and links the state to its code. Coverage starts from zero.
    pub(super) fn exchange(&mut self, by: &Arc<LoadedProgram>) {
        let Loaded { program, state } = self;
        *program = by.clone();
        for (table, of_table) in by.tables.iter().zip(&mut state.tables) {
            of_table.relink(table, by);
        }
        for profile in &mut state.profiles {
            for member in profile.members.values_mut() {
                member.action.relink(by);
            }
        }
        state.coverage = Counters::new(by.sites.counters());
    }
}

impl LoadedProgram {
    /// Whether state and entries of a switch with this program are valid for another one.
    pub(super) fn has_objects_of(&self, other: &LoadedProgram) -> bool {
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

impl Layout {
    /// Whether packets have their state, which is all that stays between ingress and egress, at the same words.
    fn has_state_of(&self, other: &Layout) -> bool {
        let headers = |layout: &Layout| -> Vec<_> {
            let headers = layout.headers.iter();
            let of = |h: &crate::program::Header| (h.name.clone(), h.valid, h.start, h.end);
            headers.map(of).collect()
        };
        self.state_end == other.state_end && headers(self) == headers(other)
    }
}
