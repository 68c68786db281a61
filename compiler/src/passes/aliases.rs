//! Pass: aliases.
//!
//! Input: the whole program. Output: the same. Invariant: on Tofino an alias of a parser error stands for a field that
//! some control, action or key reads: by this the model knows whether to drop packets that a parser could not read.

use crate::ir::{walk_exprs, Expr, FieldRef, FlatProgram, KeyTarget};

/// Takes out aliases of parser errors that nobody reads.
pub fn keep_read(program: &mut FlatProgram) {
    if !program.objects.arch.is_tofino() {
        return;
    }
    let mut aliases = std::mem::take(&mut program.objects.aliases);
    aliases.retain(|(alias, field)| {
        !alias.ends_with("_from_parser.parser_err") || reads(program, *field)
    });
    program.objects.aliases = aliases;
}

/// Whether a pipeline, an action or a table's key looks at a field.
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
