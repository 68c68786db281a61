//! Parts of a program for the Tofino Native Architecture.

use super::intrinsic::{EgressMetadata, IngressMetadata};
use super::parser::{Deparser, Parser};
use crate::exec::join::Join;
use crate::exec::ops::Pc;
use rustc_hash::FxHashMap;

/// Chip that a program is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Chip {
    Tofino,
    Tofino2,
}

/// A program of the Tofino Native Architecture.
#[derive(Debug)]
pub(crate) struct Tofino {
    pub chip: Chip,
    pub ingress: Gress,
    pub egress: Gress,
    pub ingress_metadata: IngressMetadata,
    pub egress_metadata: EgressMetadata,
    /// Plans for encoding field lists in front of mirrored and resubmitted packets.
    pub fronts: FxHashMap<u32, Front>,
}

/// Ingress or egress.
#[derive(Debug)]
pub(crate) struct Gress {
    pub parser: Parser,
    pub control: Pc,
    /// Code of the deparser besides emitting headers.
    pub deparse: Pc,
    pub deparser: Deparser,
}

/// Plan for a header that a mirror or resubmission adds in front of a packet: concatenated fields.
#[derive(Debug)]
pub(crate) struct Front {
    pub bytes: usize,
    pub join: Join,
}
