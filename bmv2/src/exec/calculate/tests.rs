use super::*;
use crate::frame::Frame;
use proptest::prelude::*;

fn named(name: &str) -> Algorithm {
    Algorithm::from_name(name).unwrap()
}

fn output(calculation: &Calculation, phv: &[u64], payload: &[u8], state: &mut HashState) -> u64 {
    let layout = Layout::default();
    let mut random = Random::new(1);
    let frame = Frame::copy_of(payload);
    calculation.output(
        &layout,
        phv,
        Rest::new(&frame, 0),
        &mut BitBuffer::default(),
        state,
        &mut random,
    )
}

proptest! {
    /// The checksum computed from words equals that over the concatenated bytes.
    #[test]
    fn joined_inputs_hash_like_single_bits(
        fields in proptest::collection::vec((any::<u64>(), 1u32..=64), 0..12),
        invalid in proptest::option::weighted(0.2, 0usize..12),
        payload in proptest::option::of(proptest::collection::vec(any::<u8>(), 0..70)),
    ) {
        let phv: Vec<u64> = fields.iter().enumerate().flat_map(|(i, (v, bits))| {
            [v & (u64::MAX >> (64 - bits)), u64::from(invalid != Some(i))]
        }).collect();
        let slots = fields.iter().enumerate().map(|(i, (_, bits))| (2 * i as u16, *bits));
        for name in ["csum16", "crc32", "xor16", "xxh64"] {
            let mut calculation = Calculation {
                name: String::new(),
                algorithm: named(name),
                inputs: slots.clone().map(|(slot, bits)| Input::Field {
                    slot, bits, valid: Some(slot + 1),
                }).collect(),
                payload: payload.is_some(),
                joined: Some(JoinedInputs {
                    valid: slots.clone().map(|(slot, _)| slot + 1).collect(),
                    join: Join::new(slots.clone()),
                }),
            };
            let payload = payload.as_deref().unwrap_or_default();
            let fast = output(&calculation, &phv, payload, &mut HashState::default());
            calculation.joined = None;
            let slow = output(&calculation, &phv, payload, &mut HashState::default());
            prop_assert_eq!(fast, slow, "{}", name);
        }
    }

    #[test]
    fn bits_are_joined_without_padding(fields in proptest::collection::vec((any::<u64>(), 0u32..=64), 0..20)) {
        let mut buffer = BitBuffer::default();
        let mut text = String::new();
        for (value, bits) in &fields {
            buffer.push(low(*value, *bits), *bits);
            for i in (0..*bits).rev() {
                text.push(if value >> i & 1 == 1 { '1' } else { '0' });
            }
        }
        while text.len() % 8 != 0 {
            text.push('0');
        }
        let bytes: Vec<u8> = (0..text.len() / 8)
            .map(|i| u8::from_str_radix(&text[8 * i..8 * i + 8], 2).unwrap())
            .collect();
        prop_assert_eq!(buffer.finish(), &bytes[..]);
    }
}

#[test]
fn round_robin_counts_and_the_consistent_variant_is_stable() {
    let mut calculation = Calculation {
        name: String::new(),
        algorithm: named("round_robin"),
        inputs: vec![Input::Field {
            slot: 0,
            bits: 8,
            valid: None,
        }],
        payload: false,
        joined: None,
    };
    let mut state = HashState::default();
    let values: Vec<u64> = (0..3)
        .map(|_| output(&calculation, &[5], &[], &mut state))
        .collect();
    assert_eq!(values, [0, 1, 2]);
    calculation.algorithm = named("round_robin_consistent");
    let mut state = HashState::default();
    let values: Vec<u64> = [5, 6, 5, 7, 6]
        .iter()
        .map(|v| output(&calculation, &[*v], &[], &mut state))
        .collect();
    assert_eq!(values, [0, 1, 0, 2, 1]);
}
