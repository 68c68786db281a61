//! RoCEv2: base transport header, extension headers, CNP, ICRC; and registration packets of groups (MRP). Fields are
//! read and written by `alfirk_roce::wire`.

use std::borrow::Cow;

use alfirk_roce::wire::bth::Opcode;
use alfirk_roce::wire::{aeth, atomic_eth, bth, cnp, deth, icrc, immdt, mrp, reth, Psn, QpNum};

use super::{fixed, Access, Field, Kind, Names, PLAIN};
use crate::layer::{Layer, Protocol};

/// Changes a header of `N` bytes: decodes it, changes the fields and encodes both versions. Only the bits in which the
/// two differ are written, so that reserved bits keep their values.
fn edit<R, const N: usize>(
    bytes: &mut [u8],
    parse: fn(&[u8]) -> Option<R>,
    emit: fn(&R, &mut [u8]),
    change: impl FnOnce(&mut R),
) {
    let Some(mut fields) = parse(bytes) else {
        return;
    };
    let (mut old, mut new) = ([0; N], [0; N]);
    emit(&fields, &mut old);
    change(&mut fields);
    emit(&fields, &mut new);
    for (byte, (old, new)) in bytes.iter_mut().zip(old.into_iter().zip(new)) {
        *byte ^= old ^ new;
    }
}

/// Access to a field: module of `alfirk_roce::wire` with length, function that decodes the header, getter, setter.
macro_rules! wire {
    ($length:expr, $parse:ident, $emit:path, |$old:ident| $get:expr, |$new:ident, $number:ident| $set:expr) => {
        Access::Library {
            get: |bytes| {
                let $old = $parse(bytes)?;
                Some(u128::from($get))
            },
            set: |bytes, $number| {
                edit::<_, { $length }>(bytes, $parse, $emit, |$new| $set);
            },
        }
    };
}

macro_rules! bth_field {
    (|$old:ident| $get:expr, |$new:ident, $number:ident| $set:expr) => {
        wire!(
            bth::HEADER_LEN,
            parse_bth,
            bth::Repr::emit,
            |$old| $get,
            |$new, $number| $set
        )
    };
}

/// Decodes a BTH of any version; `bth::View` accepts 0 only.
fn parse_bth(bytes: &[u8]) -> Option<bth::Repr> {
    let mut header = [0; bth::HEADER_LEN];
    header.copy_from_slice(bytes.get(..bth::HEADER_LEN)?);
    header[1] &= 0xf0;
    Some(bth::Repr::parse(&bth::View::new_checked(&header).ok()?))
}

fn parse_reth(bytes: &[u8]) -> Option<reth::Repr> {
    Some(reth::Repr::parse(&reth::View::new_checked(bytes).ok()?))
}

fn parse_aeth(bytes: &[u8]) -> Option<aeth::Repr> {
    Some(aeth::Repr::parse(&aeth::View::new_checked(bytes).ok()?))
}

fn parse_deth(bytes: &[u8]) -> Option<deth::Repr> {
    Some(deth::Repr::parse(&deth::View::new_checked(bytes).ok()?))
}

fn parse_atomic(bytes: &[u8]) -> Option<atomic_eth::Repr> {
    let view = atomic_eth::View::new_checked(bytes).ok()?;
    Some(atomic_eth::Repr::parse(&view))
}

fn parse_atomic_ack(bytes: &[u8]) -> Option<atomic_eth::AckRepr> {
    let view = atomic_eth::AckView::new_checked(bytes).ok()?;
    Some(atomic_eth::AckRepr::parse(&view))
}

fn parse_immdt(bytes: &[u8]) -> Option<immdt::Repr> {
    Some(immdt::Repr::parse(&immdt::View::new_checked(bytes).ok()?))
}

fn parse_icrc(bytes: &[u8]) -> Option<icrc::Repr> {
    Some(icrc::Repr::parse(&icrc::View::new_checked(bytes).ok()?))
}

/// Names of the opcodes (IBTA vol. 1, table 38). Those of the reliable connection also have the prefix of their
/// transport service, as in scapy.
const OPCODES: Names = &[
    (0x00, "SEND_FIRST"),
    (0x01, "SEND_MIDDLE"),
    (0x02, "SEND_LAST"),
    (0x03, "SEND_LAST_WITH_IMMEDIATE"),
    (0x04, "SEND_ONLY"),
    (0x05, "SEND_ONLY_WITH_IMMEDIATE"),
    (0x06, "RDMA_WRITE_FIRST"),
    (0x07, "RDMA_WRITE_MIDDLE"),
    (0x08, "RDMA_WRITE_LAST"),
    (0x09, "RDMA_WRITE_LAST_WITH_IMMEDIATE"),
    (0x0a, "RDMA_WRITE_ONLY"),
    (0x0b, "RDMA_WRITE_ONLY_WITH_IMMEDIATE"),
    (0x0c, "RDMA_READ_REQUEST"),
    (0x0d, "RDMA_READ_RESPONSE_FIRST"),
    (0x0e, "RDMA_READ_RESPONSE_MIDDLE"),
    (0x0f, "RDMA_READ_RESPONSE_LAST"),
    (0x10, "RDMA_READ_RESPONSE_ONLY"),
    (0x11, "ACKNOWLEDGE"),
    (0x12, "ATOMIC_ACKNOWLEDGE"),
    (0x13, "COMPARE_SWAP"),
    (0x14, "FETCH_ADD"),
    (0x16, "SEND_LAST_WITH_INVALIDATE"),
    (0x17, "SEND_ONLY_WITH_INVALIDATE"),
    (0x64, "UD_SEND_ONLY"),
    (0x65, "UD_SEND_ONLY_WITH_IMMEDIATE"),
    (0x81, "CNP"),
    (0x00, "RC_SEND_FIRST"),
    (0x01, "RC_SEND_MIDDLE"),
    (0x02, "RC_SEND_LAST"),
    (0x03, "RC_SEND_LAST_WITH_IMMEDIATE"),
    (0x04, "RC_SEND_ONLY"),
    (0x05, "RC_SEND_ONLY_WITH_IMMEDIATE"),
    (0x06, "RC_RDMA_WRITE_FIRST"),
    (0x07, "RC_RDMA_WRITE_MIDDLE"),
    (0x08, "RC_RDMA_WRITE_LAST"),
    (0x09, "RC_RDMA_WRITE_LAST_WITH_IMMEDIATE"),
    (0x0a, "RC_RDMA_WRITE_ONLY"),
    (0x0b, "RC_RDMA_WRITE_ONLY_WITH_IMMEDIATE"),
    (0x0c, "RC_RDMA_READ_REQUEST"),
    (0x0d, "RC_RDMA_READ_RESPONSE_FIRST"),
    (0x0e, "RC_RDMA_READ_RESPONSE_MIDDLE"),
    (0x0f, "RC_RDMA_READ_RESPONSE_LAST"),
    (0x10, "RC_RDMA_READ_RESPONSE_ONLY"),
    (0x11, "RC_ACKNOWLEDGE"),
    (0x12, "RC_ATOMIC_ACKNOWLEDGE"),
    (0x13, "RC_COMPARE_SWAP"),
    (0x14, "RC_FETCH_ADD"),
];

/// Base transport header (IBTA vol. 1, 9.2). Without an opcode it is that of the extension headers inside, else of a
/// SEND of one packet.
pub static BTH: Protocol = Protocol {
    name: Cow::Borrowed("BTH"),
    template: Cow::Borrowed(&[4, 0, 0xff, 0xff, 0, 0, 0, 0, 0, 0, 0, 0]),
    fields: Cow::Borrowed(&[
        Field::new(
            "opcode",
            Kind::Named(OPCODES),
            0,
            8,
            bth_field!(|h| u8::from(h.opcode), |h, n| h.opcode = (n as u8).into()),
        )
        .computed(),
        Field::new(
            "solicited",
            Kind::Decimal,
            8,
            1,
            bth_field!(|h| h.solicited, |h, n| h.solicited = n & 1 == 1),
        ),
        Field::new(
            "migreq",
            Kind::Decimal,
            9,
            1,
            bth_field!(|h| h.migrated, |h, n| h.migrated = n & 1 == 1),
        ),
        Field::new(
            "padcount",
            Kind::Decimal,
            10,
            2,
            bth_field!(|h| h.pad_count, |h, n| h.pad_count = n as u8 & 3),
        )
        .computed(),
        Field::new("version", Kind::Decimal, 12, 4, Access::Bits),
        Field::new(
            "pkey",
            Kind::Hex,
            16,
            16,
            bth_field!(|h| h.pkey, |h, n| h.pkey = n as u16),
        ),
        Field::new(
            "fecn",
            Kind::Decimal,
            32,
            1,
            bth_field!(|h| h.fecn, |h, n| h.fecn = n & 1 == 1),
        ),
        Field::new(
            "becn",
            Kind::Decimal,
            33,
            1,
            bth_field!(|h| h.becn, |h, n| h.becn = n & 1 == 1),
        )
        .computed(),
        Field::new("resv6", Kind::Hex, 34, 6, Access::Bits),
        Field::new(
            "dqpn",
            Kind::Hex,
            40,
            24,
            bth_field!(|h| h.dest_qp.get(), |h, n| h.dest_qp = QpNum::new(n as u32)),
        ),
        Field::new(
            "ackreq",
            Kind::Decimal,
            64,
            1,
            bth_field!(|h| h.ack_req, |h, n| h.ack_req = n & 1 == 1),
        ),
        Field::new("resv7", Kind::Hex, 65, 7, Access::Bits),
        Field::new(
            "psn",
            Kind::Decimal,
            72,
            24,
            bth_field!(|h| h.psn.get(), |h, n| h.psn = Psn::new(n as u32)),
        ),
    ]),
    header_len: fixed::<{ bth::HEADER_LEN }>,
    next: extension,
    ..PLAIN
};

/// Extension headers of an opcode, in the order of the wire.
fn extensions(opcode: Opcode) -> impl Iterator<Item = &'static Protocol> {
    let all: [(bool, &'static Protocol); 8] = [
        (opcode.has_deth(), &DETH),
        (opcode.has_reth(), &RETH),
        (
            matches!(opcode, Opcode::CompareSwap | Opcode::FetchAdd),
            &ATOMIC_ETH,
        ),
        (opcode.has_aeth(), &AETH),
        (opcode == Opcode::AtomicAcknowledge, &ATOMIC_ACK_ETH),
        (opcode.has_immediate(), &IMMDT),
        (
            matches!(
                opcode,
                Opcode::SendLastInvalidate | Opcode::SendOnlyInvalidate
            ),
            &IETH,
        ),
        (opcode == Opcode::Cnp, &CNP),
    ];
    all.into_iter()
        .filter(|(is_there, _)| *is_there)
        .map(|(_, protocol)| protocol)
}

/// The extension header after the layers so far.
fn extension(layers: &[Layer], _: &[u8]) -> Option<&'static Protocol> {
    let bth = layers.iter().rposition(|layer| layer.is(&BTH))?;
    let opcode = layers[bth].number("opcode")? as u8;
    extensions(Opcode::from(opcode)).nth(layers.len() - bth - 1)
}

/// Opcode of a message of one packet with the extension headers of these layers.
pub(super) fn opcode_for(inner: &[Layer]) -> u8 {
    let has = |protocol: &'static Protocol| inner.iter().any(|layer| layer.is(protocol));
    let immediate = |without: Opcode, with: Opcode| if has(&IMMDT) { with } else { without };
    let opcode = match inner.first() {
        Some(first) if first.is(&AETH) && has(&ATOMIC_ACK_ETH) => Opcode::AtomicAcknowledge,
        Some(first) if first.is(&AETH) => Opcode::Acknowledge,
        Some(first) if first.is(&RETH) => immediate(Opcode::WriteOnly, Opcode::WriteOnlyImm),
        Some(first) if first.is(&DETH) => immediate(Opcode::UdSendOnly, Opcode::UdSendOnlyImm),
        Some(first) if first.is(&ATOMIC_ETH) => Opcode::CompareSwap,
        Some(first) if first.is(&IETH) => Opcode::SendOnlyInvalidate,
        Some(first) if first.is(&CNP) => Opcode::Cnp,
        _ => immediate(Opcode::SendOnly, Opcode::SendOnlyImm),
    };
    opcode.into()
}

/// RDMA extended transport header (IBTA vol. 1, 9.3.3).
pub static RETH: Protocol = Protocol {
    name: Cow::Borrowed("RETH"),
    template: Cow::Borrowed(&[0; reth::HEADER_LEN]),
    fields: Cow::Borrowed(&[
        Field::new(
            "va",
            Kind::Hex,
            0,
            64,
            wire!(
                reth::HEADER_LEN,
                parse_reth,
                reth::Repr::emit,
                |h| h.virtual_address,
                |h, n| h.virtual_address = n as u64
            ),
        ),
        Field::new(
            "rkey",
            Kind::Hex,
            64,
            32,
            wire!(
                reth::HEADER_LEN,
                parse_reth,
                reth::Repr::emit,
                |h| h.rkey,
                |h, n| h.rkey = n as u32
            ),
        ),
        Field::new(
            "dlen",
            Kind::Decimal,
            96,
            32,
            wire!(
                reth::HEADER_LEN,
                parse_reth,
                reth::Repr::emit,
                |h| h.dma_length,
                |h, n| h.dma_length = n as u32
            ),
        ),
    ]),
    header_len: fixed::<{ reth::HEADER_LEN }>,
    next: extension,
    ..PLAIN
};

/// ACK extended transport header (IBTA vol. 1, 9.3.5).
pub static AETH: Protocol = Protocol {
    name: Cow::Borrowed("AETH"),
    template: Cow::Borrowed(&[0; aeth::HEADER_LEN]),
    fields: Cow::Borrowed(&[
        Field::new(
            "syndrome",
            Kind::Hex,
            0,
            8,
            wire!(
                aeth::HEADER_LEN,
                parse_aeth,
                aeth::Repr::emit,
                |h| u8::from(h.syndrome),
                |h, n| h.syndrome = (n as u8).into()
            ),
        ),
        Field::new(
            "msn",
            Kind::Decimal,
            8,
            24,
            wire!(
                aeth::HEADER_LEN,
                parse_aeth,
                aeth::Repr::emit,
                |h| h.msn,
                |h, n| h.msn = n as u32 & 0xff_ffff
            ),
        ),
    ]),
    header_len: fixed::<{ aeth::HEADER_LEN }>,
    next: extension,
    ..PLAIN
};

/// Atomic extended transport header (IBTA vol. 1, 9.3.6).
pub static ATOMIC_ETH: Protocol = Protocol {
    name: Cow::Borrowed("AtomicETH"),
    template: Cow::Borrowed(&[0; atomic_eth::HEADER_LEN]),
    fields: Cow::Borrowed(&[
        Field::new(
            "va",
            Kind::Hex,
            0,
            64,
            wire!(
                atomic_eth::HEADER_LEN,
                parse_atomic,
                atomic_eth::Repr::emit,
                |h| h.virtual_address,
                |h, n| h.virtual_address = n as u64
            ),
        ),
        Field::new(
            "rkey",
            Kind::Hex,
            64,
            32,
            wire!(
                atomic_eth::HEADER_LEN,
                parse_atomic,
                atomic_eth::Repr::emit,
                |h| h.rkey,
                |h, n| h.rkey = n as u32
            ),
        ),
        Field::new(
            "swap",
            Kind::Hex,
            96,
            64,
            wire!(
                atomic_eth::HEADER_LEN,
                parse_atomic,
                atomic_eth::Repr::emit,
                |h| h.swap_or_add,
                |h, n| h.swap_or_add = n as u64
            ),
        ),
        Field::new(
            "cmp",
            Kind::Hex,
            160,
            64,
            wire!(
                atomic_eth::HEADER_LEN,
                parse_atomic,
                atomic_eth::Repr::emit,
                |h| h.compare,
                |h, n| h.compare = n as u64
            ),
        ),
    ]),
    header_len: fixed::<{ atomic_eth::HEADER_LEN }>,
    next: extension,
    ..PLAIN
};

/// Atomic ACK extended transport header (IBTA vol. 1, 9.3.7).
pub static ATOMIC_ACK_ETH: Protocol = Protocol {
    name: Cow::Borrowed("AtomicAckETH"),
    template: Cow::Borrowed(&[0; atomic_eth::ACK_HEADER_LEN]),
    fields: Cow::Borrowed(&[Field::new(
        "orig",
        Kind::Hex,
        0,
        64,
        wire!(
            atomic_eth::ACK_HEADER_LEN,
            parse_atomic_ack,
            atomic_eth::AckRepr::emit,
            |h| h.original,
            |h, n| h.original = n as u64
        ),
    )]),
    header_len: fixed::<{ atomic_eth::ACK_HEADER_LEN }>,
    next: extension,
    ..PLAIN
};

/// Immediate data (IBTA vol. 1, 9.3.8).
pub static IMMDT: Protocol = Protocol {
    name: Cow::Borrowed("ImmDt"),
    template: Cow::Borrowed(&[0; immdt::HEADER_LEN]),
    fields: Cow::Borrowed(&[Field::new(
        "data",
        Kind::Hex,
        0,
        32,
        wire!(
            immdt::HEADER_LEN,
            parse_immdt,
            immdt::Repr::emit,
            |h| h.immediate,
            |h, n| h.immediate = n as u32
        ),
    )]),
    header_len: fixed::<{ immdt::HEADER_LEN }>,
    next: extension,
    ..PLAIN
};

/// Invalidate extended transport header (IBTA vol. 1, 9.3.9): an R_Key.
pub static IETH: Protocol = Protocol {
    name: Cow::Borrowed("IETH"),
    template: Cow::Borrowed(&[0; 4]),
    fields: Cow::Borrowed(&[Field::new("rkey", Kind::Hex, 0, 32, Access::Bits)]),
    header_len: fixed::<4>,
    next: extension,
    ..PLAIN
};

/// Datagram extended transport header (IBTA vol. 1, 9.3.2).
pub static DETH: Protocol = Protocol {
    name: Cow::Borrowed("DETH"),
    template: Cow::Borrowed(&[0; deth::HEADER_LEN]),
    fields: Cow::Borrowed(&[
        Field::new(
            "qkey",
            Kind::Hex,
            0,
            32,
            wire!(
                deth::HEADER_LEN,
                parse_deth,
                deth::Repr::emit,
                |h| h.qkey,
                |h, n| h.qkey = n as u32
            ),
        ),
        Field::new("reserved", Kind::Hex, 32, 8, Access::Bits),
        Field::new(
            "sqpn",
            Kind::Hex,
            40,
            24,
            wire!(
                deth::HEADER_LEN,
                parse_deth,
                deth::Repr::emit,
                |h| h.src_qp.get(),
                |h, n| h.src_qp = QpNum::new(n as u32)
            ),
        ),
    ]),
    header_len: fixed::<{ deth::HEADER_LEN }>,
    next: extension,
    ..PLAIN
};

/// Reserved bytes of a congestion notification packet, after its BTH (IBTA vol. 1, annex A17.9.3).
pub static CNP: Protocol = Protocol {
    name: Cow::Borrowed("CNP"),
    aliases: &["CNPPadding"],
    template: Cow::Borrowed(&[0; cnp::RESERVED_LEN]),
    fields: Cow::Borrowed(&[
        Field::new("reserved1", Kind::Hex, 0, 64, Access::Bits),
        Field::new("reserved2", Kind::Hex, 64, 64, Access::Bits),
    ]),
    header_len: fixed::<{ cnp::RESERVED_LEN }>,
    ..PLAIN
};

/// Padding between the payload of a RoCEv2 packet and its ICRC, 1 to 3 bytes.
pub static PAD: Protocol = Protocol {
    name: Cow::Borrowed("Pad"),
    fields: Cow::Borrowed(&[Field::new("load", Kind::Bytes, 0, 0, Access::Rest)]),
    ..PLAIN
};

/// Invariant CRC at the end of a RoCEv2 packet (IBTA vol. 1, 7.8.1).
pub static ICRC: Protocol = Protocol {
    name: Cow::Borrowed("ICRC"),
    template: Cow::Borrowed(&[0; icrc::TRAILER_LEN]),
    fields: Cow::Borrowed(&[Field::new(
        "icrc",
        Kind::Hex,
        0,
        32,
        wire!(
            icrc::TRAILER_LEN,
            parse_icrc,
            icrc::Repr::emit,
            |h| h.icrc,
            |h, n| h.icrc = n as u32
        ),
    )
    .computed()]),
    header_len: fixed::<{ icrc::TRAILER_LEN }>,
    ..PLAIN
};

const MRP_TYPES: Names = &[
    (1, "REGISTER"),
    (2, "CONFIRM"),
    (3, "REFUSE"),
    (4, "DEREGISTER"),
    (5, "JOIN"),
    (6, "LEAVE"),
    (7, "STALLED"),
    (8, "ALIVE"),
    (9, "INVITE"),
    (10, "AGREE"),
];

/// Metadata of a registration packet (MRP); its nodes are layers of their own. `alfirk_roce::wire::mrp` checks a
/// received packet as a whole.
pub static MRP: Protocol = Protocol {
    name: Cow::Borrowed("MRP"),
    template: Cow::Borrowed(&[mrp::VERSION << 4 | 1, 0, 1, 0, 0, 0, 0, 0]),
    fields: Cow::Borrowed(&[
        Field::new("version", Kind::Decimal, 0, 4, Access::Bits),
        Field::new("type", Kind::Named(MRP_TYPES), 4, 4, Access::Bits),
        Field::new("seq", Kind::Decimal, 8, 8, Access::Bits),
        Field::new("total", Kind::Decimal, 16, 8, Access::Bits),
        Field::new("count", Kind::Decimal, 24, 8, Access::Bits).computed(),
        Field::new("psn", Kind::Decimal, 32, 24, Access::Bits),
        Field::new("flags", Kind::Hex, 56, 8, Access::Bits),
    ]),
    header_len: |bytes| {
        let view = mrp::View::new_checked(bytes);
        view.is_ok().then_some(mrp::METADATA_LEN)
    },
    payload_len: |header| Some(mrp::NODE_LEN * usize::from(*header.get(3)?)),
    next: node,
    ..PLAIN
};

fn node(_: &[Layer], payload: &[u8]) -> Option<&'static Protocol> {
    (!payload.is_empty()).then_some(&MRP_NODE)
}

fn has_region(header: &[u8]) -> bool {
    header
        .get(7)
        .is_some_and(|flags| flags & mrp::NODE_HAS_REGION != 0)
}

/// Length of a node with or without memory region.
fn node_len(header: &[u8]) -> usize {
    mrp::NODE_LEN * if has_region(header) { 3 } else { 1 }
}

/// A node of a registration packet, with its memory region if the flag 0x40 is set.
pub static MRP_NODE: Protocol = Protocol {
    name: Cow::Borrowed("MRPNode"),
    template: Cow::Borrowed(&[0; mrp::NODE_LEN]),
    fields: Cow::Borrowed(&[
        Field::new("ip", Kind::Ipv4, 0, 32, Access::Bits),
        Field::new("qpn", Kind::Hex, 32, 24, Access::Bits),
        Field::new("flags", Kind::Hex, 56, 8, Access::Bits),
        Field::new("va", Kind::Hex, 64, 64, Access::Bits).when(has_region),
        Field::new("rkey", Kind::Hex, 128, 32, Access::Bits).when(has_region),
        Field::new("log2_len", Kind::Decimal, 160, 8, Access::Bits).when(has_region),
        Field::new("zero", Kind::Hex, 168, 24, Access::Bits).when(has_region),
    ]),
    header_len: |bytes| {
        let length = node_len(bytes);
        (bytes.len() >= length).then_some(length)
    },
    next: node,
    relayout: Some(|_, header| header.resize(node_len(header), 0)),
    ..PLAIN
};
