//! Positions in a group's stream of packets.

use alfirk_aggregation::Point;
use alfirk_roce::wire::Psn;

/// Upper bound of a sender's unacknowledged packets. Small enough that a position this old is still within the range of
/// serial comparison (2^23) after several restarts.
pub(super) const MAX_IN_FLIGHT: u32 = 1 << 20;
/// Upper bound of a sender's unacknowledged messages: half of the 16-bit MSN that switches store for each path.
const MAX_MESSAGES_IN_FLIGHT: u32 = 1 << 15;
const MSN_MASK: u32 = 0xff_ffff;

/// A position in a group's stream of packets: a PSN, and the number of messages complete up to it (MSN), modulo 2^24.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Position {
    pub(super) psn: Psn,
    pub(super) msn: u32,
}

impl Position {
    /// Position before the first packet of a group.
    pub(super) fn before(first: Psn) -> Position {
        Position {
            psn: first.prev(),
            msn: 0,
        }
    }

    /// Decodes a position in the format of the register `REGISTER_AGG`.
    pub(super) fn from_register(value: u64) -> Position {
        Position {
            psn: Psn::new((value >> 24) as u32),
            msn: value as u32 & MSN_MASK,
        }
    }

    /// Encodes the position in the format of the register `REGISTER_AGG`.
    pub(super) fn to_register(self) -> u64 {
        u64::from(self.psn.get()) << 24 | u64::from(self.msn)
    }

    /// Encodes the position as `value` of the register operation INIT_GROUP: the MSN in bits 24 to 47, the next PSN in
    /// bits 0 to 23.
    pub(super) fn to_init(self) -> u64 {
        u64::from(self.msn) << 24 | u64::from(self.psn.next().get())
    }

    /// A position [`MAX_IN_FLIGHT`] packets older than this one, which every member has acknowledged no matter which switch has
    /// reported this one. Its MSN is a lower bound, from which switches count later acknowledgements correctly.
    pub(super) fn lower_bound(self) -> Position {
        Position {
            psn: Psn::new(self.psn.get().wrapping_sub(MAX_IN_FLIGHT)),
            msn: self.msn.wrapping_sub(MAX_MESSAGES_IN_FLIGHT) & MSN_MASK,
        }
    }

    /// The older of two positions.
    pub(super) fn older(self, other: Position) -> Position {
        match other.psn.precedes(self.psn) {
            true => other,
            false => self,
        }
    }
}

impl From<Point> for Position {
    fn from(Point { psn, msn }: Point) -> Position {
        let psn = Psn::new(psn);
        Position { psn, msn }
    }
}

impl From<Position> for Point {
    fn from(Position { psn, msn }: Position) -> Point {
        let psn = psn.get();
        Point { psn, msn }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_convert_to_register_and_init_values() {
        let position = Position {
            psn: Psn::new(0xff_ffff),
            msn: 0x12_3456,
        };
        assert_eq!(position.to_register(), 0xffff_ff12_3456);
        assert_eq!(Position::from_register(position.to_register()), position);
        assert_eq!(position.to_init(), 0x1234_5600_0000);
        assert_eq!(Position::before(Psn::new(0)).to_init(), 0);
    }

    #[test]
    fn for_all_is_older_than_everything_in_flight() {
        let here = Position {
            psn: Psn::new(5),
            msn: 2,
        };
        let all = here.lower_bound();
        assert!(all.psn.precedes(here.psn));
        assert_eq!(here.psn.distance_from(all.psn), 1 << 20);
        assert_eq!(
            (here.msn + (1 << 15)).wrapping_sub(all.msn) & 0xff_ffff,
            1 << 16
        );
        assert_eq!(here.older(all), all);
        assert_eq!(all.older(here), all);
    }
}
