//! Diagnostics: errors and warnings with their source positions.
//!
//! Phases report into [`Diagnostics`] and continue, so that one compilation reports all errors. A phase that reported an error returns
//! [`ErrorReported`], which only [`Diagnostics`] creates. So a result is never missing without a message.
//!
//! A case that no program can cause is an internal error ([`Diagnostics::internal`]): a fault of the compiler, which names the pass.
//!
//! It prints with [`render()`] (several lines, with the source) or [`render_short`] (one line each).

mod codes;
mod explain;
mod fault;
mod render;
mod source;
mod suggest;

pub use codes::{Code, Warning};
pub use explain::{nearest, Page};
pub use fault::{catch_faults, fault};
pub use render::{render, render_all, render_short};
pub use source::{FileId, Location, Origin, SourceFile, SourceMap, Span};

pub use suggest::closest;

use std::collections::{BTreeMap, BTreeSet};

/// The severity of a diagnostic; errors prevent outputs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Severity {
    /// A warning that is shown as information, because of `--Winfo`.
    Info,
    /// The program is legal, but probably not as intended.
    Warning,
    /// The program is rejected.
    Error,
}

/// An error, warning or information, with its position and explanation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnostic {
    /// Whether the diagnostic is an error, a warning or information.
    pub severity: Severity,
    /// Code of an error; `None` for warnings.
    pub code: Option<Code>,
    /// Name of the warning, for `--Wdisable` and `--Werror`; `None` for errors.
    pub warning: Option<Warning>,
    /// The problem, without a final period.
    pub message: String,
    /// The source text that the diagnostic is about; `None` if it concerns the whole program.
    pub span: Option<Span>,
    /// Text next to the carets under the source text; may be empty.
    pub label: String,
    /// Related positions, each with a label, such as the first declaration of a duplicate name.
    pub others: Vec<(Span, String)>,
    /// Explanations, printed as `note: ...`.
    pub notes: Vec<String>,
    /// Remedies, printed as `help: ...`.
    pub helps: Vec<String>,
    /// Text edits that fix the problem, for editors.
    pub fixes: Vec<Fix>,
}

/// A text edit that fixes the problem of a diagnostic.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fix {
    /// The replaced range; empty for an insertion.
    pub span: Span,
    /// The text that replaces the range.
    pub text: String,
}

impl Diagnostic {
    /// An error at `span`.
    pub fn error(code: Code, span: Span, message: impl Into<String>) -> Diagnostic {
        Diagnostic {
            severity: Severity::Error,
            code: Some(code),
            warning: None,
            message: message.into(),
            span: Some(span),
            label: String::new(),
            others: Vec::new(),
            notes: Vec::new(),
            helps: Vec::new(),
            fixes: Vec::new(),
        }
    }

    /// A named warning at `span`.
    pub fn warning(warning: Warning, span: Span, message: impl Into<String>) -> Diagnostic {
        Diagnostic {
            severity: Severity::Warning,
            code: None,
            warning: Some(warning),
            ..Diagnostic::error(Code::SYNTAX, span, message)
        }
    }

    /// An error without a position.
    pub fn global(code: Code, message: impl Into<String>) -> Diagnostic {
        Diagnostic {
            span: None,
            ..Diagnostic::error(code, Span::default(), message)
        }
    }

    /// An internal error of a pass: a fault of the compiler, not of the program.
    fn internal(pass: &str, span: Option<Span>, what: impl Into<String>) -> Diagnostic {
        let message = format!("internal error in pass `{pass}`: {}", what.into());
        Diagnostic {
            code: None,
            span,
            ..Diagnostic::error(Code::SYNTAX, Span::default(), message)
        }
        .note("this is a fault of the compiler, not of the program")
        .help("please report it, with the program and the options of the compiler")
    }

    /// Sets the text next to the carets.
    pub fn label(mut self, text: impl Into<String>) -> Diagnostic {
        self.label = text.into();
        self
    }

    /// Adds a related position with its label.
    pub fn other(mut self, span: Span, text: impl Into<String>) -> Diagnostic {
        self.others.push((span, text.into()));
        self
    }

    /// Adds an explanation (`note: ...`).
    pub fn note(mut self, text: impl Into<String>) -> Diagnostic {
        self.notes.push(text.into());
        self
    }

    /// Suggests `near` instead of the name at `span`.
    pub fn did_you_mean(self, span: Span, near: &str) -> Diagnostic {
        self.fix(span, near).help(format!("did you mean `{near}`?"))
    }

    /// Adds a text edit that fixes the problem, for editors.
    pub fn fix(mut self, span: Span, text: impl Into<String>) -> Diagnostic {
        let text = text.into();
        self.fixes.push(Fix { span, text });
        self
    }

    /// Adds a remedy (`help: ...`).
    pub fn help(mut self, text: impl Into<String>) -> Diagnostic {
        self.helps.push(text.into());
        self
    }
}

/// Proof that an error was reported. Only [`Diagnostics`] creates it, so a placeholder that contains it cannot exist without a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ErrorReported(());

/// Treatment of warnings: which are hidden, shown as errors, or shown as information. Set by the command line.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WarningPolicy {
    /// Whether all warnings are hidden (`--Wdisable` without a name).
    pub disable_all: bool,
    /// Names of warnings that are hidden (`--Wdisable=name`).
    pub disabled: BTreeSet<String>,
    /// Whether all warnings are errors (`--Werror` without a name).
    pub error_all: bool,
    /// Names of warnings that are errors (`--Werror=name`).
    pub errors: BTreeSet<String>,
    /// Names of warnings that are only information (`--Winfo=name`).
    pub infos: BTreeSet<String>,
    /// Maximum number of errors shown (`--maxErrorCount`). Default: [`Diagnostics::MAX_ERRORS`].
    pub max_errors: Option<usize>,
}

/// The diagnostics of a compilation, in the order of reports.
#[derive(Debug)]
pub struct Diagnostics {
    list: Vec<Diagnostic>,
    errors: usize,
    policy: WarningPolicy,
    max_errors: usize,
    /// Offsets in files at which text of the architecture begins (`true`) or ends (`false`), from `#line` directives.
    system: BTreeMap<(FileId, u32), bool>,
    /// Whether further diagnostics are ignored: see [`Diagnostics::report_last`].
    closed: bool,
    /// The current pass, for internal errors: see [`Diagnostics::enter`].
    pass: &'static str,
    /// Number of internal errors.
    internal_errors: usize,
}

impl Default for Diagnostics {
    fn default() -> Diagnostics {
        Diagnostics::new()
    }
}

impl Diagnostics {
    /// Default maximum number of errors that are kept; further ones are only counted.
    pub const MAX_ERRORS: usize = 50;

    /// An empty collection that shows all warnings.
    pub fn new() -> Diagnostics {
        Diagnostics::with_policy(WarningPolicy::default())
    }

    /// An empty collection with a treatment of warnings.
    pub fn with_policy(policy: WarningPolicy) -> Diagnostics {
        Diagnostics {
            list: Vec::new(),
            errors: 0,
            max_errors: policy.max_errors.unwrap_or(Diagnostics::MAX_ERRORS),
            policy,
            system: BTreeMap::new(),
            closed: false,
            pass: "driver",
            internal_errors: 0,
        }
    }

    /// Adds a diagnostic. The policy may drop a warning or make it an error. A duplicate, with equal message and position, is dropped.
    pub fn report(&mut self, mut diagnostic: Diagnostic) {
        if self.closed {
            return;
        }
        if let Some(warning) = diagnostic.warning {
            if diagnostic.span.is_some_and(|span| self.is_system(span)) {
                return;
            }
            let named = |names: &BTreeSet<String>| names.iter().any(|name| warning.is_named(name));
            if self.policy.disable_all || named(&self.policy.disabled) {
                return;
            }
            if named(&self.policy.infos) {
                diagnostic.severity = Severity::Info;
            } else if self.policy.error_all || named(&self.policy.errors) {
                diagnostic.severity = Severity::Error;
            }
        }
        shorten(&mut diagnostic.message);
        shorten(&mut diagnostic.label);
        // A warning never replaces an error: then an error would be dropped without a message.
        if self.list.iter().any(|d| {
            is_same_position(d.span, diagnostic.span)
                && d.message == diagnostic.message
                && d.severity >= diagnostic.severity
        }) {
            return;
        }
        if diagnostic.severity == Severity::Error {
            self.errors += 1;
            if self.errors > self.max_errors {
                return;
            }
        } else if self.list.len() >= 4 * self.max_errors {
            return;
        }
        self.list.push(diagnostic);
    }

    /// Adds an error, whatever the severity of `diagnostic`, and returns the proof of it. The error is dropped only if an earlier one makes
    /// it redundant: a duplicate, or one after [`Diagnostics::report_last`].
    pub fn report_error(&mut self, mut diagnostic: Diagnostic) -> ErrorReported {
        diagnostic.severity = Severity::Error;
        diagnostic.warning = None;
        self.report(diagnostic);
        ErrorReported(())
    }

    /// Adds an error after which the rest of the program is not analysed, such as an exceeded limit. Later diagnostics are ignored, as
    /// they would be follow-up errors.
    pub fn report_last(&mut self, diagnostic: Diagnostic) -> ErrorReported {
        let reported = self.report_error(diagnostic);
        self.closed = true;
        reported
    }

    /// Names the pass that begins, for internal errors.
    pub fn enter(&mut self, pass: &'static str) {
        self.pass = pass;
    }

    /// The current pass, by [`Diagnostics::enter`].
    pub fn pass(&self) -> &'static str {
        self.pass
    }

    /// Reports an internal error: the current pass has met a case that no program can cause. `what` describes the case.
    pub fn internal(&mut self, span: Option<Span>, what: impl Into<String>) -> ErrorReported {
        self.internal_errors += 1;
        self.report_error(Diagnostic::internal(self.pass, span, what))
    }

    /// Returns the proof that an error was reported. If there is none, reports an internal error, as only an earlier
    /// error can cause the case `what`.
    pub fn follow_up(&mut self, span: Option<Span>, what: impl Into<String>) -> ErrorReported {
        match self.error_reported() {
            Some(reported) => reported,
            None => self.internal(span, what),
        }
    }

    /// Whether an internal error was reported.
    pub fn has_internal_errors(&self) -> bool {
        self.internal_errors > 0
    }

    /// Disables (`system`) or enables warnings from an offset of a file on, as users cannot change the text of the architecture.
    pub fn mark_system(&mut self, file: FileId, offset: u32, system: bool) {
        self.system.insert((file, offset), system);
    }

    fn is_system(&self, span: Span) -> bool {
        let marks = self.system.range((span.file, 0)..=(span.file, span.lo));
        marks.last().is_some_and(|(_, system)| *system)
    }

    /// Reports an error with message and position only.
    pub fn error(&mut self, code: Code, span: Span, message: impl Into<String>) -> ErrorReported {
        self.report_error(Diagnostic::error(code, span, message))
    }

    /// Reports a warning with message and position only.
    pub fn warning(&mut self, warning: Warning, span: Span, message: impl Into<String>) {
        self.report(Diagnostic::warning(warning, span, message));
    }

    /// Whether an error was reported.
    pub fn has_errors(&self) -> bool {
        self.errors > 0
    }

    /// The proof that an error was reported; `None` if there is no error.
    pub fn error_reported(&self) -> Option<ErrorReported> {
        self.has_errors().then_some(ErrorReported(()))
    }

    /// The proof that an error was reported since there were `errors` errors; `None` if there is no newer error.
    pub fn error_since(&self, errors: usize) -> Option<ErrorReported> {
        (self.errors > errors).then_some(ErrorReported(()))
    }

    /// Number of reported errors, including those that are not kept.
    pub fn error_count(&self) -> usize {
        self.errors
    }

    /// The diagnostics in the order of reports, or by position after [`Diagnostics::sort`].
    pub fn iter(&self) -> impl Iterator<Item = &Diagnostic> {
        self.list.iter()
    }

    /// Sorts the diagnostics by position, those without a position last.
    pub fn sort(&mut self) {
        self.list
            .sort_by_key(|d| d.span.map_or((true, Span::default()), |s| (false, s)));
    }

    /// Number of diagnostics that are kept: errors beyond the maximum are only counted.
    pub fn len(&self) -> usize {
        self.list.len()
    }

    /// Whether no diagnostics are kept.
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }
}

/// Maximum bytes of a message or label, which may contain long numbers or types.
const MAX_MESSAGE: usize = 1000;

/// Replaces the middle of a long text by an ellipsis.
fn shorten(text: &mut String) {
    if text.len() <= MAX_MESSAGE {
        return;
    }
    let half = |text: &str, mut at: usize| {
        while !text.is_char_boundary(at) {
            at -= 1;
        }
        at
    };
    let (from, to) = (
        half(text, MAX_MESSAGE / 2),
        half(text, text.len() - MAX_MESSAGE / 4),
    );
    text.replace_range(from..to, " ... ");
}

/// Whether two positions are equal. Errors at the same position of a macro's body are equal, so that each is reported only once.
fn is_same_position(one: Option<Span>, other: Option<Span>) -> bool {
    let origin = |span: Option<Span>| span.map(|s| s.origin).filter(|o| *o != Origin::default());
    one == other || (origin(one).is_some() && origin(one) == origin(other))
}
