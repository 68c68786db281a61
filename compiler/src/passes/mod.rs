//! Lowers the typed program to the IR, in passes.
//!
//! | pass | from | to | afterwards |
//! |---|---|---|---|
//! | [`elaborate`] | [`CheckedProgram`] | [`inlined::InlinedProgram`], [`externs::call`] | names and generics are resolved, and calls inlined, except calls of externs; expressions are pure |
//! | [`externs`] | objects, properties of tables and calls of externs | [`crate::ir::Objects`], [`crate::ir::Primitive`]s | externs of the target are lowered |
//! | [`parser_fields`] | | | parsers branch on fields |
//! | [`control_types`] | types of visible objects | [`crate::ir::ControlTypes`] | every named type is listed |
//! | [`entries`] | keysets and priorities as written | entries of [`crate::ir::Table`] | each entry has the match kinds of its key, and a priority |
//! | [`Target::finish_inlined`] | | | the target's own invariants |
//! | [`divisions`] | | | only variables with constant values are divided |
//! | [`selects`] | keysets as written | [`crate::ir::Transition`]s | cases match values under masks, and the last case matches always |
//! | [`parse_states`] | states that branch | [`crate::ir::Parser`] | states contain no branches |
//! | [`checksums`] | controls | [`crate::ir::Checksum`]s | each checksum has its complete condition |
//! | [`deparsers`] | controls | [`crate::ir::Deparser`]s | headers are emitted unconditionally |
//! | [`exits`] | controls and actions | [`crate::ir::Stmt`]s | results are copied out before an `exit` |
//! | [`sites`] | | | a variable stores from where a table with several applications is applied |
//! | [`direct_meters`] | | | each direct meter has a field for its colour |
//! | [`Target::finish`] | | | the target's own invariants |
//!
//! Elaboration starts from the blocks that the target finds in `main` ([`package`]). It and [`externs`] generate code with [`builder`].
//!
//! The form of a statement ([`crate::ir::Form`]) shows the stage of lowering: first [`inlined::Inlined`], with statements that passes replace,
//! then [`crate::ir::Flat`], without. Statements of parser states are then [`crate::ir::ParserStmtKind`]. Invariants that types cannot
//! express are checked between passes ([`check`]).
//!
//! Passes report unsupported constructs with their source positions; back ends cannot fail. All passes run even after errors, so that one
//! compilation reports all errors. A placeholder for what is missing has the proof of an error ([`crate::diag::ErrorReported`]).

pub(crate) mod annotations;
pub(crate) mod builder;
mod check;
mod checksums;
mod control_types;
mod control_view;
pub(crate) mod deparsers;
mod direct_meters;
mod divisions;
pub(crate) mod elaborate;
mod entries;
mod exits;
pub(crate) mod externs;
pub(crate) mod inlined;
mod package;
mod parse_states;
mod parser_fields;
mod selects;
mod sites;

use crate::arch::Arch;
use crate::diag::{Diagnostics, ErrorReported, Location, SourceMap, Span};
use crate::ir::{Deparser, FlatProgram, Parser, Pipeline, Source};
use crate::sema::CheckedProgram;
#[cfg(doc)]
use crate::targets::Target;
use deparsers::DeparserForm;
use inlined::{Block, BlockCode, InlinedProgram};

/// Options of the lowering.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// The architecture of the program.
    pub arch: Arch,
    /// Index, from 0, of the pipe to compile (`--pipe`); `None` if there is only one.
    pub pipe: Option<usize>,
    /// Whether extern objects that the compiler does not know are kept (`--emit-externs`) instead of reported.
    pub emit_externs: bool,
    /// Whether the program is only checked, so that limits of the software target are not reported.
    pub only_check: bool,
    /// Whether calls of `assert` and `assume` are removed.
    pub no_assertions: bool,
    /// Whether control-plane names of actions must be unique, because P4Info is generated.
    pub actions_need_names: bool,
    /// The source file as named by the user.
    pub source: String,
}

/// Lowers a program that the checker accepted.
///
/// # Errors
/// An error was reported: the target does not support the program, or a pass has a fault.
pub fn lower(
    checked: &CheckedProgram,
    sources: &SourceMap,
    diagnostics: &mut Diagnostics,
    options: &Options,
) -> Result<FlatProgram, ErrorReported> {
    diagnostics.enter("elaborate");
    let build = package::elaborate(checked, sources, diagnostics, options);
    build.observes_limit()?;
    if invariants_hold_after(build.diagnostics, options) {
        check::report(check::elaborated(&build.into), build.diagnostics)?;
    }
    build.diagnostics.enter("externs");
    let mut program = externs::lower(build);
    if invariants_hold_after(diagnostics, options) {
        check::report(check::lowered(&program), diagnostics)?;
    }
    diagnostics.enter("parser_fields");
    parser_fields::store_conditions(&mut program);
    if invariants_hold_after(diagnostics, options) {
        check::report(check::inlined(&program), diagnostics)?;
    }
    diagnostics.enter("control_types");
    control_types::describe(
        checked,
        sources,
        &program.shown_types,
        &mut program.objects,
        diagnostics,
    );
    diagnostics.enter("entries");
    entries::lower(&mut program, diagnostics);
    let target = options.arch.target();
    target.finish_inlined(&mut program, diagnostics);
    diagnostics.enter("divisions");
    divisions::refuse(&program, diagnostics);
    let mut flat = blocks(&mut program, diagnostics, options);
    diagnostics.enter("sites");
    sites::number_sites(
        &mut flat.pipelines,
        &mut program.objects,
        &mut program.names,
        diagnostics,
    );
    diagnostics.enter("direct_meters");
    direct_meters::finish(&mut program, options.only_check, diagnostics);
    flat.objects = program.objects;
    target.finish(&mut flat);
    if invariants_hold_after(diagnostics, options) {
        check::report(check::flat(&flat), diagnostics)?;
    }
    match diagnostics.error_reported() {
        None => Ok(flat),
        Some(reported) => Err(reported),
    }
}

/// Whether the invariants of passes must hold: no error is reported, and no construct is skipped.
fn invariants_hold_after(diagnostics: &Diagnostics, options: &Options) -> bool {
    !diagnostics.has_errors() && !options.only_check
}

/// Lowers the blocks of the package, each by the pass for its kind.
fn blocks(
    program: &mut InlinedProgram,
    diagnostics: &mut Diagnostics,
    options: &Options,
) -> FlatProgram {
    let mut flat = FlatProgram::default();
    let (mut pipelines, mut bodies) = (Vec::new(), Vec::new());
    let form = options.arch.target().deparser_form();
    for Block { name, source, code } in std::mem::take(&mut program.blocks) {
        match code {
            BlockCode::Parser(states) => flat.parsers.push(Parser {
                name,
                states: {
                    diagnostics.enter("selects");
                    let states = selects::lower(states, &program.objects, diagnostics);
                    diagnostics.enter("parse_states");
                    parse_states::lower(states, diagnostics)
                },
                source,
            }),
            BlockCode::Checksums(body) => {
                diagnostics.enter("checksums");
                checksums::lower(body, &mut flat.checksums, diagnostics);
            }
            BlockCode::Control(body) => {
                pipelines.push((name, source));
                bodies.push(body);
            }
            BlockCode::Deparser(body) => {
                diagnostics.enter("deparsers");
                let lowered = match form {
                    DeparserForm::Calls => deparsers::with_calls(body, diagnostics),
                    DeparserForm::Statements => {
                        deparsers::with_statements(body, options.only_check, diagnostics)
                    }
                };
                flat.deparsers.push(Deparser {
                    name,
                    headers: lowered.headers,
                    calls: lowered.calls,
                    source: source.clone(),
                });
                if let Some(body) = lowered.pipeline {
                    pipelines.push((name, source));
                    bodies.push(body);
                }
            }
        }
    }
    diagnostics.enter("exits");
    let lowered = exits::lower(program, bodies, diagnostics);
    flat.pipelines = (pipelines.into_iter().zip(lowered.controls))
        .map(|((name, source), body)| Pipeline { name, body, source })
        .collect();
    flat.action_bodies = lowered.actions;
    flat
}

/// Maximum number of characters of a source fragment in the outputs.
const MAX_FRAGMENT: usize = 400;

/// A source position for the outputs.
fn source(sources: &SourceMap, span: Span) -> Source {
    let Location { file, line, column } = sources.location(span);
    let text = sources.text(span).trim_end_matches(';');
    let first = text.lines().next().unwrap_or_default();
    // Long fragments are truncated, as each part of a long statement repeats the fragment.
    let kept = match first.len() {
        0..=MAX_FRAGMENT => first,
        _ => (first.char_indices().nth(MAX_FRAGMENT)).map_or(first, |(end, _)| &first[..end]),
    };
    let fragment = match kept.len() == text.len() {
        true => text.to_owned(),
        false => format!("{} ...", kept.trim_end()),
    };
    Source {
        file: file.into(),
        line,
        column: column.saturating_sub(1),
        fragment,
        span,
    }
}
