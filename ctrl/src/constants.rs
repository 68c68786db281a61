//! Constants of the contract with the pipeline.
//!
//! Defined in `p4src/shared/constants.p4`, from which [`alfirk_contract`] is generated; here they have the types of messages.

use alfirk_contract::{PacketInReason, PacketOutKind, RegisterName, RegisterOp, RegisterStatus};
use alfirk_roce::wire::MacAddr;

/// The address by which hosts see the fabric.
pub const VIRTUAL_MAC: MacAddr = MacAddr({
    let [_, _, bytes @ ..] = alfirk_contract::VIRTUAL_MAC.to_be_bytes();
    bytes
});

/// The port between pipeline and controller (`p4src/v1model/metadata.p4`), and the clone session that leads to it.
pub const CPU_PORT: u32 = alfirk_contract::CPU_PORT as u32;

/// `register_control.reg`: the newest PSN that a source has sent.
pub const REGISTER_SENT: u8 = RegisterName::Sent as u8;

/// `register_control.reg`, of a path: the newest PSN that its feedback has acknowledged, even beyond what was sent.
pub const REGISTER_CLAIMED: u8 = RegisterName::Claimed as u8;

/// `register_control.reg`: the port that the source is behind, 0 if there was none yet.
pub const REGISTER_SRC_PORT: u8 = RegisterName::SrcPort as u8;

/// `packet_out.kind`: the payload is a frame for `egress_port`.
pub const PACKET_OUT_FORWARD: u8 = PacketOutKind::Forward as u8;
/// `packet_out.kind`: the payload is a register control header.
pub const PACKET_OUT_REGISTERS: u8 = PacketOutKind::Registers as u8;

/// `packet_out.kind`: the payload is an ACK or NAK that the controller has aggregated, behind a feedback header.
pub const PACKET_OUT_FEEDBACK: u8 = PacketOutKind::Feedback as u8;

/// `packet_in.reason`: the answer to a register control header.
pub const PACKET_IN_REGISTERS: u8 = PacketInReason::Registers as u8;
/// `packet_in.reason`: a registration packet of a host.
pub const PACKET_IN_MRP: u8 = PacketInReason::Mrp as u8;
/// `packet_in.reason`: an ACK or NAK of a group whose minimum PSN the controller finds.
pub const PACKET_IN_FEEDBACK: u8 = PacketInReason::Feedback as u8;
/// `packet_in.reason`: old data of such a group, as an ACK of its PSN.
pub const PACKET_IN_PROBE: u8 = PacketInReason::Probe as u8;
/// `packet_in.reason`: data whose ICRC the controller is to make right, for the header's port.
pub const PACKET_IN_ICRC: u8 = PacketInReason::Icrc as u8;
/// `packet_in.reason`: a receiver has ended its queue pair.
pub const PACKET_IN_FATAL_NAK: u8 = PacketInReason::FatalNak as u8;

/// The range of addresses whose groups can have their ICRCs recomputed by the pipeline.
pub use alfirk_contract::{RECOMPUTE_MASK, RECOMPUTE_NETWORK};

/// `register_control.op`: set all state of a group.
pub const REGISTER_OP_INIT_GROUP: u8 = RegisterOp::InitGroup as u8;
/// `register_control.op`: read one register.
pub const REGISTER_OP_READ: u8 = RegisterOp::Read as u8;
/// `register_control.op`: write one register.
pub const REGISTER_OP_WRITE: u8 = RegisterOp::Write as u8;
/// `register_control.op`: set what was announced of the receivers' memory.
pub const REGISTER_OP_INIT_REGIONS: u8 = RegisterOp::InitRegions as u8;

/// `register_control.status`: done.
pub const REGISTER_STATUS_OK: u8 = RegisterStatus::Ok as u8;
/// `register_control.status`: unknown op.
pub const REGISTER_STATUS_BAD_OP: u8 = RegisterStatus::BadOp as u8;
/// `register_control.status`: unknown register.
pub const REGISTER_STATUS_BAD_REGISTER: u8 = RegisterStatus::BadRegister as u8;
/// `register_control.status`: group, path or count beyond the pipeline's sizes.
pub const REGISTER_STATUS_OUT_OF_RANGE: u8 = RegisterStatus::OutOfRange as u8;

/// `register_control.reg`: what was last acknowledged to the source, PSN above 24 bits of MSN.
pub const REGISTER_AGG: u8 = RegisterName::Agg as u8;
/// `register_control.reg`: of a path, its newest acknowledged PSN above 8 bits of path.
pub const REGISTER_ACK: u8 = RegisterName::Ack as u8;

/// The virtual address that senders use for the first byte of the members' regions.
///
/// This and [`VIRTUAL_RKEY`] are known to the controller and the hosts alone: to the pipeline they are part of the
/// XOR constants.
pub const VIRTUAL_VA: u64 = 0;
/// The R_Key that senders use for the members' regions.
pub const VIRTUAL_RKEY: u32 = 0;
