//! Runs the front end on whole programs: those in `test_data/ok` have no diagnostics, those in `test_data/err` exactly the diagnostics in
//! their `.txt` file.

use crate::arch::Arch;
use crate::diag::{render_all, Diagnostics, SourceMap};
use crate::preproc::{preprocess, DiskLoader, Options};
use expect_test::expect_file;
use std::path::{Path, PathBuf};

fn messages(path: &Path) -> (String, bool) {
    let mut map = SourceMap::new();
    let name = path
        .file_name()
        .expect("a file")
        .to_string_lossy()
        .into_owned();
    let text = std::fs::read_to_string(path).expect("the file was listed");
    let main = map.add(name, text);
    let mut diagnostics = Diagnostics::new();
    let tokens = preprocess(
        main,
        &mut map,
        &DiskLoader,
        &Options::default(),
        &mut diagnostics,
    )
    .tokens;
    let program = crate::syntax::parser::parse(tokens, &mut diagnostics);
    let checked = crate::sema::check(program, Arch::default(), &mut diagnostics);
    assert_eq!(checked.err(), diagnostics.error_reported());
    diagnostics.sort();
    (render_all(&diagnostics, &map), diagnostics.has_errors())
}

/// Paths of the programs in a folder of `test_data`, in order.
pub(crate) fn programs(folder: &str) -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("test_data")
        .join(folder);
    let mut list: Vec<PathBuf> = std::fs::read_dir(folder)
        .expect("test data is in the repository")
        .map(|entry| entry.expect("readable").path())
        .filter(|path| path.extension().is_some_and(|e| e == "p4"))
        .collect();
    list.sort();
    list
}

#[test]
fn correct_programs_have_no_diagnostics_but_the_recorded_warnings() {
    for path in programs("ok") {
        let (text, failed) = messages(&path);
        assert!(!failed, "{} is rejected:\n{text}", path.display());
        let recorded = path.with_extension("txt");
        if !text.is_empty() || recorded.exists() {
            expect_file![recorded].assert_eq(&text);
        }
    }
}

#[test]
fn incorrect_programs_have_the_recorded_diagnostics() {
    for path in programs("err") {
        let (text, failed) = messages(&path);
        assert!(failed, "{} is accepted", path.display());
        expect_file![path.with_extension("txt")].assert_eq(&text);
    }
}

#[test]
fn suspicious_programs_have_the_recorded_warnings() {
    for path in programs("warn") {
        let (text, failed) = messages(&path);
        assert!(!failed, "{} is refused:\n{text}", path.display());
        expect_file![path.with_extension("txt")].assert_eq(&text);
    }
}
