use super::ast::Program;
use crate::diag::{render_all, Diagnostics, SourceMap};
use crate::preproc::{preprocess, MemoryLoader, Options};

fn parse(text: &str) -> (Program, String) {
    let mut map = SourceMap::new();
    let main = map.add("main.p4", text);
    let mut diagnostics = Diagnostics::new();
    let tokens = preprocess(
        main,
        &mut map,
        &MemoryLoader::default(),
        &Options::default(),
        &mut diagnostics,
    );
    let program = super::parser::parse(tokens, &mut diagnostics);
    (program, render_all(&diagnostics, &map))
}

#[test]
fn shipped_files_parse() {
    for version in ["20180101", "20200408"] {
        let (program, errors) = parse(&format!(
            "#define V1MODEL_VERSION {version}\n#include <v1model.p4>"
        ));
        assert_eq!(errors, "");
        assert!(program.decls.len() > 50);
    }
}
