//! Register arrays.

use crate::exec::big::Big;
use crate::exec::expr::words_of;

/// The cells of one register array.
#[derive(Clone, Debug)]
pub struct Register {
    bits: u32,
    words: usize,
    cells: Vec<u64>,
}

impl Register {
    pub(crate) fn new(size: usize, bits: u32) -> Register {
        let words = words_of(bits).max(1);
        Register {
            bits,
            words,
            cells: vec![0; size * words],
        }
    }

    /// A cell of up to 64 bits.
    #[inline]
    pub(crate) fn get(&self, index: u64) -> Option<u64> {
        debug_assert_eq!(self.words, 1);
        usize::try_from(index)
            .ok()
            .and_then(|i| self.cells.get(i))
            .copied()
    }

    /// Writes a cell of up to 64 bits, wrapped to its width. Outside of the array nothing happens.
    #[inline]
    pub(crate) fn set(&mut self, index: u64, value: u64) {
        debug_assert_eq!(self.words, 1);
        let bits = self.bits;
        if let Some(cell) = usize::try_from(index)
            .ok()
            .and_then(|i| self.cells.get_mut(i))
        {
            *cell = crate::exec::expr::wrap(value, bits, false);
        }
    }

    fn cell(&self, index: u64) -> Option<std::ops::Range<usize>> {
        let start = usize::try_from(index).ok()?.checked_mul(self.words)?;
        (start < self.cells.len()).then_some(start..start + self.words)
    }

    /// Any cell; zero outside of the array.
    pub(crate) fn read(&self, index: u64) -> Big {
        self.cell(index)
            .map_or_else(Big::default, |cell| Big::from_unsigned(&self.cells[cell]))
    }

    pub(crate) fn write(&mut self, index: u64, value: &Big) {
        let value = value.truncate(self.bits);
        if let Some(cell) = self.cell(index) {
            for (i, word) in self.cells[cell].iter_mut().enumerate() {
                *word = value.word(i);
            }
        }
    }

    pub(crate) fn clear(&mut self) {
        self.cells.fill(0);
    }
}
