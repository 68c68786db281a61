//! Position of a group (PSN and MSN that all members have) and port of its source, for a switch that has lost its
//! registers.
//!
//! Both are computed from the registers of the other switches in the tree and from acknowledgements of members:
//!
//! - The members behind a switch have what it last acknowledged to the source. So all members at other switches have the
//!   oldest of the positions that these switches have acknowledged.
//! - A switch records the port of the source when it receives data, and the source's own switch has the newest PSN sent of all.
//!   A switch that records one of its members as the source, but has an older PSN sent, has missed the data of a later source.
//! - A source sends at most a window beyond the position acknowledged to it, and switches enforce that. So all members have
//!   the newest PSN sent minus the window.
//! - Members at the failed switch are queried ([`super::recovery`]): a responder acknowledges a duplicate with its newest PSN.
//!   The source has received no data since it began to send, and it began when it had all earlier data. So its newest PSN is
//!   the oldest of all, or it has just begun.
//!
//! A faulty member may report a wrong PSN. Then it blocks the group or is taken as the source while it is a member. But it
//! cannot advance the position beyond what the others have: the position is the oldest claim, and a claim older than a window
//! before the others is raised to that bound.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;

use alfirk_roce::wire::Psn;

use super::group::Group;
use super::position::Position;
use crate::topology::SwitchIndex;

/// Values of a group's registers, read from one switch; `None` for a register that could not be read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Reading {
    /// Position last acknowledged to the source.
    pub(super) last_acked: Option<Position>,
    /// Newest PSN that a source has sent.
    pub(super) sent: Option<Psn>,
    /// Port of the source; 0 if there was none.
    pub(super) source: Option<u32>,
}

/// Values of a group's registers, read from several switches of its tree.
#[derive(Clone, Debug, Default)]
pub(super) struct Readings(pub(super) BTreeMap<SwitchIndex, Reading>);

impl Readings {
    pub(super) fn entry(&mut self, switch: SwitchIndex) -> &mut Reading {
        self.0.entry(switch).or_default()
    }

    /// Oldest of the positions that these switches have acknowledged to the source: all members behind them have it.
    /// `None` if no switch could be read.
    pub(super) fn oldest_acked(&self) -> Option<Position> {
        let all = self.0.values().filter_map(|reading| reading.last_acked);
        all.reduce(Position::older)
    }

    /// Newest PSN of a source that any of these switches has recorded; `None` if no switch could be read.
    pub(super) fn newest_sent(&self) -> Option<Psn> {
        let sent = self.0.values().filter_map(|reading| reading.sent);
        sent.reduce(|a, b| if a.precedes(b) { b } else { a })
    }

    /// Whether none of these switches has recorded a source; false if no switch was read.
    pub(super) fn had_no_source(&self) -> bool {
        !self.0.is_empty() && self.0.values().all(|reading| reading.source == Some(0))
    }

    /// Address of the source of the group, if it is attached to one of these switches.
    ///
    /// Data of a source passes its own switch first, so that switch has recorded the newest PSN sent. If the switches
    /// that have recorded it have no such member, the source is attached to a switch that is not among these.
    pub(super) fn source(&self, group: &Group) -> Option<Ipv4Addr> {
        let newest = self.newest_sent();
        let local = self.0.iter().filter_map(|(switch, reading)| {
            let port = reading.source.filter(|port| *port != 0)?;
            let path = (group.part_on(*switch)?.paths.iter()).find(|path| path.port == port)?;
            Some((reading.sent, path.member()?.spec.ip))
        });
        let mut current = local.filter(|(sent, _)| *sent == newest);
        current.next().map(|(_, ip)| ip)
    }
}

/// A member at the switch that has lost its registers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct LocalMember {
    pub(super) port: u32,
    pub(super) may_send: bool,
    /// Newest PSN that the member has acknowledged; `None` if it has not replied.
    pub(super) newest: Option<Psn>,
}

/// Information about a group of which a switch has lost the registers. [`Evidence::locate`] computes the position from it.
#[derive(Clone, Debug)]
pub(super) struct Evidence {
    /// PSN that all members except the source are known to have.
    pub(super) base: Psn,
    /// Window of the source in packets.
    pub(super) window: u32,
    /// Members at the switch that has lost its registers.
    pub(super) local_members: Vec<LocalMember>,
    /// PSN that all members at other switches have; `None` if no other switch could be read.
    pub(super) acked_elsewhere: Option<Psn>,
    /// Port that leads to the source; `None` if no other switch has recorded the source.
    pub(super) port_towards_source: Option<u32>,
    /// Preferred ports if several members may be the source: the member that reported no progress, then the former source.
    pub(super) likely_source_ports: Vec<u32>,
}

/// Position and source of a group, as computed by [`Evidence::locate`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct LocatedPosition {
    /// PSN that all members have.
    pub(super) psn: Psn,
    /// Port of the source; 0 if the sender of the next PSN is to be taken as the source.
    pub(super) source: u32,
    /// Whether `psn` is the newest PSN that all members have. If false, they may all have newer data, and the source may
    /// have sent more than a window beyond `psn`.
    pub(super) is_exact: bool,
}

impl Evidence {
    /// Computes the position and the source of the group from the registers of other switches and the replies of members.
    pub(super) fn locate(&self) -> LocatedPosition {
        let ahead = |psn: Psn| i64::from(psn.distance_from(self.base));
        let claim = |local: &LocalMember| local.newest.map(ahead).filter(|ahead| *ahead > 0);
        let elsewhere = self.acked_elsewhere.map(ahead).map(|ahead| ahead.max(0));
        let source = self.source(&claim, elsewhere);
        let receivers = self
            .local_members
            .iter()
            .filter(|local| local.port != source);
        let mut known: Vec<i64> = receivers
            .clone()
            .filter_map(claim)
            .chain(elsewhere)
            .collect();
        let mut is_exact = receivers.clone().all(|local| claim(local).is_some());
        known.sort_unstable();
        // The lower median: a single new claim has no effect.
        let middle = known.len().checked_sub(1).map(|last| known[last / 2]);
        let window = i64::from(self.window);
        let floor = match middle {
            Some(middle) if known.len() > 1 => (middle - window).max(0),
            _ => 0,
        };
        let mut least = known.first().copied().unwrap_or(0).max(floor);
        if !is_exact {
            // A member without a reply lacks at most a window.
            least = floor.min(least);
        }
        let own = self.local_members.iter().find(|local| local.port == source);
        if let Some(own) = own
            .filter(|_| self.port_towards_source.is_none())
            .and_then(claim)
        {
            // The member may be a slow receiver, if the source is faulty.
            if own < least && least - own <= window {
                (least, is_exact) = (own, false);
            }
        }
        LocatedPosition {
            psn: self.base.plus(least.unsigned_abs()),
            source,
            is_exact,
        }
    }

    /// Determines the port of the source; 0 if the sender of the next PSN is to be taken as the source.
    fn source(&self, claim: &impl Fn(&LocalMember) -> Option<i64>, elsewhere: Option<i64>) -> u32 {
        if let Some(port) = self.port_towards_source {
            return port;
        }
        let may = |local: &&LocalMember| local.may_send;
        let silent: Vec<u32> = (self.local_members.iter().filter(may))
            .filter(|local| claim(local).is_none())
            .map(|local| local.port)
            .collect();
        let likely = |among: &[u32]| {
            let mut likely = self.likely_source_ports.iter().copied();
            likely.find(|port| among.contains(port))
        };
        if let Some(first) = silent.first() {
            // Choose any of them. If it is wrong, the source will report that there is no progress.
            return likely(&silent).unwrap_or(*first);
        }
        let oldest = self
            .local_members
            .iter()
            .filter(may)
            .filter_map(claim)
            .min();
        let Some(oldest) = oldest else { return 0 };
        let mut at_oldest = self
            .local_members
            .iter()
            .filter(|local| claim(local) == Some(oldest));
        let is_oldest_of_all = elsewhere.is_none_or(|elsewhere| oldest < elsewhere)
            && (self.local_members.iter()).all(|local| claim(local).is_none_or(|c| c >= oldest));
        match (at_oldest.next(), at_oldest.next()) {
            (Some(one), None) if is_oldest_of_all && one.may_send => one.port,
            // The source has just begun, or all its data is acknowledged: it sends the next PSN.
            _ => 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn evidence(base: u32, claims: &[(Option<i64>, bool)]) -> Evidence {
        let base = Psn::new(base);
        let local_members = (1..)
            .zip(claims)
            .map(|(port, (newest, may_send))| LocalMember {
                port,
                may_send: *may_send,
                newest: newest.map(|ahead| base.plus((ahead & 0xff_ffff) as u64)),
            });
        Evidence {
            base,
            window: 128,
            local_members: local_members.collect(),
            acked_elsewhere: None,
            port_towards_source: None,
            likely_source_ports: Vec::new(),
        }
    }

    fn located(evidence: &Evidence) -> (i64, u32, bool) {
        let LocatedPosition {
            psn,
            source,
            is_exact,
        } = evidence.locate();
        let ahead = i64::from(psn.distance_from(evidence.base));
        (ahead, source, is_exact)
    }

    #[test]
    fn the_member_with_the_oldest_psn_is_the_source() {
        for base in [0, 0xff_fffe] {
            // Its reply is older than the base: it has sent for a long time.
            let old = [(Some(-7), true), (Some(8), true), (Some(6), true)];
            assert_eq!(located(&evidence(base, &old)), (6, 1, true));
            let old = [(Some(999), true), (Some(3), true), (Some(996), true)];
            assert_eq!(located(&evidence(base, &old)), (996, 2, true));
            // Or it is a slow receiver, and the source is faulty.
            let old = [(Some(9), true), (Some(3), true), (Some(6), true)];
            assert_eq!(located(&evidence(base, &old)), (3, 2, false));
            // A member that must not send is a slow receiver.
            let old = [(Some(9), true), (Some(3), false), (Some(6), true)];
            assert_eq!(located(&evidence(base, &old)), (3, 0, true));
        }
    }

    #[test]
    fn a_source_that_has_just_begun_continues_with_the_next_psn() {
        let all = [(Some(8), true), (Some(8), true), (Some(8), true)];
        assert_eq!(located(&evidence(3, &all)), (8, 0, true));
        // One lacks the first packet of the new source, which may be any member.
        let all = [(Some(8), true), (Some(8), true), (Some(10), true)];
        assert_eq!(located(&evidence(3, &all)), (8, 0, true));
    }

    #[test]
    fn a_member_without_reply_lacks_at_most_a_window() {
        let claims = [
            (None, false),
            (Some(1_000), true),
            (Some(1_010), true),
            (Some(500), true),
        ];
        // The fourth member is the source; the first one does not reply.
        assert_eq!(located(&evidence(9, &claims)), (1_000 - 128, 4, false));
        // A single reply cannot be compared.
        let claims = [(None, false), (Some(1_000), true), (None, true)];
        assert_eq!(located(&evidence(9, &claims)), (0, 3, false));
    }

    #[test]
    fn a_likely_member_without_reply_is_taken_as_the_source() {
        let claims = [
            (None, true),
            (Some(10), true),
            (None, true),
            (Some(11), false),
        ];
        let mut evidence = evidence(9, &claims);
        assert_eq!(located(&evidence).1, 1);
        evidence.likely_source_ports = vec![2, 3];
        assert_eq!(located(&evidence).1, 3);
    }

    #[test]
    fn readings_of_other_switches_take_precedence() {
        let mut evidence = evidence(9, &[(Some(5), true), (Some(7), true)]);
        evidence.port_towards_source = Some(44);
        assert_eq!(located(&evidence), (5, 44, true));
        evidence.acked_elsewhere = Some(evidence.base.plus(4));
        assert_eq!(located(&evidence), (4, 44, true));
        // Members elsewhere have less than the candidate for the source, so it is a slow receiver.
        evidence.port_towards_source = None;
        assert_eq!(located(&evidence), (4, 0, true));
    }

    proptest! {
        /// For any source and any missing packets, all receivers have the position, and the source is accepted from it: by its
        /// port, or because it sends the next PSN.
        #[test]
        fn the_source_can_continue_from_the_position(
            base in 0u32..0x100_0000,
            ahead in 1i64..1_000_000,
            lags in prop::collection::vec(0i64..=128, 1..7),
            began in 0i64..1_000_000,
            at in 0usize..7,
        ) {
            let began = began.min(ahead);
            let received: Vec<i64> = lags.iter().map(|lag| (ahead - lag).max(began)).collect();
            let least = *received.iter().min().unwrap();
            let mut claims: Vec<_> = received.iter().map(|at| (Some(*at), true)).collect();
            let at = at % (claims.len() + 1);
            claims.insert(at, (Some(began), true));
            let (psn, source, is_exact) = located(&evidence(base, &claims));
            prop_assert!(psn <= least);
            match source {
                // All data before the next packet is acknowledged, or will be.
                0 => prop_assert_eq!(psn, least),
                port => prop_assert_eq!(port as usize, at + 1),
            }
            prop_assert!(!is_exact || psn == least);
            prop_assert!(least - psn <= 128);
        }

        /// Whatever one faulty member reports, all honest receivers have the position.
        #[test]
        fn one_faulty_member_cannot_advance_the_position_beyond_the_others(
            base in 0u32..0x100_0000,
            ahead in 1i64..1_000_000,
            lags in prop::collection::vec(0i64..=128, 2..7),
            began in 0i64..1_000_000,
            faulty in 0usize..7,
            false_claim in prop::option::of(-2_000_000i64..4_000_000),
        ) {
            // Member 0 is the source, which began at `began` and has sent up to `ahead`.
            let began = began.min(ahead);
            let received: Vec<i64> = lags.iter().map(|lag| (ahead - lag).max(began)).collect();
            let mut claims: Vec<_> = received.iter().map(|at| (Some(*at), true)).collect();
            claims.insert(0, (Some(began), true));
            let faulty = faulty % claims.len();
            claims[faulty].0 = false_claim;
            let honest = received.iter().enumerate().filter(|(n, _)| n + 1 != faulty);
            let least = honest.map(|(_, at)| *at).min().unwrap();
            let (psn, ..) = located(&evidence(base, &claims));
            prop_assert!((0..=least).contains(&psn), "{psn} is beyond {least}: {claims:?}");
        }
    }
}
