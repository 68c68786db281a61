//! Placeholders: why a value, a place or a statement is missing.
//!
//! A placeholder carries [`Absent`], which exists only after a reported error, or for a construct that is not reported because the program is
//! only checked. So code is never dropped without a reason.

use super::data::{Data, Place};
use super::Builder;
use crate::diag::{Code, ErrorReported, Span};

/// The reason why a value, a place or a statement is missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Absent(Reason);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reason {
    /// An error was reported.
    Error(ErrorReported),
    /// The target does not support a construct. The program is only checked, so this is not reported, and no output is written.
    OnlyChecked,
}

impl From<ErrorReported> for Absent {
    fn from(reported: ErrorReported) -> Absent {
        Absent(Reason::Error(reported))
    }
}

impl From<Absent> for Data {
    fn from(absent: Absent) -> Data {
        Data::Invalid(absent)
    }
}

impl From<Absent> for Place {
    fn from(absent: Absent) -> Place {
        Place::Invalid(absent)
    }
}

impl From<ErrorReported> for Data {
    fn from(reported: ErrorReported) -> Data {
        Data::Invalid(reported.into())
    }
}

impl From<ErrorReported> for Place {
    fn from(reported: ErrorReported) -> Place {
        Place::Invalid(reported.into())
    }
}

impl Builder<'_> {
    /// Reports a construct that the target does not support, unless the program is only checked.
    pub fn target(&mut self, span: Span, message: impl Into<String>) -> Absent {
        if self.options.only_check {
            return self.skip();
        }
        self.error(Code::TARGET, span, message).into()
    }

    /// Records that a construct is skipped because the program is only checked. Returns the reason for its placeholder.
    pub fn skip(&mut self) -> Absent {
        self.skips = true;
        Absent(Reason::OnlyChecked)
    }

    /// The reason for a placeholder in a case that only an earlier error or skipped construct can cause. Without one,
    /// reports the case as an internal error of the current pass.
    pub fn impossible(&mut self, span: impl Into<Option<Span>>, what: &str) -> Absent {
        match self.diagnostics.error_reported() {
            Some(reported) => reported.into(),
            None if self.skips => Absent(Reason::OnlyChecked),
            None => self.diagnostics.internal(span.into(), what).into(),
        }
    }

    /// The placeholder of a value in a case that only an earlier error or skipped construct can cause: see
    /// [`Builder::impossible`].
    pub fn no_data(&mut self, span: impl Into<Option<Span>>, what: &str) -> Data {
        Data::Invalid(self.impossible(span, what))
    }

    /// The placeholder of a place in a case that only an earlier error or skipped construct can cause: see
    /// [`Builder::impossible`].
    pub fn no_place(&mut self, span: impl Into<Option<Span>>, what: &str) -> Place {
        Place::Invalid(self.impossible(span, what))
    }

    /// The value in a place. The place must be one that can be read as a whole; for others, the result is a
    /// placeholder.
    pub fn value_of(&mut self, place: &Place, span: impl Into<Option<Span>>) -> Data {
        match place.value() {
            Some(data) => data,
            None => self.no_data(span, "a place cannot be read as a whole"),
        }
    }
}
