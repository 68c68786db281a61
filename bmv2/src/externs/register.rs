//! Register arrays.
//!
//! Programs declare arrays for the largest network they support, and most cells are never written. Memory is
//! therefore allocated by pages, when the first non-zero value is written to a page.

use crate::exec::big::Big;
use crate::exec::words::words_of;

/// Binary logarithm of the number of cells per page.
const PAGE_BITS: u32 = 8;
const PAGE: usize = 1 << PAGE_BITS;

/// The cells of one register array.
#[derive(Clone, Debug)]
pub struct Register {
    bits: u32,
    words: usize,
    /// Number of cells of the array.
    size: usize,
    /// Pages of cells. The vector of a page is empty while all of its cells are zero; the last page may be shorter.
    pages: Vec<Box<[u64]>>,
}

impl Register {
    pub(crate) fn new(size: usize, bits: u32) -> Register {
        Register {
            bits,
            words: words_of(bits).max(1),
            size,
            pages: vec![Box::default(); size.div_ceil(PAGE)],
        }
    }

    /// Returns a cell of up to 64 bits; `None` for an index beyond the array.
    #[inline]
    pub(crate) fn get(&self, index: u64) -> Option<u64> {
        debug_assert_eq!(self.words, 1);
        let (page, cell) = place(index)?;
        match self.pages.get(page)?.get(cell) {
            Some(&value) => Some(value),
            None => (index < self.size as u64).then_some(0),
        }
    }

    /// Writes a cell of up to 64 bits, wrapped to its width. Does nothing outside of the array.
    #[inline]
    pub(crate) fn set(&mut self, index: u64, value: u64) {
        debug_assert_eq!(self.words, 1);
        let value = crate::exec::words::wrap(value, self.bits, false);
        let Some((page, cell)) = place(index) else {
            return;
        };
        match self.pages.get_mut(page).and_then(|page| page.get_mut(cell)) {
            Some(place) => *place = value,
            None if value != 0 => {
                if let Some(place) = self.touch(index) {
                    place[0] = value;
                }
            }
            None => {}
        }
    }

    /// Returns the words of a cell for writing, and allocates its page if necessary. `None` for an index beyond the
    /// array.
    #[cold]
    fn touch(&mut self, index: u64) -> Option<&mut [u64]> {
        let (page, cell) = place(index).filter(|_| index < self.size as u64)?;
        let cells = (self.size - page * PAGE).min(PAGE);
        let page = &mut self.pages[page];
        if page.is_empty() {
            *page = vec![0; cells * self.words].into();
        }
        page.get_mut(cell * self.words..(cell + 1) * self.words)
    }

    /// Returns a cell of any width; zero for an index beyond the array.
    pub(crate) fn read(&self, index: u64) -> Big {
        let words = place(index).and_then(|(page, cell)| {
            let page = self.pages.get(page)?;
            page.get(cell * self.words..(cell + 1) * self.words)
        });
        words.map_or_else(Big::default, Big::from_unsigned)
    }

    pub(crate) fn write(&mut self, index: u64, value: &Big) {
        let value = value.truncate(self.bits);
        // Cells of unallocated pages are zero already.
        let is_untouched = |(page, _)| self.is_untouched(page);
        if value.is_zero() && place(index).is_none_or(is_untouched) {
            return;
        }
        if let Some(cell) = self.touch(index) {
            for (i, word) in cell.iter_mut().enumerate() {
                *word = value.word(i);
            }
        }
    }

    fn is_untouched(&self, page: usize) -> bool {
        self.pages.get(page).is_none_or(|page| page.is_empty())
    }

    pub(crate) fn clear(&mut self) {
        self.pages.fill(Box::default());
    }
}

/// Splits a cell's index into its page and the position within the page; `None` if the page number exceeds `usize`.
#[inline]
fn place(index: u64) -> Option<(usize, usize)> {
    let page = usize::try_from(index >> PAGE_BITS).ok()?;
    Some((page, index as usize % PAGE))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn pages_in_use(register: &Register) -> usize {
        register
            .pages
            .iter()
            .filter(|page| !page.is_empty())
            .count()
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
