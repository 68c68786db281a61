//! Members that die where the others find that out by themselves: among senders of datagrams with acknowledgements.
//!
//! Who misses an acknowledgement reports it to the manager of the members, which is the source; it asks the suspect for a sign of life, and takes
//! it out of the list ([`alfirk_roce::binomial_ack`]). So the job only kills, and waits for nobody who is dead once the source is done.

use super::{Reported, Run};
use crate::job::JobError;

impl Run<'_> {
    /// Whether the members go on by themselves when some die.
    pub(super) fn buries(&self) -> bool {
        self.layout.algorithm.needs_datagrams() && !self.layout.job.kills.is_empty()
    }

    /// Kills who is due to die.
    pub(super) fn bury(&mut self, reported: &mut Reported) -> Result<(), JobError> {
        let now = self.fabric.now();
        while let Some(victim) = self.incidents.take_due(now) {
            let killed = self.fabric.kill(victim);
            self.on_fabric(killed)?;
        }
        if reported.finished[0] && self.incidents.any() {
            self.incidents.agreed(now, now);
            for (rank, &host) in self.layout.job.members.iter().enumerate() {
                reported.lost[rank] |= self.incidents.has_killed(host);
            }
        }
        Ok(())
    }
}
