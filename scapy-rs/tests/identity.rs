//! Dissecting and building are inverse, for any bytes; fields are where the libraries' accessors have them.

use std::time::Instant;

use alfirk_test_budget::Fuzz;
use proptest::prelude::*;
use rand_chacha::ChaCha8Rng;
use rand_core::{Rng, SeedableRng};
use scapy::random::Packets;
use scapy::{diff, dissect, protocols, Access, Field, Layer, Mask, Packet, Value};

/// Builds the packet that the bytes are dissected into.
fn rebuilt(bytes: &[u8]) -> Vec<u8> {
    dissect(bytes).build().unwrap()
}

#[test]
fn random_packets_are_dissected_into_their_layers() {
    for (number, packet) in Packets::new(7).take(2000).enumerate() {
        let built = packet.built().unwrap();
        let bytes = packet.build().unwrap();
        let dissected = dissect(&bytes);
        let names = |packet: &Packet| -> Vec<String> {
            packet
                .layers()
                .iter()
                .map(|l| l.name().to_owned())
                .collect()
        };
        assert_eq!(
            names(&dissected),
            names(&built),
            "packet {number}: {}",
            built.summary()
        );
        assert_eq!(
            diff(&built, &dissected, &Mask::default()),
            [],
            "packet {number}"
        );
        assert_eq!(dissected.build().unwrap(), bytes, "packet {number}");
    }
}

#[test]
fn computed_fields_are_computed_again() {
    for (number, packet) in Packets::new(8).take(2000).enumerate() {
        let bytes = packet.build().unwrap();
        let mut dissected = dissect(&bytes);
        dissected.clear_computed();
        let again = dissected.build().unwrap();
        assert_eq!(
            scapy::hex(&again),
            scapy::hex(&bytes),
            "packet {number}: {}",
            packet.summary()
        );
    }
}

#[test]
fn any_bytes_are_dissected() {
    let fuzz = Fuzz::from_env();
    let end = Instant::now() + fuzz.time;
    let mut seed = fuzz.first;
    while Instant::now() < end {
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        for packet in Packets::new(seed).take(50) {
            let mut bytes = packet.build().unwrap();
            for _ in 0..1 + random.next_u32() % 4 {
                match (random.next_u32() % 4, bytes.len()) {
                    (_, 0) => {}
                    (0, length) => bytes.truncate(random.next_u32() as usize % length),
                    (1, _) => bytes.extend(random.next_u32().to_be_bytes()),
                    // The headers are at the front.
                    (2, length) => bytes[random.next_u32() as usize % length.min(60)] = 0xff,
                    (_, length) => {
                        bytes[random.next_u32() as usize % length] = random.next_u32() as u8;
                    }
                }
            }
            let dissected = dissect(&bytes);
            assert_eq!(dissected.build().unwrap(), bytes, "seed {seed}");
            assert!(!dissected.show().is_empty() || bytes.is_empty());
            let _ = (dissected.summary(), packet.show());
            let _ = diff(&packet.built().unwrap(), &dissected, &Mask::default());
            let mut cleared = dissected;
            cleared.clear_computed();
            cleared.build().unwrap();
        }
        seed += 1;
    }
}

/// All fields of all protocols that a library reads and writes, with headers in which they exist.
fn library_fields() -> impl Iterator<Item = (&'static scapy::Protocol, &'static Field)> {
    let all = protocols::ALL.iter();
    all.flat_map(|protocol| {
        let fields = protocol.fields.iter();
        let by_library = fields.filter(|field| matches!(field.access, Access::Library { .. }));
        // The ICRC is little-endian in the packet.
        let by_library = by_library.filter(|field| field.name != "icrc");
        by_library.map(move |field| (*protocol, field))
    })
}

/// The library's getters read the bits at the field's position, and its setters write these and no others. So the
/// positions, by which packets are compared, are right.
#[test]
fn libraries_access_the_bits_at_the_fields_positions() {
    let mut random = ChaCha8Rng::seed_from_u64(1);
    let mut seen = 0;
    for (protocol, field) in library_fields() {
        let Access::Library { get, set } = field.access else {
            unreachable!()
        };
        let bits = Field {
            access: Access::Bits,
            exists: None,
            ..field.clone()
        };
        let name = format!("{}.{}", protocol.name, field.name);
        for _ in 0..50 {
            let mut header = vec![0; protocol.template.len().max(24)];
            random.fill_bytes(&mut header);
            assert_eq!(get(&header), bits.number(&header), "get {name}");
            let value = u128::from(random.next_u64()) << 64 | u128::from(random.next_u64());
            let value = value & (u128::MAX >> (128 - field.width));
            let mut by_library = header.clone();
            set(&mut by_library, value);
            let as_bits = |header: &[u8], at: usize| header[at / 8] >> (7 - at % 8) & 1;
            for at in 0..header.len() * 8 {
                let inside = (field.offset..field.offset + field.width).contains(&at);
                let expected = match inside {
                    true => (value >> (field.offset + field.width - 1 - at) & 1) as u8,
                    false => as_bits(&header, at),
                };
                assert_eq!(as_bits(&by_library, at), expected, "set {name}, bit {at}");
            }
        }
        assert_eq!(get(&[]), None, "{name}");
        set(&mut [], 1);
        seen += 1;
    }
    assert!(seen > 100, "{seen}");
}

#[test]
fn fields_cover_their_headers_without_overlap() {
    for protocol in protocols::ALL {
        let header = &protocol.template;
        let mut end = 0;
        for field in protocol.fields.iter().filter(|field| field.exists(header)) {
            assert_eq!(
                field.position(header),
                end,
                "{}.{}",
                protocol.name,
                field.name
            );
            end += field.width_in(header);
        }
        assert_eq!(end, header.len() * 8, "{}", protocol.name);
    }
}

#[test]
fn every_default_header_is_one_of_its_protocol() {
    for protocol in protocols::ALL {
        let bytes = Packet::from(Layer::new(protocol)).build().unwrap();
        assert_eq!(
            (protocol.header_len)(&bytes),
            Some(bytes.len()),
            "{}",
            protocol.name
        );
    }
}

proptest! {
    #[test]
    fn random_bytes_are_built_as_they_were(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        prop_assert_eq!(rebuilt(&bytes), bytes);
    }

    #[test]
    fn every_protocol_dissects_random_bytes(
        bytes in proptest::collection::vec(any::<u8>(), 0..120),
        protocol in 0..protocols::ALL.len(),
    ) {
        let packet = scapy::dissect_as(&bytes, protocols::ALL[protocol]);
        prop_assert_eq!(packet.build().unwrap(), bytes);
        let _ = packet.show();
    }

    #[test]
    fn shown_values_are_accepted(seed: u64) {
        for packet in Packets::new(seed).take(3) {
            let packet = packet.built().unwrap();
            for layer in packet.layers() {
                for field in layer.protocol().fields.iter() {
                    let Some(shown) = field.text(layer.header()) else {
                        continue;
                    };
                    let before = layer.bytes(&field.name);
                    if field.width == 0 || matches!(field.kind, scapy::Kind::Bytes) {
                        continue;
                    }
                    let again = layer.clone().set(&field.name, Value::Text(shown.clone()));
                    prop_assert_eq!(again.error(), None);
                    prop_assert_eq!(again.bytes(&field.name), before, "{}.{} = {}", layer.name(), field.name, shown);
                }
            }
        }
    }

    #[test]
    fn expressions_and_filters_never_panic(text in "\\PC{0,40}") {
        let _ = scapy::parse(&text);
        let _ = text.parse::<scapy::Filter>();
        let _ = scapy::unhex(&text);
    }
}
