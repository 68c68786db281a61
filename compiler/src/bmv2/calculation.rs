//! Names of calculations, and the order in which p4c numbers them.

use crate::ir::{CalculationId, Checksum, FlatProgram};

/// Name of a calculation. Scripts that set parameters of a CRC name it.
pub fn name(program: &FlatProgram, id: CalculationId) -> String {
    match rank(program, id) {
        0 => "calc".to_owned(),
        n => format!("calc_{}", n - 1),
    }
}

/// The position of a calculation in p4c's order: hashes, then checksums to update, then those to verify.
pub fn rank(program: &FlatProgram, id: CalculationId) -> usize {
    let hashes = program
        .objects
        .calculations
        .len()
        .saturating_sub(program.checksums.len());
    let mut checksums = updates_first(program);
    if let Some(position) = checksums.position(|checksum| checksum.calculation == id) {
        return hashes + position;
    }
    let of_hashes = |other: &usize| {
        let mut checksums = program.checksums.iter();
        checksums.all(|checksum| checksum.calculation.index() != *other)
    };
    (0..id.index()).filter(of_hashes).count()
}

pub fn updates_first(program: &FlatProgram) -> impl Iterator<Item = &Checksum> {
    let of = |verify| (program.checksums.iter()).filter(move |checksum| checksum.verify == verify);
    of(false).chain(of(true))
}
