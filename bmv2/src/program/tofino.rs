//! What programs of the Tofino Native Architecture have.

use super::intrinsic::{EgressMetadata, IngressMetadata};
use super::parser::{Deparser, Parser};
use crate::exec::join::Join;
use crate::exec::ops::Pc;
use rustc_hash::FxHashMap;

/// The chip that a program of the Tofino Native Architecture is for.
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
    /// Field lists as bytes in front of mirrored and resubmitted packets.
    pub fronts: FxHashMap<u32, Front>,
}

/// Ingress or egress.
#[derive(Debug)]
pub(crate) struct Gress {
    pub parser: Parser,
    pub control: Pc,
    /// What the deparser does besides emitting headers.
    pub deparse: Pc,
    pub deparser: Deparser,
}

/// Fields side by side.
#[derive(Debug)]
pub(crate) struct Front {
    pub bytes: usize,
    pub join: Join,
}
