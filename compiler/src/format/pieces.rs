//! Splits a text into pieces: tokens of the lexer, comments and white space. Concatenated, they give the text.

use crate::diag::FileId;
use crate::syntax::lexer::{lex, Interner};
use crate::syntax::token::{Token, TokenKind};

/// The kind of a piece of text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// A token; keywords have their own kinds.
    Token(TokenKind),
    /// `// ...`
    LineComment,
    /// `/* ... */`
    BlockComment,
    /// A line of the preprocessor, with continuation lines, comments and its indentation.
    Directive,
    /// `@pragma` and the rest of its line.
    Pragma,
}

/// A part of the text that is kept unchanged: a token, comment or directive.
#[derive(Clone, Copy, Debug)]
pub(super) struct Piece<'a> {
    pub(super) kind: Kind,
    pub(super) text: &'a str,
    /// Number of line ends between the previous piece and this one.
    pub(super) newlines: usize,
    /// Whether white space precedes the piece.
    pub(super) space: bool,
    /// Number of blanks directly before the piece.
    pub(super) blanks: usize,
}

/// Splits a text into pieces; `None` if a comment is not closed.
pub(super) fn pieces(text: &str) -> Option<Vec<Piece<'_>>> {
    let lexed = lex(text, FileId::default(), &mut Interner::default());
    if lexed.open_comment.is_some() {
        return None;
    }
    let mut cutter = Cutter {
        text,
        pos: 0,
        newlines: 0,
        pieces: Vec::with_capacity(lexed.tokens.len()),
    };
    let tokens = &lexed.tokens;
    let mut at = 0;
    while let Some(token) = tokens.get(at) {
        cutter.gap(token.span.lo as usize);
        let rest = &tokens[at + 1..];
        let line = || 1 + rest.iter().take_while(|token| !token.first_on_line).count();
        let begins_pragma = token.kind == TokenKind::At
            && matches!(rest, [word, ..] if &*word.text == "pragma" && !word.first_on_line);
        at += if token.kind == TokenKind::Hash && token.first_on_line {
            let length = line();
            cutter.directive(token, &tokens[at + length - 1], tokens.get(at + length));
            length
        } else if begins_pragma {
            let length = line();
            cutter.push(Kind::Pragma, tokens[at + length - 1].span.hi as usize);
            length
        } else {
            let kind = match token.kind {
                TokenKind::Ident => TokenKind::keyword(&token.text).unwrap_or(TokenKind::Ident),
                kind => kind,
            };
            cutter.push(Kind::Token(kind), token.span.hi as usize);
            1
        };
    }
    cutter.gap(text.len());
    Some(cutter.pieces)
}

struct Cutter<'a> {
    text: &'a str,
    /// Offset up to which the text is split.
    pos: usize,
    /// Line ends since the last piece.
    newlines: usize,
    pieces: Vec<Piece<'a>>,
}

impl<'a> Cutter<'a> {
    /// Adds the piece from the current offset to `end`.
    fn push(&mut self, kind: Kind, end: usize) {
        let so_far = &self.text[..self.pos];
        let before = so_far.chars().next_back();
        self.pieces.push(Piece {
            kind,
            text: &self.text[self.pos..end],
            newlines: self.newlines,
            space: before.is_none_or(char::is_whitespace),
            blanks: so_far.len() - so_far.trim_end_matches(' ').len(),
        });
        self.pos = end;
        self.newlines = 0;
    }

    /// Splits white space and comments up to `end`.
    fn gap(&mut self, end: usize) {
        while self.pos < end {
            let rest = &self.text[self.pos..end];
            if rest.starts_with("//") {
                let length = line_length(rest);
                let kept = rest[..length].trim_end().len();
                self.push(Kind::LineComment, self.pos + kept);
            } else if let Some(comment) = rest.strip_prefix("/*") {
                let length = comment.find("*/").map_or(rest.len(), |at| at + 4);
                self.push(Kind::BlockComment, self.pos + length);
            } else if rest.starts_with('\n') {
                self.newlines += 1;
                self.pos += 1;
            } else if rest.starts_with('\\') {
                // A backslash at the end of a line joins it with the next.
                self.pos += rest.find('\n').map_or(rest.len(), |at| at + 1);
            } else {
                self.pos += rest.chars().next().map_or(1, char::len_utf8);
            }
        }
    }

    /// Adds a directive: the line from `hash` to its last token `last`, with the comments on it.
    fn directive(&mut self, hash: &Token, last: &Token, next: Option<&Token>) {
        let begin = hash.span.lo as usize;
        let limit = next.map_or(self.text.len(), |token| token.span.lo as usize);
        let mut end = last.span.hi as usize;
        while end < limit {
            let rest = &self.text[end..limit];
            if rest.starts_with("//") {
                end += line_length(rest);
            } else if let Some(comment) = rest.strip_prefix("/*") {
                end += comment.find("*/").map_or(rest.len(), |at| at + 4);
            } else if rest.starts_with('\n') {
                break;
            } else if rest.starts_with('\\') {
                end += rest.find('\n').map_or(rest.len(), |at| at + 1);
            } else {
                end += rest.chars().next().map_or(1, char::len_utf8);
            }
        }
        let line = self.text[..begin].rfind('\n').map_or(0, |at| at + 1);
        if self.text[line..begin]
            .chars()
            .all(|c| matches!(c, ' ' | '\t'))
        {
            self.pos = line;
        }
        let kept = self.text[self.pos..end].trim_end().len();
        self.push(Kind::Directive, self.pos + kept);
        self.pos = end;
    }
}

/// Number of bytes to the end of the line, including continuation lines.
fn line_length(rest: &str) -> usize {
    let mut ends = rest.match_indices('\n').map(|(at, _)| at);
    ends.find(|at| {
        !rest[..*at]
            .trim_end_matches([' ', '\t', '\r', '\x0b', '\x0c'])
            .ends_with('\\')
    })
    .unwrap_or(rest.len())
}
