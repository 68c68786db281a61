use super::*;

const CHECK: &[u8] = b"123456789";

fn named(name: &str) -> Algorithm {
    Algorithm::from_name(name).unwrap()
}

#[test]
fn check_values_are_those_of_the_catalogues() {
    // The check values of the CRC RevEng catalogue: ARC, ISO-HDLC, CCITT-FALSE, SMBUS.
    assert_eq!(hash_bytes(named("crc16"), CHECK), 0xbb3d);
    assert_eq!(hash_bytes(named("crc16_custom"), CHECK), 0xbb3d);
    assert_eq!(hash_bytes(named("crc32"), CHECK), 0xcbf4_3926);
    assert_eq!(hash_bytes(named("crc32_custom"), CHECK), 0xcbf4_3926);
    assert_eq!(hash_bytes(named("crcCCITT"), CHECK), 0x29b1);
    assert_eq!(hash_bytes(named("crc8_custom"), CHECK), 0xf4);
    // xxhsum -H64.
    assert_eq!(hash_bytes(named("xxh64"), b""), 0xef46_db37_51d8_e999);
    assert_eq!(hash_bytes(named("xxh64"), b"a"), 0xd24e_c4f1_a98c_6e5b);
    // The example of RFC 1071, section 3.
    let rfc = [0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7];
    assert_eq!(hash_bytes(named("csum16"), &rfc), u64::from(!0xddf2u16));
    assert_eq!(
        hash_bytes(named("xor16"), &[0x12, 0x34, 0xff]),
        0x1234 ^ 0xff00
    );
    assert_eq!(
        hash_bytes(named("xor32"), &[1, 2, 3, 4, 5]),
        0x0102_0304 ^ 0x0500_0000
    );
    assert_eq!(hash_bytes(named("identity"), &[1, 2, 3]), 0x0001_0203);
    assert_eq!(
        hash_bytes(named("identity"), &[1, 2, 3, 4, 5, 6, 7, 8, 9]),
        0x0102_0304_0506_0708
    );
}
