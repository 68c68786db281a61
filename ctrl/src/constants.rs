//! Constants of the contract with the pipeline.
//!
//! Their home is `p4src/shared/constants.p4`; a test reads that file and compares every one of them.

use alfirk_roce::wire::MacAddr;

/// The address by which hosts see the fabric.
pub const VIRTUAL_MAC: MacAddr = MacAddr([0x02, 0xa1, 0xf1, 0x4c, 0x00, 0x01]);

/// The port between pipeline and controller (`p4src/v1model/metadata.p4`), and the clone session that leads to it.
pub const CPU_PORT: u32 = 510;

/// `packet_out.kind`: the payload is a frame for `egress_port`.
pub const PACKET_OUT_FORWARD: u8 = 0;
/// `packet_out.kind`: the payload is a register control header.
pub const PACKET_OUT_REGISTERS: u8 = 1;

/// `packet_out.kind`: the payload is an ACK or NAK that the controller has aggregated, behind a feedback header.
pub const PACKET_OUT_FEEDBACK: u8 = 2;

/// `packet_in.reason`: the answer to a register control header.
pub const PACKET_IN_REGISTERS: u8 = 1;
/// `packet_in.reason`: a registration packet of a host.
pub const PACKET_IN_MRP: u8 = 2;
/// `packet_in.reason`: an ACK or NAK of a group whose minimum PSN the controller finds.
pub const PACKET_IN_FEEDBACK: u8 = 3;
/// `packet_in.reason`: old data of such a group, as an ACK of its PSN.
pub const PACKET_IN_PROBE: u8 = 4;
/// `packet_in.reason`: data whose ICRC the controller is to make right, for the header's port.
pub const PACKET_IN_ICRC: u8 = 5;
/// `packet_in.reason`: a receiver has ended its queue pair.
pub const PACKET_IN_FATAL_NAK: u8 = 6;

/// The first address of the range whose groups can have their ICRCs recomputed by the pipeline.
pub const RECOMPUTE_NETWORK: u32 = 0x0aff_8000;
/// The bits that all addresses of that range share.
pub const RECOMPUTE_MASK: u32 = 0xffff_8000;

/// `register_control.op`: set all state of a group.
pub const REGISTER_OP_INIT_GROUP: u8 = 1;
/// `register_control.op`: read one register.
pub const REGISTER_OP_READ: u8 = 2;
/// `register_control.op`: write one register.
pub const REGISTER_OP_WRITE: u8 = 3;
/// `register_control.op`: set what receivers were told of memory.
pub const REGISTER_OP_INIT_REGIONS: u8 = 4;

/// `register_control.status`: done.
pub const REGISTER_STATUS_OK: u8 = 0;
/// `register_control.status`: unknown op.
pub const REGISTER_STATUS_BAD_OP: u8 = 1;
/// `register_control.status`: unknown register.
pub const REGISTER_STATUS_BAD_REGISTER: u8 = 2;
/// `register_control.status`: group, path or count beyond the pipeline's sizes.
pub const REGISTER_STATUS_OUT_OF_RANGE: u8 = 3;

/// `register_control.reg`: what the source was told last, PSN above 24 bits of MSN.
pub const REGISTER_AGG: u8 = 1;
/// `register_control.reg`: of a path, its newest acknowledged PSN above 8 bits of path.
pub const REGISTER_ACK: u8 = 4;

/// The virtual address that senders use for the first byte of the members' regions.
///
/// This and [`VIRTUAL_RKEY`] are known to the controller and the hosts alone: to the pipeline they are part of the
/// XOR constants.
pub const VIRTUAL_VA: u64 = 0;
/// The R_Key that senders use for the members' regions.
pub const VIRTUAL_RKEY: u32 = 0;

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    /// `const TYPE NAME = VALUE;` lines of the P4 file.
    fn p4_constants() -> BTreeMap<String, u64> {
        let path =
            std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../p4src/shared/constants.p4");
        let text = std::fs::read_to_string(path).unwrap();
        text.lines()
            .filter_map(|line| {
                let (left, right) = line.strip_prefix("const ")?.split_once('=')?;
                let value = right.split_once(';')?.0.trim();
                let value = match value.get(..2) {
                    Some("0x") => u64::from_str_radix(&value[2..], 16),
                    Some("0b") => u64::from_str_radix(&value[2..], 2),
                    _ => value.parse(),
                };
                Some((left.split_whitespace().last()?.to_owned(), value.ok()?))
            })
            .collect()
    }

    #[test]
    fn constants_are_those_of_the_pipeline() {
        let p4 = p4_constants();
        let mac = VIRTUAL_MAC.0.iter().fold(0, |n, b| n << 8 | u64::from(*b));
        assert_eq!(p4["VIRTUAL_MAC"], mac);
        assert_eq!(p4["RECOMPUTE_NETWORK"], u64::from(RECOMPUTE_NETWORK));
        assert_eq!(p4["RECOMPUTE_MASK"], u64::from(RECOMPUTE_MASK));
        let bytes = [
            ("PACKET_OUT_FORWARD", PACKET_OUT_FORWARD),
            ("PACKET_OUT_REGISTERS", PACKET_OUT_REGISTERS),
            ("PACKET_OUT_FEEDBACK", PACKET_OUT_FEEDBACK),
            ("PACKET_IN_FEEDBACK", PACKET_IN_FEEDBACK),
            ("PACKET_IN_PROBE", PACKET_IN_PROBE),
            ("PACKET_IN_ICRC", PACKET_IN_ICRC),
            ("PACKET_IN_FATAL_NAK", PACKET_IN_FATAL_NAK),
            ("PACKET_IN_REGISTERS", PACKET_IN_REGISTERS),
            ("PACKET_IN_MRP", PACKET_IN_MRP),
            ("REGISTER_OP_INIT_GROUP", REGISTER_OP_INIT_GROUP),
            ("REGISTER_OP_READ", REGISTER_OP_READ),
            ("REGISTER_OP_WRITE", REGISTER_OP_WRITE),
            ("REGISTER_OP_INIT_REGIONS", REGISTER_OP_INIT_REGIONS),
            ("REGISTER_AGG", REGISTER_AGG),
            ("REGISTER_ACK", REGISTER_ACK),
            ("REGISTER_STATUS_OK", REGISTER_STATUS_OK),
            ("REGISTER_STATUS_BAD_OP", REGISTER_STATUS_BAD_OP),
            ("REGISTER_STATUS_BAD_REGISTER", REGISTER_STATUS_BAD_REGISTER),
            ("REGISTER_STATUS_OUT_OF_RANGE", REGISTER_STATUS_OUT_OF_RANGE),
        ];
        for (name, value) in bytes {
            assert_eq!(p4[name], u64::from(value), "{name}");
        }
    }
}
