//! An unchanged MPI program under this machine's `mpirun` gets the same results with and without the library. The test
//! needs no RDMA device, because overlays use messages of the underlying MPI.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use alfirk_roce::collective::Algorithm;
use tempfile::TempDir;

const RANKS: &str = "5";

/// The library that cargo has built with this test.
fn library() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let library = test.with_file_name("libalfirk_mpi.so");
    assert!(library.is_file(), "{} is missing", library.display());
    library
}

fn program(folder: &TempDir) -> PathBuf {
    compile("mpicc", folder, "examples/collectives.c", &[])
}

fn compile(compiler: &str, folder: &TempDir, source: &str, flags: &[&str]) -> PathBuf {
    let program = folder.path().join("program");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join(source);
    let mut command = Command::new(compiler);
    command
        .args(["-O1", "-Wall", "-Wextra", "-Werror"])
        .args(flags);
    let done = command.arg("-o").arg(&program).arg(source).output();
    let done =
        done.unwrap_or_else(|error| panic!("{compiler}: {error}; run tools/setup --interop"));
    let said = String::from_utf8_lossy(&done.stderr);
    assert!(done.status.success(), "{compiler}: {said}");
    program
}

/// Runs the program with these environment variables; without the library if there are none.
fn run(program: &Path, variables: &[(&str, &str)]) -> Output {
    // Ranks use shared memory, or the loopback interface.
    run_over("self,vader,tcp", program, variables)
}

/// Like [`run`], with these transports of Open MPI.
fn run_over(transports: &str, program: &Path, variables: &[(&str, &str)]) -> Output {
    let mut mpirun = Command::new("timeout");
    mpirun.args(["120", "mpirun", "--oversubscribe", "--allow-run-as-root"]);
    mpirun.args(["--mca", "btl", transports, "-np", RANKS]);
    if !variables.is_empty() {
        mpirun
            .arg("-x")
            .arg(format!("LD_PRELOAD={}", library().display()));
    }
    for (name, value) in variables {
        mpirun.arg("-x").arg(format!("{name}={value}"));
    }
    let done = mpirun.arg(program).output().unwrap();
    let said = String::from_utf8_lossy(&done.stderr);
    assert!(done.status.success(), "{variables:?}: {said}");
    done
}

#[test]
fn results_are_the_same_by_every_overlay() {
    let folder = TempDir::new().unwrap();
    let program = program(&folder);
    let expected = run(&program, &[]).stdout;
    assert_eq!(expected.split(|b| *b == b'\n').count(), 6);
    for algorithm in Algorithm::ALL.into_iter().filter(|a| a.is_overlay()) {
        let name = algorithm.to_string();
        let variables = [
            ("ALFIRK_MPI_ALGORITHM", &*name),
            ("ALFIRK_MPI_VERBOSE", "1"),
        ];
        let done = run(&program, &variables);
        assert_eq!(done.stdout, expected, "{name}");
        let said = String::from_utf8_lossy(&done.stderr);
        assert!(said.contains(&format!("5 ranks use {name}")), "{said}");
    }
}

#[test]
fn without_a_device_one_line_is_printed_and_results_equal_those_of_mpi() {
    let folder = TempDir::new().unwrap();
    let program = program(&folder);
    let expected = run(&program, &[]).stdout;
    let done = run(&program, &[("ALFIRK_MPI_DEVICE", "none0")]);
    assert_eq!(done.stdout, expected);
    let said = String::from_utf8_lossy(&done.stderr);
    let lines: Vec<&str> = said
        .lines()
        .filter(|line| line.contains("alfirk"))
        .collect();
    assert!(
        !lines.is_empty() && lines.iter().all(|line| line.contains("none0")),
        "{said}"
    );
    assert_eq!(
        lines.iter().filter(|line| line.contains("rank 0:")).count(),
        1,
        "{said}"
    );
}

#[test]
fn a_wrong_setting_is_reported_and_the_underlying_mpi_is_used() {
    let folder = TempDir::new().unwrap();
    let program = program(&folder);
    let expected = run(&program, &[]).stdout;
    let done = run(&program, &[("ALFIRK_MPI_ALGORITHM", "pigeon")]);
    assert_eq!(done.stdout, expected);
    let said = String::from_utf8_lossy(&done.stderr);
    let lines: Vec<&str> = said
        .lines()
        .filter(|line| line.contains("alfirk:"))
        .collect();
    assert_eq!(lines.len(), 1, "{said}");
    assert!(
        lines[0].contains("ALFIRK_MPI_ALGORITHM") && lines[0].contains("pigeon"),
        "{said}"
    );
}

#[test]
fn fortran_programs_use_the_library_with_every_binding() {
    let folder = TempDir::new().unwrap();
    let mut digests = Vec::new();
    for flags in [
        &["-DUSE_MPI_F08"][..],
        &["-DUSE_MPI"],
        &["-fallow-argument-mismatch"],
    ] {
        // Fortran compilers warn about correct code.
        let flags = [&["-Wno-error"], flags].concat();
        let program = compile("mpif90", &folder, "examples/fortran.F90", &flags);
        let expected = run(&program, &[]).stdout;
        let said = String::from_utf8_lossy(&expected);
        assert_eq!(
            (said.lines().count(), said.contains("wrong")),
            (5, false),
            "{said}"
        );
        let variables = [
            ("ALFIRK_MPI_ALGORITHM", "binomial"),
            ("ALFIRK_MPI_VERBOSE", "1"),
        ];
        let done = run(&program, &variables);
        assert_eq!(done.stdout, expected, "{flags:?}");
        let said = String::from_utf8_lossy(&done.stderr);
        assert!(said.contains("5 ranks use binomial"), "{flags:?}: {said}");
        digests.push(expected);
    }
    assert!(digests.iter().all(|digest| *digest == digests[0]));
}

#[test]
fn a_broadcast_that_has_failed_leaves_no_receives_pending() {
    let folder = TempDir::new().unwrap();
    let program = compile("mpicc", &folder, "tests/truncated.c", &[]);
    let variables = [
        ("ALFIRK_MPI_ALGORITHM", "chain"),
        // With these limits, the sender does not wait for a receive that is never posted.
        ("OMPI_MCA_btl_tcp_eager_limit", "300000"),
        ("OMPI_MCA_btl_tcp_max_send_size", "400000"),
    ];
    let done = run_over("self,tcp", &program, &variables);
    let said = String::from_utf8_lossy(&done.stdout);
    assert_eq!(said.trim(), "root well, last truncated, memory kept");
}
