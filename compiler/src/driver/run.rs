//! `alfirk p4c`: reads, compiles, writes files, and prints diagnostics.

use std::collections::BTreeSet;
use std::io::Write;
use std::path::Path;
use std::process::Command;

use super::args::Request;
use super::{Outputs, P4cArgs, Results, Session};
use crate::bmv2::graphs;
use crate::constants::Constants;
use crate::diag::{nearest, Diagnostic, Page, Severity, SourceMap};
use crate::ir::FlatProgram;
use crate::p4info;
use crate::preproc::{self, DiskLoader};
use crate::stack::on_deep_stack;
use crate::targets::{ReportForm, Stages};

/// Exit code: the program was compiled.
const COMPILED: u8 = 0;
/// Exit code: the program has errors.
const HAS_ERRORS: u8 = 1;
/// Exit code: wrong usage, or a file that cannot be read or written.
const UNUSABLE_INPUT: u8 = 2;
/// Exit code: a fault of the compiler, with a message that names the pass.
const INTERNAL_ERROR: u8 = 101;

/// Runs the command and returns its exit code. Results go to `stdout`, messages to `stderr`.
pub fn run(args: &P4cArgs, stdout: &mut (dyn Write + Send), stderr: &mut (dyn Write + Send)) -> u8 {
    if let Some(code) = args.explained_code() {
        return explain(code, stdout).unwrap_or_else(|what| fail(stderr, &what));
    }
    let request = match args.request() {
        Ok(request) => request,
        Err(what) => return fail(stderr, &what),
    };
    match on_deep_stack(|| compile(&request, stdout, stderr)) {
        Ok(code) => code,
        Err(what) => fail(stderr, &what),
    }
}

/// Prints the explanation of a code or warning.
fn explain(code: &str, stdout: &mut dyn Write) -> Result<u8, String> {
    let Some(page) = Page::of(code) else {
        let nearest = match &nearest(code)[..] {
            [] => "give an error code, such as E0408, or the name of a warning, such as unused"
                .to_owned(),
            codes => format!("the nearest: {}", codes.join(", ")),
        };
        return Err(format!("--explain {code}: unknown code; {nearest}"));
    };
    write_all(stdout, page.text().as_bytes())?;
    Ok(COMPILED)
}

/// The exit code of a compilation with errors.
fn failed(session: &Session) -> u8 {
    match session.diagnostics.has_internal_errors() {
        true => INTERNAL_ERROR,
        false => HAS_ERRORS,
    }
}

/// Prints the reason for a failure, and returns the exit code. A closed stderr is ignored.
pub(super) fn fail(stderr: &mut dyn Write, what: &str) -> u8 {
    let _ = writeln!(stderr, "error: {what}");
    UNUSABLE_INPUT
}

/// Compiles as requested and writes the outputs; returns the exit code.
pub(super) fn compile(
    request: &Request,
    stdout: &mut dyn Write,
    stderr: &mut dyn Write,
) -> Result<u8, String> {
    for note in &request.notes {
        write_all(stderr, format!("note: {note}\n").as_bytes())?;
    }
    let source = &request.options.source;
    let unreadable = |error: std::io::Error| format!("{}: {error}", source.display());
    if request.preprocess_only
        || request
            .rule
            .as_ref()
            .is_some_and(|rule| rule.is_only_output)
    {
        let mut session = Session::new(request.options.clone());
        let tokens = session.tokens(&DiskLoader).map_err(unreadable)?;
        if !write_rule(request, &session, stdout)? {
            let text = preproc::print(&tokens, &session.sources);
            write_all(stdout, text.as_bytes())?;
        }
        report_diagnostics(&mut session, request, stderr)?;
        return Ok(match session.diagnostics.error_reported() {
            None => COMPILED,
            Some(_) => failed(&session),
        });
    }
    let mut session = Session::new(request.options.clone());
    let results = session.results(&DiskLoader, request.goals());
    let Results { text, outputs } = results.map_err(unreadable)?;
    write_rule(request, &session, stdout)?;
    if let (Some(path), Some(text)) = (&request.pretty, text) {
        match path == Path::new("-") {
            true => write_all(stdout, text.as_bytes())?,
            false => write_file(path, text.as_bytes())?,
        }
    }
    report_diagnostics(&mut session, request, stderr)?;
    match outputs {
        Ok(outputs) => write_outputs(request, &outputs, stdout, stderr),
        Err(_) => Ok(failed(&session)),
    }
}

/// Writes the outputs of a program without errors; returns the exit code.
fn write_outputs(
    request: &Request,
    outputs: &Outputs,
    stdout: &mut dyn Write,
    stderr: &mut dyn Write,
) -> Result<u8, String> {
    let stages = request.options.arch.target().stages();
    let fits = match (&request.report, stages) {
        (Some(path), Some(stages)) => report(path, stages, &outputs.programs, stdout, stderr)?,
        _ => true,
    };
    if let (Some(path), Some(json)) = (&request.output, &outputs.json) {
        write_file(path, json.to_text().as_bytes())?;
    }
    if let Some(p4info) = &outputs.p4info {
        for (path, format) in &request.p4info {
            write_file(path, &format.encode(p4info))?;
        }
    }
    if let (Some(path), Some(schema)) = (&request.bf_rt_schema, &outputs.bf_rt_schema) {
        write_file(path, schema.to_text().as_bytes())?;
    }
    for (path, format) in &request.entries {
        for program in &outputs.programs {
            write_file(path, &format.encode(&p4info::entries(&program.objects)))?;
        }
    }
    if let Some(constants) = &outputs.constants {
        write_constants(request, constants)?;
    }
    if let (Some(folder), Some(json)) = (&request.graph, &outputs.json) {
        for graph in graphs(json) {
            let path = folder.join(&graph.name).with_extension("dot");
            write_file(&path, graph.dot().as_bytes())?;
            draw(&path, stderr)?;
        }
    }
    Ok(if fits { COMPILED } else { HAS_ERRORS })
}

/// Writes the stage report of each pipe's program. Returns whether all programs fit the chip.
fn report(
    path: &Path,
    stages: &dyn Stages,
    programs: &[FlatProgram],
    stdout: &mut dyn Write,
    stderr: &mut dyn Write,
) -> Result<bool, String> {
    let form = match path.extension() {
        Some(extension) if extension == "json" => ReportForm::Json,
        _ => ReportForm::Text,
    };
    let report = stages.report(programs, form)?;
    match path == Path::new("-") {
        true => write_all(stdout, report.text.as_bytes())?,
        false => write_file(path, report.text.as_bytes())?,
    }
    for message in &report.excesses {
        write_all(stderr, message.as_bytes())?;
    }
    Ok(report.excesses.is_empty())
}

fn write_constants(request: &Request, constants: &Constants) -> Result<(), String> {
    let source = request.options.source.display().to_string();
    for (path, language) in &request.constants {
        write_file(path, language.write(constants, &source).as_bytes())?;
    }
    Ok(())
}

/// Writes the requested dependency rule for make. Returns whether only the rule is requested.
fn write_rule(
    request: &Request,
    session: &Session,
    stdout: &mut dyn Write,
) -> Result<bool, String> {
    let Some(rule) = &request.rule else {
        return Ok(false);
    };
    let text = rule.dependencies.rule(&session.sources, &session.missing);
    match &rule.file {
        Some(path) => write_file(path, text.as_bytes())?,
        None => write_all(stdout, text.as_bytes())?,
    }
    Ok(rule.is_only_output)
}

/// Draws a graph as SVG with Graphviz, if it is installed.
fn draw(path: &Path, stderr: &mut dyn Write) -> Result<(), String> {
    let drawn = Command::new("dot")
        .arg("-Tsvg")
        .arg("-o")
        .arg(path.with_extension("svg"))
        .arg(path)
        .output();
    match drawn {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => write_all(
            stderr,
            format!(
                "note: {} was not drawn: `dot` of Graphviz is not installed\n",
                path.display()
            )
            .as_bytes(),
        ),
        Err(error) => Err(format!("dot: {error}")),
        Ok(output) if !output.status.success() => Err(format!(
            "dot {}: {}",
            path.display(),
            String::from_utf8_lossy(&output.stderr).trim()
        )),
        Ok(_) => Ok(()),
    }
}

pub(super) fn write_file(path: &Path, content: &[u8]) -> Result<(), String> {
    if let Some(folder) = path
        .parent()
        .filter(|folder| !folder.as_os_str().is_empty())
    {
        std::fs::create_dir_all(folder)
            .map_err(|error| format!("{}: {error}", folder.display()))?;
    }
    std::fs::write(path, content).map_err(|error| format!("{}: {error}", path.display()))
}

/// Writes to a stream. A broken pipe is not an error, as the reader may be `head`.
pub(super) fn write_all(out: &mut dyn Write, content: &[u8]) -> Result<(), String> {
    match out.write_all(content).and_then(|()| out.flush()) {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => {
            Err(format!("stdout: {error}"))
        }
        _ => Ok(()),
    }
}

/// Prints the diagnostics, as text or as JSON.
fn report_diagnostics(
    session: &mut Session,
    request: &Request,
    stderr: &mut dyn Write,
) -> Result<(), String> {
    if request.json {
        session.diagnostics.sort();
        for diagnostic in session.diagnostics.iter() {
            let line = format!("{}\n", to_json(diagnostic, &session.sources));
            write_all(stderr, line.as_bytes())?;
        }
        return Ok(());
    }
    let mut text = session.rendered();
    let (errors, warnings) = counts(session);
    if errors > 0 {
        text += &format!("{}\n", summary(errors, warnings));
    }
    if request.names_explain {
        text += &explain_hint(session);
    }
    write_all(stderr, text.as_bytes())
}

/// The line that names `--explain` for the codes of the diagnostics; empty when there are none.
fn explain_hint(session: &Session) -> String {
    let pages = session.diagnostics.iter().filter_map(Page::of_diagnostic);
    let codes: BTreeSet<&str> = pages.map(|page| page.code).collect();
    let codes: Vec<&str> = codes.into_iter().collect();
    match codes[..] {
        [] => String::new(),
        [code] => format!("For more about {code}: alfirk p4c --explain {code}\n"),
        [first, ..] => format!(
            "For more about {}: alfirk p4c --explain CODE, such as {first}\n",
            codes.join(", ")
        ),
    }
}

fn counts(session: &Session) -> (usize, usize) {
    let warnings = session
        .diagnostics
        .iter()
        .filter(|diagnostic| diagnostic.severity == Severity::Warning)
        .count();
    (session.diagnostics.error_count(), warnings)
}

fn summary(errors: usize, warnings: usize) -> String {
    let count = |n: usize, what: &str| format!("{n} {what}{}", if n == 1 { "" } else { "s" });
    match warnings {
        0 => format!("{} found", count(errors, "error")),
        _ => format!(
            "{} and {} found",
            count(errors, "error"),
            count(warnings, "warning")
        ),
    }
}

fn to_json(diagnostic: &Diagnostic, sources: &SourceMap) -> serde_json::Value {
    let place = |span| {
        let at = sources.location(sources.reported_span(span));
        serde_json::json!({"file": at.file, "line": at.line, "column": at.column})
    };
    serde_json::json!({
        "severity": match diagnostic.severity {
            Severity::Error => "error",
            Severity::Warning => "warning",
            Severity::Info => "info",
        },
        "code": diagnostic.code.map(|code| code.to_string()),
        "warning": diagnostic.warning.map(|warning| warning.name()),
        "message": diagnostic.message,
        "place": diagnostic.span.map(place),
        "label": diagnostic.label,
        "others": diagnostic
            .others
            .iter()
            .map(|(span, text)| serde_json::json!({"place": place(*span), "text": text}))
            .collect::<Vec<_>>(),
        "notes": diagnostic.notes,
        "helps": diagnostic.helps,
    })
}
