//! The lexer: splits a file into tokens.
//!
//! Its tokens are those of the preprocessor: keywords are identifiers, and `#` is a token. Invalid text becomes a token of kind
//! `Unknown` or `OpenString` and is reported later, as an `#if` may remove it. White space and comments are flags of the following token.

use super::ast::Name;
use super::token::{Token, TokenKind};
use crate::diag::{FileId, Span};
use rustc_hash::FxHashSet;
use std::borrow::Cow;

/// A string interner: tokens with equal text share one allocation.
#[derive(Debug, Default)]
pub struct Interner(FxHashSet<Name>);

impl Interner {
    /// The shared copy of a text, created at its first use.
    pub fn intern(&mut self, text: &str) -> Name {
        match self.0.get(text) {
            Some(name) => name.clone(),
            None => {
                let name: Name = text.into();
                self.0.insert(name.clone());
                name
            }
        }
    }
}

/// The result of lexing a file.
#[derive(Debug)]
pub struct Lexed {
    /// The tokens, without an end token.
    pub tokens: Vec<Token>,
    /// Position of the start of a comment without its end; `None` if all comments are closed.
    pub open_comment: Option<Span>,
}

/// Lexical rules for apostrophes, numbers and strings, which differ between the preprocessor and P4.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LexicalRules {
    /// The rules of `cpp -x assembler-with-cpp`. Text between apostrophes is one token, in which no macro is expanded; an apostrophe
    /// without a partner extends to the end of its line. `0..N` is one preprocessing number, as in C.
    Preprocessor,
    /// The rules of the P4 grammar.
    Language,
}

/// Splits the text of `file` into preprocessing tokens. A line that ends in a backslash is joined with the next.
pub fn lex(text: &str, file: FileId, names: &mut Interner) -> Lexed {
    let joined = SplicedText::new(text);
    let mut lexer = Lexer::new(&joined.text, file, LexicalRules::Preprocessor);
    let mut tokens = lexer.tokens(names);
    let mut open_comment = lexer.open_comment;
    if !joined.cuts.is_empty() {
        let spans = tokens.iter_mut().map(|token| &mut token.span);
        for span in spans.chain(&mut open_comment) {
            *span = joined.original(*span);
        }
    }
    Lexed {
        tokens,
        open_comment,
    }
}

/// Splits a preprocessing token into tokens of P4, with positions relative to its start. A string may span lines.
pub fn lex_language(text: &str, names: &mut Interner) -> Vec<Token> {
    let mut lexer = Lexer::new(text, FileId::default(), LexicalRules::Language);
    lexer.line = false;
    lexer.tokens(names)
}

/// A text after line splicing: each backslash at the end of a line is removed, with the line end and blanks between. Carriage returns
/// before other line ends are removed, too.
struct SplicedText<'a> {
    text: Cow<'a, str>,
    /// The removed parts, in order: offset in `text` at which bytes were removed, and number of bytes removed up to there.
    cuts: Vec<(u32, u32)>,
}

impl SplicedText<'_> {
    fn new(text: &str) -> SplicedText<'_> {
        let mut joined = String::new();
        let mut cuts = Vec::new();
        let mut taken = 0;
        for (end, _) in text.match_indices('\n') {
            let before = &text[taken..end];
            let line = before.strip_suffix('\r').unwrap_or(before);
            let (from, to) = match line
                .trim_end_matches([' ', '\t', '\x0b', '\x0c'])
                .strip_suffix('\\')
            {
                Some(kept) => (taken + kept.len(), end + 1),
                None if line.len() < before.len() => (taken + line.len(), end),
                None => continue,
            };
            joined.push_str(&text[taken..from]);
            cuts.push((joined.len() as u32, (to - joined.len()) as u32));
            taken = to;
        }
        if cuts.is_empty() {
            let text = Cow::Borrowed(text);
            return SplicedText { text, cuts };
        }
        joined.push_str(&text[taken..]);
        SplicedText {
            text: Cow::Owned(joined),
            cuts,
        }
    }

    /// Converts a span of the spliced text to the original text.
    fn original(&self, span: Span) -> Span {
        let cut_before = |pos: u32| {
            let index = self.cuts.partition_point(|(at, _)| *at <= pos);
            self.cuts[..index].last().map_or(0, |(_, bytes)| *bytes)
        };
        Span {
            lo: span.lo + cut_before(span.lo),
            // The end follows from the last byte of the span, so that a removed part after it is not included.
            hi: span.hi + cut_before(span.hi.saturating_sub(1)),
            ..span
        }
    }
}

/// The punctuation of several characters, longest first. `>>` and `>>=` are not tokens: only the parser can tell them from the ends of
/// nested type arguments.
const LONG: [(&str, TokenKind); 26] = [
    ("|+|=", TokenKind::AddSatAssign),
    ("|-|=", TokenKind::SubSatAssign),
    ("&&&", TokenKind::Mask),
    ("...", TokenKind::Dots),
    ("<<=", TokenKind::ShlAssign),
    ("|+|", TokenKind::AddSat),
    ("|-|", TokenKind::SubSat),
    ("{#}", TokenKind::InvalidHeader),
    ("&&", TokenKind::AndAnd),
    ("||", TokenKind::OrOr),
    ("..", TokenKind::Range),
    ("<<", TokenKind::Shl),
    ("<=", TokenKind::Le),
    (">=", TokenKind::Ge),
    ("==", TokenKind::EqEq),
    ("!=", TokenKind::Ne),
    ("++", TokenKind::Concat),
    ("+=", TokenKind::PlusAssign),
    ("-=", TokenKind::MinusAssign),
    ("*=", TokenKind::MulAssign),
    ("/=", TokenKind::DivAssign),
    ("%=", TokenKind::ModAssign),
    ("&=", TokenKind::AndAssign),
    ("|=", TokenKind::OrAssign),
    ("^=", TokenKind::XorAssign),
    ("##", TokenKind::HashHash),
];

/// The bytes that are the second one in [`LONG`]. Most punctuation is followed by another byte, and so needs no search.
const SECOND: [bool; 256] = {
    let mut second = [false; 256];
    let mut index = 0;
    while index < LONG.len() {
        second[LONG[index].0.as_bytes()[1] as usize] = true;
        index += 1;
    }
    second
};

struct Lexer<'a> {
    text: &'a str,
    bytes: &'a [u8],
    pos: usize,
    file: FileId,
    rules: LexicalRules,
    space: bool,
    line: bool,
    open_comment: Option<Span>,
}

impl Lexer<'_> {
    fn new(text: &str, file: FileId, rules: LexicalRules) -> Lexer<'_> {
        Lexer {
            text,
            bytes: text.as_bytes(),
            pos: 0,
            file,
            rules,
            space: false,
            line: true,
            open_comment: None,
        }
    }

    fn tokens(&mut self, names: &mut Interner) -> Vec<Token> {
        let mut tokens = Vec::with_capacity((self.bytes.len() - self.pos) / 6);
        while let Some((kind, lo)) = self.next() {
            let text = match kind {
                TokenKind::Ident
                | TokenKind::Number
                | TokenKind::String
                | TokenKind::OpenString
                | TokenKind::Unknown => &self.text[lo..self.pos],
                _ => kind.as_str(),
            };
            tokens.push(Token {
                kind,
                text: names.intern(text),
                span: Span::new(self.file, lo as u32, self.pos as u32),
                space_before: self.space,
                first_on_line: self.line,
                no_expand: false,
            });
            self.space = false;
            self.line = false;
        }
        tokens
    }

    fn peek(&self, ahead: usize) -> u8 {
        self.bytes.get(self.pos + ahead).copied().unwrap_or(0)
    }

    /// Reads the next token: its kind and start. `pos` is the end of the token afterwards.
    fn next(&mut self) -> Option<(TokenKind, usize)> {
        self.skip_blank();
        let lo = self.pos;
        let first = *self.bytes.get(lo)?;
        let kind = match first {
            b'a'..=b'z' | b'A'..=b'Z' | b'_' => {
                self.skip_word();
                TokenKind::Ident
            }
            b'0'..=b'9' => self.number(),
            b'.' if self.rules == LexicalRules::Preprocessor && self.peek(1).is_ascii_digit() => {
                self.number()
            }
            b'"' => self.string(),
            b'\'' if self.rules == LexicalRules::Preprocessor => self.quoted(),
            _ => self.punctuation(),
        };
        Some((kind, lo))
    }

    fn skip_word(&mut self) {
        while self.peek(0).is_ascii_alphanumeric() || self.peek(0) == b'_' {
            self.pos += 1;
        }
    }

    fn number(&mut self) -> TokenKind {
        if self.rules == LexicalRules::Language {
            self.skip_word();
            return TokenKind::Number;
        }
        loop {
            match self.peek(0) {
                b'+' | b'-' if matches!(self.bytes[self.pos - 1], b'e' | b'E' | b'p' | b'P') => {}
                b'.' | b'_' => {}
                byte if byte.is_ascii_alphanumeric() => {}
                _ => return TokenKind::Number,
            }
            self.pos += 1;
        }
    }

    fn skip_blank(&mut self) {
        loop {
            match self.peek(0) {
                b'\n' => {
                    self.line = true;
                    self.pos += 1;
                }
                b' ' | b'\t' | b'\r' | 0x0b | 0x0c => self.pos += 1,
                b'/' if self.peek(1) == b'/' => self.skip_line_comment(),
                b'/' if self.peek(1) == b'*' => self.skip_block_comment(),
                // A byte-order mark at the start of the file.
                0xef if self.pos == 0 && self.bytes.starts_with(b"\xef\xbb\xbf") => self.pos += 3,
                _ => return,
            }
            self.space = true;
        }
    }

    fn skip_line_comment(&mut self) {
        let rest = &self.text[self.pos..];
        self.pos += rest.find('\n').unwrap_or(rest.len());
    }

    fn skip_block_comment(&mut self) {
        match self.text[self.pos + 2..].find("*/") {
            Some(length) => self.pos += length + 4,
            None => {
                self.open_comment =
                    Some(Span::new(self.file, self.pos as u32, self.pos as u32 + 2));
                self.pos = self.bytes.len();
            }
        }
    }

    fn string(&mut self) -> TokenKind {
        match self.skip_quoted(b'"') {
            true => TokenKind::String,
            false => TokenKind::OpenString,
        }
    }

    /// Reads `'x'`, or an apostrophe with the rest of its line.
    fn quoted(&mut self) -> TokenKind {
        self.skip_quoted(b'\'');
        TokenKind::Unknown
    }

    /// Skips to after the closing quote; without one, to the end of the line. Returns whether there is one.
    fn skip_quoted(&mut self, quote: u8) -> bool {
        self.pos += 1;
        while let Some(byte) = self.bytes.get(self.pos) {
            match byte {
                b'\n' if self.rules == LexicalRules::Preprocessor => return false,
                b'\\' if self.peek(1) != b'\n' => self.pos += 1,
                _ => {}
            }
            self.pos += 1;
            if *byte == quote {
                return true;
            }
        }
        self.pos = self.bytes.len();
        false
    }

    fn punctuation(&mut self) -> TokenKind {
        use TokenKind::*;
        let rest = &self.bytes[self.pos..];
        if SECOND[usize::from(self.peek(1))] {
            let mut long = LONG.iter();
            if let Some((text, kind)) = long.find(|(text, _)| rest.starts_with(text.as_bytes())) {
                self.pos += text.len();
                return *kind;
            }
        }
        let kind = match rest[0] {
            b'(' => LParen,
            b')' => RParen,
            b'[' => LBracket,
            b']' => RBracket,
            b'{' => LBrace,
            b'}' => RBrace,
            b';' => Semicolon,
            b':' => Colon,
            b',' => Comma,
            b'?' => Question,
            b'@' => At,
            b'.' => Dot,
            b'=' => Assign,
            b'+' => Plus,
            b'-' => Minus,
            b'*' => Mul,
            b'/' => Div,
            b'%' => Mod,
            b'<' => Lt,
            b'>' => Gt,
            b'&' => And,
            b'|' => Or,
            b'^' => Xor,
            b'!' => Not,
            b'~' => Tilde,
            b'#' => Hash,
            _ => {
                self.pos += self.text[self.pos..]
                    .chars()
                    .next()
                    .map_or(1, char::len_utf8);
                return Unknown;
            }
        };
        self.pos += 1;
        kind
    }
}
