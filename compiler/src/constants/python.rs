//! Numbers as Python.

use std::fmt::Write;

use num_bigint::BigInt;

use super::{Constants, Item, Number};

/// The longest line of a comment.
const LINE: usize = 100;

pub(super) fn write(constants: &Constants, source: &str) -> String {
    let mut out = format!(
        "\"\"\"Numbers of ``{source}``.\n\nWritten by ``alfirk p4c --constants-files``; change them there.\n\"\"\"\n"
    );
    if constants
        .items
        .iter()
        .any(|item| matches!(item, Item::Enum(_)))
    {
        out.push_str("\nfrom enum import IntEnum\n");
    }
    let mut was_class = false;
    let mut is_first = true;
    for item in &constants.items {
        match item {
            Item::Constant(constant) => {
                if was_class || is_first {
                    out.push_str(if was_class { "\n\n" } else { "\n" });
                }
                is_first = false;
                comment(&mut out, "", &constant.comment);
                let value = match &constant.value {
                    Number::Bool(true) => "True".to_owned(),
                    Number::Bool(false) => "False".to_owned(),
                    Number::Int(number, _) => literal(number),
                };
                let _ = writeln!(out, "{} = {value}", constant.name);
                was_class = false;
            }
            Item::Enum(decl) => {
                let text = decl.comment.join(" ");
                let mut text = match text.is_empty() {
                    true => decl.name.clone(),
                    false => text.replace('"', "'"),
                };
                if !text.ends_with(['.', '?', '!']) {
                    text.push('.');
                }
                let _ = writeln!(out, "\n\nclass {}(IntEnum):", decl.name);
                let _ = writeln!(out, "    \"\"\"{text}\"\"\"\n");
                for (member, number, above) in &decl.members {
                    comment(&mut out, "    ", above);
                    let _ = writeln!(out, "    {member} = {}", literal(number));
                }
                (was_class, is_first) = (true, false);
            }
        }
    }
    let end = out.trim_end().len();
    out.truncate(end);
    out.push('\n');
    out
}

/// In lines of at most [`LINE`] characters.
fn comment(out: &mut String, indent: &str, lines: &[String]) {
    for line in lines {
        let mut text = format!("{indent}#:");
        for word in line.split_whitespace() {
            if text.len() + 1 + word.len() > LINE {
                let _ = writeln!(out, "{text}");
                text = format!("{indent}#:");
            }
            let _ = write!(text, " {word}");
        }
        let _ = writeln!(out, "{text}");
    }
}

/// Hexadecimal from 256.
fn literal(number: &BigInt) -> String {
    match number < &BigInt::from(256) {
        true => number.to_string(),
        false => format!("0x{number:X}"),
    }
}
