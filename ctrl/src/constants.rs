//! Constants of the contract with the pipeline.
//!
//! They are defined in `p4src/shared/constants.p4`, from which [`alfirk_contract`] is generated. Here they are converted to
//! the types of P4Runtime messages.

use alfirk_contract::{PacketInReason, PacketOutKind, RegisterName, RegisterOp, RegisterStatus};
use alfirk_roce::wire::MacAddr;

/// Ethernet address of the fabric: ARP replies for group addresses contain it, and hosts send group packets to it.
pub const VIRTUAL_MAC: MacAddr = MacAddr({
    let [_, _, bytes @ ..] = alfirk_contract::VIRTUAL_MAC.to_be_bytes();
    bytes
});

/// Port between pipeline and controller (`p4src/v1model/metadata.p4`); also the id of the clone session to that port.
pub const CPU_PORT: u32 = alfirk_contract::CPU_PORT as u32;

/// `register_control.reg`: the newest PSN that a source has sent.
pub const REGISTER_SENT: u8 = RegisterName::Sent as u8;

/// `register_control.reg`, per path: the newest PSN in ACKs and NAKs from the path, not checked against the newest PSN
/// sent.
pub const REGISTER_CLAIMED: u8 = RegisterName::Claimed as u8;

/// `register_control.reg`: the port that leads to the source; 0 if no source has sent yet.
pub const REGISTER_SRC_PORT: u8 = RegisterName::SrcPort as u8;

/// `packet_out.kind`: the payload is a frame for `egress_port`.
pub const PACKET_OUT_FORWARD: u8 = PacketOutKind::Forward as u8;
/// `packet_out.kind`: the payload is a register control header.
pub const PACKET_OUT_REGISTERS: u8 = PacketOutKind::Registers as u8;

/// `packet_out.kind`: the payload is a feedback header, followed by an ACK or NAK that the controller has aggregated.
pub const PACKET_OUT_FEEDBACK: u8 = PacketOutKind::Feedback as u8;

/// `packet_in.reason`: the reply to a register control header.
pub const PACKET_IN_REGISTERS: u8 = PacketInReason::Registers as u8;
/// `packet_in.reason`: a registration packet of a host.
pub const PACKET_IN_MRP: u8 = PacketInReason::Mrp as u8;
/// `packet_in.reason`: an ACK or NAK of a group whose minimum PSN the controller computes ([`MinPsn::Punt`](crate::strategy::MinPsn)).
pub const PACKET_IN_FEEDBACK: u8 = PacketInReason::Feedback as u8;
/// `packet_in.reason`: a retransmission in a group whose minimum PSN the controller computes. It is reported as an ACK of
/// its PSN, and acknowledged if all receivers have it.
pub const PACKET_IN_PROBE: u8 = PacketInReason::Probe as u8;
/// `packet_in.reason`: data whose ICRC the controller recomputes; the port in the PacketIn header is the egress port.
pub const PACKET_IN_ICRC: u8 = PacketInReason::Icrc as u8;
/// `packet_in.reason`: a fatal NAK, whose sender's queue pair is in the error state.
pub const PACKET_IN_FATAL_NAK: u8 = PacketInReason::FatalNak as u8;

/// The range of addresses whose groups can have their ICRCs recomputed by the pipeline.
pub use alfirk_contract::{RECOMPUTE_MASK, RECOMPUTE_NETWORK};

/// `register_control.op`: initialise all registers of a group.
pub const REGISTER_OP_INIT_GROUP: u8 = RegisterOp::InitGroup as u8;
/// `register_control.op`: read one register.
pub const REGISTER_OP_READ: u8 = RegisterOp::Read as u8;
/// `register_control.op`: write one register.
pub const REGISTER_OP_WRITE: u8 = RegisterOp::Write as u8;
/// `register_control.op`: clear the memory regions announced by receivers.
pub const REGISTER_OP_INIT_REGIONS: u8 = RegisterOp::InitRegions as u8;

/// `register_control.status`: done.
pub const REGISTER_STATUS_OK: u8 = RegisterStatus::Ok as u8;
/// `register_control.status`: unknown op.
pub const REGISTER_STATUS_BAD_OP: u8 = RegisterStatus::BadOp as u8;
/// `register_control.status`: unknown register.
pub const REGISTER_STATUS_BAD_REGISTER: u8 = RegisterStatus::BadRegister as u8;
/// `register_control.status`: group, path or count beyond the pipeline's sizes.
pub const REGISTER_STATUS_OUT_OF_RANGE: u8 = RegisterStatus::OutOfRange as u8;

/// `register_control.reg`: position last acknowledged to the source; PSN in bits 24 to 47, MSN in bits 0 to 23.
pub const REGISTER_AGG: u8 = RegisterName::Agg as u8;
/// `register_control.reg`, per path: its newest acknowledged PSN in bits 8 to 31, the path number in bits 0 to 7.
pub const REGISTER_ACK: u8 = RegisterName::Ack as u8;

/// Virtual address in a sender's RETH that stands for the first byte of every member's memory region.
///
/// The pipeline does not contain this constant or [`VIRTUAL_RKEY`]: it rewrites both by XOR constants per member.
pub const VIRTUAL_VA: u64 = 0;
/// R_Key in a sender's RETH that stands for every member's memory region.
pub const VIRTUAL_RKEY: u32 = 0;
