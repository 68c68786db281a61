//! Messages of `log_msg`.

use super::expr::eval;
use crate::program::LoadedProgram;
use crate::state::State;
use std::fmt::Write;

/// Replaces the `{}` of a message with its arguments in decimal; `\{` and `\}` are literal braces.
pub(crate) fn format(program: &LoadedProgram, state: &State, phv: &[u64], index: u16) -> String {
    let message = &program.logs[usize::from(index)];
    let mut args = message
        .args
        .iter()
        .map(|node| eval(node, program, state, phv));
    let mut text = String::new();
    let mut chars = message.format.chars().peekable();
    while let Some(c) = chars.next() {
        match (c, chars.peek()) {
            ('\\', Some('{' | '}')) => text.extend(chars.next()),
            ('{', _) => {
                // Text between the braces is ignored.
                let closed = chars.by_ref().any(|c| c == '}');
                match args.next() {
                    Some(value) if closed => {
                        write!(text, "{value}").expect("a String takes everything");
                    }
                    _ => text.push_str("{}"),
                }
            }
            _ => text.push(c),
        }
    }
    text
}
