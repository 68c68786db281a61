//! Messages to the user, and the source positions that they point at.

mod source;

pub use source::{FileId, Location, SourceFile, SourceMap, Span};
