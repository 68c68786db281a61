//! Serial arithmetic of any width, so that a model checker can use a handful of numbers.

/// Numbers of `bits` bits that wrap around; PSNs have 24.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Space {
    bits: u32,
}

impl Space {
    /// The space of packet sequence numbers (IBTA vol. 1, section 9.2).
    pub const PSN: Space = Space { bits: 24 };

    /// A space of `bits` bits, 2 to 31.
    pub const fn new(bits: u32) -> Space {
        assert!(bits >= 2 && bits < 32);
        Space { bits }
    }

    fn mask(self) -> u32 {
        (1 << self.bits) - 1
    }

    /// Is `a` before `b`? True for the half of the space that precedes `b`.
    pub fn lt(self, a: u32, b: u32) -> bool {
        let ahead = b.wrapping_sub(a) & self.mask();
        ahead != 0 && ahead < 1 << (self.bits - 1)
    }

    /// Is `a` the same as `b` or after it? Of two numbers just half the space apart neither is.
    pub fn reaches(self, a: u32, b: u32) -> bool {
        a.wrapping_sub(b) & self.mask() < 1 << (self.bits - 1)
    }

    /// The number `steps` after `a`.
    pub fn add(self, a: u32, steps: u32) -> u32 {
        a.wrapping_add(steps) & self.mask()
    }

    /// The number after `a`.
    pub fn next(self, a: u32) -> u32 {
        self.add(a, 1)
    }

    /// The number before `a`.
    pub fn previous(self, a: u32) -> u32 {
        a.wrapping_sub(1) & self.mask()
    }
}
