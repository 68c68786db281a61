//! A third architecture, with the shape of PSA, shows that an architecture needs no change outside its folder.
//!
//! It has two pipelines of parser, control and deparser, its own intrinsic metadata, match kind, table properties and externs.

mod architecture;

use std::path::{Path, PathBuf};

use architecture::TWO_PIPES;

use crate::arch::Arch;
use crate::driver::{compile_with, CompileError, CompileOptions, Compiled};
use crate::preproc::MemoryLoader;

const HEADER: &str = include_str!("two_pipes.p4");

/// A program that counts packets per port in ingress, and drops by a table in egress.
const PROGRAM: &str = r#"#include "two_pipes.p4"
header ethernet_t { bit<48> dst; bit<48> src; bit<16> kind; }
struct headers { ethernet_t ethernet; }
struct metadata { bit<32> number; }

parser ip(packet_in b, out headers h, inout metadata m, in ingress_input_t i) {
    state start { b.extract(h.ethernet); transition accept; }
}
control ig(inout headers h, inout metadata m, in ingress_input_t i, inout ingress_output_t o) {
    Tally(512) packets;
    action forward(bit<9> port) { o.egress_port = port; }
    action drop() { o.drop = true; }
    table routes {
        key = { h.ethernet.dst : prefix; }
        actions = { forward; drop; }
        default_action = drop();
        size = 64;
    }
    apply { m.number = packets.next((bit<32>)i.ingress_port); routes.apply(); }
}
control id(packet_out b, inout headers h, in metadata m, in ingress_output_t o) {
    apply { if (m.number == 7) { h.ethernet.kind = 7; } b.emit(h.ethernet); }
}
parser ep(packet_in b, out headers h, inout metadata m, in egress_input_t i) {
    state start { b.extract(h.ethernet); transition accept; }
}
control eg(inout headers h, inout metadata m, in egress_input_t i, inout egress_output_t o) {
    DirectTally() hits;
    action drop() { o.drop = true; }
    action pass() { }
    table filter {
        key = { i.instance : exact; }
        actions = { drop; pass; }
        default_action = pass();
        direct_tally = hits;
    }
    apply { filter.apply(); }
}
control ed(packet_out b, inout headers h, in metadata m, in egress_output_t o) {
    apply { b.emit(h.ethernet); }
}
TwoPipes(ip(), ig(), id(), ep(), eg(), ed()) main;
"#;

/// Compiles a program, with the header of the architecture in its folder.
fn compile(arch: Arch, program: &str) -> Result<Compiled, CompileError> {
    let mut loader = MemoryLoader::default();
    loader.add("two_pipes.p4", HEADER);
    loader.add("main.p4", program);
    let mut options = CompileOptions::new("main.p4");
    options.set_arch(arch);
    compile_with(&options, &loader)
}

const ARCH: Arch = Arch::unlisted(&TWO_PIPES);

#[test]
fn third_architecture_compiles_a_program() {
    let compiled = compile(ARCH, PROGRAM).expect("the program has no errors");
    assert_eq!(compiled.warnings, "");
    let json = &compiled.json;
    assert_eq!(json.architecture.as_deref(), Some("two_pipes"));
    let names: Vec<&str> = json.parsers.iter().map(|parser| &*parser.name).collect();
    assert_eq!(names, ["ingress_parser", "egress_parser"]);
    // The statement of the ingress deparser that emits no header is a pipeline of its own.
    let names: Vec<&str> = json.pipelines.iter().map(|pipe| &*pipe.name).collect();
    assert_eq!(
        names,
        ["ingress", "ingress_deparser", "egress", "egress_deparser"]
    );
    let headers: Vec<&str> = json.headers.iter().map(|header| &*header.name).collect();
    assert_eq!(
        headers,
        [
            "variables",
            "ingress_headers.ethernet",
            "egress_headers.ethernet"
        ]
    );
    let aliases: Vec<&str> = json.field_aliases.iter().map(|(name, _)| &**name).collect();
    assert_eq!(
        aliases,
        [
            "ingress_input.ingress_port",
            "ingress_output.egress_port",
            "ingress_output.drop",
            "egress_input.instance",
            "egress_output.drop"
        ]
    );
}

#[test]
fn externs_and_match_kinds_of_the_third_architecture_are_in_p4info() {
    let p4info = compile(ARCH, PROGRAM).expect("it compiles").p4info;
    let package = p4info.pkg_info.expect("it is always written");
    assert_eq!(package.arch, "two_pipes");
    let name = |preamble: &Option<alfirk_p4runtime::p4::config::v1::Preamble>| {
        preamble.as_ref().expect("it has one").name.clone()
    };
    let registers: Vec<String> = p4info.registers.iter().map(|r| name(&r.preamble)).collect();
    assert_eq!(registers, ["ig.packets"]);
    let counters = &p4info.direct_counters;
    let direct: Vec<String> = counters.iter().map(|c| name(&c.preamble)).collect();
    assert_eq!(direct, ["eg.hits"]);
    let routes = &p4info.tables[0].match_fields[0];
    use alfirk_p4runtime::p4::config::v1::match_field::{Match, MatchType};
    assert_eq!(
        routes.r#match,
        Some(Match::MatchType(MatchType::Lpm.into()))
    );
}

/// The report of a program with errors.
fn errors(arch: Arch, program: &str) -> String {
    match compile(arch, program) {
        Err(CompileError::Program { report, .. }) => report,
        other => panic!("expected errors: {other:?}"),
    }
}

#[test]
fn checker_asks_the_architecture_for_table_properties() {
    let other = PROGRAM.replace("direct_tally = hits;", "counters = hits;");
    let compiled = compile(ARCH, &other).expect("an unknown property is a warning");
    let wanted = "unknown property `counters` of a table is ignored";
    assert!(compiled.warnings.contains(wanted), "{}", compiled.warnings);
    let number = PROGRAM.replace("direct_tally = hits;", "direct_tally = 3;");
    let report = errors(ARCH, &number);
    let wanted = "`direct_tally` must be an instance of an extern, not `int`";
    assert!(report.contains(wanted), "{report}");
}

#[test]
fn match_kinds_of_other_architectures_are_not_supported() {
    let other = PROGRAM.replace("i.instance : exact;", "i.instance : ternary;");
    let report = errors(ARCH, &other);
    let wanted = "this target does not support match kind ternary";
    assert!(report.contains(wanted), "{report}");
}

#[test]
fn package_of_the_third_architecture_is_refused_by_v1model() {
    let report = errors(Arch::V1MODEL, PROGRAM);
    let wanted = "main is a TwoPipes, but this target runs only a V1Switch";
    assert!(report.contains(wanted), "{report}");
}

/// Adds the lines of a folder's source files that contain one of `names`, without tests and the `skipped` files and folders.
fn lines_with(names: &[&str], folder: &Path, skipped: &[PathBuf], into: &mut Vec<String>) {
    for entry in std::fs::read_dir(folder).expect("the folder is in the repository") {
        let path = entry.expect("readable").path();
        let is_test = path.file_stem().is_some_and(|stem| stem == "tests");
        if is_test || skipped.contains(&path) {
            continue;
        }
        if path.is_dir() {
            lines_with(names, &path, skipped, into);
        } else {
            let text = std::fs::read_to_string(&path).expect("sources are text");
            let found = text.lines().filter(|line| {
                let line = line.to_lowercase();
                names.iter().any(|name| line.contains(name))
            });
            into.extend(found.map(|line| format!("{}: {line}", path.display())));
        }
    }
}

/// The files and folders that may name targets: the list of architectures, the back end, the options, and the shipped files.
const OUTSIDE: [&str; 6] = [
    "arch.rs",
    "bmv2",
    "driver",
    "lib.rs",
    "preproc/include.rs",
    "targets",
];

#[test]
fn middle_of_the_compiler_names_no_target() {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let outside = OUTSIDE.map(|path| source.join(path));
    assert!(outside.iter().all(|path| path.exists()), "{outside:?}");
    let mut found = Vec::new();
    let names = ["v1model", "tofino", "bmv2"];
    lines_with(&names, &source, &outside, &mut found);
    assert!(found.is_empty(), "{}", found.join("\n"));
}
