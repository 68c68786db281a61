//! Serial number arithmetic: numbers that wrap around, compared by the shorter distance (IBTA vol. 1, 9.2; RFC 1982).

/// A space of serial numbers of a fixed width in bits. PSNs and MSNs have 24 bits; a model checker uses fewer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Space {
    bits: u32,
}

impl Space {
    /// The space of packet sequence numbers and of message sequence numbers (IBTA vol. 1, 9.2.3).
    pub const PSN: Space = Space { bits: 24 };

    /// Creates a space of serial numbers with `bits` bits.
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

    /// Whether `a` precedes `b`. Of two numbers exactly half the space apart, neither precedes the other.
    pub const fn lt(self, a: u32, b: u32) -> bool {
        self.distance(a, b) > 0
    }

    /// Whether `a` equals or follows `b`. Of two numbers exactly half the space apart, neither follows the other.
    pub const fn is_at_or_after(self, a: u32, b: u32) -> bool {
        self.distance(b, a) >= 0
    }

    /// Signed distance from `from` to `to`; negative if `to` is before, or exactly half the space away.
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
        assert!(
            space.is_at_or_after(0, 7) && space.is_at_or_after(5, 5) && !space.is_at_or_after(7, 0)
        );
        assert_eq!((space.next(7), space.previous(0)), (0, 7));
        assert_eq!((space.distance(7, 1), space.distance(1, 7)), (2, -2));
    }

    #[test]
    fn numbers_half_the_space_apart_have_no_order() {
        let space = Space::new(3);
        assert!(!space.lt(0, 4) && !space.lt(4, 0));
        assert!(!space.is_at_or_after(0, 4) && !space.is_at_or_after(4, 0));
    }
}
