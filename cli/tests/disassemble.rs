//! `alfirk switch --disassemble`: its output and exit codes. (The notation of the instructions is tested in `bmv2/tests/switch/disassembly.rs`.)

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn alfirk(words: &[&str], file: &Path) -> Output {
    Command::new(env!("CARGO_BIN_EXE_alfirk"))
        .args(words)
        .arg(file)
        .output()
        .expect("the binary was just built")
}

fn disassemble(file: &Path) -> Output {
    alfirk(&["switch", "--disassemble"], file)
}

/// A small program with two controls, an action and a table.
fn source() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../compiler/tests/programs/subcontrols.p4")
}

/// The text of the program's JSON, by `alfirk p4c`.
fn json(folder: &Path) -> String {
    let file = folder.join("program.json");
    let out = file.to_str().expect("the folder's name is UTF-8");
    let compiled = alfirk(&["p4c", "-o", out], &source());
    assert!(compiled.status.success(), "{compiled:?}");
    std::fs::read_to_string(file).expect("the compiler wrote it")
}

#[test]
fn code_is_printed_with_source_lines() {
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    json(folder.path());
    let output = disassemble(&folder.path().join("program.json"));
    let text = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert_eq!(output.stderr, b"", "{output:?}");
    let action = text.split("\n\n").find_map(|part| {
        let (name, code) = part.trim_start().split_once('\n')?;
        (name == "action MyIngress.both.second.bump:").then_some(code)
    });
    let lines: Vec<&str> = action.unwrap_or(&text).lines().map(str::trim).collect();
    let place = format!("# {}:49: value = value + STEP", source().display());
    let numbered = |line: &str, code| line.split_once("  ").is_some_and(|(_, rest)| rest == code);
    assert!(
        matches!(lines[..], [at, add, end] if at == place
            && numbered(add, "data.b := (data.b + 2)[0 +: 8]")
            && numbered(end, "return")),
        "{text}"
    );
    // P4 source is compiled first, to the same code.
    assert_eq!(disassemble(&source()).stdout, output.stdout);
}

#[test]
fn damaged_programs_are_refused_in_one_line() {
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let text = json(folder.path());
    let (half, _) = text.split_at(text.len() / 2);
    let unknown = text.replace("\"op\" : \"assign\"", "\"op\" : \"asign\"");
    assert_ne!(unknown, text);
    for (name, content, part) in [
        ("truncated.json", half, "EOF"),
        ("empty.json", "", "EOF"),
        ("unknown.json", &*unknown, "asign"),
    ] {
        let file = folder.path().join(name);
        std::fs::write(&file, content).expect("the folder can be written");
        let output = disassemble(&file);
        let message = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{name}: {output:?}");
        assert_eq!(output.stdout, b"", "{name}: {output:?}");
        assert_eq!(message.lines().count(), 1, "{name}: {message}");
        assert!(
            message.contains(&*file.to_string_lossy()) && message.contains(part),
            "{name}: {message}"
        );
    }
    let missing = disassemble(&folder.path().join("missing.json"));
    assert_eq!(missing.status.code(), Some(2), "{missing:?}");
}
