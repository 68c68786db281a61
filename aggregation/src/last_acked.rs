//! PSN and MSN last acknowledged to the source (`last_acked.p4`).

use super::Space;

/// A position in a stream of packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Point {
    /// PSN.
    pub psn: u32,
    /// Messages complete up to this PSN (MSN).
    pub msn: u32,
}

/// PSN and MSN last acknowledged to the source. All receivers have that PSN, so it is a lower bound of the minimum.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct LastAcked {
    /// Newest acknowledged PSN, and its MSN.
    pub point: Point,
    /// Acknowledged PSN at the last increase of the MSN.
    pub msn_base: u32,
}

impl LastAcked {
    /// Starts from a point that all receivers have.
    pub fn new(point: Point) -> LastAcked {
        LastAcked {
            point,
            msn_base: point.psn,
        }
    }

    /// Whether `minimum` is beyond the last acknowledged PSN.
    pub fn advances_minimum(&self, space: Space, minimum: u32) -> bool {
        space.lt(self.point.psn, minimum)
    }

    /// Advances to `minimum`, which is acknowledged to the source, unless it is older.
    pub fn raise(&mut self, space: Space, minimum: Point) {
        if self.advances_minimum(space, minimum.psn) {
            if minimum.msn != self.point.msn {
                self.msn_base = minimum.psn;
            }
            self.point = minimum;
        }
    }

    /// MSN to send with the minimum `psn`, when a member reports `msn`: `msn` if plausible, else the last one.
    ///
    /// A message has at least one packet, so the MSN increases by at most the packets since its last increase. It never
    /// decreases. A path may report an old one if several members behind it were the source.
    pub fn believed(&self, space: Space, psn: u32, msn: u32) -> u32 {
        let room = space.distance(self.msn_base, psn);
        let step = space.distance(self.point.msn, msn);
        match (0..=room).contains(&step) {
            true => msn,
            false => self.point.msn,
        }
    }

    /// The MSN nearest to the last one with the lower 16 bits of `msn`, which is all that paths store.
    pub(crate) fn nearest(&self, space: Space, msn: u32) -> u32 {
        let step = space.distance(self.point.msn, msn) as i16;
        space.add(self.point.msn, i32::from(step) as u32)
    }
}
