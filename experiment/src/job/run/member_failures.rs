//! Failures of members that the other members detect themselves: multicast of datagrams with acknowledgements.
//!
//! A member that misses an acknowledgement reports it to the membership manager, which is the source. The source probes the suspect and
//! removes it from the list ([`alfirk_roce::binomial_ack`]). The job only applies the failures, and does not wait for failed members once
//! the source is done.

use super::{MemberReports, Run};
use crate::job::JobFailure;

impl Run<'_> {
    /// Kills the members whose planned failure is due. Once the source has finished, marks all killed members as lost, so that
    /// the job does not wait for them.
    pub(super) fn apply_due_failures(
        &mut self,
        reported: &mut MemberReports,
    ) -> Result<(), JobFailure> {
        let now = self.fabric.now();
        while let Some(victim) = self.incidents.take_due(now) {
            self.fabric.kill(victim)?;
        }
        if reported.finished[0] && self.incidents.has_any() {
            self.incidents.record_agreement(now, now);
            for (rank, &host) in self.layout.job.members.iter().enumerate() {
                reported.lost[rank] |= self.incidents.has_killed(host);
            }
        }
        Ok(())
    }
}
