//! Packets per second through one table of each match kind, with 1,000, 100,000 and a million entries.
//!
//! `cargo bench -p alfirk-bmv2 --bench lookups`; items are frames, each of which hits an entry. The whole processing of
//! a frame is measured (parser, table, queue, deparser), so only differences between sizes and kinds are due to the
//! lookup.

#[allow(dead_code)]
#[path = "common/group.rs"]
mod group;

use alfirk_bmv2::{Effects, Engine, EntryTarget, KeyMatch};
use divan::{counter::ItemsCount, Bencher};
use group::{pass, switch};

const SIZES: [u32; 3] = [1_000, 100_000, 1_000_000];
const FRAMES: u32 = 1_000;

fn main() {
    divan::main();
}

#[divan::bench(args = SIZES, sample_count = 30)]
fn exact(bencher: Bencher, entries: u32) {
    lookups(bencher, entries, 0, "ingress.by_exact", |i| {
        let value = |value: &[u8]| KeyMatch::Exact {
            value: value.to_vec(),
        };
        vec![value(&scattered(i).to_be_bytes()), value(&low(i))]
    });
}

/// Measures lookups of an lpm key, with prefixes of 24 to 32 bits.
#[divan::bench(args = SIZES, sample_count = 30)]
fn lpm(bencher: Bencher, entries: u32) {
    lookups(bencher, entries, 1, "ingress.by_lpm", |i| {
        let prefix_len = 24 + i % 9;
        let value = scattered(i) >> (32 - prefix_len) << (32 - prefix_len);
        vec![KeyMatch::Lpm {
            value: value.to_be_bytes().to_vec(),
            prefix_len,
        }]
    });
}

/// Measures lookups of a ternary key, with sixteen combinations of masks.
#[divan::bench(args = SIZES, sample_count = 30)]
fn ternary(bencher: Bencher, entries: u32) {
    lookups(bencher, entries, 2, "ingress.by_ternary", |i| {
        let masked = |value: u32, mask: u32| KeyMatch::Ternary {
            value: (value & mask).to_be_bytes().to_vec(),
            mask: mask.to_be_bytes().to_vec(),
        };
        let b = if i % 16 < 8 { 0xffff } else { 0xff00 };
        vec![
            masked(scattered(i), u32::MAX << (i % 8)),
            masked(i & 0xffff, b),
        ]
    });
}

/// Measures lookups of a range key, with ranges of up to 4,096 values out of 2^32.
#[divan::bench(args = SIZES, sample_count = 30)]
fn range(bencher: Bencher, entries: u32) {
    lookups(bencher, entries, 3, "ingress.by_range", |i| {
        let from = scattered(i);
        let to = from.saturating_add(i % 4096);
        vec![KeyMatch::Range {
            low: from.to_be_bytes().to_vec(),
            high: to.to_be_bytes().to_vec(),
        }]
    });
}

/// Every second entry matches any value of the second field.
#[divan::bench(args = SIZES, sample_count = 30)]
fn optional(bencher: Bencher, entries: u32) {
    lookups(bencher, entries, 4, "ingress.by_optional", |i| {
        let b = if i % 2 == 0 {
            KeyMatch::Exact {
                value: low(i).to_vec(),
            }
        } else {
            KeyMatch::Ternary {
                value: vec![0],
                mask: vec![0],
            }
        };
        let a = scattered(i).to_be_bytes().to_vec();
        vec![KeyMatch::Exact { value: a }, b]
    });
}

/// Maps numbers one-to-one to numbers spread over 32 bits.
fn scattered(i: u32) -> u32 {
    i.wrapping_mul(0x9e37_79b1)
}

fn low(i: u32) -> [u8; 2] {
    (i as u16).to_be_bytes()
}

fn lookups(
    bencher: Bencher,
    entries: u32,
    kind: u8,
    table: &str,
    key: impl Fn(u32) -> Vec<KeyMatch>,
) {
    let mut switch = switch("bmv2/test_data/lookups.p4", Engine::Interpreter);
    let id = switch.table(table).unwrap();
    for i in 0..entries {
        let target = EntryTarget::Action {
            name: "ingress.forward".to_owned(),
            args: vec![vec![(i % 200) as u8]],
        };
        // Among a million prefixes, some are equal.
        let _ = switch.insert_entry(id, &key(i), (i % 1000 + 1) as i32, &target, 0, 0);
    }
    let frames: Vec<Vec<u8>> = (0..FRAMES)
        .map(|n| {
            let i = (u64::from(n) * u64::from(entries) / u64::from(FRAMES)) as u32;
            let mut frame = vec![kind];
            frame.extend(scattered(i).to_be_bytes());
            frame.extend(low(i));
            frame.resize(60, 0);
            frame
        })
        .collect();
    for frame in &frames {
        assert_eq!(switch.process(1, frame, 0).len(), 1, "every frame hits");
    }
    let (mut fx, mut waiting) = (Effects::default(), Vec::new());
    bencher
        .counter(ItemsCount::new(frames.len()))
        .bench_local(|| {
            for frame in &frames {
                pass(&mut switch, &mut fx, &mut waiting, 1, frame);
            }
        });
}
