//! Roles of brackets and operators, derived from the neighbouring tokens, as the text may be a part of a program and contain macros.

use super::nesting::Nesting;
use super::pieces::{Kind, Piece};
use crate::syntax::token::TokenKind::{self, *};

/// Roles of brackets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Bracket {
    /// `(` of a call, of parameters, or around an expression; `[`; `<` of type arguments.
    Plain,
    /// The parenthesis of `if`, `for` and similar, which a statement follows.
    Condition,
    /// The parenthesis of an annotation.
    Annotation,
    /// The parenthesis of a cast.
    Cast,
    /// `{` of declarations or statements, one a line.
    Block,
    /// `{` of members of an enumeration, or of an expression.
    List,
}

/// The context of a piece.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Mark {
    /// Role of the bracket that it opens or closes.
    pub(super) bracket: Option<Bracket>,
    /// The matching bracket.
    pub(super) partner: Option<usize>,
    /// A colon of `? :`.
    pub(super) ternary: bool,
    /// A unary operator.
    pub(super) unary: bool,
    /// A block that the author wrote on one line, and that may stay so.
    pub(super) on_one_line: bool,
    /// The previous token, without comments.
    pub(super) before: Option<usize>,
}

/// The marks of all pieces; `None` if brackets do not match.
pub(super) fn marks(pieces: &[Piece<'_>]) -> Option<Vec<Mark>> {
    let mut marks = vec![Mark::default(); pieces.len()];
    let mut before = None;
    for (mark, (at, piece)) in marks.iter_mut().zip(pieces.iter().enumerate()) {
        mark.before = before;
        if matches!(piece.kind, Kind::Token(_)) {
            before = Some(at);
        }
    }
    let inside = vec![Inside::default(); pieces.len()];
    let mut finder = Finder {
        pieces,
        marks,
        inside,
    };
    if !finder.pair() {
        return None;
    }
    finder.look_inside();
    finder.type_arguments();
    finder.brackets();
    finder.signs();
    Some(finder.marks)
}

/// The kind of a piece that is a token.
pub(super) fn token(piece: &Piece<'_>) -> Option<TokenKind> {
    match piece.kind {
        Kind::Token(kind) => Some(kind),
        _ => None,
    }
}

/// Precedence of a binary operator, the weakest first.
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

/// `=` and its relatives.
pub(super) fn is_assignment(kind: TokenKind) -> bool {
    kind == Assign || kind.compound_assignment().is_some()
}

fn is_type_word(kind: TokenKind) -> bool {
    matches!(
        kind,
        Bit | Int | Varbit | Bool | Error | StringType | Tuple | List | ValueSet | Void
    )
}

/// Pieces that type arguments may have.
const MOST_OF_ARGUMENTS: usize = 400;

struct Finder<'a, 'b> {
    pieces: &'a [Piece<'b>],
    marks: Vec<Mark>,
    /// Roles of braces, determined by the preceding tokens.
    inside: Vec<Inside>,
}

/// The role of a pair of braces.
#[derive(Clone, Copy, Debug, Default)]
struct Inside {
    /// A `;`, however deep.
    semicolon: bool,
    /// A `,` in no bracket of its own.
    comma: bool,
}

impl Finder<'_, '_> {
    fn token(&self, at: usize) -> Option<TokenKind> {
        token(self.pieces.get(at)?)
    }

    fn before(&self, at: usize) -> Option<TokenKind> {
        self.token(self.marks[at].before?)
    }

    /// Matches the brackets. Each branch of `#if` starts with the brackets that were open before it.
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

    /// Finds `<` and `>` that are brackets, not comparisons.
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

    /// The brackets from the `<` at a position on, if they are type arguments.
    fn arguments_from(&self, begin: usize, sure: bool) -> Option<Vec<(usize, usize)>> {
        let (mut open, mut pairs) = (Vec::new(), Vec::new());
        let (mut has_type, mut several) = (sure, false);
        let mut at = begin;
        let mut seen = 0;
        loop {
            seen += 1;
            if seen > MOST_OF_ARGUMENTS {
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

    /// Finds what stands in braces, each with its partner.
    fn look_inside(&mut self) {
        let mut open: Vec<usize> = Vec::new();
        for at in 0..self.pieces.len() {
            match self.token(at) {
                Some(LBrace | LParen | LBracket) if self.marks[at].partner.is_some() => {
                    open.push(at);
                }
                Some(RBrace | RParen | RBracket) => {
                    // Branches of `#if` may close what was opened before them, each once more.
                    let Some(begin) = self.marks[at].partner else {
                        continue;
                    };
                    while let Some(inner) = open.last().copied().filter(|inner| *inner >= begin) {
                        open.pop();
                        let semicolon = self.inside[inner].semicolon;
                        if let Some(outer) = open.last() {
                            self.inside[*outer].semicolon |= semicolon;
                        }
                    }
                }
                Some(Semicolon) => {
                    if let Some(inner) = open.last() {
                        self.inside[*inner].semicolon = true;
                    }
                }
                Some(Comma) => {
                    if let Some(inner) = open.last() {
                        self.inside[*inner].comma = true;
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

    /// Whether an operand, not an operator, follows the token at a position.
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
        let inside = self.inside[at];
        if self.marks[at].partner.is_none() || inside.semicolon {
            return Bracket::Block;
        }
        match list_before || inside.comma || self.is_enumeration(at) {
            true => Bracket::List,
            false => Bracket::Block,
        }
    }

    /// `enum bit<8> NAME {`, `error {`, `match_kind {`
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

    /// Table properties, and blocks of a single statement.
    fn may_stay_on_one_line(&self, open: usize, close: usize) -> bool {
        let inside = &self.pieces[open + 1..close];
        let is_property = self.before(open) == Some(Assign);
        let statements = || {
            let semicolons = inside
                .iter()
                .filter(|piece| token(piece) == Some(Semicolon));
            semicolons.count()
        };
        // Counted last, so that it is done in innermost braces alone.
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
        // For each open bracket, the `?` that wait for their colons.
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

/// Updates `open` for branches of `#if`: each starts with the brackets that were open before the first.
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

/// Whether a name follows the conventions of types: `port_t`, `H`.
fn looks_like_type(name: &str) -> bool {
    name.ends_with("_t") || name.len() == 1 && name.chars().all(|c| c.is_ascii_uppercase())
}
