use std::net::Ipv4Addr;

use proptest::prelude::*;

use super::neutral::{ExitRewrite, NeutralConstants, NeutralPair};
use super::*;
use crate::wire::testing::unhex;
use crate::wire::{reth, QpNum};

/// Packets from IPv4 header to trailer, made by `test_data/make_vectors.py`.
fn vectors() -> Vec<(String, Vec<u8>)> {
    let text = include_str!("../../test_data/icrc_vectors.json");
    let json: serde_json::Value = serde_json::from_str(text).unwrap();
    let vectors = json["vectors"].as_array().unwrap();
    assert!(!vectors.is_empty());
    vectors
        .iter()
        .map(|v| {
            let field = |name: &str| v[name].as_str().unwrap().to_owned();
            (field("name"), unhex(&field("packet")))
        })
        .collect()
}

fn trailer(packet: &[u8]) -> u32 {
    crate::wire::icrc::View::new_checked(packet).unwrap().icrc()
}

fn covered(packet: &[u8]) -> &[u8] {
    crate::wire::icrc::View::new_checked(packet)
        .unwrap()
        .covered()
}

#[test]
fn lrh_constant_is_the_crc_of_eight_bytes_of_ones() {
    assert_eq!(CRC_OF_LRH, crc32fast::hash(&[0xff; 8]));
}

#[test]
fn icrc_agrees_with_scapy() {
    for (name, packet) in vectors() {
        assert_eq!(compute(covered(&packet)), Ok(trailer(&packet)), "{name}");
    }
}

#[test]
fn icrc_over_ipv6_and_over_ipv4_with_options_agrees_with_scapy() {
    // bytes(IPv6(src="2001:db8::1", dst="2001:db8::2", tc=3, fl=5, hlim=9) / roce), and
    // bytes(IP(src="10.0.0.1", dst="10.0.0.2", options=[IPOption_NOP()]) / roce), with
    // roce = UDP(sport=0xc011, dport=4791, chksum=0) / BTH(opcode=4, dqpn=17, psn=7) / Raw(b"abcd")
    for text in [
        "60300005001c1109 20010db8000000000000000000000001 20010db8000000000000000000000002 \
         c01112b7001c0000 0400ffff0000001100000007 61626364 f1963c4a",
        "460000340001000040 1164b6 0a000001 0a000002 01000000 c01112b7001c0000 \
         0400ffff0000001100000007 61626364 1da6a057",
    ] {
        let packet = unhex(text);
        assert_eq!(compute_ip(covered(&packet)), Ok(trailer(&packet)));
        for length in 0..40 {
            assert!(compute_ip(&packet[..length]).is_err(), "{length}");
        }
    }
    for (name, packet) in vectors() {
        assert_eq!(compute_ip(covered(&packet)), Ok(trailer(&packet)), "{name}");
    }
    // A header length below the shortest.
    assert!(compute_ip(&[0x40; 20]).is_err());
}

#[test]
fn fields_that_routers_change_do_not_affect_the_icrc() {
    let (_, packet) = vectors().remove(0);
    for at in 0..MASKED_LEN {
        let mut changed = packet.clone();
        changed[at] ^= 0x5a;
        let same = compute(covered(&changed)) == compute(covered(&packet));
        assert_eq!(same, MASKED.contains(&at), "byte {at}");
    }
}

#[test]
fn packet_shorter_than_its_headers_is_refused() {
    assert!(compute(&[0; MASKED_LEN - 1]).is_err());
    assert!(compute(&[0; MASKED_LEN]).is_ok());
}

fn xor(packet: &mut [u8], at: usize, difference: &[u8]) {
    for (byte, d) in packet[at..].iter_mut().zip(difference) {
        *byte ^= d;
    }
}

fn apply(packet: &mut [u8], pair: NeutralPair) {
    xor(packet, 4, &pair.ip_id_xor.to_be_bytes());
    xor(packet, 20, &pair.udp_sport_xor.to_be_bytes());
}

proptest! {
    /// A packet with any payload and length keeps its ICRC through entry and exit half.
    #[test]
    fn neutral_constants_keep_the_icrc(
        mut packet in proptest::collection::vec(any::<u8>(), MASKED_LEN + reth::HEADER_LEN..600),
        with_reth: bool, host: u32, receiver: u32, mcst: u32, qpn in 0u32..1 << 24, va_xor: u64, rkey_xor: u32,
    ) {
        let mcst_id = Ipv4Addr::from(mcst);
        packet[12..16].copy_from_slice(&host.to_be_bytes());
        packet[16..20].copy_from_slice(&mcst.to_be_bytes());
        packet[33..36].copy_from_slice(&[0, 0, 1]);
        let before = compute(&packet).unwrap();

        apply(&mut packet, NeutralConstants::entry(host.into(), mcst_id).unwrap());
        packet[12..16].copy_from_slice(&mcst.to_be_bytes());
        prop_assert_eq!(compute(&packet).unwrap(), before, "after the entry half");

        let pairs = NeutralConstants::exit(&ExitRewrite {
            mcst_id,
            host_ip: receiver.into(),
            virtual_qpn: QpNum::new(1),
            host_qpn: QpNum::new(qpn),
            va_xor,
            rkey_xor,
        }).unwrap();
        packet[16..20].copy_from_slice(&receiver.to_be_bytes());
        packet[33..36].copy_from_slice(&qpn.to_be_bytes()[1..]);
        if with_reth {
            xor(&mut packet, 40, &va_xor.to_be_bytes());
            xor(&mut packet, 48, &rkey_xor.to_be_bytes());
        }
        apply(&mut packet, if with_reth { pairs.reth } else { pairs.plain });
        prop_assert_eq!(compute(&packet).unwrap(), before, "after the exit half");
    }
}
