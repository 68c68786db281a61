//! Pass: direct registers.
//!
//! Input: the inlined program, with tables that have direct registers (`DirectRegister`, `DirectLpf`, `DirectWred`).
//! Output: the same program. Invariants: a direct register has as many cells as its table has entries, and only actions of that table
//! access it.

use super::register_access::{collect, tables_of, Accessed};
use crate::diag::{Code, Diagnostic, Diagnostics};
use crate::ir::{RegisterId, TableId};
use crate::passes::inlined::InlinedProgram;

/// Sets the sizes of direct registers to those of their tables. Reports accesses outside the actions of the register's
/// table, where no hit entry selects the cell.
pub fn finish(program: &mut InlinedProgram, diagnostics: &mut Diagnostics) {
    let mut owners: Vec<(RegisterId, TableId)> = Vec::new();
    let objects = &mut program.objects;
    for (number, table) in objects.tables.iter().enumerate() {
        for cells in &table.direct_cells {
            let register = &mut objects.registers[cells.register.index()];
            register.size = table.size.max(1);
            owners.push((cells.register, TableId::from(number)));
        }
    }
    let program = &*program;
    for (_, body) in program.controls() {
        let mut outside = Accessed::new();
        collect(body, &mut outside);
        report_accesses_without_hit(program, &outside, None, &owners, diagnostics);
        for table in tables_of(body) {
            let mut inside = Accessed::new();
            for action in &program.objects.table(table).actions {
                collect(&program.action_bodies[action.action.index()], &mut inside);
            }
            report_accesses_without_hit(program, &inside, Some(table), &owners, diagnostics);
        }
    }
}

/// Reports accesses of direct registers that are not in an action of the register's table. `table` is the table whose actions have the
/// accesses, `None` for accesses outside actions.
fn report_accesses_without_hit(
    program: &InlinedProgram,
    accessed: &Accessed,
    table: Option<TableId>,
    owners: &[(RegisterId, TableId)],
    diagnostics: &mut Diagnostics,
) {
    for (register, site) in accessed {
        if !program.direct_registers.contains(register) {
            continue;
        }
        let owner = owners.iter().find(|(owned, _)| owned == register);
        let owner = owner.map(|(_, owner)| *owner);
        if owner.is_some() && owner == table {
            continue;
        }
        let name = &program.objects.registers[register.index()].meta.name;
        let (message, help) = match owner {
            None => (
                format!("no table has {name} attached, so no entry selects a cell"),
                "name it in the table that calls this action: `registers` for a register, `filters` for a filter",
            ),
            Some(owner) => (
                format!(
                    "{name} has a cell for each entry of table {}, but no entry of it is hit here",
                    program.objects.table(owner).meta.name
                ),
                "access it only in actions of that table, or use an object with an index",
            ),
        };
        let span = program.register_sites[*site as usize];
        diagnostics.report(Diagnostic::error(Code::TARGET, span, message).help(help));
    }
}
