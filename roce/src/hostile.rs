//! A member that sends, beside what its honest queue pair sends, whatever comes to its mind: data, ACKs, NAKs, CNPs, READs and
//! registration packets under its own address, with random numbers.

use std::net::Ipv4Addr;

use rand_chacha::ChaCha8Rng;
use rand_core::{Rng, SeedableRng};
use serde::{Deserialize, Serialize};

use crate::icrc;
use crate::wire::{bth, ethernet, ipv4, mrp, udp, MacAddr, Opcode, Psn, QpNum};

const IP_AT: usize = ethernet::HEADER_LEN;
const UDP_AT: usize = IP_AT + ipv4::HEADER_LEN;
const BTH_AT: usize = UDP_AT + udp::HEADER_LEN;
const ICRC_LEN: usize = 4;

const SEND_ONLY: u8 = 0x04;
const WRITE_ONLY: u8 = 0x0a;
const READ_REQUEST: u8 = 0x0c;
const ACKNOWLEDGE: u8 = 0x11;
const FETCH_ADD: u8 = 0x14;
const CNP: u8 = 0x81;
/// In the BTH's fifth byte.
const BECN: u8 = 0x40;
/// AETH syndromes: ACK, sequence error, RNR with its longest timer, selective NAK.
const SYNDROMES: [u8; 4] = [0x1f, 0x60, 0x20, 0x7f];

/// Whom it harms if it can, and what it has to know for that.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Target {
    pub mcst_id: Ipv4Addr,
    /// What the group's members address.
    pub virtual_qpn: QpNum,
    /// By which hosts reach groups.
    pub mac: MacAddr,
}

/// Draws the frames. The same seed gives the same ones.
#[derive(Debug)]
pub struct Hostile {
    ip: Ipv4Addr,
    mac: MacAddr,
    target: Target,
    rng: ChaCha8Rng,
}

impl Hostile {
    /// A host of these addresses.
    pub fn new(ip: Ipv4Addr, mac: MacAddr, target: Target, seed: u64) -> Hostile {
        Hostile {
            ip,
            mac,
            target,
            rng: ChaCha8Rng::seed_from_u64(seed ^ u64::from(u32::from(ip)) << 32),
        }
    }

    /// The next frame: each kind as often as the others.
    pub fn frame(&mut self) -> Vec<u8> {
        let psn = self.rng.next_u32() & 0xff_ffff;
        match self.rng.next_u32() % 7 {
            0 => self.roce(SEND_ONLY, psn, 64),
            1 => self.roce(WRITE_ONLY, psn, 16 + 64),
            2 => self.roce(READ_REQUEST, psn, 16),
            3 => self.roce(FETCH_ADD, psn, 28),
            4 => {
                // As a NIC sends it: what stands behind its BTH is reserved.
                let mut frame = self.roce(CNP, psn, 16);
                frame[BTH_AT + bth::HEADER_LEN..][..16].fill(0);
                frame[BTH_AT + 4] = BECN;
                seal(&mut frame);
                frame
            }
            5 => {
                let mut frame = self.roce(ACKNOWLEDGE, psn, 4);
                let syndrome = SYNDROMES[self.rng.next_u32() as usize % SYNDROMES.len()];
                frame[BTH_AT + bth::HEADER_LEN] = syndrome;
                seal(&mut frame);
                frame
            }
            _ => self.registration(),
        }
    }

    /// A packet of the group with a random body behind its BTH.
    fn roce(&mut self, opcode: u8, psn: u32, body: usize) -> Vec<u8> {
        let mut frame = self.datagram(udp::PORT_ROCE, bth::HEADER_LEN + body + ICRC_LEN);
        // What stands in the opcode's place is overwritten: the enumeration has no place for all of them.
        let qpn = match self.rng.next_u32() % 8 {
            0 => QpNum::new(self.rng.next_u32()),
            _ => self.target.virtual_qpn,
        };
        bth::Repr::new(Opcode::SendOnly, qpn, Psn::new(psn)).emit(&mut frame[BTH_AT..]);
        frame[BTH_AT] = opcode;
        let end = frame.len() - ICRC_LEN;
        self.rng
            .fill_bytes(&mut frame[BTH_AT + bth::HEADER_LEN..end]);
        seal(&mut frame);
        frame
    }

    fn registration(&mut self) -> Vec<u8> {
        let mut frame = self.datagram(mrp::PORT, mrp::METADATA_LEN + 2 * mrp::NODE_LEN);
        self.rng.fill_bytes(&mut frame[BTH_AT..]);
        // Its version is right, its kind any.
        frame[BTH_AT] = mrp::VERSION << 4 | frame[BTH_AT] & 0xf;
        frame
    }

    fn datagram(&mut self, port: u16, payload: usize) -> Vec<u8> {
        let mut frame = vec![0; BTH_AT + payload];
        ethernet::Repr {
            destination: self.target.mac,
            source: self.mac,
            ethertype: ethernet::ETHERTYPE_IPV4,
        }
        .emit(&mut frame);
        ipv4::Repr {
            tos: 0,
            payload_len: (udp::HEADER_LEN + payload) as u16,
            identification: self.rng.next_u32() as u16,
            dont_fragment: true,
            ttl: 64,
            protocol: ipv4::PROTOCOL_UDP,
            source: self.ip,
            destination: self.target.mcst_id,
        }
        .emit(&mut frame[IP_AT..]);
        udp::Repr {
            source_port: 0xc000,
            destination_port: port,
            payload_len: payload as u16,
        }
        .emit(&mut frame[UDP_AT..]);
        frame
    }
}

/// Puts the right ICRC at the end.
fn seal(frame: &mut [u8]) {
    let end = frame.len() - ICRC_LEN;
    let crc = icrc::compute(&frame[IP_AT..end]).expect("the packet is whole");
    frame[end..].copy_from_slice(&crc.to_le_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn frames_are_of_every_kind_well_formed_and_the_same_for_one_seed() {
        let target = Target {
            mcst_id: Ipv4Addr::new(10, 255, 0, 1),
            virtual_qpn: QpNum::new(0xa1f),
            mac: MacAddr([2, 0xa1, 0xf1, 0x4c, 0, 1]),
        };
        let ip = Ipv4Addr::new(10, 0, 0, 5);
        let hostile = |seed| Hostile::new(ip, MacAddr([2, 0, 0, 0, 0, 5]), target, seed);
        let frames = |seed| -> Vec<Vec<u8>> {
            let mut hostile = hostile(seed);
            (0..500).map(|_| hostile.frame()).collect()
        };
        assert_eq!(frames(1), frames(1));
        assert_ne!(frames(1), frames(2));
        let mut kinds = BTreeSet::new();
        for frame in frames(1) {
            let ip_view = ipv4::View::new_checked(&frame[IP_AT..]).unwrap();
            assert_eq!(usize::from(ip_view.total_len()), frame.len() - IP_AT);
            assert_eq!(
                (ip_view.source(), ip_view.destination()),
                (ip, target.mcst_id)
            );
            let udp = udp::View::new_checked(&frame[UDP_AT..]).unwrap();
            if udp.destination_port() == udp::PORT_ROCE {
                let (body, crc) = frame[IP_AT..].split_at(frame.len() - IP_AT - ICRC_LEN);
                assert_eq!(icrc::compute(body).unwrap().to_le_bytes(), crc);
                kinds.insert(Some(frame[BTH_AT]));
            } else {
                kinds.insert(None);
            }
        }
        let all = [
            SEND_ONLY,
            WRITE_ONLY,
            READ_REQUEST,
            FETCH_ADD,
            CNP,
            ACKNOWLEDGE,
        ];
        assert_eq!(kinds, all.into_iter().map(Some).chain([None]).collect());
    }
}
