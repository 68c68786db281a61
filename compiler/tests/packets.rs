//! Runs every program in `programs` on the software switch with the packets of its STF file: this tests the behaviour of language features,
//! not only the compiler's output.

use std::fs;
use std::path::{Path, PathBuf};

use alfirk_compiler::arch::Arch;
use alfirk_compiler::driver::{compile, CompileOptions};

fn programs() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs")
}

/// The failures of the program of an STF file.
fn wrong(arch: Arch, test: &Path) -> Result<(), String> {
    wrong_with(arch, &test.with_extension("p4"), test)
}

/// The failures, one per line: errors of the program, of the test, or wrong output of the switch.
fn wrong_with(arch: Arch, program: &Path, test: &Path) -> Result<(), String> {
    let named = |error: String| format!("{}: {error}\n", program.display());
    let mut options = CompileOptions::new(program);
    options.actions_share_names = true;
    options.set_arch(arch);
    let compiled = compile(&options).map_err(|error| named(error.to_string()))?;
    let text = fs::read_to_string(test).map_err(|error| named(error.to_string()))?;
    let lines = alfirk_stf::parse(&text).map_err(|error| named(error.to_string()))?;
    let failures = alfirk_stf::run_here(&compiled.json.to_text(), &lines, 0).map_err(named)?;
    match failures.is_empty() {
        true => Ok(()),
        false => Err(failures
            .iter()
            .map(|failure| {
                let line = failure
                    .line
                    .map_or(String::new(), |line| format!(":{line}"));
                format!("{}{line}: {}\n", test.display(), failure.message)
            })
            .collect()),
    }
}

#[test]
fn packets_take_the_way_that_the_program_says() {
    let folders = [programs(), programs().join("exercises")];
    let mut tests: Vec<PathBuf> = folders
        .iter()
        .flat_map(|folder| fs::read_dir(folder).expect("the folder is in the repository"))
        .map(|entry| entry.expect("the folder can be read").path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "stf"))
        .collect();
    tests.sort();
    assert!(tests.len() > folders.len());
    let wrong: String = tests
        .iter()
        .filter_map(|test| wrong(Arch::V1model, test).err())
        .collect();
    assert!(wrong.is_empty(), "{wrong}");
}

#[test]
fn packets_take_the_way_that_a_program_for_tofino_says() {
    for arch in [Arch::Tna, Arch::T2na] {
        wrong(arch, &programs().join("tna/gresses.stf")).unwrap();
    }
}

#[test]
fn stateful_objects_of_tofino_do_what_their_descriptions_say() {
    let folder = programs().join("tna");
    let objects = folder.join("objects.p4");
    for arch in [Arch::Tna, Arch::T2na] {
        wrong(arch, &folder.join("objects.stf")).unwrap();
    }
    wrong_with(Arch::T2na, &objects, &folder.join("objects.t2na.stf")).unwrap();
}

/// A check that the test can fail.
#[test]
fn a_packet_that_goes_another_way_is_noticed() {
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let program = folder.path().join("wrong.p4");
    fs::copy(programs().join("subcontrols.p4"), program).expect("the folder can be written");
    let test = folder.path().join("wrong.stf");
    fs::write(&test, "packet 0 02 10 20 07\nexpect 1 02 01 00 07 $\n")
        .expect("the folder can be written");
    let wrong = wrong(Arch::V1model, &test).unwrap_err();
    assert!(
        wrong.contains("wrong.stf:2: the packet at port 1 differs from the expected one"),
        "{wrong}"
    );
}
