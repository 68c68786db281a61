//! What was acknowledged to the source last (`told.p4`).

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
pub struct Told {
    /// The newest PSN that all have, as far as the source knows.
    pub last: Point,
}

impl Told {
    /// Is this minimum beyond what was acknowledged to the source?
    pub fn is_news(&self, space: Space, minimum: u32) -> bool {
        space.lt(self.last.psn, minimum)
    }

    /// A minimum is acknowledged to the source, if it is beyond the last one.
    pub fn raise(&mut self, space: Space, minimum: Point) {
        if self.is_news(space, minimum.psn) {
            self.last = minimum;
        }
    }

    /// A count of messages may lag, but does not fall: a path behind which several members have been the source may have
    /// counted no message since.
    pub fn at_least(&self, space: Space, msn: u32) -> u32 {
        match space.reaches(msn, self.last.msn) {
            true => msn,
            false => self.last.msn,
        }
    }
}
