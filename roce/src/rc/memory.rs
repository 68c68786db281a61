//! Registered memory regions, which messages are sent from and received into.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use alfirk_packet_io::frame::SharedBytes;

use super::buffer::Buffer;
use crate::verbs::DeviceError;
use crate::wire::mr_info;

/// The key of a memory region, used as L_Key and R_Key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct MemoryKey(pub u32);

impl fmt::Display for MemoryKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#x}", self.0)
    }
}

/// A range of bytes in a memory region.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct MemorySlice {
    /// Key of the region.
    pub key: MemoryKey,
    /// Offset in the region, in bytes.
    pub offset: u64,
    /// Length in bytes.
    pub len: u64,
}

/// Reason why an access to registered memory fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum MemoryError {
    /// No memory region or window has this key.
    #[error("no memory region has the key {0}")]
    NoSuchKey(MemoryKey),
    /// The access is beyond the end of the region or window.
    #[error("memory region {key} does not contain {len} bytes at {address:#x}")]
    OutOfBounds {
        /// Key of the region or window.
        key: MemoryKey,
        /// Offset or virtual address of the access.
        address: u64,
        /// Length of the access in bytes.
        len: u64,
    },
    /// The region cannot be written, because it was registered as read-only.
    #[error("memory region {0} is read-only")]
    ReadOnly(MemoryKey),
    /// The region does not permit remote WRITEs: it was registered without them.
    #[error("memory region {0} does not allow remote access")]
    NotRemote(MemoryKey),
    /// The key of a new region is in use or reserved.
    #[error("the memory key {0} is already in use")]
    KeyTaken(MemoryKey),
    /// The virtual addresses of a new region or window would exceed 64 bits.
    #[error("a memory region of {len} bytes at {va:#x} exceeds the address space")]
    BadAddress {
        /// Virtual address of the first byte.
        va: u64,
        /// Length in bytes.
        len: u64,
    },
    /// The RDMA device has reported an error.
    #[error(transparent)]
    Device(#[from] DeviceError),
}

enum Storage {
    Owned(Buffer),
    Shared(Arc<[u8]>),
}

/// A registered memory region.
pub struct MemoryRegion {
    key: MemoryKey,
    va: u64,
    storage: Storage,
    remote_write: bool,
}

impl MemoryRegion {
    /// Key of the region, used as L_Key and R_Key.
    pub fn key(&self) -> MemoryKey {
        self.key
    }

    /// Virtual address of the first byte, which remote WRITEs use.
    pub fn virtual_address(&self) -> u64 {
        self.va
    }

    /// Contents of the region.
    pub fn bytes(&self) -> &[u8] {
        self.part(0..self.len())
    }

    fn len(&self) -> usize {
        match &self.storage {
            Storage::Owned(buffer) => buffer.len(),
            Storage::Shared(bytes) => bytes.len(),
        }
    }

    fn part(&self, range: Range<usize>) -> &[u8] {
        match &self.storage {
            Storage::Owned(buffer) => buffer.read(range),
            Storage::Shared(bytes) => &bytes[range],
        }
    }

    fn range(&self, offset: u64, len: u64) -> Result<Range<usize>, MemoryError> {
        let size = self.len() as u64;
        match offset.checked_add(len) {
            Some(end) if end <= size => Ok(offset as usize..end as usize),
            _ => Err(MemoryError::OutOfBounds {
                key: self.key,
                address: offset,
                len,
            }),
        }
    }
}

/// A memory window: a part of a region with a key and an address of its own, open to remote WRITEs.
struct Window {
    region: MemoryKey,
    /// Offset of the window in the region, in bytes.
    offset: u64,
    len: u64,
    va: u64,
}

/// All memory regions of a host.
///
/// Virtual addresses that the table chooses are multiples of a power of two that is at least the region's length. The addresses of two
/// such regions differ by one XOR constant at every offset, so a switch can rewrite one into the other.
pub struct MemoryTable {
    regions: BTreeMap<u32, MemoryRegion>,
    /// Memory windows by key; regions and windows share one key space.
    windows: BTreeMap<u32, Window>,
    next_key: u32,
    next_va: u64,
}

/// Virtual address of the first region.
const FIRST_VA: u64 = 0x0100_0000_0000;
const PAGE: u64 = 4096;

impl MemoryTable {
    /// Creates an empty table. `seed` makes the keys of different hosts differ.
    pub fn new(seed: u32) -> MemoryTable {
        MemoryTable {
            regions: BTreeMap::new(),
            windows: BTreeMap::new(),
            next_key: (seed << 8) | 0x100 | (seed & 0xff),
            next_va: FIRST_VA,
        }
    }

    /// Registers a region of `len` zero bytes to receive data; `remote_write` allows remote WRITEs.
    pub fn register(&mut self, len: u64, remote_write: bool) -> MemoryKey {
        let key = self.free_key();
        let va = self.free_va(len);
        self.insert(
            key,
            va,
            Storage::Owned(Buffer::new(len as usize)),
            remote_write,
        );
        key
    }

    /// Registers a read-only region to send from.
    pub fn register_shared(&mut self, bytes: Arc<[u8]>) -> MemoryKey {
        let key = self.free_key();
        let va = self.free_va(bytes.len() as u64);
        self.insert(key, va, Storage::Shared(bytes), false);
        key
    }

    /// Registers a region with this key and address, open to remote WRITEs: for groups whose members all use the same.
    pub fn register_at(&mut self, key: MemoryKey, va: u64, len: u64) -> Result<(), MemoryError> {
        if self.is_taken(key.0) {
            return Err(MemoryError::KeyTaken(key));
        }
        if va.checked_add(len).is_none() {
            return Err(MemoryError::BadAddress { va, len });
        }
        self.insert(key, va, Storage::Owned(Buffer::new(len as usize)), true);
        Ok(())
    }

    /// Opens a part of a region to remote WRITEs at address `va`, with a key of its own. Deregistering the region also
    /// removes the window.
    pub fn bind_window(&mut self, part: MemorySlice, va: u64) -> Result<MemoryKey, MemoryError> {
        self.check(part)?;
        if va.checked_add(part.len).is_none() {
            return Err(MemoryError::BadAddress { va, len: part.len });
        }
        let key = self.free_key();
        let window = Window {
            region: part.key,
            offset: part.offset,
            len: part.len,
            va,
        };
        self.windows.insert(key.0, window);
        Ok(key)
    }

    /// Sets the expected content of a region. While writes match it, the region takes no memory of its own. It has no
    /// effect on results. It is ignored for a region that has been written to, has another length, or is read-only.
    pub fn expect(&mut self, key: MemoryKey, bytes: &Arc<[u8]>) -> Result<(), MemoryError> {
        let region = self
            .regions
            .get_mut(&key.0)
            .ok_or(MemoryError::NoSuchKey(key))?;
        if let Storage::Owned(buffer) = &mut region.storage {
            buffer.expect(bytes);
        }
        Ok(())
    }

    /// Deregisters a region and its windows.
    pub fn deregister(&mut self, key: MemoryKey) -> Result<(), MemoryError> {
        self.windows.retain(|_, window| window.region != key);
        let region = self.regions.remove(&key.0);
        region.map(drop).ok_or(MemoryError::NoSuchKey(key))
    }

    /// The region with key `key`.
    pub fn region(&self, key: MemoryKey) -> Result<&MemoryRegion, MemoryError> {
        self.regions.get(&key.0).ok_or(MemoryError::NoSuchKey(key))
    }

    /// Checks that a slice lies within its region.
    pub fn check(&self, slice: MemorySlice) -> Result<(), MemoryError> {
        let region = self.region(slice.key)?;
        region.range(slice.offset, slice.len).map(drop)
    }

    /// Contents of a slice.
    pub fn read(&self, slice: MemorySlice) -> Result<&[u8], MemoryError> {
        let region = self.region(slice.key)?;
        let range = region.range(slice.offset, slice.len)?;
        Ok(region.part(range))
    }

    /// Contents of a slice as reference-counted bytes. They are copied, unless the region is shared or holds its
    /// expected content.
    pub fn share(&self, slice: MemorySlice) -> Result<SharedBytes, MemoryError> {
        let region = self.region(slice.key)?;
        let range = region.range(slice.offset, slice.len)?;
        let original = match &region.storage {
            Storage::Owned(buffer) => buffer.original(&range),
            Storage::Shared(bytes) => Some(bytes),
        };
        Ok(match original {
            Some(bytes) => SharedBytes::new(Arc::clone(bytes), range),
            None => SharedBytes::copy(region.part(range)),
        })
    }

    /// Writes `bytes` to a region at `offset`.
    pub fn write(&mut self, key: MemoryKey, offset: u64, bytes: &[u8]) -> Result<(), MemoryError> {
        let region = self
            .regions
            .get_mut(&key.0)
            .ok_or(MemoryError::NoSuchKey(key))?;
        let range = region.range(offset, bytes.len() as u64)?;
        match &mut region.storage {
            Storage::Owned(buffer) => buffer.write(range.start, bytes),
            Storage::Shared(_) => return Err(MemoryError::ReadOnly(key)),
        }
        Ok(())
    }

    /// The slice to which a remote WRITE of `len` bytes at address `va` goes. Fails if `rkey` does not allow it.
    pub(super) fn remote_slice(
        &self,
        rkey: u32,
        va: u64,
        len: u64,
    ) -> Result<MemorySlice, MemoryError> {
        if let Some(window) = self.windows.get(&rkey) {
            let offset = va.checked_sub(window.va);
            let inside = offset.filter(|o| o.checked_add(len).is_some_and(|end| end <= window.len));
            return Ok(MemorySlice {
                key: window.region,
                offset: window.offset
                    + inside.ok_or(MemoryError::OutOfBounds {
                        key: MemoryKey(rkey),
                        address: va,
                        len,
                    })?,
                len,
            });
        }
        let region = self.region(MemoryKey(rkey))?;
        if !region.remote_write {
            return Err(MemoryError::NotRemote(region.key));
        }
        let out_of_bounds = MemoryError::OutOfBounds {
            key: region.key,
            address: va,
            len,
        };
        let offset = va.checked_sub(region.va).ok_or(out_of_bounds)?;
        region.range(offset, len).map_err(|_| out_of_bounds)?;
        Ok(MemorySlice {
            key: region.key,
            offset,
            len,
        })
    }

    fn insert(&mut self, key: MemoryKey, va: u64, storage: Storage, remote_write: bool) {
        let region = MemoryRegion {
            key,
            va,
            storage,
            remote_write,
        };
        self.regions.insert(key.0, region);
    }

    /// Whether a key is in use or reserved for memory region information.
    fn is_taken(&self, key: u32) -> bool {
        key == mr_info::R_KEY || self.regions.contains_key(&key) || self.windows.contains_key(&key)
    }

    fn free_key(&mut self) -> MemoryKey {
        while self.is_taken(self.next_key) {
            self.next_key = self.next_key.wrapping_add(0x100);
        }
        let key = MemoryKey(self.next_key);
        self.next_key = self.next_key.wrapping_add(0x100);
        key
    }

    fn free_va(&mut self, len: u64) -> u64 {
        let size = len.max(PAGE).next_power_of_two();
        let va = self.next_va.next_multiple_of(size);
        self.next_va = va + size;
        va
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chosen_addresses_are_aligned_to_their_size() {
        let mut table = MemoryTable::new(3);
        for len in [0, 1, 4096, 4097, 1 << 20, 5] {
            let key = table.register(len, true);
            let va = table.region(key).unwrap().virtual_address();
            assert_eq!(
                va % len.max(PAGE).next_power_of_two(),
                0,
                "{len} bytes at {va:#x}"
            );
        }
    }

    #[test]
    fn remote_access_is_checked() {
        let mut table = MemoryTable::new(0);
        let open = table.register(100, true);
        let closed = table.register(100, false);
        let va = |t: &MemoryTable, k| t.region(k).unwrap().virtual_address();
        let (open_va, closed_va) = (va(&table, open), va(&table, closed));
        let slice = |offset, len| {
            Ok(MemorySlice {
                key: open,
                offset,
                len,
            })
        };
        assert_eq!(table.remote_slice(open.0, open_va + 99, 1), slice(99, 1));
        assert_eq!(table.remote_slice(open.0, open_va + 100, 0), slice(100, 0));
        assert!(table.remote_slice(open.0, open_va + 99, 2).is_err());
        assert!(table.remote_slice(open.0, open_va - 1, 1).is_err());
        assert!(table.remote_slice(open.0, u64::MAX, 2).is_err());
        assert_eq!(
            table.remote_slice(closed.0, closed_va, 1),
            Err(MemoryError::NotRemote(closed))
        );
        assert!(table.remote_slice(closed.0 ^ 0xff, closed_va, 1).is_err());
    }

    #[test]
    fn window_opens_a_part_of_a_region_at_any_address() {
        let mut table = MemoryTable::new(0);
        let region = table.register(100, false);
        let part = |offset, len| MemorySlice {
            key: region,
            offset,
            len,
        };
        let va = 0x1234_5677;
        let window = table.bind_window(part(30, 20), va).unwrap();
        assert_eq!(table.remote_slice(window.0, va, 20), Ok(part(30, 20)));
        assert_eq!(table.remote_slice(window.0, va + 19, 1), Ok(part(49, 1)));
        assert!(table.remote_slice(window.0, va - 1, 1).is_err());
        assert!(table.remote_slice(window.0, va + 1, 20).is_err());
        assert!(table.bind_window(part(90, 11), va).is_err());
        assert!(table.bind_window(part(0, 10), u64::MAX).is_err());
        table.deregister(region).unwrap();
        assert!(table.remote_slice(window.0, va, 1).is_err());
        assert_eq!(
            table.register_at(MemoryKey(mr_info::R_KEY), 0, 1),
            Err(MemoryError::KeyTaken(MemoryKey(mr_info::R_KEY)))
        );
    }

    #[test]
    fn shared_bytes_are_read_only() {
        let mut table = MemoryTable::new(0);
        let key = table.register_shared(Arc::from(&b"flock"[..]));
        assert_eq!(table.write(key, 0, b"x"), Err(MemoryError::ReadOnly(key)));
        let slice = MemorySlice {
            key,
            offset: 1,
            len: 4,
        };
        assert_eq!(table.read(slice), Ok(&b"lock"[..]));
        assert_eq!(table.deregister(key), Ok(()));
        assert_eq!(table.read(slice), Err(MemoryError::NoSuchKey(key)));
    }

    #[test]
    fn expected_content_changes_only_memory_use() {
        let mut table = MemoryTable::new(0);
        let original: Arc<[u8]> = Arc::from(&b"flock"[..]);
        let key = table.register(5, true);
        let region = |table: &MemoryTable| table.region(key).unwrap().bytes().as_ptr();
        table.expect(key, &original).unwrap();
        table.write(key, 0, b"flo").unwrap();
        assert_eq!(table.expect(key, &Arc::from(&b"other"[..])), Ok(()));
        table.write(key, 3, b"ck").unwrap();
        assert_eq!(region(&table), original.as_ptr(), "the first one held");
        table.write(key, 4, b"d").unwrap();
        assert_eq!(table.region(key).unwrap().bytes(), b"flocd");

        let longer = table.register(6, true);
        table.expect(longer, &original).unwrap();
        assert_eq!(table.region(longer).unwrap().bytes(), [0; 6]);
        let shared = table.register_shared(Arc::from(&b"other"[..]));
        table.expect(shared, &original).unwrap();
        assert_eq!(table.region(shared).unwrap().bytes(), b"other");
        let absent = MemoryKey(0);
        let error = Err(MemoryError::NoSuchKey(absent));
        assert_eq!(table.expect(absent, &original), error);
    }

    #[test]
    fn chosen_keys_must_be_free() {
        let mut table = MemoryTable::new(0);
        let key = MemoryKey(0x1234_5678);
        assert_eq!(table.register_at(key, 1 << 40, 64), Ok(()));
        assert_eq!(
            table.register_at(key, 1 << 41, 64),
            Err(MemoryError::KeyTaken(key))
        );
        assert!(table.register_at(MemoryKey(1), u64::MAX, 64).is_err());
    }
}
