//! Checksums verified after the parser and updated before the deparser.

use crate::p4::P4;

/// Returns a program with a 16-bit checksum over a number. It sends packets to the port whose number is
/// `checksum_error`.
fn checksum_program() -> P4<'static> {
    P4 {
        fields: "bit<16> n; bit<16> sum;",
        ingress: "sm.egress_spec = (bit<9>)sm.checksum_error;",
        ..P4::default()
    }
}

#[test]
fn wrong_checksums_set_checksum_error() {
    let verify = "verify_checksum(true, { hdr.h.n }, hdr.h.sum, HashAlgorithm.csum16);";
    let mut switch = P4 {
        verify,
        ..checksum_program()
    }
    .switch();
    assert_eq!(switch.process(0, &[0x12, 0x34, 0xed, 0xcb], 0)[0].0, 0);
    assert_eq!(switch.process(0, &[0x12, 0x34, 0xed, 0xcc], 0)[0].0, 1);
}

#[test]
fn checksums_of_invalid_headers_are_not_verified() {
    let verify = "verify_checksum(true, { hdr.h.n }, hdr.h.sum, HashAlgorithm.csum16);";
    let mut switch = P4 {
        verify,
        ..checksum_program()
    }
    .switch();
    assert_eq!(switch.process(0, &[0x12], 0), [(0, vec![0x12])]);
}

#[test]
fn checksums_are_verified_and_updated_under_their_conditions() {
    let verify = "verify_checksum(hdr.h.n & 1 == 1, { hdr.h.n }, hdr.h.sum, HashAlgorithm.csum16);";
    let mut switch = P4 {
        verify,
        ..checksum_program()
    }
    .switch();
    assert_eq!(switch.process(0, &[0, 2, 0, 0], 0)[0].0, 0);
    assert_eq!(switch.process(0, &[0, 3, 0, 0], 0)[0].0, 1);
    let update = "update_checksum(hdr.h.n & 1 == 1, { hdr.h.n }, hdr.h.sum, HashAlgorithm.csum16);";
    let mut switch = P4 {
        update,
        ..checksum_program()
    }
    .switch();
    assert_eq!(switch.process(0, &[0, 2, 0, 0], 0)[0].1, [0, 2, 0, 0]);
    assert_eq!(switch.process(0, &[0, 3, 0, 0], 0)[0].1, [0, 3, 0xff, 0xfc]);
}

#[test]
fn checksums_may_cover_a_payload_of_odd_length() {
    let update =
        "update_checksum_with_payload(true, { hdr.h.n }, hdr.h.sum, HashAlgorithm.csum16);";
    let mut switch = P4 {
        update,
        ..checksum_program()
    }
    .switch();
    let out = switch.process(0, &[0x00, 0x01, 0, 0, 0xf2, 0x03, 0xf4], 0);
    assert_eq!(out[0].1, [0x00, 0x01, 0x19, 0xfa, 0xf2, 0x03, 0xf4]);
}
