//! Reading of switch counters.

use std::collections::BTreeMap;

use super::error::SwitchError;
use super::event::Tag;
use super::session::{Task, TaskId};
use super::{ApiReply, Controller, Owner};
use crate::strategy::MinPsn;
use crate::tables::Counts;

/// Pending requests for counters.
#[derive(Debug, Default)]
pub(super) struct Counting {
    /// Client request that each pending read of a switch belongs to.
    reads: BTreeMap<TaskId, Tag>,
    /// Sums of the counters read so far, by request.
    sums: BTreeMap<Tag, Counts>,
}

impl Controller {
    /// Reads the counters of every switch that is ready.
    pub(super) fn count(&mut self, now: u64, tag: Tag) {
        let switches = self.topology.switch_indexes();
        let ready: Vec<_> = switches
            .filter(|switch| self.switches[switch.0].boot.is_ready())
            .collect();
        self.counting.sums.insert(tag, Counts::default());
        for switch in ready {
            let id = self.submit(now, switch, Owner::Detached, Task::Counters);
            self.counting.reads.insert(id, tag);
        }
        self.reply_to_count(tag);
    }

    /// Adds the counters read from a switch, and replies after the last read. Failed reads are left out.
    pub(super) fn counted(&mut self, task: TaskId, result: Result<Counts, SwitchError>) {
        let Some(tag) = self.counting.reads.remove(&task) else {
            return;
        };
        match (self.counting.sums.get_mut(&tag), result) {
            (Some(sum), Ok(counts)) => *sum += counts,
            (_, Err(error)) => {
                tracing::warn!("the sums of counters lack those of a switch: {error}")
            }
            (None, Ok(_)) => {}
        }
        self.reply_to_count(tag);
    }

    fn reply_to_count(&mut self, tag: Tag) {
        if self.counting.reads.values().all(|of| *of != tag) {
            if let Some(mut counts) = self.counting.sums.remove(&tag) {
                // Packets of the controller are not counted by switches.
                counts.work[usize::from(MinPsn::Punt.number())].forwarded +=
                    self.punts.stats.forwarded;
                self.queue_reply(ApiReply::Counted { tag, counts });
            }
        }
    }
}
