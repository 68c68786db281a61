//! `alfirk p4c`: reads, compiles, writes files, and tells the user.

use std::io::Write;
use std::path::Path;

use super::args::Request;
use super::{P4cArgs, Session};
use crate::diag::{Diagnostic, Severity, SourceMap};
use crate::preproc::{self, DiskLoader};
use crate::stack::on_deep_stack;

/// Compiled.
const GOOD: u8 = 0;
/// The program is wrong.
const BAD: u8 = 1;
/// Wrong usage, or a file that cannot be read or written.
const UNUSABLE: u8 = 2;

/// Runs the command and returns its exit code. Results go to `stdout`, messages to `stderr`.
pub fn run(args: &P4cArgs, stdout: &mut (dyn Write + Send), stderr: &mut (dyn Write + Send)) -> u8 {
    let request = match args.request() {
        Ok(request) => request,
        Err(what) => return fail(stderr, &what),
    };
    match on_deep_stack(|| compile(&request, stdout, stderr)) {
        Ok(code) => code,
        Err(what) => fail(stderr, &what),
    }
}

/// Tells why the command cannot do its work. A closed stderr is no reason to fail otherwise.
fn fail(stderr: &mut dyn Write, what: &str) -> u8 {
    let _ = writeln!(stderr, "error: {what}");
    UNUSABLE
}

fn compile(
    request: &Request,
    stdout: &mut dyn Write,
    stderr: &mut dyn Write,
) -> Result<u8, String> {
    let mut session = Session::new(request.options.clone());
    let source = &request.options.source;
    let unreadable = |error: std::io::Error| format!("{}: {error}", source.display());
    if request.preprocess_only {
        let tokens = session.tokens(&DiskLoader).map_err(unreadable)?;
        let text = preproc::print(&tokens, &session.sources);
        write_all(stdout, text.as_bytes())?;
        tell(&mut session, request.json, stderr)?;
        return Ok(if session.diagnostics.has_errors() {
            BAD
        } else {
            GOOD
        });
    }
    let outputs = session.outputs(&DiskLoader).map_err(unreadable)?;
    tell(&mut session, request.json, stderr)?;
    let Some((json, p4info)) = outputs else {
        return Ok(BAD);
    };
    if let Some(path) = &request.output {
        write_file(path, json.to_text().as_bytes())?;
    }
    for (path, format) in &request.p4info {
        write_file(path, &format.encode(&p4info))?;
    }
    Ok(GOOD)
}

fn write_file(path: &Path, content: &[u8]) -> Result<(), String> {
    if let Some(folder) = path
        .parent()
        .filter(|folder| !folder.as_os_str().is_empty())
    {
        std::fs::create_dir_all(folder)
            .map_err(|error| format!("{}: {error}", folder.display()))?;
    }
    std::fs::write(path, content).map_err(|error| format!("{}: {error}", path.display()))
}

/// A reader that went away, as `head` does, is not an error.
fn write_all(out: &mut dyn Write, content: &[u8]) -> Result<(), String> {
    match out.write_all(content).and_then(|()| out.flush()) {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => {
            Err(format!("stdout: {error}"))
        }
        _ => Ok(()),
    }
}

fn tell(session: &mut Session, as_json: bool, stderr: &mut dyn Write) -> Result<(), String> {
    if as_json {
        session.diagnostics.sort();
        for diagnostic in session.diagnostics.iter() {
            write_all(
                stderr,
                format!("{}\n", to_json(diagnostic, &session.sources)).as_bytes(),
            )?;
        }
        return Ok(());
    }
    let text = session.rendered();
    write_all(stderr, text.as_bytes())?;
    let (errors, warnings) = counts(session);
    if errors > 0 {
        write_all(
            stderr,
            format!("{}\n", summary(errors, warnings)).as_bytes(),
        )?;
    }
    Ok(())
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
        let at = sources.location(span);
        serde_json::json!({"file": at.file, "line": at.line, "column": at.column})
    };
    serde_json::json!({
        "severity": match diagnostic.severity {
            Severity::Error => "error",
            Severity::Warning => "warning",
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
