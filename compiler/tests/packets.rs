//! Tests of the behaviour of compiled programs: each program in `tests/programs` runs on the software switch with the packets of its STF file.

use std::fs;
use std::path::{Path, PathBuf};

use alfirk_compiler::arch::Arch;
use alfirk_compiler::driver::{compile, CompileOptions};

/// The folder of the programs.
fn programs() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs")
}

/// Runs an STF file on the program of the same name.
///
/// # Errors
/// As [`failures_of`].
fn failures(arch: Arch, test: &Path) -> Result<(), String> {
    failures_of(arch, &test.with_extension("p4"), test)
}

/// Runs an STF file on a program.
///
/// # Errors
/// The program or the STF file is invalid, or the switch sends other packets than expected; one line per failure.
fn failures_of(arch: Arch, program: &Path, test: &Path) -> Result<(), String> {
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
fn programs_process_packets_as_their_stf_files_expect() {
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
        .filter_map(|test| failures(Arch::V1MODEL, test).err())
        .collect();
    assert!(wrong.is_empty(), "{wrong}");
}

#[test]
fn tofino_program_processes_packets_as_expected() {
    for arch in [Arch::TNA, Arch::T2NA] {
        failures(arch, &programs().join("tna/gresses.stf")).unwrap();
    }
}

#[test]
fn stateful_externs_of_tofino_behave_as_documented() {
    let folder = programs().join("tna");
    let objects = folder.join("objects.p4");
    for arch in [Arch::TNA, Arch::T2NA] {
        failures(arch, &folder.join("objects.stf")).unwrap();
    }
    failures_of(Arch::T2NA, &objects, &folder.join("objects.t2na.stf")).unwrap();
}

/// Checks that these tests can fail.
#[test]
fn wrong_output_packet_fails_the_test() {
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let program = folder.path().join("wrong.p4");
    fs::copy(programs().join("subcontrols.p4"), program).expect("the folder can be written");
    let test = folder.path().join("wrong.stf");
    fs::write(&test, "packet 0 02 10 20 07\nexpect 1 02 01 00 07 $\n")
        .expect("the folder can be written");
    let wrong = failures(Arch::V1MODEL, &test).unwrap_err();
    assert!(
        wrong.contains("wrong.stf:2: the packet at port 1 differs from the expected one"),
        "{wrong}"
    );
}
