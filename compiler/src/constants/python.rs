//! Constants as Python source.

use std::fmt::Write;

use num_bigint::BigInt;

use super::{write_comment, Constants, Header, Item, Number};

pub(super) fn write(constants: &Constants, source: &str) -> String {
    let mut out = format!(
        "\"\"\"Constants and headers of ``{source}``.\n\nWritten by ``alfirk p4c --constants-files``; change them there.\n\"\"\"\n"
    );
    let has_enums = constants
        .items
        .iter()
        .any(|item| matches!(item, Item::Enum(_)));
    let has_headers = constants.headers().next().is_some();
    if has_enums || has_headers {
        out.push('\n');
    }
    if has_headers {
        out.push_str("from dataclasses import dataclass\n");
    }
    if has_enums {
        out.push_str("from enum import IntEnum\n");
    }
    if has_headers {
        out.push_str("from typing import ClassVar\n");
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
                write_comment(&mut out, "#:", &constant.comment);
                let value = match &constant.value {
                    Number::Bool(true) => "True".to_owned(),
                    Number::Bool(false) => "False".to_owned(),
                    Number::Int(number, _) => literal(number),
                };
                let _ = writeln!(out, "{} = {value}", constant.name);
                was_class = false;
            }
            Item::Enum(decl) => {
                let text = sentence(&decl.comment.join(" "), &decl.name);
                let _ = writeln!(out, "\n\nclass {}(IntEnum):", decl.name);
                let _ = writeln!(out, "    \"\"\"{text}\"\"\"\n");
                for (member, number, above) in &decl.members {
                    write_comment(&mut out, "    #:", above);
                    let _ = writeln!(out, "    {member} = {}", literal(number));
                }
                (was_class, is_first) = (true, false);
            }
            Item::Header(decl) => {
                header(&mut out, decl);
                (was_class, is_first) = (true, false);
            }
        }
    }
    let end = out.trim_end().len();
    out.truncate(end);
    out.push('\n');
    out
}

fn sentence(comment: &str, name: &str) -> String {
    let mut text = match comment.is_empty() {
        true => name.to_owned(),
        false => comment.replace('"', "'"),
    };
    if !text.ends_with(['.', '?', '!']) {
        text.push('.');
    }
    text
}

fn header(out: &mut String, decl: &Header) {
    let (name, bytes) = (decl.type_name(), decl.bytes());
    out.push_str("\n\n");
    write_comment(out, "#:", &decl.comment);
    let _ = writeln!(out, "@dataclass(frozen=True)\nclass {name}:");
    let _ = writeln!(out, "    \"\"\"The header `{}`.\"\"\"\n", decl.name);
    for field in &decl.fields {
        write_comment(out, "    #:", &field.comment);
        let _ = writeln!(out, "    {}: int = 0", field.name);
    }
    let total = 8 * bytes;
    let _ = writeln!(
        out,
        "\n    #: Length of the header in bytes.\n    SIZE: ClassVar[int] = {bytes}"
    );
    let _ = writeln!(out, "\n    def pack(self) -> bytes:");
    out.push_str(
        "        \"\"\"Encode the header; a field's bits beyond its width are dropped.\"\"\"\n",
    );
    out.push_str("        value = 0\n");
    for field in &decl.fields {
        let bits = field.width.bits;
        let mask = literal(&((BigInt::from(1) << bits) - 1));
        let _ = writeln!(
            out,
            "        value = value << {bits} | self.{} & {mask}",
            field.name
        );
    }
    let _ = writeln!(out, "        return value.to_bytes({bytes}, \"big\")");
    out.push_str("\n    @classmethod\n");
    let _ = writeln!(out, "    def unpack(cls, data: bytes) -> \"{name}\":");
    let _ = writeln!(
        out,
        "        \"\"\"Decode the header from the first {bytes} bytes.\"\"\""
    );
    let _ = writeln!(
        out,
        "        value = int.from_bytes(data[:{bytes}], \"big\")"
    );
    out.push_str("        return cls(\n");
    let mut at = 0;
    for field in &decl.fields {
        let bits = field.width.bits;
        at += bits;
        let mask = literal(&((BigInt::from(1) << bits) - 1));
        let _ = writeln!(
            out,
            "            {}=value >> {} & {mask},",
            field.name,
            total - at
        );
    }
    out.push_str("        )\n");
}

/// A number in decimal below 256, otherwise in hexadecimal.
fn literal(number: &BigInt) -> String {
    match number < &BigInt::from(256) {
        true => number.to_string(),
        false => format!("0x{number:X}"),
    }
}
