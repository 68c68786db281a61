//! Hostile members: makes them send, and checks that no acknowledgement which they forge reaches the source.

use alfirk_ctrl::constants::VIRTUAL_MAC;
use alfirk_roce::hostile::Target;

use super::reports::MemberReports;
use super::Run;
use crate::job::error::JobFailure;

impl Run<'_> {
    /// Whether acknowledgements are audited, which is done if a member is hostile and may forge them.
    pub(super) fn is_audited(&self) -> bool {
        self.uses_group && !self.layout.job.hostiles.is_empty()
    }

    /// Compares the number of packets acknowledged to the sources with the number that each member has received. Fails
    /// if more are acknowledged than received, which a correct fabric prevents.
    pub(super) fn audit(&mut self, reported: &MemberReports) -> Result<(), JobFailure> {
        if !self.is_audited() {
            return Ok(());
        }
        let members = &self.layout.job.members;
        let mut acknowledged = Vec::with_capacity(members.len());
        for (rank, &host) in members.iter().enumerate() {
            // Lost members no longer send, or are hostile.
            acknowledged.push(match reported.lost[rank] {
                true => 0,
                false => self.fabric.acknowledged_packets(host)?,
            });
        }
        let all: u64 = acknowledged.iter().sum();
        for (rank, &host) in members.iter().enumerate() {
            if reported.lost[rank] {
                continue;
            }
            let others = all - acknowledged[rank];
            // Read after the acknowledged packets, as it only increases.
            match self.fabric.received_packets(host)? {
                Some(received) if received < others => {
                    return Err(JobFailure::FalseAcknowledgement {
                        source_host: self.host_name(self.source_rank),
                        host: self.host_name(rank),
                        acknowledged: others,
                        received,
                    })
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Makes the hostile members of the job start to send random packets to the group, if there is a group.
    pub(super) fn turn_hostile(&mut self, reported: &mut MemberReports) -> Result<(), JobFailure> {
        for &host in self.layout.job.hostiles.iter().filter(|_| self.uses_group) {
            let rank = self
                .layout
                .job
                .members
                .iter()
                .position(|&member| member == host);
            if let Some(rank) = rank {
                reported.lost[rank] = true;
            }
            let target = Target {
                mcst_id: self.layout.mcst_id(),
                virtual_qpn: self.layout.virtual_qpn(),
                mac: VIRTUAL_MAC,
                initial_psn: self.layout.initial_psn(),
                window: self.rc(self.source_rank).window,
            };
            self.fabric
                .turn_hostile(host, target, self.layout.job.seed)?;
        }
        Ok(())
    }
}
