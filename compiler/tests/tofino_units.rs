//! Tests of the limits of Tofino's units, with one construct per program in `test_data/units`. Programs in `refused` must be rejected at the
//! line with the comment `// refused`; the similar programs in `taken` must be accepted.

use std::fs;
use std::path::{Path, PathBuf};

use alfirk_compiler::driver::{run, with_long_options, P4cArgs};
use clap::Parser;

#[derive(Parser)]
#[command(no_binary_name = true)]
struct Cli {
    #[command(flatten)]
    args: P4cArgs,
}

/// Runs `alfirk p4c` with command-line arguments; returns its exit code and stderr.
fn p4c(words: &[&str]) -> (u8, String) {
    let words = with_long_options(words.iter().map(Into::into));
    let cli = Cli::try_parse_from(words).expect("the options exist");
    let (mut out, mut err) = (Vec::new(), Vec::new());
    let code = run(&cli.args, &mut out, &mut err);
    (code, String::from_utf8(err).expect("messages are text"))
}

/// The programs of a folder in `test_data/units`.
fn programs(folder: &str) -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("test_data/units")
        .join(folder);
    let mut programs: Vec<PathBuf> = fs::read_dir(&folder)
        .expect("the folder is in the repository")
        .map(|entry| entry.expect("the folder can be read").path())
        .collect();
    programs.sort();
    programs
}

/// Exit code and diagnostics of `p4c` for a program, without and with `--report`.
fn outcomes(program: &Path, arch: &str) -> [(u8, String); 2] {
    let path = program.to_str().expect("the path is text");
    let around = program
        .parent()
        .and_then(Path::parent)
        .expect("it is in a folder");
    let around = format!("-I{}", around.display());
    let line = ["--arch", arch, &around, path];
    [p4c(&line), p4c(&[&line[..], &["--report"]].concat())]
}

#[test]
fn unsupported_operations_are_errors_at_their_line() {
    let mut wrong = String::new();
    let programs = programs("refused");
    assert!(programs.len() >= 40);
    for program in programs {
        let text = fs::read_to_string(&program).expect("the program can be read");
        let line = 1 + text
            .lines()
            .position(|line| line.contains("// refused"))
            .expect("a line has the comment");
        let name = program
            .file_name()
            .and_then(|name| name.to_str())
            .expect("it has a name");
        let place = format!("{name}:{line}:");
        for arch in ["tna", "t2na"] {
            if arch == "t2na" && text.contains("// taken by Tofino 2") {
                continue;
            }
            for (code, output) in outcomes(&program, arch) {
                let errors = output
                    .lines()
                    .filter(|line| line.starts_with("error"))
                    .count();
                if code != 1
                    || errors != 1
                    || !output.contains(&place)
                    || !output.contains("= help: ")
                {
                    wrong += &format!("{arch} {name}: exit code {code}, expected one error at line {line}\n{output}\n");
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
}

#[test]
fn similar_supported_operations_are_accepted() {
    let mut wrong = String::new();
    let programs = programs("taken");
    assert!(programs.len() >= 20);
    for program in programs {
        for arch in ["tna", "t2na"] {
            for (code, output) in outcomes(&program, arch) {
                if code != 0 {
                    wrong += &format!("{arch} {}: exit code {code}\n{output}\n", program.display());
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
}

/// Exit code of `p4c` for Tofino for a control with this `apply` block, between the common start and end of the programs.
fn code_of_block(block: &str) -> u8 {
    let folder = tempfile::tempdir().expect("a folder can be made");
    let program = folder.path().join("program.p4");
    let text = format!(
        "#include \"before.p4\"\napply {{\nig_tm_md.ucast_egress_port = 1;\n{block}}}\n}}\n#include \"after.p4\"\n"
    );
    fs::write(&program, text).expect("the program can be written");
    let data = concat!("-I", env!("CARGO_MANIFEST_DIR"), "/test_data/units");
    let path = program.to_str().expect("the path is text");
    p4c(&["--arch", "tna", data, path]).0
}

#[test]
fn variables_with_equal_names_are_forwarded_separately() {
    let difference = "bit<16> x = hdr.d.a16 - hdr.d.b16;\nhdr.d.c16 = x;\n";
    let condition = "if (x == 0) { hdr.d.a8 = 1; }\n";
    let shadowing = format!("bit<16> x = hdr.d.a16;\n{{\n{difference}}}\n{condition}");
    assert_eq!(code_of_block(&shadowing), 0);
    let shadowed =
        format!("{difference}{{\nbit<16> x = hdr.d.a16;\nhdr.d.d16 = x;\n}}\n{condition}");
    assert_eq!(code_of_block(&shadowed), 1);
}

#[test]
fn a_write_of_a_part_ends_the_forwarding() {
    let condition = "if (x == 0) { hdr.d.a8 = 1; }\n";
    for write in ["x[11:4] = 3;", "x[4 +: 8] = 3;"] {
        let part =
            format!("bit<16> x = hdr.d.a16 - hdr.d.b16;\nhdr.d.c16 = x;\n{write}\n{condition}");
        assert_eq!(code_of_block(&part), 0, "{write}");
    }
    let element = format!(
        "tag_t[2] tags;\ntags[0] = {{ 7 }};\nbit<16> x = tags[0].value - hdr.d.b16;\nhdr.d.c16 = x;\ntags[0].value = 5;\n{condition}"
    );
    assert_eq!(code_of_block(&element), 0);
}

#[test]
fn long_chains_of_assignments_are_checked() {
    let mut doubled = String::from("bool x0 = false;\n");
    for i in 1..=60 {
        doubled += &format!("bool x{i} = x{0} && x{0};\n", i - 1);
    }
    doubled += "if (x60) { hdr.d.b8 = 1; }\n";
    assert_eq!(code_of_block(&doubled), 0);
    let many = "hdr.d.a16 = hdr.d.b16;\nhdr.d.b16 = hdr.d.c16;\n".repeat(3_000);
    assert_eq!(code_of_block(&many), 0);
}
