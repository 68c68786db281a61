//! Reading of switch counters.

use std::collections::BTreeMap;

use super::error::SwitchError;
use super::event::{ApiReply, Tag};
use super::network::Network;
use super::session::{Task, TaskId};
use super::status::PuntStats;
use super::switches::Owner;
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

impl Counting {
    /// Reads the counters of every switch that is ready.
    pub(super) fn count(&mut self, now: u64, network: &mut Network, punts: &PuntStats, tag: Tag) {
        self.sums.insert(tag, Counts::default());
        for switch in network.ready_switches() {
            let id = network.submit(now, switch, Owner::Detached, Task::Counters);
            self.reads.insert(id, tag);
        }
        self.reply(network, punts, tag);
    }

    /// Adds the counters read from a switch, and replies after the last read. Failed reads are left out.
    pub(super) fn counted(
        &mut self,
        network: &mut Network,
        punts: &PuntStats,
        task: TaskId,
        result: Result<Counts, SwitchError>,
    ) {
        let Some(tag) = self.reads.remove(&task) else {
            return;
        };
        match (self.sums.get_mut(&tag), result) {
            (Some(sum), Ok(counts)) => *sum += counts,
            (_, Err(error)) => {
                tracing::warn!("the sums of counters lack those of a switch: {error}")
            }
            (None, Ok(_)) => {}
        }
        self.reply(network, punts, tag);
    }

    fn reply(&mut self, network: &mut Network, punts: &PuntStats, tag: Tag) {
        if self.reads.values().all(|of| *of != tag) {
            if let Some(mut counts) = self.sums.remove(&tag) {
                // Packets of the controller are not counted by switches.
                counts.work[usize::from(MinPsn::Punt.number())].forwarded += punts.forwarded;
                network.reply(ApiReply::Counted { tag, counts });
            }
        }
    }
}
