//! Queries about a program for editors: hover, definition, references, rename, completion and outline.
//!
//! [`Analysis`] holds a program, with or without errors, its diagnostics and its index of names. Positions are byte offsets in a file of its [`SourceMap`].
//! `alfirk-lsp` sends the results to editors.

mod complete;
mod describe;
mod index;
mod symbols;
#[cfg(test)]
mod tests;

pub use complete::{complete, Completion, CompletionKind};
pub use describe::Hover;
pub use symbols::{Symbol, SymbolKind};

use crate::diag::{Diagnostics, FileId, SourceMap, Span};
use crate::driver::{CompileOptions, Session};
use crate::preproc::{normalize, SourceLoader};
use crate::sema::CheckedProgram;
use crate::syntax::ast::DeclId;
use crate::syntax::token::TokenKind;
use index::{Index, Occurrence};
use std::io;
use std::path::Path;

/// The analysis of a program: its source files, diagnostics, types and index of names.
#[derive(Debug)]
pub struct Analysis {
    /// The source files, the main one first.
    pub sources: SourceMap,
    /// The diagnostics, in order of position.
    pub diagnostics: Diagnostics,
    checked: CheckedProgram,
    index: Index,
}

/// The reason why a name cannot be renamed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RenameError {
    /// There is no name at the position, or its declaration is unknown.
    #[error("there is no declared name at this position")]
    NoName,
    /// The new name is not an identifier.
    #[error("the new name must be an identifier: letters, digits and `_`, and not a keyword")]
    NoIdentifier,
    /// The declaration is in the architecture's files, which users cannot change.
    #[error("the architecture declares this name")]
    OfArchitecture,
    /// An occurrence of the name is in a macro's body.
    #[error("this name is also written by a macro; change the macro")]
    InMacro,
}

impl Analysis {
    /// Analyses a program. The phases recurse as deeply as the program is nested, so call this function on a large
    /// stack.
    ///
    /// # Errors
    /// The main file cannot be read.
    pub fn of(options: CompileOptions, loader: &dyn SourceLoader) -> io::Result<Analysis> {
        let mut session = Session::new(options);
        let checked = session.checked_despite_errors(loader)?;
        session.diagnostics.sort();
        Ok(Analysis {
            sources: session.sources,
            diagnostics: session.diagnostics,
            index: Index::of(&checked),
            checked,
        })
    }

    /// Span of the declared name that the name at byte `offset` of `file` refers to; `None` if it is unknown.
    pub fn definition(&self, file: FileId, offset: u32) -> Option<Span> {
        let name = self.index.name_of(self.target(file, offset)?)?;
        Some(self.sources.reported_span(name))
    }

    /// All occurrences of the name at byte `offset` of `file`, including its declaration; empty if it is unknown.
    pub fn references(&self, file: FileId, offset: u32) -> Vec<Span> {
        let Some(id) = self.target(file, offset) else {
            return Vec::new();
        };
        let mut spans: Vec<Span> = self
            .index
            .occurrences_of(id)
            .map(|occurrence| self.sources.reported_span(occurrence.span))
            .collect();
        spans.sort();
        spans.dedup_by_key(|span| (span.file, span.lo));
        spans
    }

    /// Span of the name at byte `offset` of `file`, if it can be renamed.
    ///
    /// # Errors
    /// The reason why it cannot be renamed.
    pub fn renamable(&self, file: FileId, offset: u32) -> Result<Span, RenameError> {
        let occurrence = self.index.at(file, offset).ok_or(RenameError::NoName)?;
        let id = occurrence.target.ok_or(RenameError::NoName)?;
        for occurrence in self.index.occurrences_of(id) {
            if self.sources.is_system(occurrence.span) {
                return Err(RenameError::OfArchitecture);
            }
            let name = self.checked.opt_def(id).map(|def| def.kind.name());
            if self.sources.origin(occurrence.span).is_some()
                || name.is_some_and(|name| self.sources.text(occurrence.span) != &*name)
            {
                return Err(RenameError::InMacro);
            }
        }
        Ok(occurrence.span)
    }

    /// The spans to replace by `to` in order to rename the name at byte `offset` of `file`.
    ///
    /// # Errors
    /// The reason why it cannot be renamed.
    pub fn rename(&self, file: FileId, offset: u32, to: &str) -> Result<Vec<Span>, RenameError> {
        self.renamable(file, offset)?;
        let mut characters = to.chars();
        let begins = characters
            .next()
            .is_some_and(|c| c.is_ascii_alphabetic() || c == '_');
        let goes_on = characters.all(|c| c.is_ascii_alphanumeric() || c == '_');
        if !begins || !goes_on || TokenKind::keyword(to).is_some_and(|kind| !kind.is_name()) {
            return Err(RenameError::NoIdentifier);
        }
        Ok(self.references(file, offset))
    }

    /// The file at this path; `None` if it is not part of the program.
    pub fn file(&self, path: &Path) -> Option<FileId> {
        let wanted = normalize(path);
        let mut files = self.sources.files();
        let index = files.position(|file| normalize(Path::new(&file.name)) == wanted)?;
        u32::try_from(index).ok().map(FileId)
    }

    fn target(&self, file: FileId, offset: u32) -> Option<DeclId> {
        self.occurrence_at(file, offset)?.target
    }

    fn occurrence_at(&self, file: FileId, offset: u32) -> Option<&Occurrence> {
        self.index.at(file, offset)
    }
}
