//! Serial arithmetic: numbers that wrap around, of which the nearer half is ahead (IBTA vol. 1, 9.2; RFC 1982).

/// Numbers of so many bits that wrap around. PSNs and message counts have 24; a handful is enough for who explores every
/// state of a protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Space {
    bits: u32,
}

impl Space {
    /// The space of packet sequence numbers and of message sequence numbers (IBTA vol. 1, 9.2.3).
    pub const PSN: Space = Space { bits: 24 };

    /// A space of `bits` bits.
    ///
    /// # Panics
    ///
    /// With fewer than 2 bits, or more than 31.
    pub const fn new(bits: u32) -> Space {
        assert!(bits >= 2 && bits < 32);
        Space { bits }
    }

    const fn mask(self) -> u32 {
        (1 << self.bits) - 1
    }

    /// Is `a` before `b`? True for the half of the space that precedes `b`; of two numbers just half the space apart neither
    /// is.
    pub const fn lt(self, a: u32, b: u32) -> bool {
        self.distance(a, b) > 0
    }

    /// Is `a` the same as `b` or after it? Of two numbers just half the space apart neither is.
    pub const fn reaches(self, a: u32, b: u32) -> bool {
        self.distance(b, a) >= 0
    }

    /// How far `to` is after `from`: negative if before, or just half the space away.
    pub const fn distance(self, from: u32, to: u32) -> i32 {
        let unused = 32 - self.bits;
        (to.wrapping_sub(from) << unused) as i32 >> unused
    }

    /// The number `steps` after `a`.
    pub const fn add(self, a: u32, steps: u32) -> u32 {
        a.wrapping_add(steps) & self.mask()
    }

    /// The number after `a`.
    pub const fn next(self, a: u32) -> u32 {
        self.add(a, 1)
    }

    /// The number before `a`.
    pub const fn previous(self, a: u32) -> u32 {
        a.wrapping_sub(1) & self.mask()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_wrap_around() {
        let space = Space::new(3);
        assert!(space.lt(7, 0) && space.lt(6, 1) && !space.lt(0, 7));
        assert!(space.reaches(0, 7) && space.reaches(5, 5) && !space.reaches(7, 0));
        assert_eq!((space.next(7), space.previous(0)), (0, 7));
        assert_eq!((space.distance(7, 1), space.distance(1, 7)), (2, -2));
    }

    #[test]
    fn numbers_half_the_space_apart_have_no_order() {
        let space = Space::new(3);
        assert!(!space.lt(0, 4) && !space.lt(4, 0));
        assert!(!space.reaches(0, 4) && !space.reaches(4, 0));
    }
}
