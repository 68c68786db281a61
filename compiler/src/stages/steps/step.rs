//! The type of a step.

use std::collections::{BTreeMap, BTreeSet};

use num_bigint::BigInt;

use crate::ir::{FieldRef, HeaderId, RegisterId, Source};
use crate::stages::chip::Use;

/// A field or object that steps read and write.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Thing {
    Field(FieldRef),
    /// Validity of a header.
    Valid(HeaderId),
}

/// The kind of a step.
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

/// A byte shared by several fields. An instruction writes a whole byte, so two writers of one byte are in different stages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Byte {
    /// A byte of Tofino's deparser or traffic manager (`DEPARSER_BYTE`).
    Deparser,
    /// The bits that select the checksums that the deparser updates.
    Checksums,
}

/// A table, condition, register access or statement with its reads, writes and resources.
#[derive(Clone, Debug)]
pub struct Step {
    pub gress: &'static str,
    pub kind: Kind,
    pub name: String,
    pub source: Source,
    /// Things read before the action: keys, conditions, indices, inputs of hashes.
    pub matches: BTreeSet<Thing>,
    /// Things that the action reads.
    pub reads: BTreeSet<Thing>,
    pub writes: BTreeSet<Thing>,
    /// The shared byte that the step writes, if any.
    pub byte: Option<Byte>,
    /// The writes by outcome, for a table.
    pub outcomes: Vec<BTreeSet<Thing>>,
    /// The mask of the written bits, if the step writes a slice of a field.
    pub slice: Option<(Thing, BigInt)>,
    /// Results of registers, hashes and meters, on which the action can do one more operation.
    pub results: BTreeSet<Thing>,
    /// Whether all writes happen whenever the step runs.
    pub certain: bool,
    /// Number of stages of its operations.
    pub length: u32,
    /// Minimum stage (`@stage`).
    pub from: u32,
    /// Control dependencies: pairs of a deciding step and its outcome.
    pub ways: Vec<(usize, u32)>,
    pub takes: Use,
    /// Inputs on the exact and the ternary match crossbar, with their bytes. Steps of a stage share them.
    pub exact: BTreeMap<Thing, u64>,
    pub ternary: BTreeMap<Thing, u64>,
    /// Registers that it accesses; all accesses of a register are in one stage.
    pub registers: BTreeSet<RegisterId>,
    /// Memories of its objects (counters, meters, registers) by name; each object is counted once for all steps.
    pub objects: BTreeMap<String, Use>,
}

impl Step {
    /// The resources of the step and of its objects.
    pub fn whole(&self) -> Use {
        (self.objects.values()).fold(self.takes, |sum, one| sum + *one)
    }
}
