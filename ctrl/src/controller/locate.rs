//! Where a group's stream is, for a switch that has lost its registers: how far, and behind which port its source is.
//!
//! Everything here is a function of what other switches of the tree hold and of what members have acknowledged:
//!
//! - What any switch has last acknowledged towards its source, the members behind it have. So the oldest of these on all switches but the
//!   one that was lost is what all members elsewhere have.
//! - The switch of whose own members one is the source knows that. It has been sent the newest PSN of all; one that says so and has been
//!   sent less has not received the data of the source that came after.
//! - A source is ahead of what was acknowledged to it by at most its window, and switches enforce that. So all members have what was sent
//!   less the window.
//! - Members next to the lost switch are asked ([`super::recovery`]): a responder acknowledges a duplicate with its newest PSN. The source
//!   has been receiving nothing since it began to send, and it began when it had all. So its own newest PSN is the oldest of all, or it
//!   has just begun.
//!
//! A member can answer falsely. Then it holds the group up or is taken for the source, as long as it is a member; but it moves no position
//! beyond what the others have: the position is the oldest claim, and a claim that is older than a window before the others' is cut.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;

use alfirk_roce::wire::Psn;

use super::group::Group;
use super::position::Position;
use crate::topology::SwitchIndex;

/// What a switch holds of a group.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Reading {
    /// What it has last acknowledged towards the source.
    pub(super) last_acked: Option<Position>,
    /// The newest PSN that it has been sent.
    pub(super) sent: Option<Psn>,
    /// The port that it takes the source to be behind, 0 if there was none yet.
    pub(super) source: Option<u32>,
}

/// What some switches of a tree hold of a group.
#[derive(Clone, Debug, Default)]
pub(super) struct Readings(pub(super) BTreeMap<SwitchIndex, Reading>);

impl Readings {
    pub(super) fn of(&mut self, switch: SwitchIndex) -> &mut Reading {
        self.0.entry(switch).or_default()
    }

    /// What all members behind these switches have.
    pub(super) fn least(&self) -> Option<Position> {
        let all = self.0.values().filter_map(|reading| reading.last_acked);
        all.reduce(Position::older)
    }

    /// The newest PSN that any of them has been sent, if they have had a source.
    pub(super) fn sent(&self) -> Option<Psn> {
        let sent = self.0.values().filter_map(|reading| reading.sent);
        sent.reduce(|a, b| if a.precedes(b) { b } else { a })
    }

    /// Whether each of these switches says that there was no source yet; false without any.
    pub(super) fn is_untouched(&self) -> bool {
        !self.0.is_empty() && self.0.values().all(|reading| reading.source == Some(0))
    }

    /// The member that is the source, if it is next to one of these switches.
    ///
    /// All that a source sends passes its own switch first. So one that has been sent less than another has not received that the source
    /// is elsewhere by now: at a switch that is not among these.
    pub(super) fn source(&self, group: &Group) -> Option<Ipv4Addr> {
        let newest = self.sent();
        let local = self.0.iter().filter_map(|(switch, reading)| {
            let port = reading.source.filter(|port| *port != 0)?;
            let path = (group.on(*switch)?.paths.iter()).find(|path| path.port == port)?;
            Some((reading.sent, path.member()?.spec.ip))
        });
        let mut current = local.filter(|(sent, _)| *sent == newest);
        current.next().map(|(_, ip)| ip)
    }
}

/// A member next to the switch that was lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Local {
    pub(super) port: u32,
    pub(super) may_send: bool,
    /// The newest PSN that it has acknowledged; `None` if it has not answered, or its answer is older than the base.
    pub(super) newest: Option<Psn>,
}

/// What there is to go by.
#[derive(Clone, Debug)]
pub(super) struct Evidence {
    /// A PSN that all members but the source are known to have.
    pub(super) base: Psn,
    /// How far a source may be ahead of what was acknowledged to it.
    pub(super) window: u32,
    pub(super) locals: Vec<Local>,
    /// What all members elsewhere have.
    pub(super) elsewhere: Option<Psn>,
    /// The port that leads to the source, where another switch knows it.
    pub(super) towards_source: Option<u32>,
    /// Ports that the source may rather be behind than others, where several may be: who complained, who was the source before.
    pub(super) likely: Vec<u32>,
}

/// The answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Located {
    /// What all members have.
    pub(super) psn: Psn,
    /// The port of the source, 0 if the next PSN will show it.
    pub(super) source: u32,
    /// Whether that is the newest such PSN: else the source may be further ahead of it than its window.
    pub(super) is_exact: bool,
}

impl Evidence {
    /// See the module's text.
    pub(super) fn locate(&self) -> Located {
        let ahead = |psn: Psn| i64::from(psn.distance_from(self.base));
        let claim = |local: &Local| local.newest.map(ahead).filter(|ahead| *ahead > 0);
        let elsewhere = self.elsewhere.map(ahead).map(|ahead| ahead.max(0));
        let source = self.source(&claim, elsewhere);
        let receivers = self.locals.iter().filter(|local| local.port != source);
        let mut known: Vec<i64> = receivers
            .clone()
            .filter_map(claim)
            .chain(elsewhere)
            .collect();
        let mut is_exact = receivers.clone().all(|local| claim(local).is_some());
        known.sort_unstable();
        // The lower median: one claim alone, however new, moves nothing.
        let middle = known.len().checked_sub(1).map(|last| known[last / 2]);
        let window = i64::from(self.window);
        let floor = match middle {
            Some(middle) if known.len() > 1 => (middle - window).max(0),
            _ => 0,
        };
        let mut least = known.first().copied().unwrap_or(0).max(floor);
        if !is_exact {
            // Who has not answered lacks at most a window.
            least = floor.min(least);
        }
        let own = self.locals.iter().find(|local| local.port == source);
        if let Some(own) = own
            .filter(|_| self.towards_source.is_none())
            .and_then(claim)
        {
            // It may be a receiver that lags behind, where the source answers falsely.
            if own < least && least - own <= window {
                (least, is_exact) = (own, false);
            }
        }
        Located {
            psn: self.base.plus(least.unsigned_abs()),
            source,
            is_exact,
        }
    }

    /// The port of the source.
    fn source(&self, claim: &impl Fn(&Local) -> Option<i64>, elsewhere: Option<i64>) -> u32 {
        if let Some(port) = self.towards_source {
            return port;
        }
        let may = |local: &&Local| local.may_send;
        let silent: Vec<u32> = (self.locals.iter().filter(may))
            .filter(|local| claim(local).is_none())
            .map(|local| local.port)
            .collect();
        let likely = |among: &[u32]| {
            let mut likely = self.likely.iter().copied();
            likely.find(|port| among.contains(port))
        };
        if let Some(first) = silent.first() {
            // Any of them, rather than none: if it is wrong, the true one complains.
            return likely(&silent).unwrap_or(*first);
        }
        let oldest = self.locals.iter().filter(may).filter_map(claim).min();
        let Some(oldest) = oldest else { return 0 };
        let mut at_oldest = self
            .locals
            .iter()
            .filter(|local| claim(local) == Some(oldest));
        let is_oldest_of_all = elsewhere.is_none_or(|elsewhere| oldest < elsewhere)
            && (self.locals.iter()).all(|local| claim(local).is_none_or(|c| c >= oldest));
        match (at_oldest.next(), at_oldest.next()) {
            (Some(one), None) if is_oldest_of_all && one.may_send => one.port,
            // The source has just begun, or has all acknowledged: it goes on with what comes next.
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
        let locals = (1..).zip(claims).map(|(port, (newest, may_send))| Local {
            port,
            may_send: *may_send,
            newest: newest.map(|ahead| base.plus((ahead & 0xff_ffff) as u64)),
        });
        Evidence {
            base,
            window: 128,
            locals: locals.collect(),
            elsewhere: None,
            towards_source: None,
            likely: Vec::new(),
        }
    }

    fn located(evidence: &Evidence) -> (i64, u32, bool) {
        let Located {
            psn,
            source,
            is_exact,
        } = evidence.locate();
        let ahead = i64::from(psn.distance_from(evidence.base));
        (ahead, source, is_exact)
    }

    #[test]
    fn the_member_that_has_the_oldest_is_the_source() {
        for base in [0, 0xff_fffe] {
            // Its answer is before the base: it has been sending for long.
            let old = [(Some(-7), true), (Some(8), true), (Some(6), true)];
            assert_eq!(located(&evidence(base, &old)), (6, 1, true));
            let old = [(Some(999), true), (Some(3), true), (Some(996), true)];
            assert_eq!(located(&evidence(base, &old)), (996, 2, true));
            // Or it is a receiver that lags behind, and the source lies.
            let old = [(Some(9), true), (Some(3), true), (Some(6), true)];
            assert_eq!(located(&evidence(base, &old)), (3, 2, false));
            // A member that must not send is a receiver that lags behind.
            let old = [(Some(9), true), (Some(3), false), (Some(6), true)];
            assert_eq!(located(&evidence(base, &old)), (3, 0, true));
        }
    }

    #[test]
    fn a_source_that_has_just_begun_goes_on_with_what_comes_next() {
        let all = [(Some(8), true), (Some(8), true), (Some(8), true)];
        assert_eq!(located(&evidence(3, &all)), (8, 0, true));
        // One lacks the first packet of the new source, whichever that is.
        let all = [(Some(8), true), (Some(8), true), (Some(10), true)];
        assert_eq!(located(&evidence(3, &all)), (8, 0, true));
    }

    #[test]
    fn who_is_dead_is_within_a_window_of_the_others() {
        let claims = [
            (None, false),
            (Some(1_000), true),
            (Some(1_010), true),
            (Some(500), true),
        ];
        // The fourth has been sending; the first does not answer.
        assert_eq!(located(&evidence(9, &claims)), (1_000 - 128, 4, false));
        // With one answer there is nothing to compare.
        let claims = [(None, false), (Some(1_000), true), (None, true)];
        assert_eq!(located(&evidence(9, &claims)), (0, 3, false));
    }

    #[test]
    fn one_of_the_silent_ones_is_the_source_and_the_likely_one_first() {
        let claims = [
            (None, true),
            (Some(10), true),
            (None, true),
            (Some(11), false),
        ];
        let mut evidence = evidence(9, &claims);
        assert_eq!(located(&evidence).1, 1);
        evidence.likely = vec![2, 3];
        assert_eq!(located(&evidence).1, 3);
    }

    #[test]
    fn what_another_switch_knows_comes_first() {
        let mut evidence = evidence(9, &[(Some(5), true), (Some(7), true)]);
        evidence.towards_source = Some(44);
        assert_eq!(located(&evidence), (5, 44, true));
        evidence.elsewhere = Some(evidence.base.plus(4));
        assert_eq!(located(&evidence), (4, 44, true));
        // Members elsewhere have less than one that would be the source: it lags behind, too.
        evidence.towards_source = None;
        assert_eq!(located(&evidence), (4, 0, true));
    }

    proptest! {
        /// Whoever is the source and whatever receivers lack, the position is one that all of them have, and the source gets on from
        /// it: by its port, or because what it sends next comes next.
        #[test]
        fn the_source_gets_on_from_the_position(
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
                // Everything before the next packet is acknowledged, or will be answered.
                0 => prop_assert_eq!(psn, least),
                port => prop_assert_eq!(port as usize, at + 1),
            }
            prop_assert!(!is_exact || psn == least);
            prop_assert!(least - psn <= 128);
        }

        /// However one member lies, or stays silent, no honest receiver lacks what the position says that all have.
        #[test]
        fn one_member_alone_moves_no_position_beyond_what_the_others_have(
            base in 0u32..0x100_0000,
            ahead in 1i64..1_000_000,
            lags in prop::collection::vec(0i64..=128, 2..7),
            began in 0i64..1_000_000,
            liar in 0usize..7,
            lie in prop::option::of(-2_000_000i64..4_000_000),
        ) {
            // Member 0 is the source, which has sent `ahead` and began at `began`.
            let began = began.min(ahead);
            let received: Vec<i64> = lags.iter().map(|lag| (ahead - lag).max(began)).collect();
            let mut claims: Vec<_> = received.iter().map(|at| (Some(*at), true)).collect();
            claims.insert(0, (Some(began), true));
            let liar = liar % claims.len();
            claims[liar].0 = lie;
            let honest = received.iter().enumerate().filter(|(n, _)| n + 1 != liar);
            let least = honest.map(|(_, at)| *at).min().unwrap();
            let (psn, ..) = located(&evidence(base, &claims));
            prop_assert!((0..=least).contains(&psn), "{psn} is beyond {least}: {claims:?}");
        }
    }
}
