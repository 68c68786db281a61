//! The JSON format of BMv2 (`JSON_format.md`, version 2.23) as typed Rust.
//!
//! This format is the contract between a P4 compiler, which writes such a file, and a switch, which loads it. Reading
//! is tolerant: unknown keys are ignored, optional ones may be missing or `null`, and the variants of older compilers
//! are accepted. Writing is strict and stable: key order and layout are those of `p4c-bm2-ss`.
//!
//! This crate does not check semantics (dangling names, wrong widths, ...); the loader in crate `bmv2` does.

mod action;
mod expr;
mod extern_objects;
mod header;
mod parser;
mod pipeline;
mod primitive;
mod print;
mod serde_util;

pub use action::{Action, ActionParam};
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
    Deparser, ExtractTarget, ParseState, ParseVset, Parser, ParserOp, ParserStatement, Transition,
    TransitionOn,
};
pub use pipeline::{
    ActionCall, ActionEntry, ActionProfile, Conditional, DefaultEntry, DirectRegister, MatchKey,
    MatchType, Pipeline, Selector, Table, TableEntry, TableKey, TableKeyTarget, TableType,
};
pub use primitive::{Primitive, PrimitiveCall};

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
    /// Header and struct types, referenced by name from instances.
    pub header_types: Vec<HeaderType>,
    /// Instances of headers and of metadata structs, elements of stacks and members of unions included.
    pub headers: Vec<Header>,
    /// Header stacks, each a list of instances in `headers`.
    pub header_stacks: Vec<HeaderStack>,
    /// Types of header unions.
    pub header_union_types: Vec<HeaderUnionType>,
    /// Instances of header unions, each a list of instances in `headers`.
    pub header_unions: Vec<HeaderUnion>,
    /// Stacks of header unions.
    pub header_union_stacks: Vec<HeaderUnionStack>,
    /// Lists of fields kept by clone, resubmit and recirculate. Ids start at 1.
    pub field_lists: Vec<FieldList>,
    /// Name and number of every error constant.
    pub errors: Vec<(String, u64)>,
    /// Enums of the program and of the architecture. The loader ignores them, since expressions have plain numbers.
    pub enums: Vec<Enum>,
    /// Parsers; `simple_switch` uses the one named `parser`.
    pub parsers: Vec<Parser>,
    /// Parser value sets, whose members the control plane writes.
    pub parse_vsets: Vec<ParseVset>,
    /// Deparsers; `simple_switch` uses the one named `deparser`.
    pub deparsers: Vec<Deparser>,
    /// Indirect and direct meters.
    pub meter_arrays: Vec<MeterArray>,
    /// Indirect and direct counters.
    pub counter_arrays: Vec<CounterArray>,
    /// Register arrays.
    pub register_arrays: Vec<RegisterArray>,
    /// Hash functions with their inputs, used by `hash` primitives and by checksums.
    pub calculations: Vec<Calculation>,
    /// Lists of fields sent by `digest`. Ids start at 1.
    pub learn_lists: Vec<FieldList>,
    /// Actions, referenced by number from tables and by name from `next_tables`.
    pub actions: Vec<Action>,
    /// Match-action control flows: `ingress` and `egress` for `simple_switch`.
    pub pipelines: Vec<Pipeline>,
    /// Checksums that the switch verifies after the parser or updates before the deparser.
    pub checksums: Vec<Checksum>,
    /// Headers or fields used in arithmetic; a hint for BMv2's storage only.
    pub force_arith: Vec<serde_json::Value>,
    /// Instances of externs that have no section of their own in the format.
    pub extern_instances: Vec<ExternInstance>,
    /// Name expected by a target, and the field mapped to it.
    pub field_aliases: Vec<(String, FieldRef)>,
    /// The architecture, if it is not `simple_switch`: `tna` or `t2na`. Not in BMv2's own format.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub architecture: Option<String>,
    /// The source file's name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub program: Option<String>,
    /// Version of the format and name of the compiler, under the key `__meta__`; `None` in files of old compilers.
    #[serde(rename = "__meta__", skip_serializing_if = "Option::is_none")]
    pub meta: Option<Meta>,
}

/// Compiler that wrote the file, and version of the format.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Meta {
    /// Major and minor version of the format.
    pub version: (u32, u32),
    /// Name of the compiler, such as `alfirk p4c`, or the address of its home page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub compiler: Option<String>,
}

/// Position in the P4 source, attached to objects for logs and messages.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct SourceInfo {
    /// Path of the source file as it was given to the compiler.
    pub filename: String,
    /// Line, counted from 1.
    pub line: u64,
    /// Column of the first character, counted from 0.
    pub column: u64,
    /// Source text at that position, shortened by the compiler.
    pub source_fragment: String,
}

/// Error of text that is not a program in this format.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// Malformed JSON, or a member of the wrong shape; serde_json's message names line and column.
    #[error("not a BMv2 JSON program: {0}")]
    Json(#[from] serde_json::Error),
    /// Arrays and objects nest more than [`MAX_DEPTH`] levels deep.
    #[error("nested more than {MAX_DEPTH} levels deep at line {line}; split the expression there")]
    TooDeep {
        /// Line of the bracket that exceeds the limit, counted from 1.
        line: usize,
    },
}

impl BmV2Json {
    /// The version of the format written by this crate.
    pub const VERSION: (u32, u32) = (2, 23);

    /// Parses a program.
    ///
    /// # Errors
    /// See [`ReadError`]; invalid input never causes a panic.
    pub fn from_text(text: &str) -> Result<BmV2Json, ReadError> {
        check_depth(text)?;
        let mut deserializer = serde_json::Deserializer::from_str(text);
        deserializer.disable_recursion_limit();
        let program = BmV2Json::deserialize(&mut deserializer)?;
        deserializer.end()?;
        Ok(program)
    }

    /// Returns the program as text with p4c's key order and layout, ending in a newline.
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
