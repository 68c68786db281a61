//! Source files and positions in them.
//!
//! A [`Span`] is a range of bytes in one file of the [`SourceMap`]. Every token and every node of the syntax tree has one. The span of a
//! token from a macro is the use of the macro in the user's file, so that a diagnostic always points into a file. The [`Origin`] of the
//! token is its position in the macro's body, which is shown for errors in the body.

use std::rc::Rc;

/// Id of a file in the [`SourceMap`]: its index, from 0, in the order of reading.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct FileId(pub u32);

/// A position in a macro's body: an index, from 1, into the positions of the [`SourceMap`] (see [`SourceMap::origin`]); 0 outside macros.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct Origin(u32);

/// A range of bytes `lo..hi` of one file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct Span {
    /// The file with the text.
    pub file: FileId,
    /// Offset of the first byte, from 0.
    pub lo: u32,
    /// Offset after the last byte, at least `lo`.
    pub hi: u32,
    /// Position of the token in the macro's body that it comes from; the default outside macros.
    pub origin: Origin,
}

impl Span {
    /// A span of the bytes `lo..hi` of `file`, outside macros.
    pub fn new(file: FileId, lo: u32, hi: u32) -> Span {
        Span {
            file,
            lo,
            hi,
            origin: Origin::default(),
        }
    }

    /// Whether `other` is within this span, in the same file.
    pub fn contains(self, other: Span) -> bool {
        self.file == other.file && self.lo <= other.lo && other.hi <= self.hi
    }

    /// The smallest span that covers this span and `end`. If they are in different files, as for a construct that
    /// begins in an included file, the result is this span. A span of several tokens of a macro has no origin, as an
    /// error in it is usually an error in the use of the macro.
    pub fn to(self, end: Span) -> Span {
        if self.file != end.file {
            return self;
        }
        Span {
            file: self.file,
            lo: self.lo.min(end.lo),
            hi: self.hi.max(end.hi),
            origin: if self.origin == end.origin {
                self.origin
            } else {
                Origin::default()
            },
        }
    }

    /// The empty span at the end of this one, for messages about missing tokens.
    pub fn after(self) -> Span {
        Span {
            lo: self.hi,
            ..self
        }
    }
}

/// A source file: its name, its text, and the offsets of its lines.
#[derive(Debug)]
pub struct SourceFile {
    /// Path as written on the command line or found by `#include`. Files built into the compiler have names such as
    /// `<p4include>/core.p4`.
    pub name: String,
    /// The whole text of the file.
    pub text: Rc<str>,
    /// Whether the file is included with `<>`, as architectures are. Its warnings are not shown.
    pub system: bool,
    line_starts: Vec<u32>,
    lines: Vec<LineDirective>,
}

/// A `#line` directive: positions from `offset` on are reported in file `file`, with line numbers from `line`.
#[derive(Debug, Clone)]
struct LineDirective {
    offset: u32,
    line: u32,
    file: Option<String>,
    system: bool,
}

/// A source position for messages: file, line and column.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Location {
    /// Name of the file, after `#line` directives.
    pub file: String,
    /// Line number, from 1, after `#line` directives.
    pub line: u32,
    /// Column, from 1, in characters (Unicode scalar values).
    pub column: u32,
}

impl SourceFile {
    fn new(name: String, text: Rc<str>) -> SourceFile {
        let mut line_starts = vec![0];
        let line_ends = text.match_indices('\n');
        line_starts.extend(line_ends.map(|(offset, _)| offset as u32 + 1));
        SourceFile {
            name,
            text,
            system: false,
            line_starts,
            lines: Vec::new(),
        }
    }

    /// Index, from 0, of the line with the byte at `offset`.
    pub fn line_index(&self, offset: u32) -> usize {
        self.line_starts.partition_point(|start| *start <= offset) - 1
    }

    /// Offset of the first byte of line `index`, from 0.
    pub fn line_start(&self, index: usize) -> u32 {
        self.line_starts
            .get(index)
            .copied()
            .unwrap_or(self.text.len() as u32)
    }

    /// Text of line `index`, from 0, without its line end.
    pub fn line_text(&self, index: usize) -> &str {
        let lo = self.line_start(index) as usize;
        let hi = self.line_start(index + 1) as usize;
        self.text[lo..hi].trim_end_matches(['\n', '\r'])
    }

    /// Number of lines of the file.
    pub fn line_count(&self) -> usize {
        self.line_starts.len()
    }

    /// Applies a `#line` directive to positions after `offset`: the next line is line `line` of `file`. `system`: whether that file
    /// declares the architecture.
    pub fn set_line(&mut self, offset: u32, line: u32, file: Option<String>, system: bool) {
        self.lines.push(LineDirective {
            offset,
            line,
            file,
            system,
        });
    }
}

/// All source files of one compilation.
#[derive(Debug, Default)]
pub struct SourceMap {
    files: Vec<SourceFile>,
    origins: Vec<Span>,
}

impl SourceMap {
    /// A map without files.
    pub fn new() -> SourceMap {
        SourceMap::default()
    }

    /// Adds a file and returns its id. Text beyond 4 GiB is dropped.
    pub fn add(&mut self, name: impl Into<String>, text: impl Into<Rc<str>>) -> FileId {
        let id = FileId(self.files.len() as u32);
        self.files.push(SourceFile::new(name.into(), text.into()));
        id
    }

    /// The file with this id.
    ///
    /// # Panics
    /// When `id` comes from another map.
    pub fn file(&self, id: FileId) -> &SourceFile {
        &self.files[id.0 as usize]
    }

    /// The file with this id, to record `#line` directives in.
    ///
    /// # Panics
    /// When `id` comes from another map.
    pub fn file_mut(&mut self, id: FileId) -> &mut SourceFile {
        &mut self.files[id.0 as usize]
    }

    /// Records the position of a token in a macro's body; returns the origin for tokens made from it.
    pub fn add_origin(&mut self, token: Span) -> Origin {
        self.origins.push(token);
        Origin(self.origins.len() as u32)
    }

    /// The position in a macro's body that the span comes from; `None` outside macros.
    pub fn origin(&self, span: Span) -> Option<Span> {
        let index = (span.origin.0 as usize).checked_sub(1)?;
        self.origins.get(index).copied()
    }

    /// The position to show in a diagnostic: the position in the macro's body, or the span itself outside macros.
    pub fn reported_span(&self, span: Span) -> Span {
        self.origin(span).unwrap_or(span)
    }

    /// Whether the span is in the text of an architecture, so that warnings about it are not shown.
    pub fn is_system(&self, span: Span) -> bool {
        let file = self.file(span.file);
        let directive = file.lines.iter().rev().find(|d| d.offset <= span.lo);
        file.system || directive.is_some_and(|d| d.system)
    }

    /// All files, in the order in which they were added.
    pub fn files(&self) -> impl Iterator<Item = &SourceFile> {
        self.files.iter()
    }

    /// The source text of a span.
    pub fn text(&self, span: Span) -> &str {
        self.file(span.file)
            .text
            .get(span.lo as usize..span.hi as usize)
            .unwrap_or("")
    }

    /// File, line and column of the start of a span, after `#line` directives.
    pub fn location(&self, span: Span) -> Location {
        let file = self.file(span.file);
        let index = file.line_index(span.lo);
        let start = file.line_start(index) as usize;
        let column = file
            .text
            .get(start..span.lo as usize)
            .map_or(0, |s| s.chars().count()) as u32
            + 1;
        let mut location = Location {
            file: file.name.clone(),
            line: index as u32 + 1,
            column,
        };
        if let Some(d) = file.lines.iter().rev().find(|d| d.offset <= span.lo) {
            let base = file.line_index(d.offset) as u32;
            location.line = d.line + (index as u32).saturating_sub(base + 1);
            if let Some(name) = file
                .lines
                .iter()
                .rev()
                .filter(|d| d.offset <= span.lo)
                .find_map(|d| d.file.clone())
            {
                location.file = name;
            }
        }
        location
    }
}
