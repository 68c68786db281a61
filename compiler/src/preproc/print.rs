//! Preprocessed tokens as text, for `-E`.

use crate::diag::SourceMap;
use crate::syntax::token::{Token, TokenKind};
use std::fmt::Write;

/// Longest run of empty lines; a line mark is shorter than more of them.
const MAX_EMPTY_LINES: u32 = 8;

/// The tokens as text that the compiler reads back to the same program, with marks `# line "file"` as `cpp` writes them.
pub fn print(tokens: &[Token], map: &SourceMap) -> String {
    let mut out = String::new();
    let mut file = String::new();
    let mut line = 0;
    let mut fresh = true;
    for token in tokens.iter().filter(|t| t.kind != TokenKind::End) {
        let at = map.location(token.span);
        if at.file != file || at.line < line || at.line > line + MAX_EMPTY_LINES {
            if !fresh {
                out.push('\n');
            }
            let name = at.file.replace('\\', "\\\\").replace('"', "\\\"");
            let _ = writeln!(out, "# {} \"{name}\"", at.line);
            fresh = true;
        } else if at.line > line {
            for _ in line..at.line {
                out.push('\n');
            }
            fresh = true;
        }
        if fresh {
            let indent = at.column.saturating_sub(1).min(80) as usize;
            out.push_str(&" ".repeat(indent));
        } else if token.space_before || needs_space(&out, &token.text) {
            out.push(' ');
        }
        out.push_str(&token.text);
        file = at.file;
        line = at.line;
        fresh = false;
    }
    if !fresh {
        out.push('\n');
    }
    out
}

/// Whether two tokens would run into one when written without a blank.
fn needs_space(out: &str, next: &str) -> bool {
    let (Some(a), Some(b)) = (out.chars().last(), next.chars().next()) else {
        return false;
    };
    let word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let glue = |c: char| "+-*/%&|^<>=!.{#}".contains(c);
    (word(a) && word(b)) || (glue(a) && glue(b))
}
