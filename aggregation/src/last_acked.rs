//! PSN and MSN of the last acknowledgement sent to the source (`last_acked.p4`).
//!
//! The *source* is the member of the group that sends at present. A *path* is a port of the group's tree on this
//! switch. The *minimum* is the newest PSN that all paths have acknowledged or sent.

use super::Space;

/// A position in the source's packet stream: a PSN, and the number of messages completed up to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Point {
    /// Packet sequence number, 24 bits.
    pub psn: u32,
    /// Message sequence number (MSN): messages completed up to `psn`, modulo 2^24.
    pub msn: u32,
}

/// PSN and MSN last acknowledged to the source. All receivers have the packets up to that PSN, so it is a lower bound
/// of the minimum (the newest PSN that all receivers have).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct LastAcked {
    /// Newest acknowledged PSN, and its MSN.
    pub point: Point,
    /// Acknowledged PSN at which the MSN last increased.
    pub msn_base: u32,
}

impl LastAcked {
    /// Starts with `point` as the last acknowledgement; all receivers have the packets up to it.
    pub fn new(point: Point) -> LastAcked {
        LastAcked {
            point,
            msn_base: point.psn,
        }
    }

    /// Whether `minimum`, the newest PSN that all receivers have, is beyond the last acknowledged PSN.
    pub fn advances_minimum(&self, space: Space, minimum: u32) -> bool {
        space.lt(self.point.psn, minimum)
    }

    /// Records an acknowledgement of `minimum` to the source. An older one is ignored.
    pub fn raise(&mut self, space: Space, minimum: Point) {
        if self.advances_minimum(space, minimum.psn) {
            if minimum.msn != self.point.msn {
                self.msn_base = minimum.psn;
            }
            self.point = minimum;
        }
    }

    /// The MSN to acknowledge together with PSN `psn`, when a receiver reports `msn`: `msn` if it is plausible, else
    /// the MSN last acknowledged.
    ///
    /// A message has at least one packet, so the MSN increases by at most the number of packets since its last
    /// increase. It never decreases. A path may report an old MSN if several members behind it were the source.
    pub fn plausible_msn(&self, space: Space, psn: u32, msn: u32) -> u32 {
        let room = space.distance(self.msn_base, psn);
        let step = space.distance(self.point.msn, msn);
        match (0..=room).contains(&step) {
            true => msn,
            false => self.point.msn,
        }
    }

    /// Extends the lower 16 bits of an MSN to the full MSN that is nearest to the MSN last acknowledged. The register of
    /// a path stores only these bits.
    pub(crate) fn extend_msn(&self, space: Space, msn: u32) -> u32 {
        let step = space.distance(self.point.msn, msn) as i16;
        space.add(self.point.msn, i32::from(step) as u32)
    }
}
