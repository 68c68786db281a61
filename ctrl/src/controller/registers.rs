//! The register control header: register access by PacketOut, answered by PacketIn.
//!
//! P4Runtime servers of BMv2 refuse RegisterEntry, so the pipeline itself executes these packets
//! (`p4src/shared/headers.p4`, `register_control_t`).

use super::position::Position;
use crate::constants::{
    REGISTER_OP_INIT_GROUP, REGISTER_OP_INIT_REGIONS, REGISTER_OP_READ, REGISTER_STATUS_BAD_OP,
    REGISTER_STATUS_BAD_REGISTER, REGISTER_STATUS_OK, REGISTER_STATUS_OUT_OF_RANGE,
};

/// The header, field by field; 20 bytes on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RegisterControl {
    /// One of `REGISTER_OP_*`.
    pub op: u8,
    /// One of `REGISTER_STATUS_*`; 0 in requests.
    pub status: u8,
    /// Which register; 0 when the op concerns all.
    pub reg: u8,
    /// Paths that INIT_GROUP sets, or receivers that INIT_REGIONS does.
    pub count: u8,
    /// The group's index on the switch; for INIT_REGIONS the upper half of the first receiver's slot.
    pub group: u16,
    /// The path, for registers that have one cell per path; for INIT_REGIONS the lower half of the slot.
    pub index: u16,
    /// Value to write, or read.
    pub value: u64,
    /// Comes back in the answer.
    pub cookie: u32,
}

impl RegisterControl {
    /// Bytes on the wire.
    pub const LEN: usize = 20;

    /// Sets all state of a group as when everything up to `position` was acknowledged by all.
    pub(super) fn init_group(group: u16, paths: u8, position: Position) -> RegisterControl {
        RegisterControl {
            op: REGISTER_OP_INIT_GROUP,
            status: REGISTER_STATUS_OK,
            reg: 0,
            count: paths,
            group,
            index: 0,
            value: position.to_init(),
            cookie: 0,
        }
    }

    /// Asks for a register of a group, one of `REGISTER_*`; `path` counts for those that have a cell per path.
    pub fn read(group: u16, reg: u8, path: u8) -> RegisterControl {
        RegisterControl {
            op: REGISTER_OP_READ,
            status: REGISTER_STATUS_OK,
            reg,
            count: 0,
            group,
            index: u16::from(path),
            value: 0,
            cookie: 0,
        }
    }

    /// Sets what `count` receivers from slot `first` on were told of memory as when nothing was.
    pub(super) fn init_regions(first: u32, count: u8, position: Position) -> RegisterControl {
        RegisterControl {
            op: REGISTER_OP_INIT_REGIONS,
            status: REGISTER_STATUS_OK,
            reg: 0,
            count,
            group: (first >> 16) as u16,
            index: first as u16,
            value: position.to_init(),
            cookie: 0,
        }
    }

    /// The payload of a PacketOut or PacketIn.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(Self::LEN);
        bytes.extend([self.op, self.status, self.reg, self.count]);
        bytes.extend(self.group.to_be_bytes());
        bytes.extend(self.index.to_be_bytes());
        bytes.extend(self.value.to_be_bytes());
        bytes.extend(self.cookie.to_be_bytes());
        bytes
    }

    /// Reads a payload; bytes behind the header (Ethernet padding) are ignored.  `None` when it is too short.
    pub fn from_bytes(bytes: &[u8]) -> Option<RegisterControl> {
        let bytes: &[u8; Self::LEN] = bytes.first_chunk()?;
        let word = |at: usize| u16::from_be_bytes([bytes[at], bytes[at + 1]]);
        let long = |at: usize| (u64::from(word(at)) << 16) | u64::from(word(at + 2));
        Some(RegisterControl {
            op: bytes[0],
            status: bytes[1],
            reg: bytes[2],
            count: bytes[3],
            group: word(4),
            index: word(6),
            value: long(8) << 32 | long(12),
            cookie: u32::try_from(long(16)).ok()?,
        })
    }
}

/// What a status means; `None` when all is well.
pub(super) fn refusal(status: u8) -> Option<&'static str> {
    match status {
        REGISTER_STATUS_OK => None,
        REGISTER_STATUS_BAD_OP => Some("unknown operation"),
        REGISTER_STATUS_BAD_REGISTER => Some("unknown register"),
        REGISTER_STATUS_OUT_OF_RANGE => Some("group or path beyond the pipeline's sizes"),
        _ => Some("unknown reason"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_survive_the_wire() {
        let header = RegisterControl {
            op: 2,
            status: 3,
            reg: 4,
            count: 5,
            group: 0x0607,
            index: 0x0809,
            value: 0x0a0b_0c0d_0e0f_1011,
            cookie: 0x1213_1415,
        };
        let bytes = header.to_bytes();
        assert_eq!(bytes, (2..=0x15).collect::<Vec<u8>>());
        assert_eq!(RegisterControl::from_bytes(&bytes), Some(header));
        for len in 0..bytes.len() {
            assert_eq!(RegisterControl::from_bytes(&bytes[..len]), None);
        }
        let padded = [bytes.as_slice(), &[0; 40]].concat();
        assert_eq!(RegisterControl::from_bytes(&padded), Some(header));
    }
}
