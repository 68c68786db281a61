//! Translates the IR to BMv2 JSON, in the form that p4c-bm2-ss writes and simple_switch loads (format 2.23).
//!
//! The translation cannot fail: the passes that build the IR report constructs that the target does not support. A program that breaks an
//! invariant of the IR is a fault of a pass ([`crate::diag::fault`]).

mod action;
mod calculation;
mod effect;
mod expr;
mod graph;
mod headers;
mod objects;
mod parser;
mod pipeline;
mod table;

pub use graph::{graphs, Edge, Graph, Node, NodeAction, NodeKind};

use alfirk_bmv2_json as json;

use crate::ir::{FlatProgram, Source};

/// Writes a program as BMv2 JSON. `architecture`: the architecture's name in the JSON; `None` for the switch's default
/// architecture.
pub fn emit(program: &FlatProgram, architecture: Option<&str>) -> json::BmV2Json {
    let mut actions = action::Actions::of(program);
    let mut names = pipeline::NodeNames::default();
    let pipelines = (program.pipelines.iter().zip(0..))
        .map(|(pipeline, id)| pipeline::emit(program, pipeline, id, &mut actions, &mut names))
        .collect();
    json::BmV2Json {
        header_types: headers::types(program),
        headers: headers::instances(program),
        header_stacks: headers::stacks(program),
        header_union_types: headers::union_types(program),
        header_unions: headers::unions(program),
        header_union_stacks: headers::union_stacks(program),
        field_lists: objects::field_lists(program),
        errors: numbered(&program.objects.errors),
        enums: program
            .objects
            .enums
            .iter()
            .map(|(name, members)| json::Enum {
                name: name.clone(),
                entries: numbered(members),
            })
            .collect(),
        parsers: (program.parsers.iter().zip(0..))
            .map(|(parser, id)| parser::emit(program, parser, id))
            .collect(),
        parse_vsets: objects::value_sets(program),
        deparsers: objects::deparsers(program),
        meter_arrays: objects::meters(program),
        counter_arrays: objects::counters(program),
        register_arrays: objects::registers(program),
        calculations: objects::calculations(program),
        learn_lists: objects::learn_lists(program),
        actions: actions.finish(),
        pipelines,
        checksums: objects::checksums(program),
        force_arith: Vec::new(),
        extern_instances: objects::extern_instances(program),
        field_aliases: headers::aliases(program),
        architecture: architecture.map(str::to_owned),
        program: Some(program.objects.source.clone()),
        meta: Some(json::Meta {
            version: json::BmV2Json::VERSION,
            compiler: Some("alfirk p4c".to_owned()),
        }),
    }
}

/// Pairs each name with its position, from 0, as its number.
fn numbered(names: &[String]) -> Vec<(String, u64)> {
    names
        .iter()
        .zip(0..)
        .map(|(name, value)| (name.clone(), value))
        .collect()
}

/// A source position for the output; `None` for objects without one.
fn source_info(source: &Source) -> Option<json::SourceInfo> {
    (source.line > 0).then(|| json::SourceInfo {
        filename: source.file.to_string(),
        line: u64::from(source.line),
        column: u64::from(source.column),
        source_fragment: source.fragment.clone(),
    })
}
