//! Pass: aliases.
//!
//! Aliases are the names in BMv2 JSON by which the switch finds metadata fields. Input: the whole program. Output: the same program.
//! Invariant: an alias of a parser error refers to a field that a control, an action or a table key reads. If the alias is
//! missing, the software model drops packets with parser errors.

use crate::ir::{walk_exprs, Expr, FieldRef, FlatProgram, KeyTarget};

/// Removes aliases of parser errors that the program does not read.
pub fn remove_unread(program: &mut FlatProgram) {
    let mut aliases = std::mem::take(&mut program.objects.aliases);
    aliases.retain(|(alias, field)| {
        !alias.ends_with("_from_parser.parser_err") || reads(program, *field)
    });
    program.objects.aliases = aliases;
}

/// Whether a pipeline, an action or a table key reads a field.
fn reads(program: &FlatProgram, field: FieldRef) -> bool {
    let mut keys = program.objects.tables.iter().flat_map(|table| &table.keys);
    let mut found = keys.any(|key| key.target == KeyTarget::Field(field));
    let pipelines = program.pipelines.iter().map(|pipeline| &pipeline.body);
    for body in pipelines.chain(&program.action_bodies) {
        walk_exprs(body, &mut |expr| {
            expr.walk(&mut |expr| {
                found |= matches!(expr, Expr::Field { place, .. } if *place == field.into());
            });
        });
    }
    found
}
