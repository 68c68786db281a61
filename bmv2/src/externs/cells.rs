//! Arrays of cells at a place that machine code can find.

#[cfg(feature = "jit")]
use std::mem::offset_of;
use std::ops::{Deref, DerefMut};
use std::ptr::{self, NonNull};
use std::slice;

/// A boxed slice with a pointer to the first element at a known offset, which neither `Vec` nor `Box` has.
#[derive(Debug)]
pub(crate) struct Cells<T> {
    start: NonNull<T>,
    count: usize,
}

// SAFETY: the elements are owned, like those of a boxed slice.
unsafe impl<T: Send> Send for Cells<T> {}
// SAFETY: as above.
unsafe impl<T: Sync> Sync for Cells<T> {}

impl<T> Cells<T> {
    /// Offset in bytes of the pointer to the first element.
    #[cfg(feature = "jit")]
    pub const START: usize = offset_of!(Cells<T>, start);

    pub fn new(cells: Box<[T]>) -> Cells<T> {
        let count = cells.len();
        Cells {
            start: NonNull::from(Box::leak(cells)).cast(),
            count,
        }
    }
}

impl<T> Drop for Cells<T> {
    fn drop(&mut self) {
        let cells = ptr::slice_from_raw_parts_mut(self.start.as_ptr(), self.count);
        // SAFETY: `new` leaked a box of this slice.
        drop(unsafe { Box::from_raw(cells) });
    }
}

impl<T: Clone> Clone for Cells<T> {
    fn clone(&self) -> Cells<T> {
        Cells::new((**self).into())
    }
}

impl<T> Deref for Cells<T> {
    type Target = [T];

    #[inline]
    fn deref(&self) -> &[T] {
        // SAFETY: the elements are owned, and initialised by `new`.
        unsafe { slice::from_raw_parts(self.start.as_ptr(), self.count) }
    }
}

impl<T> DerefMut for Cells<T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut [T] {
        // SAFETY: as in `deref`.
        unsafe { slice::from_raw_parts_mut(self.start.as_ptr(), self.count) }
    }
}
