//! Cuts a file into tokens.
//!
//! The lexer serves the preprocessor: keywords are identifiers still, `#` is a token, and what is wrong becomes a token of its own, since
//! it may lie in a part that `#if` leaves out. White space and comments are flags on the token that follows.

use super::ast::Name;
use super::token::{Token, TokenKind};
use crate::diag::{FileId, Span};
use rustc_hash::FxHashSet;

/// Shares the texts of equal tokens.
#[derive(Debug, Default)]
pub struct Interner(FxHashSet<Name>);

impl Interner {
    /// The shared copy of a text.
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

/// What lexing a file gives.
#[derive(Debug)]
pub struct Lexed {
    /// The tokens, without an end token.
    pub tokens: Vec<Token>,
    /// Where a comment begins that is never closed.
    pub open_comment: Option<Span>,
}

/// Cuts the text of `file` into tokens.
pub fn lex(text: &str, file: FileId, names: &mut Interner) -> Lexed {
    let mut lexer = Lexer {
        text,
        bytes: text.as_bytes(),
        pos: 0,
        file,
        space: false,
        line: true,
        open_comment: None,
    };
    let tokens = lexer.tokens(names);
    Lexed {
        tokens,
        open_comment: lexer.open_comment,
    }
}

/// Cuts what follows `start`, which is not at the start of a line.
pub fn lex_part(text: &str, start: usize, file: FileId, names: &mut Interner) -> Vec<Token> {
    let mut lexer = Lexer {
        text,
        bytes: text.as_bytes(),
        pos: start,
        file,
        space: false,
        line: false,
        open_comment: None,
    };
    lexer.tokens(names)
}

struct Lexer<'a> {
    text: &'a str,
    bytes: &'a [u8],
    pos: usize,
    file: FileId,
    space: bool,
    line: bool,
    open_comment: Option<Span>,
}

impl Lexer<'_> {
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
            b'0'..=b'9' => {
                self.skip_word();
                TokenKind::Number
            }
            b'"' => self.string(),
            _ => self.punctuation(),
        };
        Some((kind, lo))
    }

    fn skip_word(&mut self) {
        while self.peek(0).is_ascii_alphanumeric() || self.peek(0) == b'_' {
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
                b'\\' if self.spliced(0) > 0 => self.pos += self.spliced(0),
                b'/' if self.peek(1) == b'/' => self.skip_line_comment(),
                b'/' if self.peek(1) == b'*' => self.skip_block_comment(),
                // A byte-order mark at the start of the file.
                0xef if self.pos == 0 && self.bytes.starts_with(b"\xef\xbb\xbf") => self.pos += 3,
                _ => return,
            }
            self.space = true;
        }
    }

    /// Length of a backslash with the line end that it hides, 0 when there is none.
    fn spliced(&self, ahead: usize) -> usize {
        match (self.peek(ahead), self.peek(ahead + 1), self.peek(ahead + 2)) {
            (b'\\', b'\n', _) => 2,
            (b'\\', b'\r', b'\n') => 3,
            _ => 0,
        }
    }

    fn skip_line_comment(&mut self) {
        while self.pos < self.bytes.len() && self.peek(0) != b'\n' {
            self.pos += self.spliced(0).max(1);
        }
        self.pos = self.pos.min(self.bytes.len());
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
        self.pos += 1;
        loop {
            match self.peek(0) {
                b'"' => {
                    self.pos += 1;
                    return TokenKind::String;
                }
                b'\\' if self.pos + 1 < self.bytes.len() => self.pos += 2,
                b'\n' => return self.open_string(),
                _ if self.pos >= self.bytes.len() => return self.open_string(),
                _ => self.pos += 1,
            }
            // A backslash may have been followed by a character of several bytes.
            while !self.text.is_char_boundary(self.pos) {
                self.pos += 1;
            }
        }
    }

    fn open_string(&mut self) -> TokenKind {
        self.pos = self.pos.min(self.bytes.len());
        TokenKind::OpenString
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
