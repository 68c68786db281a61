//! What was acknowledged to the source last (`last_acked.p4`).

use super::Space;

/// How far a stream has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Point {
    /// A PSN,
    pub psn: u32,
    /// and how many messages are complete with it.
    pub msn: u32,
}

/// See the module's text. It is never too new: all have it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct LastAcked {
    /// The newest PSN that all have, as far as the source knows.
    pub point: Point,
    /// That PSN when the count of messages last rose.
    pub msn_base: u32,
}

impl LastAcked {
    /// A group begins with this.
    pub fn new(point: Point) -> LastAcked {
        LastAcked {
            point,
            msn_base: point.psn,
        }
    }

    /// Is this minimum beyond what was acknowledged to the source?
    pub fn advances_minimum(&self, space: Space, minimum: u32) -> bool {
        space.lt(self.point.psn, minimum)
    }

    /// A minimum is acknowledged to the source, if it is beyond the last one.
    pub fn raise(&mut self, space: Space, minimum: Point) {
        if self.advances_minimum(space, minimum.psn) {
            if minimum.msn != self.point.msn {
                self.msn_base = minimum.psn;
            }
            self.point = minimum;
        }
    }

    /// The count of messages that goes with the minimum `psn`, of which a member says that it is `msn`.
    ///
    /// A message has at least one packet, so the count rises by at most the packets since it last rose. It may lag, but does
    /// not fall: a path behind which several members have been the source may have counted no message since. What is not
    /// plausible is not believed.
    pub fn believed(&self, space: Space, psn: u32, msn: u32) -> u32 {
        let room = space.distance(self.msn_base, psn);
        let step = space.distance(self.point.msn, msn);
        match (0..=room).contains(&step) {
            true => msn,
            false => self.point.msn,
        }
    }

    /// The count of messages nearest to the last one whose lower 16 bits are those of `msn`: paths keep no more.
    pub(crate) fn nearest(&self, space: Space, msn: u32) -> u32 {
        let step = space.distance(self.point.msn, msn) as i16;
        space.add(self.point.msn, i32::from(step) as u32)
    }
}
