//! The JSON format of BMv2 (`JSON_format.md`, version 2.23) as typed Rust.
//!
//! This format is the contract between a P4 compiler, which writes such a file, and a switch, which loads it. Reading
//! is tolerant: unknown keys are ignored, optional ones may be missing or `null`, and the variants of older compilers
//! are accepted. Writing is strict and stable: key order and layout are those of `p4c-bm2-ss`.
//!
//! This crate does not check semantics (dangling names, wrong widths, ...); the loader of the switch does.
//! loads the program.

// Some public items have no documentation yet, most of them fields and variants.
#![allow(missing_docs)]

mod action;
mod expr;
mod extern_objects;
mod header;
mod parser;
mod pipeline;
mod print;
mod serde_util;

pub use action::{Action, ActionParam, Primitive};
pub use expr::{decode_hex, Expr, FieldRef, HexError, Op, Operator};
pub use extern_objects::{
    Calculation, Checksum, CounterArray, CrcParameters, ExternAttribute, ExternInstance, FieldList,
    MeterArray, MeterType, RegisterArray,
};
pub use header::{
    Enum, FieldWidth, Header, HeaderField, HeaderStack, HeaderType, HeaderUnion, HeaderUnionStack,
    HeaderUnionType,
};
pub use parser::{
    Deparser, ExtractTarget, ParseState, ParseVset, Parser, ParserOp, Transition, TransitionOn,
};
pub use pipeline::{
    ActionCall, ActionEntry, ActionProfile, Conditional, DefaultEntry, DirectRegister, MatchKey,
    MatchType, Pipeline, Selector, Table, TableEntry, TableKey, TableKeyTarget, TableType,
};

use serde::{Deserialize, Serialize};

/// How deeply arrays and objects may nest in an accepted file.
///
/// One operator of an expression takes two levels. The limit keeps hostile input from exhausting
/// the stack.
pub const MAX_DEPTH: usize = 600;

/// A whole program as `p4c-bm2-ss` writes it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct BmV2Json {
    pub header_types: Vec<HeaderType>,
    pub headers: Vec<Header>,
    pub header_stacks: Vec<HeaderStack>,
    pub header_union_types: Vec<HeaderUnionType>,
    pub header_unions: Vec<HeaderUnion>,
    pub header_union_stacks: Vec<HeaderUnionStack>,
    /// Lists of fields kept by clone, resubmit and recirculate. Ids start at 1.
    pub field_lists: Vec<FieldList>,
    /// Name and number of every error constant.
    pub errors: Vec<(String, u64)>,
    pub enums: Vec<Enum>,
    pub parsers: Vec<Parser>,
    pub parse_vsets: Vec<ParseVset>,
    pub deparsers: Vec<Deparser>,
    pub meter_arrays: Vec<MeterArray>,
    pub counter_arrays: Vec<CounterArray>,
    pub register_arrays: Vec<RegisterArray>,
    pub calculations: Vec<Calculation>,
    /// Lists of fields sent by `digest`. Ids start at 1.
    pub learn_lists: Vec<FieldList>,
    pub actions: Vec<Action>,
    pub pipelines: Vec<Pipeline>,
    pub checksums: Vec<Checksum>,
    /// Headers or fields used in arithmetic; a hint for BMv2's storage only.
    pub force_arith: Vec<serde_json::Value>,
    pub extern_instances: Vec<ExternInstance>,
    /// Name expected by a target, and the field mapped to it.
    pub field_aliases: Vec<(String, FieldRef)>,
    /// The architecture, if it is not `simple_switch`: `tna` or `t2na`. Not in BMv2's own format.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub architecture: Option<String>,
    /// The source file's name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub program: Option<String>,
    #[serde(rename = "__meta__", skip_serializing_if = "Option::is_none")]
    pub meta: Option<Meta>,
}

/// Compiler that wrote the file, and version of the format.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Meta {
    /// Major and minor version of the format.
    pub version: (u32, u32),
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub compiler: Option<String>,
}

/// Position in the P4 source.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct SourceInfo {
    pub filename: String,
    pub line: u64,
    pub column: u64,
    pub source_fragment: String,
}

/// Error of text that is not a program in this format.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// Malformed JSON, or a member of the wrong shape; serde_json's message names line and column.
    #[error("not a BMv2 JSON program: {0}")]
    Json(#[from] serde_json::Error),
    #[error("nested more than {MAX_DEPTH} levels deep at line {line}; split the expression there")]
    TooDeep { line: usize },
}

impl BmV2Json {
    /// The version of the format written by this crate.
    pub const VERSION: (u32, u32) = (2, 23);

    /// Reads a program.
    ///
    /// # Errors
    /// See [`ReadError`]; no input makes it panic.
    pub fn from_text(text: &str) -> Result<BmV2Json, ReadError> {
        check_depth(text)?;
        let mut deserializer = serde_json::Deserializer::from_str(text);
        deserializer.disable_recursion_limit();
        let program = BmV2Json::deserialize(&mut deserializer)?;
        deserializer.end()?;
        Ok(program)
    }

    /// Writes the program with p4c's key order and layout, ending in a newline.
    pub fn to_text(&self) -> String {
        print::print(self).expect("map keys are strings, and nothing else can fail")
    }
}

impl std::str::FromStr for BmV2Json {
    type Err = ReadError;

    fn from_str(text: &str) -> Result<BmV2Json, ReadError> {
        BmV2Json::from_text(text)
    }
}

fn check_depth(text: &str) -> Result<(), ReadError> {
    let (mut depth, mut line) = (0usize, 1usize);
    let (mut in_string, mut escaped) = (false, false);
    for byte in text.bytes() {
        if byte == b'\n' {
            line += 1;
        }
        if in_string {
            match byte {
                _ if escaped => escaped = false,
                b'\\' => escaped = true,
                b'"' => in_string = false,
                _ => {}
            }
            continue;
        }
        match byte {
            b'"' => in_string = true,
            b'[' | b'{' => {
                depth += 1;
                if depth > MAX_DEPTH {
                    return Err(ReadError::TooDeep { line });
                }
            }
            b']' | b'}' => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    Ok(())
}
