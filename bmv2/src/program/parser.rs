//! Parsers and deparsers of a loaded program.

use crate::exec::ops::{Pc, Slot};

#[derive(Debug, Default)]
pub(crate) struct Parser {
    pub start: Option<u16>,
    pub states: Vec<ParseState>,
    pub errors: ParserErrors,
}

/// Numbers that this program assigns to the errors of the core library.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ParserErrors {
    pub no_error: u64,
    pub packet_too_short: u64,
    pub stack_out_of_bounds: u64,
    pub header_too_short: u64,
    pub parser_timeout: u64,
    pub parser_invalid_argument: u64,
    /// Tofino only: the value of a parser counter was out of its range.
    pub counter_range: u64,
}

#[derive(Debug, Default)]
pub(crate) struct ParseState {
    pub name: String,
    pub steps: Vec<ParserStep>,
    pub key: Vec<KeyPart>,
    /// Length of the key of the `select` in bytes; each part is padded to whole bytes.
    pub key_bytes: usize,
    /// Number of bytes after the parser's position that the lookaheads in the key read.
    pub lookahead_bytes: usize,
    pub cases: Vec<Case>,
    pub default: Option<u16>,
    /// Counter of the default transition, for coverage.
    pub default_counter: Option<u32>,
}

/// A statement of a parser state. An expression in it is separate code, which ends in `Return` and leaves its result in
/// a word.
#[derive(Clone, Copy, Debug)]
pub(crate) enum ParserStep {
    Extract {
        header: u16,
    },
    ExtractVl {
        header: u16,
        code: Pc,
        bits: Slot,
    },
    /// Extracts a header with a varbit, whose length is an expression of earlier fields of the same header (P4_14).
    ExtractOwnVl {
        header: u16,
        code: Pc,
        bits: Slot,
    },
    ExtractStack {
        stack: u16,
    },
    ExtractStackVl {
        stack: u16,
        code: Pc,
        bits: Slot,
    },
    ExtractUnionStack {
        stack: u16,
        member: u16,
    },
    ExtractUnionStackVl {
        stack: u16,
        member: u16,
        code: Pc,
        bits: Slot,
    },
    /// Counts an execution of this place, for coverage.
    Cover {
        counter: u32,
    },
    /// Executes code: assignments and primitives.
    Code {
        code: Pc,
    },
    Lookahead {
        offset: u32,
        bits: u32,
        slot: Slot,
        field_bits: u32,
        signed: bool,
    },
    Verify {
        code: Pc,
        cond: Slot,
        error: Slot,
    },
    Shift {
        bytes: u32,
    },
    Advance {
        code: Pc,
        bits: Slot,
    },
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum KeyPart {
    Field {
        slot: Slot,
        bits: u32,
    },
    /// A field of the last valid element of a stack, at `offset` words from the element's start.
    StackLast {
        stack: u16,
        offset: u16,
        bits: u32,
    },
    UnionStackLast {
        stack: u16,
        offset: u16,
        bits: u32,
    },
    Lookahead {
        offset: u32,
        bits: u32,
    },
}

impl KeyPart {
    pub fn bits(&self) -> u32 {
        match *self {
            KeyPart::Field { bits, .. }
            | KeyPart::StackLast { bits, .. }
            | KeyPart::UnionStackLast { bits, .. }
            | KeyPart::Lookahead { bits, .. } => bits,
        }
    }
}

#[derive(Debug)]
pub(crate) struct Case {
    pub on: CaseOn,
    pub next: Option<u16>,
    /// Counter of the transition, for coverage.
    pub counter: Option<u32>,
}

#[derive(Debug)]
pub(crate) enum CaseOn {
    /// A value and mask for a key of up to 8 bytes.
    Word {
        value: u64,
        mask: u64,
    },
    Bytes {
        value: Vec<u8>,
        mask: Vec<u8>,
    },
    Set {
        set: u16,
        mask: Option<Vec<u8>>,
    },
}

#[derive(Debug, Default)]
pub(crate) struct Deparser {
    /// Headers in the order in which they are emitted, each with the word of its validity bit.
    pub order: Vec<(Slot, u16)>,
    /// Maximum total length of all headers in bytes.
    pub max_bytes: usize,
    /// Maximum total length in bytes of the headers without a variable-length field.
    #[cfg(feature = "jit")]
    pub max_fixed_bytes: usize,
    /// First instruction of the deparser's statements; `None` if it has none.
    pub code: Option<Pc>,
}
