//! Snapshot tests of the BMv2 JSON and P4Info of small programs.
//!
//! Snapshots of whole outputs make each change of them visible in a review. `tests/packets.rs` tests the behaviour of the JSON with packets.

use std::path::Path;

use alfirk_compiler::driver::{compile, CompileOptions, Compiled, P4InfoFormat};

/// The outputs for a program in `tests/programs`.
fn compiled(name: &str) -> Compiled {
    // A relative path, since the outputs contain the path of the source.
    let path = Path::new("tests/programs").join(name);
    compile(&CompileOptions::new(path)).unwrap_or_else(|error| panic!("{error}"))
}

/// The P4Info of a program in `tests/programs`, as text.
fn p4info(name: &str) -> String {
    let text = P4InfoFormat::Text.encode(&compiled(name).p4info);
    String::from_utf8(text).expect("protobuf text is UTF-8")
}

#[test]
fn json_of_basic_forwarding() {
    insta::assert_snapshot!(compiled("exercises/basic.p4").json.to_text());
}

#[test]
fn json_of_a_header_stack() {
    insta::assert_snapshot!(compiled("exercises/source_routing.p4").json.to_text());
}

#[test]
fn p4info_of_basic_forwarding() {
    insta::assert_snapshot!(p4info("exercises/basic.p4"));
}

#[test]
fn p4info_of_tables_with_everything() {
    insta::assert_snapshot!(p4info("tables.p4"));
}

#[test]
fn p4info_of_externs() {
    insta::assert_snapshot!(p4info("externs.p4"));
}

#[test]
fn p4info_of_packet_io_and_documentation() {
    insta::assert_snapshot!(p4info("exercises/flowcache.p4"));
}

#[test]
fn p4info_of_all_control_plane_annotations() {
    insta::assert_snapshot!(p4info("control_plane.p4"));
}
