//! Direct objects, with one cell for each table entry: `DirectRegister`, `DirectLpf`, `DirectWred`.
//!
//! The switch stores the entry that a packet has hit, and selects the cell by it. A new entry starts with a cleared cell. So such an object
//! can be used only in actions of the table that has it as its `registers`, `filters` or `meters`.

use super::super::Lowering;
use super::{Object, ObjectId};
use crate::diag::{Code, Diagnostic, Span};
use crate::ir::{DirectCells, FieldRef, RegisterId, Scalar, TableId};

/// Width in bits of an entry's index.
pub const ENTRY_BITS: u32 = 32;

impl Lowering<'_> {
    /// The field with the index of the hit entry, for direct cells.
    pub fn entry_field(&mut self, name: &str) -> FieldRef {
        let name = self.unique(&format!("{name}.entry"));
        let ty = Scalar::Bit(ENTRY_BITS);
        self.program.storage.add_scalar(name, ty)
    }

    /// Attaches a direct object to its table.
    pub fn attach_direct(&mut self, object: Option<ObjectId>, table: TableId, span: Span) {
        let cells = object.and_then(|id| self.direct_cells(id));
        let Some((register, entry)) = cells else {
            self.target(
                span,
                "`registers`, `filters` and `meters` must name a DirectRegister, DirectLpf, DirectWred or DirectMeter",
            );
            return;
        };
        let tables = self.program.tables.iter();
        let owner = tables
            .zip(0..)
            .find(|(other, _)| other.direct_cells.iter().any(|c| c.register == register));
        if let Some((owner, _)) = owner {
            let (name, first) = (
                self.program.registers[register.index()].meta.name.clone(),
                owner.meta.name.clone(),
            );
            let message = format!("{name} already has a cell for each entry of table {first}");
            self.diagnostics.report(
                Diagnostic::error(Code::TARGET, span, message)
                    .help("give each table an object of its own"),
            );
            return;
        }
        self.program.tables[table.index()]
            .direct_cells
            .push(DirectCells { register, entry });
    }

    /// The register of a direct object, and the field with the index of the hit entry.
    fn direct_cells(&self, id: ObjectId) -> Option<(RegisterId, FieldRef)> {
        match &self.tofino.objects[id.0] {
            Object::DirectRegister { register, entry } => Some((*register, *entry)),
            Object::Lpf {
                memory,
                entry: Some(entry),
                ..
            } => Some((*memory, *entry)),
            Object::Wred {
                thresholds,
                entry: Some(entry),
                ..
            } => Some((*thresholds, *entry)),
            _ => None,
        }
    }
}
