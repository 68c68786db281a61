//! Constants and headers as a Lua table, for dissectors of Wireshark.

use std::fmt::Write;

use num_bigint::BigInt;

use super::{write_comment, Constants, Header, Item, Number};

/// Largest number that all versions of Lua represent exactly: Lua 5.2 has floating-point numbers only.
const EXACT: u64 = 1 << 53;

/// Words that are not names in Lua.
const KEYWORDS: [&str; 22] = [
    "and", "break", "do", "else", "elseif", "end", "false", "for", "function", "goto", "if", "in",
    "local", "nil", "not", "or", "repeat", "return", "then", "true", "until", "while",
];

pub(super) fn write(constants: &Constants, source: &str) -> String {
    let mut out = format!(
        "-- Constants and headers of `{source}`. Written by `alfirk p4c --constants-files`; change them there.\n\
         -- A header has its length in bytes, and its fields in wire order: offset and width in bits.\n\
         return {{\n"
    );
    for item in &constants.items {
        match item {
            Item::Constant(constant) => {
                write_comment(&mut out, "  --", &constant.comment);
                let value = match &constant.value {
                    Number::Bool(value) => value.to_string(),
                    Number::Int(number, _) => literal(number),
                };
                let _ = writeln!(out, "  {} = {value},", key(&constant.name));
            }
            Item::Enum(decl) => {
                write_comment(&mut out, "  --", &decl.comment);
                let _ = writeln!(out, "  {} = {{", key(&decl.name));
                for (member, number, above) in &decl.members {
                    write_comment(&mut out, "    --", above);
                    let _ = writeln!(out, "    {} = {},", key(member), literal(number));
                }
                out.push_str("  },\n");
            }
            Item::Header(decl) => header(&mut out, decl),
        }
    }
    out.push_str("}\n");
    out
}

fn header(out: &mut String, decl: &Header) {
    write_comment(out, "  --", &decl.comment);
    let _ = writeln!(out, "  {} = {{", key(&decl.name));
    let _ = writeln!(out, "    bytes = {},", decl.bytes());
    let mut offset = 0;
    for field in &decl.fields {
        let bits = field.width.bits;
        let _ = write!(
            out,
            "    {{ name = \"{}\", offset = {offset}, bits = {bits}",
            field.name
        );
        if !field.comment.is_empty() {
            let text = field.comment.join(" ");
            let text = text.replace('\\', "\\\\").replace('"', "\\\"");
            let _ = write!(out, ", description = \"{text}\"");
        }
        out.push_str(" },\n");
        offset += bits;
    }
    out.push_str("  },\n");
}

/// A name as the key of a table's entry.
fn key(name: &str) -> String {
    match KEYWORDS.contains(&name) {
        true => format!("[\"{name}\"]"),
        false => name.to_owned(),
    }
}

/// A number in decimal below 256, otherwise in hexadecimal; as a string if not every version of Lua can represent it.
fn literal(number: &BigInt) -> String {
    if number.magnitude() > &EXACT.into() {
        format!("\"{number:#x}\"")
    } else if number < &BigInt::from(256) {
        number.to_string()
    } else {
        format!("{number:#x}")
    }
}
