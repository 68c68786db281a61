//! Prints preprocessed tokens as text, for `-E`.

use crate::diag::SourceMap;
use crate::syntax::token::{Token, TokenKind};
use std::fmt::Write;

/// Maximum number of consecutive empty lines; a longer gap is written as a line marker.
const MAX_EMPTY_LINES: u32 = 8;

/// Prints tokens as text that parses to the same program, with line markers `# line "file"` as `cpp` writes them.
pub fn print(tokens: &[Token], map: &SourceMap) -> String {
    let mut out = String::new();
    let mut file = String::new();
    let mut line = 0;
    let mut fresh = true;
    for token in tokens.iter().filter(|t| t.kind != TokenKind::End) {
        let mut at = map.location(token.span);
        // A `#` within a line must not move to the start of a line, where it would begin a directive.
        let hash = matches!(token.kind, TokenKind::Hash | TokenKind::HashHash);
        if hash && !token.first_on_line {
            (at.file, at.line) = (file.clone(), line);
        }
        if at.file != file || at.line < line || at.line > line + MAX_EMPTY_LINES {
            if !fresh {
                out.push('\n');
            }
            let name = at.file.replace('\\', "\\\\").replace('"', "\\\"");
            let system = if map.is_system(token.span) { " 3" } else { "" };
            let _ = writeln!(out, "# {} \"{name}\"{system}", at.line);
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
        } else if token.space_before {
            out.push(' ');
        }
        out.push_str(&token.text);
        file = at.file;
        line = at.line + token.text.matches('\n').count() as u32;
        fresh = false;
    }
    if !fresh {
        out.push('\n');
    }
    out
}
