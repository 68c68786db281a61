//! Formatter of P4_16 source. It works on unpreprocessed text, so that files that are only a part of a program can be formatted.
//!
//! Comments, strings, directives with their continuation lines, and tokens keep their text and order. Only white space changes: indentation,
//! blanks, braces, blank lines, and breaks in lines that are too long. Line breaks within a statement are kept, so a list with one element
//! per line stays one.

mod layout;
mod marks;
mod nesting;
mod pieces;
#[cfg(test)]
mod tests;

use pieces::{pieces, Kind, Piece};

/// Maximum width of a line, in columns; longer lines are broken.
pub const LINE_WIDTH: usize = 120;
/// Width of one level of indentation, in columns.
pub const INDENT: usize = 4;

/// Maximum indentation, in levels; deeper text is not indented further.
const MAX_INDENT: usize = 60;

/// Maximum number of layout rounds until a fixed point.
const MAX_ROUNDS: usize = 8;

/// Formats a text. Formatting the result again changes nothing. A text with unclosed comments or brackets, or whose tokens would
/// change, is returned unchanged.
pub fn format(text: &str) -> String {
    // Line ends affect the roles of brackets, so one round may change the result of the next.
    let mut latest = match layout_round(text) {
        Some(formatted) => formatted,
        None => return text.to_string(),
    };
    for _ in 1..MAX_ROUNDS {
        match layout_round(&latest) {
            Some(again) if again == latest => return latest,
            Some(again) => latest = again,
            None => break,
        }
    }
    text.to_string()
}

/// One round of layout; `None` if the text cannot be laid out, or if its tokens would change.
fn layout_round(text: &str) -> Option<String> {
    let formatted = layout::layout(&pieces(text)?)?;
    same_pieces(text, &formatted).then_some(formatted)
}

/// Whether two texts have the same tokens, comments and directives in the same order.
fn same_pieces(before: &str, after: &str) -> bool {
    let (Some(before), Some(after)) = (pieces(before), pieces(after)) else {
        return false;
    };
    before.len() == after.len() && before.iter().zip(&after).all(|(a, b)| same_piece(a, b))
}

fn same_piece(before: &Piece<'_>, after: &Piece<'_>) -> bool {
    let same_lines = |a: &str, b: &str| {
        let lines =
            |text: &str| -> Vec<String> { text.lines().map(|l| l.trim().to_string()).collect() };
        lines(a) == lines(b)
    };
    before.kind == after.kind
        && match before.kind {
            // The indentation of their lines may change.
            Kind::BlockComment => same_lines(before.text, after.text),
            Kind::LineComment => before.text.trim_end() == after.text.trim_end(),
            Kind::Directive | Kind::Pragma => {
                let lines = |text: &'_ str| -> Vec<String> {
                    text.split('\n')
                        .map(without_carriage_returns)
                        .map(str::to_string)
                        .collect()
                };
                lines(before.text) == lines(after.text)
            }
            Kind::Token(_) => before.text == after.text,
        }
}

/// Removes carriage returns from the end of a line.
fn without_carriage_returns(line: &str) -> &str {
    line.trim_end_matches('\r')
}
