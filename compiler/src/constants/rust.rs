//! Constants as Rust source.

use std::fmt::Write;

use num_bigint::BigInt;

use super::{camel, Constants, Enum, Header, Item, Number, Width};

pub(super) fn write(constants: &Constants, source: &str) -> String {
    let mut out = String::new();
    let _ = writeln!(
        out,
        "//! Constants and headers of `{source}`. Written by `alfirk p4c --constants-files`; change them there."
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
            Item::Header(decl) => header(&mut out, decl),
        }
    }
    if constants.headers().next().is_some() {
        out.push_str(BITS);
    }
    out
}

/// Functions of the output that read and write the fields of headers.
const BITS: &str = r"
/// Reads `width` bits of a header as a number, from bit `at` on; bit 0 is the first on the wire.
fn bits(bytes: &[u8], at: usize, width: usize) -> u128 {
    if at % 8 == 0 && width % 8 == 0 {
        let whole = bytes[at / 8..][..width / 8].iter();
        return whole.fold(0, |value, byte| value << 8 | u128::from(*byte));
    }
    (at..at + width).fold(0, |value, bit| value << 1 | u128::from(bytes[bit / 8] >> (7 - bit % 8) & 1))
}

/// Writes the low `width` bits of a number into a header, from bit `at` on. These bits of the header must be zero.
fn put(bytes: &mut [u8], at: usize, width: usize, value: u128) {
    if at % 8 == 0 && width % 8 == 0 {
        let whole = &value.to_be_bytes()[16 - width / 8..];
        return bytes[at / 8..][..width / 8].copy_from_slice(whole);
    }
    for bit in 0..width {
        let to = at + width - 1 - bit;
        bytes[to / 8] |= u8::from(value >> bit & 1 == 1) << (7 - to % 8);
    }
}
";

fn header(out: &mut String, decl: &Header) {
    let (name, bytes) = (decl.type_name(), decl.bytes());
    comment(out, "", &decl.comment, &decl.name);
    out.push_str("#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]\n");
    let _ = writeln!(out, "pub struct {name} {{");
    for field in &decl.fields {
        comment(out, "    ", &field.comment, &field.name);
        let _ = writeln!(out, "    pub {}: {},", field.name, integer(field.width));
    }
    let _ = writeln!(out, "}}\n\nimpl {name} {{");
    out.push_str("    /// Length of the header in bytes.\n");
    let _ = writeln!(out, "    pub const LEN: usize = {bytes};\n");
    out.push_str("    /// Decodes the header; its fields are big-endian.\n");
    let _ = writeln!(
        out,
        "    pub fn from_bytes(bytes: &[u8; {bytes}]) -> {name} {{"
    );
    let _ = writeln!(out, "        {name} {{");
    let mut at = 0;
    for field in &decl.fields {
        let Width { bits, .. } = field.width;
        let (name, ty) = (&field.name, integer(field.width));
        let _ = writeln!(
            out,
            "            {name}: bits(bytes, {at}, {bits}) as {ty},"
        );
        at += bits;
    }
    out.push_str("        }\n    }\n\n");
    out.push_str(
        "    /// Encodes the header. A field's bits beyond its width in the header are dropped.\n",
    );
    let _ = writeln!(out, "    pub fn to_bytes(&self) -> [u8; {bytes}] {{");
    let _ = writeln!(out, "        let mut bytes = [0; {bytes}];");
    let mut at = 0;
    for field in &decl.fields {
        let Width { bits, .. } = field.width;
        let name = &field.name;
        let _ = writeln!(
            out,
            "        put(&mut bytes, {at}, {bits}, self.{name} as u128);"
        );
        at += bits;
    }
    out.push_str("        bytes\n    }\n}\n");
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
    let _ = writeln!(
        out,
        "    /// All values of `{name}`, in the order of the P4 program."
    );
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

/// Escapes brackets of P4 comments, which rustdoc would read as links or HTML.
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

/// A number in decimal below 256, otherwise in hexadecimal with digits in groups of four.
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
