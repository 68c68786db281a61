//! The contiguous bytes of one broadcast at one rank.

/// Bytes of a broadcast at this rank. The standard of MPI lets the program read the root's bytes during the call, so
/// they are never borrowed mutably.
#[derive(Debug)]
pub(crate) enum Buffer<'a> {
    /// At the root: the bytes to send.
    Source(&'a [u8]),
    /// At the other ranks: the memory for the received bytes, which this rank may then send on.
    Target(&'a mut [u8]),
}

impl Buffer<'_> {
    /// Length in bytes.
    pub(crate) fn len(&self) -> usize {
        self.as_slice().len()
    }

    /// The bytes.
    pub(crate) fn as_slice(&self) -> &[u8] {
        match self {
            Buffer::Source(bytes) => bytes,
            Buffer::Target(bytes) => bytes,
        }
    }

    /// Address of the first byte, for functions of C that write to it at receivers only.
    pub(crate) fn as_mut_ptr(&mut self) -> *mut u8 {
        match self {
            Buffer::Source(bytes) => bytes.as_ptr().cast_mut(),
            Buffer::Target(bytes) => bytes.as_mut_ptr(),
        }
    }

    /// Copies bytes to the beginning of a target. A source has them already.
    pub(crate) fn receive(&mut self, received: &[u8]) {
        if let Buffer::Target(bytes) = self {
            bytes[..received.len()].copy_from_slice(received);
        }
    }

    /// The `len` bytes at `offset`.
    pub(crate) fn part(&mut self, offset: usize, len: usize) -> Buffer<'_> {
        let range = offset..offset + len;
        match self {
            Buffer::Source(bytes) => Buffer::Source(&bytes[range]),
            Buffer::Target(bytes) => Buffer::Target(&mut bytes[range]),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_target_receives_bytes_and_a_source_keeps_its_own() {
        let mut memory = [0; 4];
        let mut target = Buffer::Target(&mut memory);
        target.part(1, 2).receive(&[7, 8]);
        assert_eq!(target.as_slice(), [0, 7, 8, 0]);
        let mut source = Buffer::Source(&[1, 2]);
        source.receive(&[7, 8]);
        assert_eq!((source.as_slice(), source.len()), (&[1, 2][..], 2));
    }
}
