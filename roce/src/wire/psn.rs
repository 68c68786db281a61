//! The two 24-bit numbers of InfiniBand: packet sequence numbers and queue pair numbers.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::serial::Space;

const MASK: u32 = 0x00ff_ffff;

/// Error: a number that does not fit into the 24 bits of a PSN or queue pair number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{0:#x} does not fit into 24 bits")]
pub struct TooLarge(pub u32);

/// Packet sequence number (IBTA vol. 1, 9.2.3): 24 bits that wrap around.
///
/// Serial numbers have no total order, so there is no `Ord`; use [`Psn::distance_from`] or [`Psn::precedes`].
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(try_from = "u32", into = "u32")]
pub struct Psn(u32);

impl Psn {
    /// Creates a PSN from the low 24 bits of `value`.
    pub const fn new(value: u32) -> Psn {
        Psn(value & MASK)
    }

    /// The PSN as a number, 0 to 2^24 - 1.
    pub const fn get(self) -> u32 {
        self.0
    }

    /// The next PSN; 0 follows 2^24 - 1.
    #[must_use]
    pub const fn next(self) -> Psn {
        Psn(Space::PSN.next(self.0))
    }

    /// The PSN before this one.
    #[must_use]
    pub const fn prev(self) -> Psn {
        Psn(Space::PSN.previous(self.0))
    }

    /// The PSN `n` packets later, modulo 2^24.
    #[must_use]
    pub const fn plus(self, n: u64) -> Psn {
        Psn(Space::PSN.add(self.0, (n & MASK as u64) as u32))
    }

    /// Signed distance of this PSN from `origin`, in -2^23 .. 2^23 (serial arithmetic).
    pub const fn distance_from(self, origin: Psn) -> i32 {
        Space::PSN.distance(origin.0, self.0)
    }

    /// Whether this PSN comes before `other`: `a != b` and `(b - a) mod 2^24 < 2^23`.
    pub const fn precedes(self, other: Psn) -> bool {
        Space::PSN.lt(self.0, other.0)
    }
}

/// Queue pair number (QPN): 24 bits.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default, Serialize, Deserialize)]
#[serde(try_from = "u32", into = "u32")]
pub struct QpNum(u32);

impl QpNum {
    /// Creates a queue pair number from the low 24 bits of `value`.
    pub const fn new(value: u32) -> QpNum {
        QpNum(value & MASK)
    }

    /// The queue pair number as an integer, 0 to 2^24 - 1.
    pub const fn get(self) -> u32 {
        self.0
    }

    /// Maps any `value` to a queue pair number without a special meaning: not 0 or 1 (management) nor 2^24 - 1 (multicast of
    /// unreliable datagrams; IBTA vol. 1, section 3.5.3).
    pub const fn ordinary(value: u32) -> QpNum {
        QpNum(Self::FIRST_ORDINARY + value % (MASK - Self::FIRST_ORDINARY))
    }

    /// Whether the number has no special meaning, see [`QpNum::ordinary`].
    pub const fn is_ordinary(self) -> bool {
        self.0 >= Self::FIRST_ORDINARY && self.0 < MASK
    }

    const FIRST_ORDINARY: u32 = 2;
}

macro_rules! conversions {
    ($name:ident) => {
        impl TryFrom<u32> for $name {
            type Error = TooLarge;
            fn try_from(value: u32) -> Result<Self, TooLarge> {
                if value > MASK {
                    return Err(TooLarge(value));
                }
                Ok($name(value))
            }
        }

        impl From<$name> for u32 {
            fn from(value: $name) -> u32 {
                value.0
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{}({:#x})", stringify!($name), self.0)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{}", self.0)
            }
        }
    };
}

conversions!(Psn);
conversions!(QpNum);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zero_follows_the_largest_psn() {
        assert_eq!(Psn::new(0xff_ffff).next(), Psn::new(0));
        assert_eq!(Psn::new(0).prev(), Psn::new(0xff_ffff));
        assert!(Psn::new(0xff_ffff).precedes(Psn::new(0)));
    }

    #[test]
    fn distance_is_signed_and_wraps() {
        assert_eq!(Psn::new(2).distance_from(Psn::new(0xff_fffe)), 4);
        assert_eq!(Psn::new(0xff_fffe).distance_from(Psn::new(2)), -4);
        assert_eq!(Psn::new(1 << 23).distance_from(Psn::new(0)), -(1 << 23));
        assert!(!Psn::new(5).precedes(Psn::new(5)));
    }

    #[test]
    fn no_value_maps_to_a_special_queue_pair_number() {
        for value in [0, 1, 2, MASK - 3, MASK - 2, MASK - 1, MASK, u32::MAX] {
            assert!(QpNum::ordinary(value).is_ordinary(), "{value}");
        }
        let special = [0, 1, MASK].map(QpNum::new);
        assert!(special.iter().all(|qpn| !qpn.is_ordinary()));
    }

    #[test]
    fn numbers_of_25_bits_are_refused() {
        assert_eq!(Psn::try_from(1 << 24), Err(TooLarge(1 << 24)));
        assert_eq!(QpNum::try_from(MASK).map(QpNum::get), Ok(MASK));
    }
}
