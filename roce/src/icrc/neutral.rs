//! Rewrites of header fields that preserve the ICRC.
//!
//! A CRC is linear over GF(2). XORing a packet with a difference XORs its CRC with a value that depends only on the
//! difference and on the number of bytes after it. Those bytes only multiply the value by a power of x, which is
//! invertible. So a difference that preserves the CRC does so for every payload, payload length and PSN.
//!
//! A receiving RC queue pair ignores the IPv4 identification (the packet is not fragmented) and the UDP source port.
//! The ICRC covers both: 32 free bits. The map from them to the CRC has rank 32, so every rewrite has exactly one pair
//! of compensating XOR constants. Because the map is linear, the constants of two successive rewrites, at the sender's
//! and at the receiver's leaf switch, add up by XOR.

use std::net::Ipv4Addr;
use std::sync::OnceLock;

use serde::{Deserialize, Serialize};

use super::gf2::Span;
use crate::wire::{bth, ipv4, reth, udp, QpNum};

const SPAN_LEN: usize = ipv4::HEADER_LEN + udp::HEADER_LEN + bth::HEADER_LEN + reth::HEADER_LEN;
const IP_ID: usize = 4;
const IP_SOURCE: usize = 12;
const IP_DESTINATION: usize = 16;
const UDP_SOURCE: usize = ipv4::HEADER_LEN;
const BTH_DEST_QP: usize = ipv4::HEADER_LEN + udp::HEADER_LEN + 5;
const RETH_VA: usize = ipv4::HEADER_LEN + udp::HEADER_LEN + bth::HEADER_LEN;
const RETH_RKEY: usize = RETH_VA + 8;

/// XOR differences of the header fields that a rewrite changes; 0 for an unchanged field.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct HeaderChange {
    /// Source IPv4 address, as a big-endian number.
    pub src_ip: u32,
    /// Destination IPv4 address, as a big-endian number.
    pub dst_ip: u32,
    /// Destination queue pair number: 24 bits; higher bits are ignored.
    pub dest_qp: u32,
    /// Virtual address in the RETH, which only the first packet of a WRITE has.
    pub virtual_address: u64,
    /// R_Key in the RETH.
    pub rkey: u32,
}

impl HeaderChange {
    /// The part of the change that affects a packet without RETH.
    #[must_use]
    pub fn without_reth(self) -> HeaderChange {
        HeaderChange {
            virtual_address: 0,
            rkey: 0,
            ..self
        }
    }
}

/// XOR constants for the two free header fields, which compensate the effect of a rewrite on the ICRC.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
pub struct NeutralPair {
    /// XOR constant for the IPv4 identification.
    pub ip_id_xor: u16,
    /// XOR constant for the UDP source port.
    pub udp_sport_xor: u16,
}

impl std::ops::BitXor for NeutralPair {
    type Output = NeutralPair;

    /// Combines the XOR constants of two successive rewrites.
    fn bitxor(self, other: NeutralPair) -> NeutralPair {
        NeutralPair {
            ip_id_xor: self.ip_id_xor ^ other.ip_id_xor,
            udp_sport_xor: self.udp_sport_xor ^ other.udp_sport_xor,
        }
    }
}

/// Error: a rewrite whose effect on the ICRC the free bits cannot compensate.
///
/// With the 32 free bits of RoCEv2 over IPv4 this does not occur. Every rewrite is checked nevertheless.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("no IPv4 identification and UDP source port preserve the ICRC under {change:?}: the residue is {residue:#010x}")]
pub struct Unsolvable {
    /// The rewrite, as XOR differences of header fields.
    pub change: HeaderChange,
    /// The part of the CRC difference outside the span of the free bits.
    pub residue: u32,
}

/// XOR constants that preserve the ICRC at the receiver's leaf switch: one pair for packets without RETH, one for
/// packets with it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
pub struct ExitPairs {
    /// XOR constants for packets without RETH.
    pub plain: NeutralPair,
    /// XOR constants for packets with a RETH.
    pub reth: NeutralPair,
}

/// Rewrite at the leaf switch of one receiver, from group addresses to the receiver's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ExitRewrite {
    /// Destination address inside the fabric: that of the group.
    pub mcst_id: Ipv4Addr,
    /// Destination address towards the receiver: its own.
    pub host_ip: Ipv4Addr,
    /// Destination queue pair number inside the fabric: the group's virtual number.
    pub virtual_qpn: QpNum,
    /// Number of the receiver's queue pair.
    pub host_qpn: QpNum,
    /// XOR of the virtual address that the sender uses and the receiver's.
    pub va_xor: u64,
    /// XOR of the R_Key that the sender uses and the receiver's.
    pub rkey_xor: u32,
}

/// Computes the XOR constants that preserve the ICRC under both rewrites of a packet: at the sender's and at the
/// receiver's leaf switch.
pub struct NeutralConstants;

impl NeutralConstants {
    /// XOR constants that preserve the ICRC at the sender's leaf switch, where the source address changes from
    /// `host_ip` to `mcst_id`.
    pub fn entry(host_ip: Ipv4Addr, mcst_id: Ipv4Addr) -> Result<NeutralPair, Unsolvable> {
        solve(HeaderChange {
            src_ip: u32::from(host_ip) ^ u32::from(mcst_id),
            ..HeaderChange::default()
        })
    }

    /// XOR constants that preserve the ICRC at the leaf switch of one receiver.
    pub fn exit(rewrite: &ExitRewrite) -> Result<ExitPairs, Unsolvable> {
        let change = HeaderChange {
            src_ip: 0,
            dst_ip: u32::from(rewrite.mcst_id) ^ u32::from(rewrite.host_ip),
            dest_qp: rewrite.virtual_qpn.get() ^ rewrite.host_qpn.get(),
            virtual_address: rewrite.va_xor,
            rkey: rewrite.rkey_xor,
        };
        Ok(ExitPairs {
            plain: solve(change.without_reth())?,
            reth: solve(change)?,
        })
    }
}

/// Returns the pair of constants that preserves the ICRC under `change`.
pub fn solve(change: HeaderChange) -> Result<NeutralPair, Unsolvable> {
    let mut difference = [0; SPAN_LEN];
    difference[IP_SOURCE..][..4].copy_from_slice(&change.src_ip.to_be_bytes());
    difference[IP_DESTINATION..][..4].copy_from_slice(&change.dst_ip.to_be_bytes());
    difference[BTH_DEST_QP..][..3].copy_from_slice(&change.dest_qp.to_be_bytes()[1..]);
    difference[RETH_VA..][..8].copy_from_slice(&change.virtual_address.to_be_bytes());
    difference[RETH_RKEY..][..4].copy_from_slice(&change.rkey.to_be_bytes());
    let free = free_bits()
        .solve(crc_change(&difference))
        .map_err(|residue| Unsolvable { change, residue })?;
    Ok(NeutralPair {
        ip_id_xor: free as u16,
        udp_sport_xor: (free >> 16) as u16,
    })
}

/// Effect of each free bit on the CRC: identification in bits 0 to 15, source port in bits 16 to 31.
fn free_bits() -> &'static Span {
    static SPAN: OnceLock<Span> = OnceLock::new();
    SPAN.get_or_init(|| Span::new(&free_columns()))
}

fn free_columns() -> [u32; 32] {
    std::array::from_fn(|bit| {
        let (at, bit) = if bit < 16 {
            (IP_ID, bit)
        } else {
            (UDP_SOURCE, bit - 16)
        };
        let mut difference = [0; SPAN_LEN];
        difference[at..at + 2].copy_from_slice(&(1u16 << bit).to_be_bytes());
        crc_change(&difference)
    })
}

/// Change of a packet's CRC, up to a power of x, when its headers are XORed with `difference`.
fn crc_change(difference: &[u8; SPAN_LEN]) -> u32 {
    crc32fast::hash(difference) ^ crc32fast::hash(&[0; SPAN_LEN])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn free_bits_can_produce_every_crc() {
        assert_eq!(free_bits().rank(), 32);
    }

    #[test]
    fn constants_are_zero_without_a_change() {
        assert_eq!(solve(HeaderChange::default()), Ok(NeutralPair::default()));
    }

    #[test]
    fn constants_of_two_changes_combine_by_xor() {
        let entry = HeaderChange {
            src_ip: 0x1234_5678,
            ..HeaderChange::default()
        };
        let exit = HeaderChange {
            dst_ip: 0x9abc_def0,
            dest_qp: 0x1235,
            ..HeaderChange::default()
        };
        let both = HeaderChange {
            src_ip: entry.src_ip,
            ..exit
        };
        assert_eq!(
            solve(entry).unwrap() ^ solve(exit).unwrap(),
            solve(both).unwrap()
        );
    }

    #[test]
    fn packets_with_and_without_reth_need_different_constants() {
        let pairs = NeutralConstants::exit(&ExitRewrite {
            mcst_id: Ipv4Addr::new(10, 255, 0, 1),
            host_ip: Ipv4Addr::new(10, 0, 0, 2),
            virtual_qpn: QpNum::new(1),
            host_qpn: QpNum::new(0x11),
            va_xor: 0x7f00_0000_0000,
            rkey_xor: 0x2a,
        })
        .unwrap();
        assert_ne!(pairs.plain, pairs.reth);
    }
}
