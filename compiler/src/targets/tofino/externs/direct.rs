//! Direct objects, which have a cell for each table entry: `DirectRegister`, `DirectLpf`, `DirectWred`.
//!
//! The switch stores the index of the entry that a packet hits in a field, which selects the cell. The cell of a new entry is cleared. So
//! only actions of the table that names the object in `registers`, `filters` or `meters` can use it.

use super::{Object, ObjectId};
use crate::diag::{Code, Diagnostic, Span};
use crate::ir::{DirectCells, FieldRef, RegisterId, Scalar, TableId};
use crate::passes::externs::Lowering;

/// Width in bits of the index of a table entry.
pub const ENTRY_BITS: u32 = 32;

impl Lowering<'_> {
    /// Creates the field in which the switch stores the index of the hit entry, for the direct object `name`.
    pub fn entry_field(&mut self, name: &str) -> FieldRef {
        let name = self.unique(&format!("{name}.entry"));
        let ty = Scalar::Bit(ENTRY_BITS);
        self.program.storage.add_scalar(name, ty)
    }

    /// Attaches a direct object to the table that names it; reports other values (`None`) and a second attachment.
    pub fn attach_direct(&mut self, object: Option<ObjectId>, table: TableId, span: Span) {
        if object.is_some_and(|id| self.has_index(id)) {
            // Actions access it by an index of their own.
            return;
        }
        let cells = object.and_then(|id| self.direct_cells(id));
        let Some((registers, entry)) = cells else {
            self.target(
                span,
                "`registers`, `filters` and `meters` must name a DirectRegister, DirectLpf, DirectWred or DirectMeter",
            );
            return;
        };
        let mut tables = self.program.tables.iter();
        let first = registers[0];
        let owner = tables.find(|other| other.direct_cells.iter().any(|c| c.register == first));
        if let Some(owner) = owner {
            let (name, first) = (
                self.program.registers[first.index()].meta.name.clone(),
                owner.meta.name.clone(),
            );
            let message = format!("{name} already has a cell for each entry of table {first}");
            self.diagnostics.report(
                Diagnostic::error(Code::TARGET, span, message)
                    .help("give each table an object of its own"),
            );
            return;
        }
        let cells = registers.into_iter();
        self.program.tables[table.index()]
            .direct_cells
            .extend(cells.map(|register| DirectCells { register, entry }));
    }

    /// Whether an object is an `Lpf` or `Wred` with an index, which a table may name, too.
    fn has_index(&self, id: ObjectId) -> bool {
        matches!(
            &self.tofino().objects[id],
            Object::Lpf { entry: None, .. } | Object::Wred { entry: None, .. }
        )
    }

    /// The registers that hold the cells of a direct object, the one with the object's name first, and the field with
    /// the index of the hit entry. `None` for other objects.
    fn direct_cells(&self, id: ObjectId) -> Option<(Vec<RegisterId>, FieldRef)> {
        match &self.tofino().objects[id] {
            Object::DirectRegister { register, entry } => Some((vec![*register], *entry)),
            Object::Lpf {
                spec,
                memory,
                entry: Some(entry),
            } => Some((vec![*spec, *memory], *entry)),
            Object::Wred {
                thresholds,
                entry: Some(entry),
                ..
            } => Some((vec![*thresholds], *entry)),
            _ => None,
        }
    }
}
