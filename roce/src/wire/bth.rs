//! Base Transport Header (IBTA vol. 1, 9.2), with the opcodes of the reliable connection and of unreliable datagrams.

use super::error::{need, Header, WireError};
use super::field::{get_u16, get_u24, put_u16, put_u24};
use super::psn::{Psn, QpNum};

/// Length of a BTH in bytes.
pub const HEADER_LEN: usize = 12;
/// Default partition key, with full membership.
pub const DEFAULT_PKEY: u16 = 0xffff;

const OPCODE: usize = 0;
const FLAGS: usize = 1;
const PKEY: usize = 2;
/// Offset of the byte with FECN, BECN and six reserved bits, which the ICRC masks.
pub const CONGESTION: usize = 4;
const DEST_QP: usize = 5;
const ACK_REQ: usize = 8;
const PSN: usize = 9;

/// Opcode of a packet: the operation, and the position of the packet in its message. The upper three bits are the
/// transport service (0: RC, 3: UD).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Opcode {
    /// First packet of a SEND of several packets.
    SendFirst,
    /// Packet between the first and the last of a SEND.
    SendMiddle,
    /// Last packet of a SEND, without immediate data.
    SendLast,
    /// Last packet of a SEND, with immediate data.
    SendLastImm,
    /// SEND of a single packet, without immediate data.
    SendOnly,
    /// SEND of a single packet, with immediate data.
    SendOnlyImm,
    /// First packet of an RDMA WRITE of several packets; has the RETH.
    WriteFirst,
    /// Packet between the first and the last of an RDMA WRITE.
    WriteMiddle,
    /// Last packet of an RDMA WRITE, without immediate data.
    WriteLast,
    /// Last packet of an RDMA WRITE, with immediate data.
    WriteLastImm,
    /// RDMA WRITE of a single packet, without immediate data.
    WriteOnly,
    /// RDMA WRITE of a single packet, with immediate data.
    WriteOnlyImm,
    /// Request of an RDMA READ.
    ReadRequest,
    /// First packet of the response to an RDMA READ.
    ReadResponseFirst,
    /// Packet between the first and the last of the response to an RDMA READ.
    ReadResponseMiddle,
    /// Last packet of the response to an RDMA READ.
    ReadResponseLast,
    /// Response of a single packet to an RDMA READ.
    ReadResponseOnly,
    /// ACK or NAK, with an AETH.
    Acknowledge,
    /// Response to an atomic operation.
    AtomicAcknowledge,
    /// Request of an atomic compare and swap.
    CompareSwap,
    /// Request of an atomic fetch and add.
    FetchAdd,
    /// Last packet of a SEND with Invalidate, which invalidates an R_Key at the receiver.
    SendLastInvalidate,
    /// SEND with Invalidate of a single packet, which invalidates an R_Key at the receiver.
    SendOnlyInvalidate,
    /// Datagram (UD SEND), without immediate data.
    UdSendOnly,
    /// Datagram (UD SEND), with immediate data.
    UdSendOnlyImm,
    /// Congestion notification packet (annex A17).
    Cnp,
    /// A reserved opcode, or one of another transport service.
    Other(u8),
}

/// Opcode byte and opcode of every known kind of packet.
const OPCODES: [(u8, Opcode); 26] = [
    (0x00, Opcode::SendFirst),
    (0x01, Opcode::SendMiddle),
    (0x02, Opcode::SendLast),
    (0x03, Opcode::SendLastImm),
    (0x04, Opcode::SendOnly),
    (0x05, Opcode::SendOnlyImm),
    (0x06, Opcode::WriteFirst),
    (0x07, Opcode::WriteMiddle),
    (0x08, Opcode::WriteLast),
    (0x09, Opcode::WriteLastImm),
    (0x0a, Opcode::WriteOnly),
    (0x0b, Opcode::WriteOnlyImm),
    (0x0c, Opcode::ReadRequest),
    (0x0d, Opcode::ReadResponseFirst),
    (0x0e, Opcode::ReadResponseMiddle),
    (0x0f, Opcode::ReadResponseLast),
    (0x10, Opcode::ReadResponseOnly),
    (0x11, Opcode::Acknowledge),
    (0x12, Opcode::AtomicAcknowledge),
    (0x13, Opcode::CompareSwap),
    (0x14, Opcode::FetchAdd),
    (0x16, Opcode::SendLastInvalidate),
    (0x17, Opcode::SendOnlyInvalidate),
    (0x64, Opcode::UdSendOnly),
    (0x65, Opcode::UdSendOnlyImm),
    (0x81, Opcode::Cnp),
];

impl From<u8> for Opcode {
    fn from(byte: u8) -> Opcode {
        match OPCODES.get(usize::from(byte)) {
            // The table has no gaps up to FetchAdd.
            Some((b, opcode)) if *b == byte => *opcode,
            _ => OPCODES
                .iter()
                .find(|(b, _)| *b == byte)
                .map_or(Opcode::Other(byte), |(_, opcode)| *opcode),
        }
    }
}

impl From<Opcode> for u8 {
    fn from(opcode: Opcode) -> u8 {
        if let Opcode::Other(byte) = opcode {
            return byte;
        }
        OPCODES
            .iter()
            .find(|(_, o)| *o == opcode)
            .map(|(b, _)| *b)
            .expect("every opcode but Other is in the table")
    }
}

impl Opcode {
    /// Whether a RETH follows the BTH.
    pub const fn has_reth(self) -> bool {
        matches!(
            self,
            Opcode::WriteFirst | Opcode::WriteOnly | Opcode::WriteOnlyImm | Opcode::ReadRequest
        )
    }

    /// Whether four bytes of immediate data follow.
    pub const fn has_immediate(self) -> bool {
        matches!(
            self,
            Opcode::SendLastImm
                | Opcode::SendOnlyImm
                | Opcode::WriteLastImm
                | Opcode::WriteOnlyImm
                | Opcode::UdSendOnlyImm
        )
    }

    /// Whether a DETH follows the BTH: the packet is a datagram.
    pub const fn has_deth(self) -> bool {
        matches!(self, Opcode::UdSendOnly | Opcode::UdSendOnlyImm)
    }

    /// Whether an AETH follows the BTH.
    pub const fn has_aeth(self) -> bool {
        matches!(
            self,
            Opcode::Acknowledge
                | Opcode::AtomicAcknowledge
                | Opcode::ReadResponseFirst
                | Opcode::ReadResponseLast
                | Opcode::ReadResponseOnly
        )
    }

    /// Whether the packet belongs to a SEND of a connection.
    pub const fn is_send(self) -> bool {
        matches!(
            self,
            Opcode::SendFirst
                | Opcode::SendMiddle
                | Opcode::SendLast
                | Opcode::SendLastImm
                | Opcode::SendOnly
                | Opcode::SendOnlyImm
                | Opcode::SendLastInvalidate
                | Opcode::SendOnlyInvalidate
        )
    }

    /// Whether the packet belongs to an RDMA WRITE.
    pub const fn is_write(self) -> bool {
        matches!(
            self,
            Opcode::WriteFirst
                | Opcode::WriteMiddle
                | Opcode::WriteLast
                | Opcode::WriteLastImm
                | Opcode::WriteOnly
                | Opcode::WriteOnlyImm
        )
    }

    /// Whether the packet is neither the first nor the last of a message.
    pub const fn is_middle(self) -> bool {
        matches!(self, Opcode::SendMiddle | Opcode::WriteMiddle)
    }

    /// Whether the packet begins a SEND or WRITE message.
    pub const fn is_first(self) -> bool {
        matches!(
            self,
            Opcode::SendFirst
                | Opcode::SendOnly
                | Opcode::SendOnlyImm
                | Opcode::SendOnlyInvalidate
                | Opcode::WriteFirst
                | Opcode::WriteOnly
                | Opcode::WriteOnlyImm
        )
    }

    /// Whether the packet ends a SEND or WRITE message.
    pub const fn is_last(self) -> bool {
        matches!(
            self,
            Opcode::SendLast
                | Opcode::SendLastImm
                | Opcode::SendLastInvalidate
                | Opcode::SendOnly
                | Opcode::SendOnlyImm
                | Opcode::SendOnlyInvalidate
                | Opcode::WriteLast
                | Opcode::WriteLastImm
                | Opcode::WriteOnly
                | Opcode::WriteOnlyImm
        )
    }

    /// Whether this is a request, which the responder handles, rather than a response or a notification.
    pub const fn is_request(self) -> bool {
        self.is_send()
            || self.is_write()
            || matches!(
                self,
                Opcode::ReadRequest | Opcode::CompareSwap | Opcode::FetchAdd
            )
    }
}

/// View of a buffer that contains a BTH.
#[derive(Debug, Clone, Copy)]
pub struct View<'a>(&'a [u8]);

impl<'a> View<'a> {
    /// Checks that `buffer` holds a BTH, and that its transport header version is 0.
    pub fn new_checked(buffer: &'a [u8]) -> Result<View<'a>, WireError> {
        need(Header::Bth, buffer, HEADER_LEN)?;
        let version = buffer[FLAGS] & 0x0f;
        if version != 0 {
            return Err(WireError::bad_field(Header::Bth, "tver", version.into()));
        }
        Ok(View(buffer))
    }

    /// Decoded opcode.
    pub fn opcode(&self) -> Opcode {
        self.0[OPCODE].into()
    }

    /// Solicited event bit: the receiver's completion causes an event.
    pub fn solicited(&self) -> bool {
        self.0[FLAGS] & 0x80 != 0
    }

    /// MigReq bit: state of automatic path migration.
    pub fn migrated(&self) -> bool {
        self.0[FLAGS] & 0x40 != 0
    }

    /// Bytes of padding after the payload, 0 to 3.
    pub fn pad_count(&self) -> u8 {
        (self.0[FLAGS] >> 4) & 3
    }

    /// Partition key.
    pub fn pkey(&self) -> u16 {
        get_u16(self.0, PKEY)
    }

    /// FECN bit: forward explicit congestion notification.
    pub fn fecn(&self) -> bool {
        self.0[CONGESTION] & 0x80 != 0
    }

    /// BECN bit: backward explicit congestion notification, set in a CNP.
    pub fn becn(&self) -> bool {
        self.0[CONGESTION] & 0x40 != 0
    }

    /// Number of the destination queue pair.
    pub fn dest_qp(&self) -> QpNum {
        QpNum::new(get_u24(self.0, DEST_QP))
    }

    /// AckReq bit: the requester requests an acknowledgement of this packet.
    pub fn ack_req(&self) -> bool {
        self.0[ACK_REQ] & 0x80 != 0
    }

    /// Packet sequence number.
    pub fn psn(&self) -> Psn {
        Psn::new(get_u24(self.0, PSN))
    }

    /// The bytes after the BTH: extension headers, payload, padding and ICRC.
    pub fn payload(&self) -> &'a [u8] {
        &self.0[HEADER_LEN..]
    }
}

/// Fields of a BTH.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Repr {
    /// Operation, and position of the packet in its message.
    pub opcode: Opcode,
    /// Solicited event bit: the receiver's completion causes an event.
    pub solicited: bool,
    /// State of automatic path migration. Always sent as 0, since paths do not migrate; not checked on receipt.
    pub migrated: bool,
    /// Bytes of padding after the payload, 0 to 3.
    pub pad_count: u8,
    /// Partition key.
    pub pkey: u16,
    /// FECN bit: forward explicit congestion notification.
    pub fecn: bool,
    /// BECN bit: backward explicit congestion notification, set in a CNP.
    pub becn: bool,
    /// Number of the destination queue pair.
    pub dest_qp: QpNum,
    /// AckReq bit: the requester requests an acknowledgement of this packet.
    pub ack_req: bool,
    /// Packet sequence number.
    pub psn: Psn,
}

impl Repr {
    /// Creates a BTH with the default partition key and no flag set.
    pub fn new(opcode: Opcode, dest_qp: QpNum, psn: Psn) -> Repr {
        Repr {
            opcode,
            solicited: false,
            migrated: false,
            pad_count: 0,
            pkey: DEFAULT_PKEY,
            fecn: false,
            becn: false,
            dest_qp,
            ack_req: false,
            psn,
        }
    }

    /// Decodes a BTH.
    pub fn parse(view: &View<'_>) -> Repr {
        Repr {
            opcode: view.opcode(),
            solicited: view.solicited(),
            migrated: view.migrated(),
            pad_count: view.pad_count(),
            pkey: view.pkey(),
            fecn: view.fecn(),
            becn: view.becn(),
            dest_qp: view.dest_qp(),
            ack_req: view.ack_req(),
            psn: view.psn(),
        }
    }

    /// Writes the BTH to the first [`HEADER_LEN`] bytes of `buffer`; panics if it is shorter.
    pub fn emit(&self, buffer: &mut [u8]) {
        buffer[OPCODE] = self.opcode.into();
        buffer[FLAGS] = u8::from(self.solicited) << 7
            | u8::from(self.migrated) << 6
            | (self.pad_count & 3) << 4;
        put_u16(buffer, PKEY, self.pkey);
        buffer[CONGESTION] = u8::from(self.fecn) << 7 | u8::from(self.becn) << 6;
        put_u24(buffer, DEST_QP, self.dest_qp.get());
        buffer[ACK_REQ] = u8::from(self.ack_req) << 7;
        put_u24(buffer, PSN, self.psn.get());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::testing::{rejects_every_shorter_prefix, unhex};
    use proptest::prelude::*;

    const BYTES: &str = "04 30 ffff 00 001234 80 fffffe";

    #[test]
    fn send_only_with_three_bytes_of_padding() {
        let bytes = unhex(BYTES);
        let repr = Repr::parse(&View::new_checked(&bytes).unwrap());
        let expected = Repr {
            pad_count: 3,
            ack_req: true,
            ..Repr::new(Opcode::SendOnly, QpNum::new(0x1234), Psn::new(0xff_fffe))
        };
        assert_eq!(repr, expected);
        let mut out = [0; HEADER_LEN];
        repr.emit(&mut out);
        assert_eq!(out[..], bytes[..]);
    }

    #[test]
    fn truncated_header_is_refused() {
        rejects_every_shorter_prefix(&unhex(BYTES), Header::Bth, |b| {
            View::new_checked(b).map(|_| ())
        });
    }

    #[test]
    fn reserved_transport_version_is_refused() {
        let mut bytes = unhex(BYTES);
        bytes[1] |= 1;
        let error = View::new_checked(&bytes).unwrap_err();
        assert_eq!(
            error.to_string(),
            "bth: field tver holds 0x1, which is not supported"
        );
    }

    #[test]
    fn every_opcode_byte_converts_back() {
        for byte in 0..=255u8 {
            assert_eq!(u8::from(Opcode::from(byte)), byte);
        }
        assert_eq!(Opcode::from(0x15), Opcode::Other(0x15));
        assert_eq!(Opcode::from(0x81), Opcode::Cnp);
    }

    proptest! {
        #[test]
        fn emitted_header_parses_back(
            opcode: u8, bits: [bool; 5], pad_count in 0u8..4, pkey: u16, qp in 0u32..1 << 24, psn in 0u32..1 << 24,
        ) {
            let repr = Repr {
                opcode: opcode.into(), solicited: bits[0], migrated: bits[1], pad_count, pkey,
                fecn: bits[2], becn: bits[3], dest_qp: QpNum::new(qp), ack_req: bits[4], psn: Psn::new(psn),
            };
            let mut out = [0; HEADER_LEN];
            repr.emit(&mut out);
            prop_assert_eq!(Repr::parse(&View::new_checked(&out).unwrap()), repr);
        }
    }
}
