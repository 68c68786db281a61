//! Layout: arranges the pieces of a text in lines.

use std::cell::Cell;

use super::marks::{follow_condition, is_assignment, marks, precedence, token, Bracket, Mark};
use super::nesting::Nesting;
use super::pieces::{Kind, Piece};
use super::{without_carriage_returns, INDENT, LINE_WIDTH, MAX_INDENT};
use crate::syntax::token::TokenKind::{self, *};

/// Arranges the pieces of a text in lines; `None` if brackets do not match.
pub(super) fn layout(pieces: &[Piece<'_>]) -> Option<std::string::String> {
    layout_by(pieces).map(|layout| layout.out)
}

/// Number of times that a piece is placed on a line: the cost of a layout, for tests.
#[cfg(test)]
pub(super) fn work(pieces: &[Piece<'_>]) -> Option<usize> {
    layout_by(pieces).map(|layout| layout.placements.get())
}

fn layout_by<'a, 'b>(pieces: &'a [Piece<'b>]) -> Option<Layout<'a, 'b>> {
    let mut layout = Layout {
        pieces,
        marks: marks(pieces)?,
        breaks: vec![false; pieces.len()],
        out: std::string::String::with_capacity(
            pieces.iter().map(|piece| piece.text.len() + 2).sum(),
        ),
        placements: Cell::new(0),
    };
    let mut state = State::default();
    let mut at = 0;
    while at < pieces.len() {
        at = layout.line(at, &mut state);
    }
    Some(layout)
}

/// Number of pieces beyond the maximum width of a line that are searched for a block to split into lines.
const MAX_BEYOND: usize = 32;

/// White space between two pieces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Gap {
    None,
    Space,
    /// The gap before a comment at the end of a line, in blanks: two, or more to align comments.
    Comment(usize),
    Line,
    BlankLine,
}

/// An open bracket, and the layout of the text within it.
#[derive(Clone, Debug)]
struct OpenBracket {
    bracket: Bracket,
    /// Indentation of lines within the bracket, in columns.
    inner: usize,
    /// Indentation of a line that begins with the closing bracket, in columns.
    close: usize,
    /// Indentation of the current statement of a block, in columns.
    statement: usize,
    /// Number of enclosing statements without braces whose body is the next line.
    bodies: usize,
    /// Whether the bracket is a block on one line.
    on_one_line: bool,
    /// Whether the opening bracket is the last token of its line.
    broken: bool,
}

impl OpenBracket {
    /// The outermost level: the file itself.
    const FILE: OpenBracket = OpenBracket {
        bracket: Bracket::Block,
        inner: 0,
        close: 0,
        statement: 0,
        bodies: 0,
        on_one_line: false,
        broken: true,
    };
}

#[derive(Clone, Debug, Default)]
struct State {
    open: Nesting<OpenBracket>,
    conditions: Nesting<Nesting<OpenBracket>>,
    file: Option<OpenBracket>,
}

impl State {
    fn top(&mut self) -> &mut OpenBracket {
        match self.open.last_mut() {
            Some(open) => open,
            None => self.file.get_or_insert(OpenBracket::FILE),
        }
    }
}

struct Layout<'a, 'b> {
    pieces: &'a [Piece<'b>],
    marks: Vec<Mark>,
    /// For each piece, whether a long line is broken before it.
    breaks: Vec<bool>,
    out: std::string::String,
    /// Number of times that a piece was placed on a line.
    placements: Cell<usize>,
}

impl Layout<'_, '_> {
    fn token(&self, at: usize) -> Option<TokenKind> {
        token(&self.pieces[at])
    }

    /// Writes the line that begins with piece `begin`; returns the index of the first piece after the line.
    fn line(&mut self, begin: usize, state: &mut State) -> usize {
        if begin > 0 && self.gap(begin, state) == Gap::BlankLine {
            self.out.push('\n');
        }
        loop {
            let mut after = state.clone();
            let mut text = std::string::String::new();
            let mut line = Line::default();
            let end = self.compose(begin, &mut after, &mut text, &mut line);
            if line.width > LINE_WIDTH {
                if let Some(block) = line.block_on_one_line {
                    self.split_block(block);
                    continue;
                }
                if let Some(at) = line.best_break() {
                    // A break that is set but takes no effect, as within a run of semicolons in parentheses, leaves the line long.
                    if !std::mem::replace(&mut self.breaks[at], true) {
                        continue;
                    }
                }
            }
            self.out.push_str(&text);
            self.out.push('\n');
            *state = after;
            return end;
        }
    }

    fn split_block(&mut self, open: usize) {
        self.marks[open].on_one_line = false;
        if let Some(partner) = self.marks[open].partner {
            self.marks[partner].on_one_line = false;
        }
    }

    /// Composes the line that begins with piece `begin` into `text`; returns the index of the first piece after it. Stops early if the
    /// line is too long and must be broken.
    fn compose(
        &self,
        begin: usize,
        state: &mut State,
        text: &mut std::string::String,
        line: &mut Line,
    ) -> usize {
        let indent = self.indentation(begin, state).min(INDENT * MAX_INDENT);
        let (mut column, mut beyond) = (0, 0);
        let mut at = begin;
        loop {
            let piece = &self.pieces[at];
            let gap = match at == begin {
                true => Gap::Line,
                false => self.gap(at, state),
            };
            let blanks = match gap {
                Gap::Line | Gap::BlankLine if at > begin => return at,
                Gap::Line | Gap::BlankLine if piece.kind == Kind::Directive => 0,
                Gap::Line | Gap::BlankLine => indent,
                Gap::None => 0,
                Gap::Space => 1,
                Gap::Comment(blanks) => blanks,
            };
            line.offer_break(self, at, begin, column, state);
            text.extend(std::iter::repeat_n(' ', blanks));
            column += blanks;
            self.write(piece, indent, &mut column, text);
            if !matches!(
                piece.kind,
                Kind::LineComment | Kind::Directive | Kind::Pragma | Kind::BlockComment
            ) {
                line.width = column;
            }
            self.follow(at, indent, column, state);
            self.placements.set(self.placements.get() + 1);
            if self.marks[at].on_one_line && self.token(at) == Some(LBrace) {
                line.block_on_one_line.get_or_insert(at);
            }
            at += 1;
            if at == self.pieces.len() {
                return at;
            }
            // Stop once the place to break the line is decided; the caller composes it again.
            if line.width > LINE_WIDTH {
                beyond += 1;
                let decided = line.block_on_one_line.is_some() || beyond > MAX_BEYOND;
                if decided && (line.block_on_one_line.is_some() || line.best.is_some()) {
                    return at;
                }
            }
        }
    }

    fn write(
        &self,
        piece: &Piece<'_>,
        indent: usize,
        column: &mut usize,
        text: &mut std::string::String,
    ) {
        let mut lines = piece.text.split('\n');
        let first = lines.next().unwrap_or_default();
        let first = without_carriage_returns(first);
        text.push_str(first);
        *column += first.chars().count();
        let rest: Vec<&str> = lines.collect();
        let starred = piece.kind == Kind::BlockComment
            && rest.iter().all(|line| line.trim_start().starts_with('*'));
        for line in rest {
            let line = without_carriage_returns(line);
            text.push('\n');
            let line = match piece.kind {
                Kind::BlockComment => line.trim_end(),
                _ => line,
            };
            if starred {
                text.extend(std::iter::repeat_n(' ', indent + 1));
                text.push_str(line.trim_start());
                *column = indent + 1 + line.trim_start().chars().count();
            } else {
                text.push_str(line);
                *column = line.chars().count();
            }
        }
    }

    /// Indentation of a line that begins with piece `at`, in columns.
    fn indentation(&self, at: usize, state: &mut State) -> usize {
        let mark = self.marks[at];
        let closes =
            matches!(self.token(at), Some(RParen | RBracket | RBrace)) && mark.partner.is_some();
        let continues = self.continues(at);
        let top = state.top();
        if closes {
            return top.close;
        }
        if top.bracket != Bracket::Block {
            return top.inner;
        }
        if continues {
            return top.statement + INDENT;
        }
        if self.token(at) == Some(LBrace) {
            top.bodies = 0;
        }
        let indent = top.inner + INDENT * top.bodies;
        if self.token(at).is_some() || self.pieces[at].kind == Kind::Pragma {
            top.statement = indent;
        }
        indent
    }

    /// Whether piece `at` continues the statement of the previous line.
    fn continues(&self, at: usize) -> bool {
        let operator = |at: usize| {
            self.marks[at].bracket.is_none()
                && self.token(at).is_some_and(|kind| {
                    precedence(kind).is_some() || is_assignment(kind) || matches!(kind, Dot | Comma)
                })
        };
        let before = self.marks[at].before;
        let by_this = self.token(at).is_some() && operator(at) && !self.marks[at].unary
            || self.marks[at].ternary;
        before.is_some_and(|before| operator(before) || self.marks[before].ternary || by_this)
    }

    /// The gap before piece `at`.
    fn gap(&self, at: usize, state: &mut State) -> Gap {
        let (before, piece) = (&self.pieces[at - 1], &self.pieces[at]);
        let opens_block = |at: usize| {
            self.token(at) == Some(LBrace) && self.marks[at].bracket == Some(Bracket::Block)
        };
        let behind_opening = opens_block(at - 1);
        let line = match piece.newlines > 1 && !behind_opening && self.token(at) != Some(RBrace) {
            true => Gap::BlankLine,
            false => Gap::Line,
        };
        let own_line = piece.newlines > 0;
        if matches!(
            before.kind,
            Kind::Directive | Kind::LineComment | Kind::Pragma
        ) {
            return line;
        }
        match piece.kind {
            Kind::LineComment if own_line => return line,
            Kind::LineComment => return Gap::Comment(piece.blanks.max(2)),
            Kind::Directive | Kind::BlockComment if own_line => return line,
            Kind::Directive => return Gap::Space,
            Kind::BlockComment if piece.space => return Gap::Space,
            Kind::BlockComment => return Gap::None,
            Kind::Pragma if own_line => return line,
            Kind::Pragma | Kind::Token(_) => {}
        }
        if before.kind == Kind::BlockComment {
            return match () {
                () if own_line => line,
                () if piece.space && !matches!(self.token(at), Some(Semicolon | Comma)) => {
                    Gap::Space
                }
                () => Gap::None,
            };
        }
        let structural = self.structural_gap(at, line, state);
        structural.unwrap_or_else(|| {
            let space = match self.has_space(at, state) || would_join(before.text, piece.text) {
                true => Gap::Space,
                false => Gap::None,
            };
            match self.breaks[at] || own_line && self.may_begin_line(at, state) {
                true if state.top().bracket == Bracket::Block => line,
                true => Gap::Line,
                false => space,
            }
        })
    }

    /// The gap before piece `at` if blocks and statements determine it; `None` within statements.
    fn structural_gap(&self, at: usize, line: Gap, state: &mut State) -> Option<Gap> {
        let (before, kind) = (self.token(at - 1)?, self.token(at)?);
        let (behind, mark) = (self.marks[at - 1], self.marks[at]);
        let is_block = |mark: Mark| mark.bracket == Some(Bracket::Block);
        if before == LBrace && is_block(behind) {
            return Some(match () {
                () if kind == RBrace && mark.partner == Some(at - 1) => Gap::None,
                () if behind.on_one_line => Gap::Space,
                () => Gap::Line,
            });
        }
        if kind == RBrace && is_block(mark) {
            return Some(match mark.on_one_line {
                true => Gap::Space,
                false => Gap::Line,
            });
        }
        if before == RBrace && is_block(behind) && behind.partner.is_some() {
            return Some(match kind {
                Else => Gap::Space,
                Semicolon | Comma | RParen => Gap::None,
                // The name after `}` in `typedef struct { ... } name;`.
                Ident if self.next_token(at) == Some(Semicolon) => Gap::Space,
                _ => line,
            });
        }
        let top = state.top();
        if kind == Semicolon {
            return Some(Gap::None);
        }
        if before == Semicolon {
            return Some(match top.bracket == Bracket::Block && !top.on_one_line {
                true => line,
                false => Gap::Space,
            });
        }
        let pulls_up =
            kind == LBrace && is_block(mark) && before != Colon && top.bracket == Bracket::Block;
        pulls_up.then_some(Gap::Space)
    }

    /// Whether a line break of the author before piece `at` is kept.
    fn may_begin_line(&self, at: usize, state: &mut State) -> bool {
        let (before, kind) = (self.token(at - 1), self.token(at));
        match kind {
            Some(Comma) => false,
            Some(LParen) => self.has_space(at, state),
            Some(RParen | RBracket) => state.top().broken,
            Some(Hash | HashHash | Unknown) => false,
            _ => !matches!(before, Some(At | Hash | HashHash)) && !self.marks[at - 1].unary,
        }
    }

    /// Whether there is a blank between the tokens `at - 1` and `at` of a line.
    fn has_space(&self, at: usize, state: &mut State) -> bool {
        let (Some(before), Some(kind)) = (self.token(at - 1), self.token(at)) else {
            return true;
        };
        let (behind, mark) = (self.marks[at - 1], self.marks[at]);
        let (piece, is_angle) = (&self.pieces[at], |mark: Mark| mark.bracket.is_some());
        if matches!(before, Unknown | OpenString | Hash | HashHash)
            || matches!(kind, Unknown | OpenString | Hash | HashHash)
        {
            return piece.space;
        }
        // `>>` and `>>=` are two tokens; keep them as the author wrote them.
        if before == Gt && !is_angle(behind) && matches!(kind, Gt | Ge) {
            return piece.space;
        }
        match kind {
            Semicolon | Comma | RParen | RBracket => return false,
            // A leading dot, as in `.x`: a blank only after an operator.
            Dot => {
                return precedence(before).is_some() && !is_angle(behind) || is_assignment(before)
            }
            // `x[m+:n]`
            Plus if self.next_token(at) == Some(Colon) => return false,
            _ => {}
        }
        match before {
            LParen | LBracket | At | Dot => return false,
            Lt if is_angle(behind) => return false,
            _ if behind.unary => return false,
            RParen if behind.bracket == Some(Bracket::Cast) => return false,
            RParen if behind.bracket == Some(Bracket::Annotation) => return true,
            _ => {}
        }
        match kind {
            Lt | Gt if is_angle(mark) => false,
            Colon if mark.ternary => true,
            Colon => false,
            LParen => match before {
                Gt => !is_angle(behind),
                RParen | RBracket => behind.bracket == Some(Bracket::Condition),
                Ident | Select | Apply | Key | Actions | Entries | Error | State | Default
                | Priority | This | Type | List | MatchKind | ValueSet | Varbit | Bit | Int
                | Tuple => false,
                _ => true,
            },
            LBracket => {
                !is_angle(behind)
                    && !matches!(
                        before,
                        Ident
                            | Number
                            | RParen
                            | RBracket
                            | Apply
                            | Key
                            | Actions
                            | Entries
                            | This
                            | State
                            | Priority
                            | Type
                    )
            }
            RBrace => before != LBrace,
            _ if before == Colon => behind.ternary || state.top_is_block_or_list(),
            _ => true,
        }
    }

    /// Updates the state after piece `at`, which ends at `column`.
    fn follow(&self, at: usize, indent: usize, column: usize, state: &mut State) {
        let piece = &self.pieces[at];
        if piece.kind == Kind::Directive {
            follow_condition(piece.text, &mut state.open, &mut state.conditions);
            return;
        }
        let mark = self.marks[at];
        let next = self.pieces.get(at + 1);
        let breaks_next = next.is_some_and(|next| {
            next.newlines > 0 || next.kind == Kind::LineComment || self.breaks[at + 1]
        });
        match self.token(at) {
            Some(LParen | LBracket | LBrace) => self.open(at, indent, column, breaks_next, state),
            Some(Lt) if mark.bracket.is_some() => self.open(at, indent, column, breaks_next, state),
            Some(Gt) if mark.bracket.is_some() => state.open.pop(),
            Some(RParen | RBracket | RBrace) if mark.partner.is_some() => {
                state.open.pop();
                let top = state.top();
                if mark.bracket == Some(Bracket::Block) && self.next_token(at) != Some(Else) {
                    top.bodies = 0;
                }
                if mark.bracket == Some(Bracket::Condition)
                    && top.bracket == Bracket::Block
                    && breaks_next
                    && self.next_token(at) != Some(LBrace)
                {
                    top.bodies += 1;
                }
            }
            Some(Else) if breaks_next && !matches!(self.next_token(at), Some(LBrace)) => {
                state.top().bodies += 1
            }
            Some(Semicolon) => state.top().bodies = 0,
            _ => {}
        }
    }

    fn next_token(&self, at: usize) -> Option<TokenKind> {
        self.pieces[at + 1..].iter().find_map(token)
    }

    fn open(&self, at: usize, indent: usize, column: usize, breaks_next: bool, state: &mut State) {
        let mark = self.marks[at];
        let bracket = mark.bracket.unwrap_or(Bracket::Plain);
        let around = state.top().clone();
        let statement = match around.bracket {
            Bracket::Block => around.statement,
            _ => indent,
        };
        let (inner, close) = match bracket {
            Bracket::Block => (statement + INDENT, statement),
            _ if breaks_next => (indent + INDENT, indent),
            Bracket::List => (column + 1, indent),
            _ => (column, indent),
        };
        state.open.push(OpenBracket {
            bracket,
            inner,
            close,
            statement: inner,
            bodies: 0,
            on_one_line: mark.on_one_line,
            broken: breaks_next,
        });
    }
}

impl State {
    /// Whether the innermost open bracket is a block or a list, where a colon ends a label or a key.
    fn top_is_block_or_list(&mut self) -> bool {
        matches!(self.top().bracket, Bracket::Block | Bracket::List)
    }
}

/// A line that is being composed, with the places where it can be broken.
#[derive(Debug, Default)]
struct Line {
    /// Width in columns, without a comment at the end.
    width: usize,
    /// Index of the piece that opens the first block on the line, which can be split into several lines.
    block_on_one_line: Option<usize>,
    /// The best position for a line break: depth of brackets, precedence of the operator, and index of the piece after the break.
    best: Option<(usize, u32, usize)>,
}

impl Line {
    /// Considers a line break before piece `at`. Preferred are breaks outside brackets, then at the operator of lowest precedence, then
    /// the last.
    fn offer_break(
        &mut self,
        layout: &Layout<'_, '_>,
        at: usize,
        begin: usize,
        column: usize,
        state: &mut State,
    ) {
        if at == begin
            || column > LINE_WIDTH
            || layout.token(at).is_none()
            || layout.token(at - 1).is_none()
        {
            return;
        }
        let (before, mark) = (layout.token(at - 1), layout.marks[at]);
        let rank = match layout.token(at) {
            _ if before == Some(Comma) => 0,
            Some(Colon) if mark.ternary => 1,
            Some(kind) if mark.bracket.is_none() && !mark.unary => match precedence(kind) {
                Some(rank) if !(before == Some(Gt) && matches!(kind, Gt | Ge)) => rank,
                _ => return,
            },
            _ => return,
        };
        let depth = state.open.len();
        let better = self.best.is_none_or(|(d, r, _)| (depth, rank) <= (d, r));
        if better {
            self.best = Some((depth, rank, at));
        }
    }

    fn best_break(&self) -> Option<usize> {
        self.best.map(|(_, _, at)| at)
    }
}

/// Whether two tokens need a blank between them, because they would otherwise be lexed differently.
fn would_join(before: &str, after: &str) -> bool {
    const TOGETHER: &[&str] = &[
        "++", "+=", "-=", "*=", "/=", "%=", "&&", "&=", "||", "|=", "|+", "|-", "^=", "<<", "<=",
        ">=", "==", "!=", "..", "//", "/*", "##", "{#",
    ];
    let (Some(last), Some(first)) = (before.chars().next_back(), after.chars().next()) else {
        return false;
    };
    let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let number = before.starts_with(|c: char| c.is_ascii_digit());
    is_word(last) && is_word(first)
        || number
            && (first == '.' || matches!(last, 'e' | 'E' | 'p' | 'P') && matches!(first, '+' | '-'))
        || last == '.' && first.is_ascii_digit()
        || TOGETHER
            .iter()
            .any(|both| both.starts_with(last) && both.ends_with(first))
}
