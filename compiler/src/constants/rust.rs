//! Numbers as Rust.

use std::fmt::Write;

use num_bigint::BigInt;

use super::{Constants, Enum, Item, Number, Width};

pub(super) fn write(constants: &Constants, source: &str) -> String {
    let mut out = String::new();
    let _ = writeln!(
        out,
        "//! Numbers of `{source}`. Written by `alfirk p4c --constants-files`; change them there."
    );
    for item in &constants.items {
        out.push('\n');
        match item {
            Item::Constant(constant) => {
                comment(&mut out, "", &constant.comment, &constant.name);
                let (ty, value) = match &constant.value {
                    Number::Bool(value) => ("bool".to_owned(), value.to_string()),
                    Number::Int(number, width) => (integer(*width), literal(number)),
                };
                let _ = writeln!(out, "pub const {}: {ty} = {value};", constant.name);
            }
            Item::Enum(decl) => enumeration(&mut out, decl),
        }
    }
    out
}

fn enumeration(out: &mut String, decl: &Enum) {
    let Enum { name, members, .. } = decl;
    comment(out, "", &decl.comment, name);
    out.push_str("#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]\n");
    let _ = writeln!(out, "#[repr({})]", integer(decl.width));
    let _ = writeln!(out, "pub enum {name} {{");
    for (member, number, above) in members {
        comment(out, "    ", above, member);
        let _ = writeln!(out, "    {} = {},", camel(member), literal(number));
    }
    let _ = writeln!(out, "}}\n\nimpl {name} {{");
    out.push_str("    /// All of them, in the program's order.\n");
    let _ = writeln!(out, "    pub const ALL: [{name}; {}] = [", members.len());
    for (member, ..) in members {
        let _ = writeln!(out, "        {name}::{},", camel(member));
    }
    out.push_str("    ];\n}\n");
}

fn comment(out: &mut String, indent: &str, lines: &[String], name: &str) {
    if lines.is_empty() {
        let _ = writeln!(out, "{indent}/// `{name}`.");
    }
    for line in lines {
        let _ = writeln!(
            out,
            "{}",
            format!("{indent}/// {}", escaped(line)).trim_end()
        );
    }
}

/// Brackets and angles of P4 comments are neither links nor HTML.
fn escaped(line: &str) -> String {
    let mut text = String::new();
    for c in line.chars() {
        if matches!(c, '[' | ']' | '<' | '>') {
            text.push('\\');
        }
        text.push(c);
    }
    text
}

fn integer(width: Width) -> String {
    let bits = width.bits.next_power_of_two().max(8);
    format!("{}{bits}", if width.is_signed { 'i' } else { 'u' })
}

/// Hexadecimal from 256, with the digits in fours.
fn literal(number: &BigInt) -> String {
    if number < &BigInt::from(256) {
        return number.to_string();
    }
    let digits = format!("{number:x}");
    let mut text = "0x".to_owned();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at) % 4 == 0 {
            text.push('_');
        }
        text.push(digit);
    }
    text
}

/// `PASS_ON` as `PassOn`.
fn camel(name: &str) -> String {
    let words = name.split('_').filter(|word| !word.is_empty());
    let capital = |word: &str| {
        let (first, rest) = word.split_at(1);
        first.to_uppercase() + &rest.to_lowercase()
    };
    words.map(capital).collect()
}
