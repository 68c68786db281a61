//! Register arrays.
//!
//! Programs declare arrays for the largest network they support, and most cells are never written. Memory is
//! therefore allocated by pages, when the first non-zero value is written to a page.

use crate::exec::big::Big;
use crate::exec::words::words_of;
use crate::externs::cells::Cells;
use smallvec::SmallVec;
#[cfg(feature = "jit")]
use std::mem::offset_of;

/// Binary logarithm of the number of words per page.
pub(crate) const PAGE_BITS: u32 = 8;
const PAGE: usize = 1 << PAGE_BITS;

/// A page of words; `None` while all of its words are zero. Compiled code relies on the layout: a pointer, or null.
type Page = Option<Box<[u64; PAGE]>>;

/// The cells of one register array. A cell of more than 64 bits occupies several words.
#[derive(Clone, Debug)]
pub struct Register {
    bits: u32,
    /// Number of words of a cell.
    words: usize,
    /// Number of cells of the array.
    size: usize,
    pages: Cells<Page>,
}

impl Register {
    /// Offset in bytes of the pointer to the first page. The pages are pointers to words, or null for zeros.
    #[cfg(feature = "jit")]
    pub(crate) const PAGES: usize = offset_of!(Register, pages) + Cells::<Page>::START;

    pub(crate) fn new(size: usize, bits: u32) -> Register {
        let words = words_of(bits).max(1);
        let pages = size.saturating_mul(words).div_ceil(PAGE);
        Register {
            bits,
            words,
            size,
            pages: Cells::new(vec![None; pages].into()),
        }
    }

    /// Returns a cell of up to 64 bits; `None` for an index beyond the array.
    #[inline]
    pub(crate) fn get(&self, index: u64) -> Option<u64> {
        debug_assert_eq!(self.words, 1);
        (index < self.size as u64).then(|| self.word(index as usize))
    }

    /// Writes a cell of up to 64 bits, wrapped to its width. Does nothing outside of the array.
    #[inline]
    pub(crate) fn set(&mut self, index: u64, value: u64) {
        debug_assert_eq!(self.words, 1);
        if index < self.size as u64 {
            let value = crate::exec::words::wrap(value, self.bits, false);
            self.set_word(index as usize, value);
        }
    }

    #[inline]
    fn word(&self, at: usize) -> u64 {
        match self.pages.get(at >> PAGE_BITS) {
            Some(Some(page)) => page[at % PAGE],
            Some(None) | None => 0,
        }
    }

    #[inline]
    pub(crate) fn set_word(&mut self, at: usize, value: u64) {
        match self.pages.get_mut(at >> PAGE_BITS) {
            Some(Some(page)) => page[at % PAGE] = value,
            // Words of missing pages are zero already.
            Some(page) if value != 0 => allocate(page)[at % PAGE] = value,
            Some(None) | None => {}
        }
    }

    /// Returns a cell of any width; zero for an index beyond the array.
    pub(crate) fn read(&self, index: u64) -> Big {
        match index < self.size as u64 {
            true => {
                let start = index as usize * self.words;
                let words = (start..start + self.words).map(|at| self.word(at));
                Big::from_unsigned(&words.collect::<SmallVec<[u64; 4]>>())
            }
            false => Big::default(),
        }
    }

    /// Returns the words of a cell, least significant first; zeros for an index beyond the array.
    pub(crate) fn words(&self, index: u64) -> Vec<u64> {
        let value = self.read(index);
        (0..self.words).map(|at| value.word(at)).collect()
    }

    pub(crate) fn write(&mut self, index: u64, value: &Big) {
        if index < self.size as u64 {
            let (start, value) = (index as usize * self.words, value.truncate(self.bits));
            for i in 0..self.words {
                self.set_word(start + i, value.word(i));
            }
        }
    }

    pub(crate) fn clear(&mut self) {
        self.pages.fill(None);
    }
}

/// Allocates a page of zeros.
#[cold]
fn allocate(page: &mut Page) -> &mut [u64; PAGE] {
    page.insert(Box::new([0; PAGE]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn pages_in_use(register: &Register) -> usize {
        register.pages.iter().flatten().count()
    }

    #[test]
    fn cells_are_allocated_when_first_written() {
        let mut register = Register::new(3 * PAGE + 5, 16);
        for index in [0, PAGE as u64, 3 * PAGE as u64 + 4] {
            register.set(index, 0x1_0000);
            assert_eq!(register.get(index), Some(0));
        }
        assert_eq!(pages_in_use(&register), 0);
        register.set(3 * PAGE as u64 + 4, 0x1_0007);
        assert_eq!(register.get(3 * PAGE as u64 + 4), Some(7));
        assert_eq!(register.get(3 * PAGE as u64 + 5), None);
        assert_eq!(pages_in_use(&register), 1);
        register.clear();
        assert_eq!(register.get(3 * PAGE as u64 + 4), Some(0));
        assert_eq!(pages_in_use(&register), 0);
    }

    proptest! {
        #[test]
        fn pages_behave_like_an_array(
            size in 0usize..1000,
            bits in prop_oneof![1u32..200, Just(64), Just(65)],
            writes in proptest::collection::vec((0u64..1100, any::<u64>()), 0..50),
        ) {
            let mut register = Register::new(size, bits);
            let mut cells = vec![Big::default(); size];
            for (index, value) in writes {
                let value = Big::from_unsigned(&[value, !value]);
                register.write(index, &value);
                if let Some(cell) = cells.get_mut(index as usize) {
                    *cell = value.truncate(bits);
                }
                if bits <= 64 {
                    register.set(index + 1, value.word(1));
                    if let Some(cell) = cells.get_mut(index as usize + 1) {
                        *cell = Big::from_unsigned(&[value.word(1)]).truncate(bits);
                    }
                }
            }
            for index in 0..1100 {
                let expected = cells.get(index as usize);
                let read = register.read(index);
                let expected_words = expected.cloned().unwrap_or_default();
                for word in 0..5 {
                    prop_assert_eq!(read.word(word), expected_words.word(word));
                }
                if bits <= 64 {
                    prop_assert_eq!(register.get(index), expected.map(|cell| cell.word(0)));
                }
            }
        }
    }
}
