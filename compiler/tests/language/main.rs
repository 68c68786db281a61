//! Tests of each feature of the language, with programs that must be accepted and programs that must be rejected.
//!
//! One snapshot per chapter has the diagnostics of the rejected programs. `tests/packets.rs` tests the behaviour of accepted programs.

mod cases;

use std::path::Path;

use alfirk_compiler::driver::{compile_with, CompileError, CompileOptions};
use alfirk_compiler::preproc::MemoryLoader;

/// A feature of the language.
struct Item {
    /// Name of the feature.
    name: &'static str,
    /// Programs that must be accepted.
    accepted: &'static [Part],
    /// Programs that must be rejected.
    refused: &'static [Part],
}

/// The part of a program that an example sets.
enum Part {
    /// Top-level declarations.
    Top(&'static str),
    /// Statements of ingress.
    Apply(&'static str),
    /// Local declarations and statements of ingress.
    Control(&'static str, &'static str),
    /// Top-level declarations, and statements of ingress.
    With(&'static str, &'static str),
    /// Top-level declarations, and local declarations and statements of ingress.
    All(&'static str, &'static str, &'static str),
    /// Statements, a transition and further states after the first extraction in the parser.
    Parser(&'static str),
    /// Top-level declarations, local declarations of the parser, and the statements, transition and states after its first extraction.
    ParserWith(&'static str, &'static str, &'static str),
    /// Statements of the deparser.
    Deparser(&'static str),
    /// A whole program.
    Whole(&'static str),
}

impl Part {
    /// The whole program, with the parts on separate lines.
    fn program(&self) -> String {
        let (top, control, apply, locals, states) = match self {
            Part::Whole(text) => return (*text).to_owned(),
            Part::Deparser(_) => ("", "", "", "", ""),
            Part::Top(top) => (*top, "", "", "", ""),
            Part::Apply(apply) => ("", "", *apply, "", ""),
            Part::Control(control, apply) => ("", *control, *apply, "", ""),
            Part::With(top, apply) => (*top, "", *apply, "", ""),
            Part::All(top, control, apply) => (*top, *control, *apply, "", ""),
            Part::Parser(states) => ("", "", "", "", *states),
            Part::ParserWith(top, locals, states) => (*top, "", "", *locals, *states),
        };
        let states = match states {
            "" => "transition accept;",
            states => states,
        };
        let deparser = match self {
            Part::Deparser(deparser) => *deparser,
            _ => "p.emit(hdr);",
        };
        format!(
            "#include <core.p4>
#include <v1model.p4>
header h_t {{ bit<8> a; bit<8> b; bit<16> c; int<8> i; }}
header v_t {{ varbit<64> v; }}
header_union u_t {{ h_t h; v_t v; }}
struct headers_t {{ h_t h; h_t g; h_t[2] s; v_t v; u_t u; }}
struct metadata_t {{ bit<8> x; bool y; error e; tuple<bit<8>, bool> t; }}
{top}
parser P(packet_in p, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {{
{locals}
state start {{ p.extract(hdr.h);
{states}
}} }}
control V(inout headers_t hdr, inout metadata_t meta) {{ apply {{ }} }}
control I(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {{
{control}
apply {{
{apply}
}} }}
control E(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {{ apply {{ }} }}
control C(inout headers_t hdr, inout metadata_t meta) {{ apply {{ }} }}
control D(packet_out p, in headers_t hdr) {{ apply {{ {deparser} }} }}
V1Switch(P(), V(), I(), E(), C(), D()) main;
"
        )
    }
}

/// The diagnostics of a program; `None` if it is accepted.
fn diagnostics(program: &str) -> Option<String> {
    let mut loader = MemoryLoader::default();
    loader.add("test.p4", program);
    match compile_with(&CompileOptions::new(Path::new("test.p4")), &loader) {
        Ok(_) => None,
        Err(CompileError::Program { report, .. }) => Some(report),
        Err(error) => panic!("{error}"),
    }
}

/// The unexpected results of a chapter, and the diagnostics of its rejected programs.
fn check(items: &[Item]) -> (String, String) {
    let (mut wrong, mut reports) = (String::new(), String::new());
    for item in items {
        assert!(
            !item.accepted.is_empty() && !item.refused.is_empty(),
            "{} has no program of one kind",
            item.name
        );
        for part in item.accepted {
            let program = part.program();
            if let Some(report) = diagnostics(&program) {
                wrong += &format!("{}: refused\n{program}\n{report}\n", item.name);
            }
        }
        for part in item.refused {
            let program = part.program();
            match diagnostics(&program) {
                Some(report) => reports += &format!("== {}\n{report}\n", item.name),
                None => wrong += &format!("{}: accepted\n{program}\n", item.name),
            }
        }
    }
    (wrong, reports)
}

macro_rules! chapters {
    ($($test:ident: $items:ident;)*) => {
        $(#[test]
        fn $test() {
            let (wrong, reports) = check(cases::$items);
            assert!(wrong.is_empty(), "{wrong}");
            insta::assert_snapshot!(reports);
        })*
    };
}

chapters! {
    preprocessor: PREPROCESSOR;
    types: TYPES;
    expressions: EXPRESSIONS;
    statements: STATEMENTS;
    calls_and_declarations: CALLS;
    parsers: PARSERS;
    tables: TABLES;
    externs_of_v1model: EXTERNS;
    packages: PACKAGES;
}
