//! A map from port numbers to values, made for consecutive port numbers.

use smallvec::SmallVec;

/// Map from port numbers to values, which stores up to `INLINE` values without an allocation.
///
/// Port numbers are usually consecutive, and a lookup then takes one access. Other numbers need a search.
#[derive(Debug)]
pub(crate) struct PortMap<T, const INLINE: usize> {
    /// Ports with their values, in ascending order.
    entries: SmallVec<[(u32, T); INLINE]>,
}

impl<T, const INLINE: usize> PortMap<T, INLINE> {
    pub(crate) fn new() -> Self {
        PortMap {
            entries: SmallVec::new(),
        }
    }

    /// Adds a value for a port. Returns false, without effect, if the port has a value already.
    pub(crate) fn add(&mut self, port: u32, value: T) -> bool {
        let at = self.entries.partition_point(|(p, _)| *p < port);
        let is_new = self.entries.get(at).is_none_or(|(p, _)| *p != port);
        if is_new {
            self.entries.insert(at, (port, value));
        }
        is_new
    }

    pub(crate) fn get(&self, port: u32) -> Option<&T> {
        let at = self.find(port)?;
        Some(&self.entries[at].1)
    }

    pub(crate) fn get_mut(&mut self, port: u32) -> Option<&mut T> {
        let at = self.find(port)?;
        Some(&mut self.entries[at].1)
    }

    pub(crate) fn values_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.entries.iter_mut().map(|(_, value)| value)
    }

    pub(crate) fn iter(&self) -> impl DoubleEndedIterator<Item = (u32, &T)> {
        self.entries.iter().map(|(port, value)| (*port, value))
    }

    pub(crate) fn iter_mut(&mut self) -> impl DoubleEndedIterator<Item = (u32, &mut T)> {
        self.entries.iter_mut().map(|(port, value)| (*port, value))
    }

    #[inline]
    fn find(&self, port: u32) -> Option<usize> {
        let first = self.entries.first()?.0;
        let guess = port.wrapping_sub(first) as usize;
        if self.entries.get(guess).is_some_and(|(p, _)| *p == port) {
            return Some(guess);
        }
        self.entries.binary_search_by_key(&port, |(p, _)| *p).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_with_any_numbers_are_found() {
        for numbers in [
            &[0, 1, 2, 3][..],
            &[1],
            &[4, 2, 3, 1],
            &[7, 1, 2, 300, u32::MAX, 0],
            &[u32::MAX, u32::MAX - 1],
            &[],
        ] {
            let mut map = PortMap::<u32, 2>::new();
            for &port in numbers {
                assert!(map.add(port, !port));
                assert!(!map.add(port, 0), "it is there");
            }
            for port in (0..10).chain(299..302).chain(u32::MAX - 3..=u32::MAX) {
                let there = numbers.contains(&port).then_some(!port);
                assert_eq!(map.get(port).copied(), there, "{port} of {numbers:?}");
                assert_eq!(map.get_mut(port).copied(), there);
            }
            assert_eq!(map.values_mut().count(), numbers.len());
        }
    }
}
