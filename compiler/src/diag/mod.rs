//! Diagnostics: errors and warnings with their source positions.
//!
//! Phases report into [`Diagnostics`] and continue; they do not return errors. The driver checks [`Diagnostics::has_errors`] between phases.
//! It prints with [`render`] (several lines, with the source) or [`render_short`] (one line each).

mod codes;
mod explain;
mod render;
mod source;
mod suggest;

pub use codes::{Code, Warning};
pub use explain::{nearest, Page};
pub use render::{render, render_all, render_short};
pub use source::{FileId, Location, Origin, SourceFile, SourceMap, Span};

pub use suggest::closest;

use std::collections::{BTreeMap, BTreeSet};

/// How bad it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Severity {
    /// A warning that the user asked for as information (`--Winfo`).
    Info,
    /// The program is right, but probably not what was meant.
    Warning,
    /// The program is wrong.
    Error,
}

/// One message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnostic {
    /// How bad it is.
    pub severity: Severity,
    /// Stable code of errors.
    pub code: Option<Code>,
    /// Name of warnings, for `--Wdisable` and `--Werror`.
    pub warning: Option<Warning>,
    /// What is wrong, without a full stop.
    pub message: String,
    /// Where. `None` when the program as a whole is meant.
    pub span: Option<Span>,
    /// What the caret says.
    pub label: String,
    /// Other places that matter.
    pub others: Vec<(Span, String)>,
    /// Facts that explain.
    pub notes: Vec<String>,
    /// What to do about it.
    pub helps: Vec<String>,
    /// Changes of the text that editors can offer.
    pub fixes: Vec<Fix>,
}

/// A change of the text that may be what was meant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fix {
    /// What is replaced.
    pub span: Span,
    /// What takes its place.
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

    /// An error that no place in the source can be given for.
    pub fn global(code: Code, message: impl Into<String>) -> Diagnostic {
        Diagnostic {
            span: None,
            ..Diagnostic::error(code, Span::default(), message)
        }
    }

    /// Sets what the caret says.
    pub fn label(mut self, text: impl Into<String>) -> Diagnostic {
        self.label = text.into();
        self
    }

    /// Points at a second place.
    pub fn other(mut self, span: Span, text: impl Into<String>) -> Diagnostic {
        self.others.push((span, text.into()));
        self
    }

    /// Adds an explaining fact.
    pub fn note(mut self, text: impl Into<String>) -> Diagnostic {
        self.notes.push(text.into());
        self
    }

    /// Asks whether another name was meant than the one at `span`.
    pub fn did_you_mean(self, span: Span, near: &str) -> Diagnostic {
        self.fix(span, near).help(format!("did you mean `{near}`?"))
    }

    /// Adds a change of the text that editors can offer.
    pub fn fix(mut self, span: Span, text: impl Into<String>) -> Diagnostic {
        let text = text.into();
        self.fixes.push(Fix { span, text });
        self
    }

    /// Adds advice.
    pub fn help(mut self, text: impl Into<String>) -> Diagnostic {
        self.helps.push(text.into());
        self
    }
}

/// What is done with warnings, from the command line.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WarningPolicy {
    /// No warnings at all (`--Wdisable` without a name).
    pub disable_all: bool,
    /// Names of warnings not to be shown (`--Wdisable=name`).
    pub disabled: BTreeSet<String>,
    /// All warnings are errors (`--Werror` without a name).
    pub error_all: bool,
    /// Names of warnings that are errors (`--Werror=name`).
    pub errors: BTreeSet<String>,
    /// Names of warnings that are only information (`--Winfo=name`).
    pub infos: BTreeSet<String>,
    /// How many errors are shown (`--maxErrorCount`). Default: [`Diagnostics::MAX_ERRORS`].
    pub max_errors: Option<usize>,
}

/// Collects messages.
#[derive(Debug)]
pub struct Diagnostics {
    list: Vec<Diagnostic>,
    errors: usize,
    policy: WarningPolicy,
    max_errors: usize,
    /// From where on in a file what stands there declares the architecture, or no longer does.
    system: BTreeMap<(FileId, u32), bool>,
    /// Nothing is added any more: see [`Diagnostics::report_last`].
    closed: bool,
}

impl Default for Diagnostics {
    fn default() -> Diagnostics {
        Diagnostics::new()
    }
}

impl Diagnostics {
    /// Errors after this many are counted and not kept: the rest is mostly noise.
    pub const MAX_ERRORS: usize = 50;

    /// An empty collection that shows all warnings.
    pub fn new() -> Diagnostics {
        Diagnostics::with_policy(WarningPolicy::default())
    }

    /// An empty collection.
    pub fn with_policy(policy: WarningPolicy) -> Diagnostics {
        Diagnostics {
            list: Vec::new(),
            errors: 0,
            max_errors: policy.max_errors.unwrap_or(Diagnostics::MAX_ERRORS),
            policy,
            system: BTreeMap::new(),
            closed: false,
        }
    }

    /// Adds a message. Warnings are dropped or made errors as the policy says; a message that repeats an earlier one is dropped.
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
        if self
            .list
            .iter()
            .any(|d| same_place(d.span, diagnostic.span) && d.message == diagnostic.message)
        {
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

    /// Adds the error that a limit of the compiler is exceeded, and nothing after it: the rest of the program is not seen, and messages about
    /// what is seen would be wrong.
    pub fn report_last(&mut self, diagnostic: Diagnostic) {
        self.report(diagnostic);
        self.closed = true;
    }

    /// Turns warnings off, or on again, from an offset of a file on: in what declares the architecture, which the user cannot change.
    pub fn mark_system(&mut self, file: FileId, offset: u32, system: bool) {
        self.system.insert((file, offset), system);
    }

    fn is_system(&self, span: Span) -> bool {
        let marks = self.system.range((span.file, 0)..=(span.file, span.lo));
        marks.last().is_some_and(|(_, system)| *system)
    }

    /// Reports an error with message and place only.
    pub fn error(&mut self, code: Code, span: Span, message: impl Into<String>) {
        self.report(Diagnostic::error(code, span, message));
    }

    /// Reports a warning with message and place only.
    pub fn warning(&mut self, warning: Warning, span: Span, message: impl Into<String>) {
        self.report(Diagnostic::warning(warning, span, message));
    }

    /// Whether an error was reported.
    pub fn has_errors(&self) -> bool {
        self.errors > 0
    }

    /// How many errors were reported, dropped ones included.
    pub fn error_count(&self) -> usize {
        self.errors
    }

    /// The messages in the order in which they were reported.
    pub fn iter(&self) -> impl Iterator<Item = &Diagnostic> {
        self.list.iter()
    }

    /// Sorts the messages by place, those without a place last.
    pub fn sort(&mut self) {
        self.list
            .sort_by_key(|d| d.span.map_or((true, Span::default()), |s| (false, s)));
    }

    /// Number of diagnostics that are kept, without those beyond the limit.
    pub fn len(&self) -> usize {
        self.list.len()
    }

    /// Whether there is no message.
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }
}

/// Most characters of a message or label. A number or type in it may have any length.
const MAX_MESSAGE: usize = 1000;

/// Leaves out the middle of a text that is too long.
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

/// Two uses of one macro are one place when it is the macro's body that is wrong.
fn same_place(one: Option<Span>, other: Option<Span>) -> bool {
    let origin = |span: Option<Span>| span.map(|s| s.origin).filter(|o| *o != Origin::default());
    one == other || (origin(one).is_some() && origin(one) == origin(other))
}
