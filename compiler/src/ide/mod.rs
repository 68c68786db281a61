//! Queries of editors about a program: hover, definition, references, rename, completion and outline.
//!
//! [`Analysis`] holds a program, correct or not, with its diagnostics and index. Positions are byte offsets in a file of its [`SourceMap`].
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
use crate::preproc::{direct, SourceLoader};
use crate::sema::CheckedProgram;
use crate::syntax::ast::DeclId;
use crate::syntax::token::TokenKind;
use index::{Index, Place};
use std::io;
use std::path::Path;

/// A program, and all that is known of it.
#[derive(Debug)]
pub struct Analysis {
    /// The files that were read, the main one first.
    pub sources: SourceMap,
    /// What is wrong, in order of place.
    pub diagnostics: Diagnostics,
    checked: CheckedProgram,
    index: Index,
}

/// Why a name cannot be changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RenameError {
    /// There is no name, or none that is declared anywhere.
    #[error("there is no declared name at this position")]
    NoName,
    /// The new text is not an identifier.
    #[error("the new name must be an identifier: letters, digits and `_`, and not a keyword")]
    NoIdentifier,
    /// It is declared by the architecture.
    #[error("the architecture declares this name")]
    OfArchitecture,
    /// A macro writes it.
    #[error("this name is also written by a macro; change the macro")]
    InMacro,
}

impl Analysis {
    /// Finds out about a program. Phases recurse as deep as it nests: call this where there is stack enough.
    ///
    /// # Errors
    /// The main file cannot be read.
    pub fn of(options: CompileOptions, loader: &dyn SourceLoader) -> io::Result<Analysis> {
        let mut session = Session::new(options);
        let checked = session.examined(loader)?;
        session.diagnostics.sort();
        Ok(Analysis {
            sources: session.sources,
            diagnostics: session.diagnostics,
            index: Index::of(&checked),
            checked,
        })
    }

    /// Where the name at a place is declared.
    pub fn definition(&self, file: FileId, offset: u32) -> Option<Span> {
        let name = self.index.name_of(self.target(file, offset)?)?;
        Some(self.sources.blamed(name))
    }

    /// Where else the name at a place is written, and where it is declared.
    pub fn references(&self, file: FileId, offset: u32) -> Vec<Span> {
        let Some(id) = self.target(file, offset) else {
            return Vec::new();
        };
        let mut spans: Vec<Span> = self
            .index
            .places_of(id)
            .map(|place| self.sources.blamed(place.span))
            .collect();
        spans.sort();
        spans.dedup_by_key(|span| (span.file, span.lo));
        spans
    }

    /// The name at a place that can be changed.
    ///
    /// # Errors
    /// Why it cannot.
    pub fn renamable(&self, file: FileId, offset: u32) -> Result<Span, RenameError> {
        let place = self.index.at(file, offset).ok_or(RenameError::NoName)?;
        let id = place.target.ok_or(RenameError::NoName)?;
        for place in self.index.places_of(id) {
            if self.sources.is_system(place.span) {
                return Err(RenameError::OfArchitecture);
            }
            let name = self.checked.opt_def(id).map(|def| def.kind.name());
            if self.sources.origin(place.span).is_some()
                || name.is_some_and(|name| self.sources.text(place.span) != &*name)
            {
                return Err(RenameError::InMacro);
            }
        }
        Ok(place.span)
    }

    /// All places where the text is to be changed, so that the name at a place becomes another one.
    ///
    /// # Errors
    /// Why it cannot.
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

    /// The file at this path, if the program includes it.
    pub fn file(&self, path: &Path) -> Option<FileId> {
        let wanted = direct(path);
        let mut files = self.sources.files();
        let index = files.position(|file| direct(Path::new(&file.name)) == wanted)?;
        u32::try_from(index).ok().map(FileId)
    }

    fn target(&self, file: FileId, offset: u32) -> Option<DeclId> {
        self.place(file, offset)?.target
    }

    fn place(&self, file: FileId, offset: u32) -> Option<&Place> {
        self.index.at(file, offset)
    }
}
