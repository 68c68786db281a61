//! Parts of a program for the Tofino Native Architecture.

use super::intrinsic::{EgressMetadata, IngressMetadata};
use super::parser::{Deparser, Parser};
use crate::exec::join::Join;
use crate::exec::ops::Pc;
use rustc_hash::FxHashMap;

/// Chip for which a program was compiled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Chip {
    Tofino,
    Tofino2,
}

/// The parts of a program for the Tofino Native Architecture.
#[derive(Debug)]
pub(crate) struct Tofino {
    pub chip: Chip,
    pub ingress: Gress,
    pub egress: Gress,
    pub ingress_metadata: IngressMetadata,
    pub egress_metadata: EgressMetadata,
    /// Plans for the headers that mirrors and resubmissions add in front of packets, by the number of the field list.
    pub fronts: FxHashMap<u32, Front>,
}

/// The compiled ingress or egress of a program for Tofino.
#[derive(Debug)]
pub(crate) struct Gress {
    pub parser: Parser,
    pub control: Pc,
    /// First instruction of the deparser's code, which runs before headers are emitted.
    pub deparse: Pc,
    pub deparser: Deparser,
}

/// Plan for a header that a mirror or resubmission adds in front of a packet: concatenated fields.
#[derive(Debug)]
pub(crate) struct Front {
    pub bytes: usize,
    pub join: Join,
}
