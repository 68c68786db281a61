//! Formats P4_16 source as it is written: before the preprocessor, so that a file that is but a part of a program is formatted, too.
//!
//! Comments, strings, directives with their continuation lines, and every token stay as they are and where they are among the others.
//! What changes is the white space between them: indentation, blanks, braces, blank lines, and breaks in lines that are too long.
//! Breaks that the author has chosen inside a statement stay, so a list that stands one a line goes on doing so.

mod layout;
mod marks;
mod pieces;
#[cfg(test)]
mod tests;

use pieces::{pieces, Kind, Piece};

/// Columns that a line may have.
pub const LINE_WIDTH: usize = 120;
/// Columns of one step of indentation.
pub const INDENT: usize = 4;

/// The text as it should be. A text whose comments or brackets are not closed, or whose tokens another layout would change, stays
/// as it is.
pub fn format(text: &str) -> String {
    let formatted = pieces(text).and_then(|pieces| layout::layout(&pieces));
    match formatted {
        Some(formatted) if same_pieces(text, &formatted) => formatted,
        _ => text.to_string(),
    }
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
            // Their lines move with their indentation.
            Kind::BlockComment => same_lines(before.text, after.text),
            Kind::LineComment => before.text.trim_end() == after.text.trim_end(),
            _ => before.text == after.text,
        }
}
