//! A step of the pipeline, with its reads, writes and resources.

use std::collections::{BTreeMap, BTreeSet};

use num_bigint::BigInt;

use crate::ir::{FieldRef, HeaderId, RegisterId, Source};
use crate::targets::tofino::stages::chip::Resources;

/// A storage location that steps read and write.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Location {
    /// A field of a header or of metadata.
    Field(FieldRef),
    /// The validity bit of a header.
    Valid(HeaderId),
}

/// The kind of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A table application with its actions.
    Table,
    /// A condition, evaluated by a gateway.
    Condition,
    /// A register access by a stateful ALU.
    Register,
    /// An assignment, or a call of an extern other than a register.
    Statement,
}

impl Kind {
    /// The kind's name in reports.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Table => "table",
            Kind::Condition => "condition",
            Kind::Register => "register",
            Kind::Statement => "statement",
        }
    }
}

/// A byte that several fields share. An instruction writes a whole byte, so two writers of a byte must be in different stages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Byte {
    /// A byte of Tofino's deparser or traffic manager (`DEPARSER_BYTE`).
    Deparser,
    /// The byte of the bits that enable the deparser's checksums.
    Checksums,
}

/// A table, condition, register access or statement with its reads, writes and resources.
#[derive(Clone, Debug)]
pub struct Step {
    /// `ingress` or `egress`.
    pub gress: &'static str,
    /// Table, condition, register access or statement.
    pub kind: Kind,
    /// Name of the table or register, or text of the statement.
    pub name: String,
    /// Position in the P4 source.
    pub source: Source,
    /// Locations read before the action runs: keys, conditions, indices, inputs of hashes.
    pub matches: BTreeSet<Location>,
    /// Locations that the action reads.
    pub reads: BTreeSet<Location>,
    /// Locations that the step may write.
    pub writes: BTreeSet<Location>,
    /// The shared byte that the step writes, if any.
    pub byte: Option<Byte>,
    /// For a table, the writes by outcome; empty for other steps.
    pub outcomes: Vec<BTreeSet<Location>>,
    /// The field and the mask of the written bits, if the step writes a slice of a field.
    pub slice: Option<(Location, BigInt)>,
    /// Written locations that hold the result of a register, hash or meter, on which the action can do one more operation.
    pub results: BTreeSet<Location>,
    /// Whether all writes happen whenever the step runs.
    pub is_unconditional: bool,
    /// Number of stages that the chain of operations needs; 0 for a condition.
    pub length: u32,
    /// First stage, from 0, in which the step may be placed, as `@stage` requests.
    pub min_stage: u32,
    /// Control dependencies: pairs of the position of a deciding step and its outcome, outermost first.
    pub control_dependencies: Vec<(usize, u32)>,
    /// Resources of the step itself, without those of the accessed objects and of the crossbars.
    pub takes: Resources,
    /// Inputs on the exact match crossbar, each with its number of bytes. Steps in the same stage share them.
    pub exact: BTreeMap<Location, u64>,
    /// Inputs on the ternary match crossbar, each with its number of bytes. Steps in the same stage share them.
    pub ternary: BTreeMap<Location, u64>,
    /// Registers that the step accesses. All accesses of a register must be in one stage.
    pub registers: BTreeSet<RegisterId>,
    /// Resources of the objects that the step uses (tables, profiles, counters, meters, registers), by name. Each object is counted once for
    /// all steps.
    pub objects: BTreeMap<String, Resources>,
}

impl Step {
    /// The resources of the step and of its objects.
    pub fn total_resources(&self) -> Resources {
        (self.objects.values()).fold(self.takes, |sum, one| sum + *one)
    }
}
