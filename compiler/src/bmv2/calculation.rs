//! Names of calculations (hashes and checksums), and the order in which p4c numbers them.

use crate::ir::{CalculationId, Checksum, FlatProgram};

/// Name of a calculation, as in p4c: control-plane scripts that set CRC parameters use it.
pub fn name(program: &FlatProgram, id: CalculationId) -> String {
    match rank(program, id) {
        0 => "calc".to_owned(),
        n => format!("calc_{}", n - 1),
    }
}

/// The position of a calculation in p4c's order: hashes, then updated checksums, then verified checksums.
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

/// All checksums: the updated ones, then the verified ones.
pub fn updates_first(program: &FlatProgram) -> impl Iterator<Item = &Checksum> {
    let of = |verify| (program.checksums.iter()).filter(move |checksum| checksum.verify == verify);
    of(false).chain(of(true))
}
