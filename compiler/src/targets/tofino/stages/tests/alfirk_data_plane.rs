//! Tests of the stage report on the data plane of this repository, `p4src/tna`.
//!
//! For comparison, bf-p4c 9.13.4 (p4lang/p4c at 34b86e9, `make tofino`) allocates 12 stages, 351 SRAMs, 42 TCAMs, 30 stateful ALUs and
//! 1,136 hash bits on Tofino 1. On Tofino 2 it allocates 15, 429, 39, 32 and 1,130.

use expect_test::{expect, Expect};

use super::super::Report;
use crate::arch::Arch;
use crate::driver::{CompileOptions, Session};
use crate::preproc::DiskLoader;

/// Compares the number of stages and the sums of resources over all stages with `wanted`.
fn check(arch: Arch, wanted: Expect) {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../p4src/tna/main.p4");
    let mut options = CompileOptions::new(path);
    options.set_arch(arch);
    let mut session = Session::new(options);
    let program = session
        .elaborated(&DiskLoader)
        .expect("it is in the repository");
    let program = program.unwrap_or_else(|_| panic!("{}", session.rendered()));
    let report = Report::of(&program).expect("it is for Tofino");
    let sum = |what: &str| -> u64 {
        let numbers = report.used.iter().flat_map(|used| used.list());
        numbers
            .filter(|(name, _)| *name == what)
            .map(|(_, number)| number)
            .sum()
    };
    let mut actual = format!("{} stages of {}\n", report.needed, report.stages);
    for what in [
        "SRAM",
        "TCAM",
        "stateful ALUs",
        "statistics ALUs",
        "hash bits",
    ] {
        actual += &format!("{} {what}\n", sum(what));
    }
    wanted.assert_eq(&actual);
}

#[test]
fn data_plane_of_this_repository_on_tofino() {
    check(
        Arch::TNA,
        expect![[r#"
            12 stages of 12
            359 SRAM
            60 TCAM
            33 stateful ALUs
            10 statistics ALUs
            1104 hash bits
        "#]],
    );
}

#[test]
fn data_plane_of_this_repository_on_tofino_2() {
    check(
        Arch::T2NA,
        expect![[r#"
            13 stages of 20
            449 SRAM
            60 TCAM
            36 stateful ALUs
            10 statistics ALUs
            1188 hash bits
        "#]],
    );
}
