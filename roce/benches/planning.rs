//! Benchmark: plans of a whole group. `cargo bench -p alfirk-roce --bench planning`. Each should take less than a second.

use alfirk_roce::collective::{Algorithm, Racks, Shape};
use divan::counter::ItemsCount;
use divan::{black_box, Bencher};

const MEMBERS: u32 = 4096;

fn main() {
    divan::main();
}

/// The plans of all members for a broadcast of 1 MiB.
#[divan::bench(args = Algorithm::ALL)]
fn all_plans(bencher: Bencher<'_, '_>, algorithm: Algorithm) {
    let racks: Racks = (0..MEMBERS).map(|rank| rank / 32).collect();
    let shape = Shape {
        members: MEMBERS,
        slices: algorithm.default_slices(1 << 20, MEMBERS),
        racks: &racks,
    };
    bencher.counter(ItemsCount::new(MEMBERS)).bench(|| {
        for rank in 0..MEMBERS {
            black_box(algorithm.plan(black_box(shape), rank));
        }
    });
}
