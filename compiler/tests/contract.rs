//! Check that the committed files of the contract between the data plane and its clients match the P4 program.
//!
//! `make contract` regenerates the files.

use std::fs;
use std::path::{Path, PathBuf};

use alfirk_compiler::constants::{Constants, Language};
use alfirk_compiler::driver::{compile, CompileOptions, P4InfoFormat, Session};
use alfirk_compiler::preproc::DiskLoader;

const PROGRAM: &str = "p4src/v1model/main.p4";

/// The folder of the repository.
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// Compares a committed file with its generated content `wanted`. With `ALFIRK_WRITE_CONTRACT`, writes the file first.
fn assert_committed(file: &str, wanted: &[u8]) {
    let path = root().join(file);
    if std::env::var_os("ALFIRK_WRITE_CONTRACT").is_some() {
        fs::write(&path, wanted).unwrap();
    }
    let found = fs::read(&path).unwrap_or_default();
    assert!(
        found == wanted,
        "{file} differs from what is generated from {PROGRAM}: run `make contract`, and review the changes"
    );
}

#[test]
fn generated_constants_match_the_program() {
    let mut session = Session::new(CompileOptions::new(root().join(PROGRAM)));
    let checked = session.checked(&DiskLoader).unwrap().unwrap();
    let constants = Constants::of(&checked, &session.sources);
    for file in [
        "contract/src/generated.rs",
        "ptf-tests/alfirk_ptf/contract.py",
        "editors/wireshark/alfirk_contract.lua",
    ] {
        let language = Language::of(Path::new(file)).unwrap();
        assert_committed(file, language.write(&constants, PROGRAM).as_bytes());
    }
}

#[test]
fn committed_p4info_matches_the_program() {
    let compiled = compile(&CompileOptions::new(root().join(PROGRAM))).unwrap();
    let text = P4InfoFormat::Text.encode(&compiled.p4info);
    assert_committed("contract/alfirk.p4info.txtpb", &text);
}

/// Explicit ids keep controllers working when an object is renamed, since an id derived from a name changes with the name. Registers do not
/// need explicit ids: controllers read them by PacketOut, and the registers of a tree level have several instances.
#[test]
fn every_p4info_id_is_explicit_in_the_program() {
    let compiled = compile(&CompileOptions::new(root().join(PROGRAM))).unwrap();
    let info = &compiled.p4info;
    let tables = info.tables.iter().map(|o| &o.preamble);
    let actions = info.actions.iter().map(|o| &o.preamble);
    let counters = info.counters.iter().map(|o| &o.preamble);
    let direct = info.direct_counters.iter().map(|o| &o.preamble);
    let meters = info.meters.iter().map(|o| &o.preamble);
    let direct_meters = info.direct_meters.iter().map(|o| &o.preamble);
    let all = tables
        .chain(actions)
        .chain(counters)
        .chain(direct)
        .chain(meters)
        .chain(direct_meters)
        .flatten();
    let made: Vec<&str> = all
        .filter(|object| object.name != "NoAction" && object.id & 0xff_ffff > 0xff)
        .map(|object| object.name.as_str())
        .collect();
    assert_eq!(
        made,
        Vec::<&str>::new(),
        "give them an @id from 1 to 255 that no other object of their kind has"
    );
}
