//! Reading what switches count.

use std::collections::BTreeMap;

use super::error::SwitchError;
use super::event::Tag;
use super::session::{Task, TaskId};
use super::{ApiReply, Controller, Owner};
use crate::strategy::MinPsn;
use crate::tables::Counts;

/// Requests under way.
#[derive(Debug, Default)]
pub(super) struct Counting {
    /// Which request each read serves.
    reads: BTreeMap<TaskId, Tag>,
    /// What has come together so far.
    sums: BTreeMap<Tag, Counts>,
}

impl Controller {
    /// Asks every switch that is ready; the others have nothing to report.
    pub(super) fn count(&mut self, now: u64, tag: Tag) {
        let switches = self.topology.switch_indexes();
        let ready: Vec<_> = switches
            .filter(|switch| self.switches[switch.0].boot.is_ready())
            .collect();
        self.counting.sums.insert(tag, Counts::default());
        for switch in ready {
            let id = self.submit(now, switch, Owner::Nobody, Task::Counters);
            self.counting.reads.insert(id, tag);
        }
        self.answer_count(tag);
    }

    /// A switch has answered, or could not.
    pub(super) fn counted(&mut self, task: TaskId, result: Result<Counts, SwitchError>) {
        let Some(tag) = self.counting.reads.remove(&task) else {
            return;
        };
        match (self.counting.sums.get_mut(&tag), result) {
            (Some(sum), Ok(counts)) => *sum += counts,
            (_, Err(error)) => tracing::warn!("counters are left out: {error}"),
            (None, Ok(_)) => {}
        }
        self.answer_count(tag);
    }

    fn answer_count(&mut self, tag: Tag) {
        if self.counting.reads.values().all(|of| *of != tag) {
            if let Some(mut counts) = self.counting.sums.remove(&tag) {
                // Switches do not know what becomes of what they hand up.
                counts.work[usize::from(MinPsn::Punt.number())].forwarded +=
                    self.punts.stats.forwarded;
                self.queue_reply(ApiReply::Counted { tag, counts });
            }
        }
    }
}
