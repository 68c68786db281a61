//! The type of a step.

use std::collections::{BTreeMap, BTreeSet};

use num_bigint::BigInt;

use crate::ir::{FieldRef, HeaderId, RegisterId, Source};
use crate::stages::chip::Use;

/// What steps read and write.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Thing {
    Field(FieldRef),
    /// Whether a header is valid.
    Valid(HeaderId),
}

/// What a step is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Table,
    Condition,
    Register,
    Statement,
}

impl Kind {
    pub fn name(self) -> &'static str {
        match self {
            Kind::Table => "table",
            Kind::Condition => "condition",
            Kind::Register => "register",
            Kind::Statement => "statement",
        }
    }
}

/// A byte with bits for several things. An instruction writes a whole byte, so that two that write in it are in different stages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Byte {
    /// What Tofino's deparser and traffic manager have side by side ([`DEPARSER_BYTE`]).
    Deparser,
    /// Which checksums the deparser updates.
    Checksums,
}

/// A step.
#[derive(Clone, Debug)]
pub struct Step {
    pub gress: &'static str,
    pub kind: Kind,
    pub name: String,
    pub source: Source,
    /// What it looks at before its action: keys, conditions, indices, inputs of hashes.
    pub matches: BTreeSet<Thing>,
    /// What its action reads.
    pub reads: BTreeSet<Thing>,
    pub writes: BTreeSet<Thing>,
    /// The byte in which it writes bits that no dependency is about.
    pub byte: Option<Byte>,
    /// Of a table: what of that is written on the way to each of its outcomes.
    pub outcomes: Vec<BTreeSet<Thing>>,
    /// If it writes only some bits of a field: which ones.
    pub slice: Option<(Thing, BigInt)>,
    /// What registers, hashes and meters give it, on which its action can still do an operation.
    pub results: BTreeSet<Thing>,
    /// Whether it writes all of that whenever it runs.
    pub certain: bool,
    /// Stages from its first operation to its last.
    pub length: u32,
    /// The first stage in which the program lets it be (`@stage`).
    pub from: u32,
    /// The ways that lead to it: steps that decide, and which of their outcomes.
    pub ways: Vec<(usize, u32)>,
    pub takes: Use,
    /// What it needs on the crossbars of exact and of ternary matches, and how many bytes of it. Steps of a stage share them.
    pub exact: BTreeMap<Thing, u64>,
    pub ternary: BTreeMap<Thing, u64>,
    /// Registers that it accesses: all accesses of one are in one stage.
    pub registers: BTreeSet<RegisterId>,
    /// Objects (counters, meters, registers by name) whose memories are counted once however many steps use them.
    pub objects: BTreeMap<String, Use>,
}

impl Step {
    /// What it takes with all objects that it uses.
    pub fn whole(&self) -> Use {
        (self.objects.values()).fold(self.takes, |sum, one| sum + *one)
    }
}
