use super::CheckedProgram;
use crate::diag::{render_all, Diagnostics, SourceMap};
use crate::preproc::{preprocess, DiskLoader, Options};
use expect_test::{expect, Expect};

fn run(name: &str, text: &str) -> (CheckedProgram, String) {
    let mut map = SourceMap::new();
    let main = map.add(name, text);
    let mut diagnostics = Diagnostics::new();
    let tokens = preprocess(
        main,
        &mut map,
        &DiskLoader,
        &Options::default(),
        &mut diagnostics,
    );
    let program = crate::syntax::parser::parse(tokens, &mut diagnostics);
    let checked = super::check(program, &mut diagnostics);
    (checked, render_all(&diagnostics, &map))
}

fn check(text: &str, expect: Expect) {
    expect.assert_eq(&run("main.p4", text).1);
}

#[test]
fn shipped_files_are_right() {
    for version in ["20180101", "20200408"] {
        check(
            &format!("#define V1MODEL_VERSION {version}\n#include <v1model.p4>"),
            expect![[""]],
        );
    }
}

#[test]
fn own_data_plane_is_right() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../p4src/v1model/main.p4");
    let text = std::fs::read_to_string(path).expect("p4src is in the repository");
    let (checked, messages) = run(path, &text);
    assert_eq!(messages, "");
    assert!(checked.main().is_some());
}
