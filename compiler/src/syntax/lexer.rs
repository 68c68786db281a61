//! The lexer: splits a file into tokens.
//!
//! It serves the preprocessor: keywords are still identifiers, and `#` is a token. Invalid text becomes a token of its own kind, as an `#if`
//! may remove it. White space and comments are flags of the following token.

use super::ast::Name;
use super::token::{Token, TokenKind};
use crate::diag::{FileId, Span};
use rustc_hash::FxHashSet;
use std::borrow::Cow;

/// Interner: equal tokens share one text.
#[derive(Debug, Default)]
pub struct Interner(FxHashSet<Name>);

impl Interner {
    /// The interned copy of a text.
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
    /// Start of a comment that is not closed.
    pub open_comment: Option<Span>,
}

/// Rules for the end of apostrophes and numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rules {
    /// As `cpp -x assembler-with-cpp` has it: what stands between apostrophes, or behind one that is not closed on its line, is one
    /// token in which nothing is a macro; so is `0..N`, which C would call a number.
    Preprocessor,
    /// The rules of the P4 grammar.
    Language,
}

/// Splits the text of `file` into tokens of the preprocessor. A line that ends in a backslash is joined with the next.
pub fn lex(text: &str, file: FileId, names: &mut Interner) -> Lexed {
    let joined = Joined::new(text);
    let mut lexer = Lexer::new(&joined.text, file, Rules::Preprocessor);
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

/// Splits a token of the preprocessor into tokens of P4, with positions relative to its start. A string may span lines.
pub fn lex_language(text: &str, names: &mut Interner) -> Vec<Token> {
    let mut lexer = Lexer::new(text, FileId::default(), Rules::Language);
    lexer.line = false;
    lexer.tokens(names)
}

/// A text without the line ends that a backslash hides, blanks between the two included, and without the carriage returns before
/// other line ends.
struct Joined<'a> {
    text: Cow<'a, str>,
    /// Where in `text` something was cut out, and how many bytes have been up to there, in order.
    cuts: Vec<(u32, u32)>,
}

impl Joined<'_> {
    fn new(text: &str) -> Joined<'_> {
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
            return Joined { text, cuts };
        }
        joined.push_str(&text[taken..]);
        Joined {
            text: Cow::Owned(joined),
            cuts,
        }
    }

    /// Where it stands in the original text.
    fn original(&self, span: Span) -> Span {
        let cut_before = |pos: u32| {
            let index = self.cuts.partition_point(|(at, _)| *at <= pos);
            self.cuts[..index].last().map_or(0, |(_, bytes)| *bytes)
        };
        Span {
            lo: span.lo + cut_before(span.lo),
            // Its last byte counts, not what is cut out behind that.
            hi: span.hi + cut_before(span.hi.saturating_sub(1)),
            ..span
        }
    }
}

struct Lexer<'a> {
    text: &'a str,
    bytes: &'a [u8],
    pos: usize,
    file: FileId,
    rules: Rules,
    space: bool,
    line: bool,
    open_comment: Option<Span>,
}

impl Lexer<'_> {
    fn new(text: &str, file: FileId, rules: Rules) -> Lexer<'_> {
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

    /// Kind and start of the next token; `pos` is then after it.
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
            b'.' if self.rules == Rules::Preprocessor && self.peek(1).is_ascii_digit() => {
                self.number()
            }
            b'"' => self.string(),
            b'\'' if self.rules == Rules::Preprocessor => self.quoted(),
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
        if self.rules == Rules::Language {
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
        let rest = &self.bytes[self.pos..];
        self.pos += rest
            .iter()
            .position(|byte| *byte == b'\n')
            .unwrap_or(rest.len());
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

    /// `'x'`, or an apostrophe with the rest of its line.
    fn quoted(&mut self) -> TokenKind {
        self.skip_quoted(b'\'');
        TokenKind::Unknown
    }

    /// Moves after the closing quote, or to the end of the line if there is none.
    fn skip_quoted(&mut self, quote: u8) -> bool {
        self.pos += 1;
        while let Some(byte) = self.bytes.get(self.pos) {
            match byte {
                b'\n' if self.rules == Rules::Preprocessor => return false,
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
        // Longest first. `>>` and `>>=` are left to the parser, which knows whether type arguments are open.
        const LONG: &[(&str, TokenKind)] = &[
            ("|+|=", AddSatAssign),
            ("|-|=", SubSatAssign),
            ("&&&", Mask),
            ("...", Dots),
            ("<<=", ShlAssign),
            ("|+|", AddSat),
            ("|-|", SubSat),
            ("{#}", InvalidHeader),
            ("&&", AndAnd),
            ("||", OrOr),
            ("..", Range),
            ("<<", Shl),
            ("<=", Le),
            (">=", Ge),
            ("==", EqEq),
            ("!=", Ne),
            ("++", Concat),
            ("+=", PlusAssign),
            ("-=", MinusAssign),
            ("*=", MulAssign),
            ("/=", DivAssign),
            ("%=", ModAssign),
            ("&=", AndAssign),
            ("|=", OrAssign),
            ("^=", XorAssign),
            ("##", HashHash),
        ];
        let rest = &self.bytes[self.pos..];
        if let Some((text, kind)) = LONG
            .iter()
            .find(|(text, _)| rest.starts_with(text.as_bytes()))
        {
            self.pos += text.len();
            return *kind;
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
