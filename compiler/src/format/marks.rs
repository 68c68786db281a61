//! Roles of brackets and operators, derived from the neighbouring tokens. There is no syntax tree, as the text may be a part of a program
//! and contain macros.

use super::nesting::Nesting;
use super::pieces::{Kind, Piece};
use crate::syntax::token::TokenKind::{self, *};

/// The role of a bracket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Bracket {
    /// `(` of a call, of parameters or around an expression; `[`; `<` of type arguments.
    Plain,
    /// The parenthesis of `if`, `for` and similar, which a statement follows.
    Condition,
    /// The parenthesis of an annotation.
    Annotation,
    /// The parenthesis of a cast.
    Cast,
    /// `{` of declarations or statements, each on its own line.
    Block,
    /// `{` of members of an enumeration, or of an expression.
    List,
}

/// The role of a piece, and its links to other pieces.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Mark {
    /// Role of the bracket; `None` for other pieces.
    pub(super) bracket: Option<Bracket>,
    /// Index of the matching bracket.
    pub(super) partner: Option<usize>,
    /// Whether the piece is the colon of `? :`.
    pub(super) ternary: bool,
    /// Whether the piece is a unary operator.
    pub(super) unary: bool,
    /// Whether the piece is a brace of a block that the author wrote on one line and that may stay on one line.
    pub(super) on_one_line: bool,
    /// Index of the previous token, comments skipped.
    pub(super) before: Option<usize>,
}

/// Determines the marks of all pieces; `None` if brackets do not match.
pub(super) fn marks(pieces: &[Piece<'_>]) -> Option<Vec<Mark>> {
    let mut marks = vec![Mark::default(); pieces.len()];
    let mut before = None;
    for (mark, (at, piece)) in marks.iter_mut().zip(pieces.iter().enumerate()) {
        mark.before = before;
        if matches!(piece.kind, Kind::Token(_)) {
            before = Some(at);
        }
    }
    let separators = vec![Separators::default(); pieces.len()];
    let mut finder = MarkFinder {
        pieces,
        marks,
        separators,
    };
    if !finder.pair() {
        return None;
    }
    finder.find_separators();
    finder.type_arguments();
    finder.brackets();
    finder.signs();
    Some(finder.marks)
}

/// The token kind of a piece; `None` for comments and directives.
pub(super) fn token(piece: &Piece<'_>) -> Option<TokenKind> {
    match piece.kind {
        Kind::Token(kind) => Some(kind),
        _ => None,
    }
}

/// Precedence of a binary operator; operators with a larger number bind tighter. `None` for other tokens.
pub(super) fn precedence(kind: TokenKind) -> Option<u32> {
    let rank = match kind {
        Question => 1,
        OrOr => 2,
        AndAnd => 3,
        EqEq | Ne | Lt | Gt | Le | Ge => 4,
        Or => 5,
        Xor => 6,
        And => 7,
        Mask | Range => 8,
        Shl => 9,
        Plus | Minus | AddSat | SubSat | Concat => 10,
        Mul | Div | Mod => 11,
        _ => return None,
    };
    Some(rank)
}

/// Whether the token is `=` or a compound assignment such as `+=`.
pub(super) fn is_assignment(kind: TokenKind) -> bool {
    kind == Assign || kind.compound_assignment().is_some()
}

fn is_type_word(kind: TokenKind) -> bool {
    matches!(
        kind,
        Bit | Int | Varbit | Bool | Error | StringType | Tuple | List | ValueSet | Void
    )
}

/// Maximum number of pieces in type arguments.
const MAX_ARGUMENT_PIECES: usize = 400;

struct MarkFinder<'a, 'b> {
    pieces: &'a [Piece<'b>],
    marks: Vec<Mark>,
    /// For each opening bracket, by index of its piece, the separators within it.
    separators: Vec<Separators>,
}

/// The separators within a pair of brackets, which tell blocks from lists.
#[derive(Clone, Copy, Debug, Default)]
struct Separators {
    /// Whether there is a `;` at any depth.
    semicolon: bool,
    /// Whether there is a `,` outside inner brackets.
    comma: bool,
}

impl MarkFinder<'_, '_> {
    fn token(&self, at: usize) -> Option<TokenKind> {
        token(self.pieces.get(at)?)
    }

    fn before(&self, at: usize) -> Option<TokenKind> {
        self.token(self.marks[at].before?)
    }

    /// Matches the brackets; returns false if they do not match. Each branch of `#if` starts with the brackets that were open before it.
    fn pair(&mut self) -> bool {
        let mut open: Nesting<usize> = Nesting::default();
        let mut conditions = Nesting::default();
        for at in 0..self.pieces.len() {
            if self.pieces[at].kind == Kind::Directive {
                follow_condition(self.pieces[at].text, &mut open, &mut conditions);
                continue;
            }
            let wanted = match self.token(at) {
                Some(LParen | LBracket | LBrace) => {
                    open.push(at);
                    continue;
                }
                Some(RParen) => LParen,
                Some(RBracket) => LBracket,
                Some(RBrace) => LBrace,
                _ => continue,
            };
            match open.last_mut().copied() {
                Some(partner) if self.token(partner) == Some(wanted) => {
                    self.marks[at].partner = Some(partner);
                    self.marks[partner].partner = Some(at);
                }
                _ => return false,
            }
            open.pop();
        }
        open.len() == 0
    }

    /// Marks the `<` and `>` that are brackets of type arguments, not comparisons.
    fn type_arguments(&mut self) {
        for at in 0..self.pieces.len() {
            if self.token(at) != Some(Lt) || self.marks[at].bracket.is_some() {
                continue;
            }
            let sure = match self.before(at) {
                Some(kind) if is_type_word(kind) => true,
                Some(Ident) => {
                    self.marks[at].before.and_then(|name| self.before(name)) == Some(Typedef)
                }
                _ => continue,
            };
            if let Some(pairs) = self.arguments_from(at, sure) {
                for (open, close) in pairs {
                    for (end, partner) in [(open, close), (close, open)] {
                        self.marks[end].bracket = Some(Bracket::Plain);
                        self.marks[end].partner = Some(partner);
                    }
                }
            }
        }
    }

    /// The pairs of brackets that begin with the `<` at `begin`; `None` if they are not type arguments. `sure`: the preceding token shows
    /// that they are.
    fn arguments_from(&self, begin: usize, sure: bool) -> Option<Vec<(usize, usize)>> {
        let (mut open, mut pairs) = (Vec::new(), Vec::new());
        let (mut has_type, mut several) = (sure, false);
        let mut at = begin;
        let mut seen = 0;
        loop {
            seen += 1;
            if seen > MAX_ARGUMENT_PIECES {
                return None;
            }
            match self.token(at) {
                None if at < self.pieces.len() => {}
                Some(Lt) => open.push(at),
                Some(Gt) => {
                    pairs.push((open.pop()?, at));
                    if open.is_empty() {
                        break;
                    }
                }
                Some(LParen) => at = self.marks[at].partner?,
                Some(Comma) => several = true,
                Some(Underscore) => has_type = true,
                Some(Ident) => has_type |= looks_like_type(self.pieces[at].text),
                Some(Number | Dot) => {}
                Some(kind) if is_type_word(kind) => has_type = true,
                Some(Plus | Minus | Mul | Div | Shl) if sure => {}
                _ => return None,
            }
            at += 1;
        }
        let follows = (at + 1..self.pieces.len()).find_map(|next| self.token(next));
        let likely = match follows {
            Some(LParen) => has_type || !several,
            Some(Ident | Comma | RParen | Gt | Semicolon | LBrace) => has_type,
            _ => sure,
        };
        (sure || likely).then_some(pairs)
    }

    /// Finds the separators within each pair of brackets.
    fn find_separators(&mut self) {
        let mut open: Vec<usize> = Vec::new();
        for at in 0..self.pieces.len() {
            match self.token(at) {
                Some(LBrace | LParen | LBracket) if self.marks[at].partner.is_some() => {
                    open.push(at);
                }
                Some(RBrace | RParen | RBracket) => {
                    // Each branch of an `#if` may close the same bracket, so a bracket may be closed several times.
                    let Some(begin) = self.marks[at].partner else {
                        continue;
                    };
                    while let Some(inner) = open.last().copied().filter(|inner| *inner >= begin) {
                        open.pop();
                        let semicolon = self.separators[inner].semicolon;
                        if let Some(outer) = open.last() {
                            self.separators[*outer].semicolon |= semicolon;
                        }
                    }
                }
                Some(Semicolon) => {
                    if let Some(inner) = open.last() {
                        self.separators[*inner].semicolon = true;
                    }
                }
                Some(Comma) => {
                    if let Some(inner) = open.last() {
                        self.separators[*inner].comma = true;
                    }
                }
                _ => {}
            }
        }
    }

    fn brackets(&mut self) {
        for at in 0..self.pieces.len() {
            let bracket = match self.token(at) {
                Some(LParen) => self.parenthesis(at),
                Some(LBracket) => Bracket::Plain,
                Some(LBrace) => self.brace(at),
                _ => continue,
            };
            self.marks[at].bracket = Some(bracket);
            if let Some(partner) = self.marks[at].partner {
                self.marks[partner].bracket = Some(bracket);
                if bracket == Bracket::Block {
                    let on_one_line = self.may_stay_on_one_line(at, partner);
                    self.marks[at].on_one_line = on_one_line;
                    self.marks[partner].on_one_line = on_one_line;
                }
            }
        }
    }

    fn parenthesis(&self, at: usize) -> Bracket {
        let Some(before) = self.marks[at].before else {
            return Bracket::Plain;
        };
        let kind = self.token(before);
        if matches!(kind, Some(If | For)) {
            return Bracket::Condition;
        }
        if self.before(before) == Some(At) {
            return Bracket::Annotation;
        }
        let closed_by = self.marks[at].partner;
        let follows = closed_by.and_then(|close| self.token(close + 1));
        let inner = self.token(at + 1);
        let is_cast = self.operand_follows(before)
            && match follows {
                Some(
                    Ident | Number | String | LParen | LBrace | InvalidHeader | Tilde | Not | True
                    | False | Error,
                ) => true,
                Some(Minus | Plus) => inner.is_some_and(is_type_word),
                _ => false,
            };
        match is_cast {
            true => Bracket::Cast,
            false => Bracket::Plain,
        }
    }

    /// Whether an operand, not an operator, follows the token `at`.
    fn operand_follows(&self, at: usize) -> bool {
        match self.token(at) {
            Some(RParen) => self.marks[at].bracket == Some(Bracket::Cast),
            Some(Gt) => self.marks[at].bracket.is_none(),
            Some(
                LParen | LBracket | LBrace | Comma | Semicolon | Colon | Question | Return | Not
                | Tilde | In | Else | Dots | RBrace | At | Hash | HashHash,
            ) => true,
            Some(kind) => precedence(kind).is_some() || is_assignment(kind),
            None => true,
        }
    }

    fn brace(&self, at: usize) -> Bracket {
        let before = self.before(at);
        let list_before = matches!(
            before,
            Some(Assign | LParen | Comma | Return | EqEq | Ne | LBrace | RParen)
        ) && self.marks[at].before.is_none_or(|before| {
            self.token(before) != Some(RParen) || self.marks[before].bracket == Some(Bracket::Cast)
        });
        let inside = self.separators[at];
        if self.marks[at].partner.is_none() || inside.semicolon {
            return Bracket::Block;
        }
        match list_before || inside.comma || self.is_enumeration(at) {
            true => Bracket::List,
            false => Bracket::Block,
        }
    }

    /// Whether the brace `at` follows the head of an enumeration: `enum bit<8> NAME`, `error` or `match_kind`.
    fn is_enumeration(&self, at: usize) -> bool {
        let mut place = at;
        while let Some(before) = self.marks[place].before {
            match self.token(before) {
                Some(Enum | Error | MatchKind) => return true,
                Some(Ident | Bit | Int | Lt | Gt | Number) => place = before,
                _ => return false,
            }
        }
        false
    }

    /// Whether the braces at `open` and `close` may stay on one line: braces of a table property, or of a block of at
    /// most one statement.
    fn may_stay_on_one_line(&self, open: usize, close: usize) -> bool {
        let inside = &self.pieces[open + 1..close];
        let is_property = self.before(open) == Some(Assign);
        let statements = || {
            let semicolons = inside
                .iter()
                .filter(|piece| token(piece) == Some(Semicolon));
            semicolons.count()
        };
        // Count the statements last, so that only innermost braces are traversed and the cost is linear.
        !inside.is_empty()
            && self.pieces[close].newlines == 0
            && inside.iter().all(|piece| {
                piece.newlines == 0
                    && !matches!(
                        token(piece),
                        None | Some(LBrace | RBrace | Unknown | OpenString | Hash)
                    )
            })
            && (is_property || statements() <= 1)
    }

    fn signs(&mut self) {
        // For each open bracket, the number of `?` without their colons so far.
        let mut waiting: Vec<usize> = vec![0];
        for at in 0..self.pieces.len() {
            match self.token(at) {
                Some(LParen | LBracket | LBrace) => waiting.push(0),
                Some(RParen | RBracket | RBrace) if waiting.len() > 1 => drop(waiting.pop()),
                Some(Semicolon) => *waiting.last_mut().expect("one stays") = 0,
                Some(Question) => *waiting.last_mut().expect("one stays") += 1,
                Some(Colon) => {
                    let open = waiting.last_mut().expect("one stays");
                    if *open > 0 {
                        *open -= 1;
                        self.marks[at].ternary = true;
                    }
                }
                Some(Minus | Plus) => {
                    self.marks[at].unary = self.marks[at]
                        .before
                        .is_none_or(|before| self.operand_follows(before));
                }
                Some(Not | Tilde) => self.marks[at].unary = true,
                _ => {}
            }
        }
    }
}

/// Updates the stack of open brackets at a directive: each branch of an `#if` starts with the brackets that were open before the `#if`.
pub(super) fn follow_condition<T: Clone>(
    line: &str,
    open: &mut Nesting<T>,
    conditions: &mut Nesting<Nesting<T>>,
) {
    let words = line.trim_start().trim_start_matches('#').trim_start();
    let word: std::string::String = words
        .chars()
        .take_while(char::is_ascii_alphabetic)
        .collect();
    match word.as_str() {
        "if" | "ifdef" | "ifndef" => conditions.push(open.clone()),
        "else" | "elif" | "elifdef" | "elifndef" => {
            if let Some(before) = conditions.last_mut() {
                open.clone_from(before);
            }
        }
        "endif" => conditions.pop(),
        _ => {}
    }
}

/// Whether a name looks like a type by convention: `port_t`, `H`.
fn looks_like_type(name: &str) -> bool {
    name.ends_with("_t") || name.len() == 1 && name.chars().all(|c| c.is_ascii_uppercase())
}
