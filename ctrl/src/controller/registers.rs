//! Register control header: register access by PacketOut, with the reply in a PacketIn.
//!
//! BMv2's P4Runtime server does not support RegisterEntry, so the pipeline itself executes these packets
//! (`p4src/shared/headers.p4`, `register_control_t`).

use super::position::Position;
use crate::constants::{
    REGISTER_AGG, REGISTER_OP_INIT_GROUP, REGISTER_OP_INIT_REGIONS, REGISTER_OP_READ,
    REGISTER_OP_WRITE, REGISTER_SRC_PORT, REGISTER_STATUS_BAD_OP, REGISTER_STATUS_BAD_REGISTER,
    REGISTER_STATUS_OK, REGISTER_STATUS_OUT_OF_RANGE,
};

pub use alfirk_contract::RegisterControl;

/// Request that initialises the registers of the group with index `group`, as if all members had acknowledged `position`.
/// `source`: port that leads to the source, 0 for none.
pub(super) fn init_group(
    group: u16,
    paths: u8,
    position: Position,
    source: u32,
) -> RegisterControl {
    RegisterControl {
        op: REGISTER_OP_INIT_GROUP,
        count: paths,
        group,
        value: u64::from(source as u16) << 48 | position.to_init(),
        ..RegisterControl::default()
    }
}

/// Request that sets the port of a group's source.
pub(super) fn set_source(group: u16, port: u32) -> RegisterControl {
    RegisterControl {
        op: REGISTER_OP_WRITE,
        reg: REGISTER_SRC_PORT,
        group,
        value: u64::from(port as u16),
        ..RegisterControl::default()
    }
}

/// Request that sets the position last acknowledged to the source. Its MSN may be too old: the next MSN may be up to 2^15
/// ahead (`p4src/v1model/last_acked.p4`).
pub(super) fn set_last_acked(group: u16, position: Position) -> RegisterControl {
    RegisterControl {
        op: REGISTER_OP_WRITE,
        reg: REGISTER_AGG,
        group,
        value: position.to_register(),
        ..RegisterControl::default()
    }
}

/// Requests after INIT_GROUP when a switch has lost its registers. They set the position, whose MSN may be a lower bound,
/// and the port of the source unless it is 0.
pub(super) fn after_init(
    group: u16,
    position: Position,
    source: u32,
) -> impl Iterator<Item = RegisterControl> {
    let source = (source != 0).then(|| set_source(group, source));
    [set_last_acked(group, position)].into_iter().chain(source)
}

/// Request that reads the register `reg` (one of `REGISTER_*`) of the group with index `group`. `path`: number of the
/// path, for registers with a cell per path.
pub fn read(group: u16, reg: u8, path: u8) -> RegisterControl {
    RegisterControl {
        op: REGISTER_OP_READ,
        reg,
        group,
        index: u16::from(path),
        ..RegisterControl::default()
    }
}

/// Request that clears the announced memory regions of `count` receivers, from slot `first`.
pub(super) fn init_regions(first: u32, count: u8, position: Position) -> RegisterControl {
    RegisterControl {
        op: REGISTER_OP_INIT_REGIONS,
        count,
        group: (first >> 16) as u16,
        index: first as u16,
        value: position.to_init(),
        ..RegisterControl::default()
    }
}

/// Parses the payload of a PacketIn; bytes after the header (Ethernet padding) are ignored. `None` if it is too short.
pub fn parse(payload: &[u8]) -> Option<RegisterControl> {
    payload.first_chunk().map(RegisterControl::from_bytes)
}

/// Describes an error status; `None` for success.
pub(super) fn status_error(status: u8) -> Option<&'static str> {
    match status {
        REGISTER_STATUS_OK => None,
        REGISTER_STATUS_BAD_OP => Some("unknown operation"),
        REGISTER_STATUS_BAD_REGISTER => Some("unknown register"),
        REGISTER_STATUS_OUT_OF_RANGE => {
            Some("group index, path or count exceeds the sizes of the pipeline")
        }
        _ => Some("unknown reason"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_round_trip() {
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
        assert_eq!(bytes.to_vec(), (2..=0x15).collect::<Vec<u8>>());
        assert_eq!(parse(&bytes), Some(header));
        for len in 0..bytes.len() {
            assert_eq!(parse(&bytes[..len]), None);
        }
        let padded = [bytes.as_slice(), &[0; 40]].concat();
        assert_eq!(parse(&padded), Some(header));
    }
}
