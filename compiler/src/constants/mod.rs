//! Export of a program's constants as Rust or Python source for its control plane, or as a Lua table for dissectors of Wireshark.
//!
//! Exported are constants and serializable enums at the top level of the user's files, and headers: in Rust and Python those with
//! `@contract`, which the control plane encodes and decodes, in Lua all. Each is written with its comment, which is on the line of the declaration or above it. Declarations of the
//! architecture are not exported.

mod lua;
mod python;
mod rust;

use std::fmt::Write;
use std::path::Path;

use num_bigint::BigInt;

use crate::diag::{SourceMap, Span};
use crate::sema::{CheckedProgram, Type, Value};
use crate::syntax::ast::{Annotated, Decl, EnumDecl, StructDecl};

/// An output language of exported constants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Language {
    /// A module of `pub const` and `pub enum`.
    Rust,
    /// A module of constants and `enum.IntEnum`.
    Python,
    /// A module that returns a table of constants, enums and all headers.
    Lua,
}

impl Language {
    /// The language of a file's extension, `.rs`, `.py` or `.lua`; `None` for others.
    pub fn of(path: &Path) -> Option<Language> {
        match path.extension()?.to_str()? {
            "rs" => Some(Language::Rust),
            "py" => Some(Language::Python),
            "lua" => Some(Language::Lua),
            _ => None,
        }
    }

    /// Writes a source file with the constants. `source`: name of the program for the first line.
    pub fn write(self, constants: &Constants, source: &str) -> String {
        match self {
            Language::Rust => rust::write(&constants.of_contract(), source),
            Language::Python => python::write(&constants.of_contract(), source),
            Language::Lua => lua::write(constants, source),
        }
    }
}

/// The exported constants, enums and headers of a program, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Constants {
    items: Vec<Item>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Item {
    Constant(Constant),
    Enum(Enum),
    Header(Header),
}

/// A header to export. Its fields are in wire order, and their widths add up to whole bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Header {
    name: String,
    fields: Vec<Field>,
    comment: Vec<String>,
    /// Whether the control plane encodes and decodes the header: the annotation `@contract`.
    is_contract: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Field {
    name: String,
    width: Width,
    comment: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Constant {
    name: String,
    value: Number,
    comment: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Enum {
    name: String,
    /// Width of the underlying type.
    width: Width,
    /// Members: name, number, and comment lines.
    members: Vec<(String, BigInt, Vec<String>)>,
    comment: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Number {
    Bool(bool),
    Int(BigInt, Width),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Width {
    bits: u32,
    is_signed: bool,
}

impl Constants {
    /// Finds the constants, enums and headers to export. Omitted are constants of type `int` or of more than 128 bits,
    /// for which the output languages have no type. Also omitted are headers that end within a byte, or with a field
    /// that is not an unsigned number of at most 128 bits.
    pub fn of(program: &CheckedProgram, sources: &SourceMap) -> Constants {
        let finder = Finder { program, sources };
        let decls = program.program.decls.iter();
        let items = decls.filter_map(|decl| match decl {
            Decl::Const(decl) if !sources.is_system(decl.span) => {
                let ty = program.representation(program.decl_type(decl.id)?);
                let value = match (program.const_value(decl.id)?, width(&ty)) {
                    (Value::Bool(value), _) => Number::Bool(*value),
                    (Value::Int(number), Some(width)) => Number::Int(number.clone(), width),
                    _ => return None,
                };
                Some(Item::Constant(Constant {
                    name: decl.name.name.to_string(),
                    value,
                    comment: finder.comment(decl.span),
                }))
            }
            Decl::Enum(decl) if !sources.is_system(decl.span) => {
                finder.serializable(decl).map(Item::Enum)
            }
            Decl::Header(decl) if !sources.is_system(decl.span) => {
                finder.header(decl).map(Item::Header)
            }
            _ => None,
        });
        Constants {
            items: items.collect(),
        }
    }

    /// The same without the headers that have no `@contract`.
    fn of_contract(&self) -> Constants {
        let is_shared = |item: &&Item| match item {
            Item::Header(header) => header.is_contract,
            Item::Constant(_) | Item::Enum(_) => true,
        };
        Constants {
            items: self.items.iter().filter(is_shared).cloned().collect(),
        }
    }

    fn headers(&self) -> impl Iterator<Item = &Header> {
        self.items.iter().filter_map(|item| match item {
            Item::Header(header) => Some(header),
            _ => None,
        })
    }
}

impl Header {
    fn bytes(&self) -> u32 {
        self.fields
            .iter()
            .map(|field| field.width.bits)
            .sum::<u32>()
            / 8
    }

    /// Name of the type in the output language: `Feedback` for `feedback_t`.
    fn type_name(&self) -> String {
        camel(self.name.strip_suffix("_t").unwrap_or(&self.name))
    }
}

/// Converts `PASS_ON` to `PassOn`.
fn camel(name: &str) -> String {
    let words = name.split('_').filter(|word| !word.is_empty());
    let capital = |word: &str| {
        let mut letters = word.chars();
        let first = letters.next().into_iter().flat_map(char::to_uppercase);
        first
            .chain(letters.flat_map(char::to_lowercase))
            .collect::<String>()
    };
    words.map(capital).collect()
}

fn width(ty: &Type) -> Option<Width> {
    let bits = ty.bits().filter(|bits| (1..=128).contains(bits))?;
    let is_signed = matches!(ty, Type::Signed(_));
    Some(Width { bits, is_signed })
}

struct Finder<'a> {
    program: &'a CheckedProgram,
    sources: &'a SourceMap,
}

impl Finder<'_> {
    fn serializable(&self, decl: &EnumDecl) -> Option<Enum> {
        let ty = self.program.type_ref(decl.underlying.as_ref()?);
        let width = width(&self.program.representation(ty))?;
        let members = decl.members.iter().map(|member| {
            let number = self.program.const_value(member.id)?.as_int()?.clone();
            let comment = self.comment(member.name.span);
            Some((member.name.name.to_string(), number, comment))
        });
        Some(Enum {
            name: decl.name.name.to_string(),
            width,
            members: members.collect::<Option<_>>()?,
            comment: self.comment(decl.span),
        })
    }

    fn header(&self, decl: &StructDecl) -> Option<Header> {
        let fields = decl.fields.iter().map(|field| {
            let ty = self
                .program
                .representation(self.program.type_ref(&field.ty));
            Some(Field {
                name: field.name.name.to_string(),
                width: width(&ty).filter(|width| !width.is_signed)?,
                comment: self.comment(field.name.span),
            })
        });
        let fields = fields.collect::<Option<Vec<_>>>()?;
        let bits: u32 = fields.iter().map(|field| field.width.bits).sum();
        (bits % 8 == 0).then(|| Header {
            name: decl.name.name.to_string(),
            fields,
            comment: self.comment(decl.span),
            is_contract: decl.annotations.annotation("contract").is_some(),
        })
    }

    /// The comment after a declaration on its line; without one, the comment lines directly above. One string per line, without slashes.
    fn comment(&self, span: Span) -> Vec<String> {
        let file = self.sources.file(span.file);
        let line = file.line_index(span.lo);
        if let Some((_, behind)) = file.line_text(line).split_once("//") {
            return vec![behind.trim().to_owned()];
        }
        let alone = |line: &usize| file.line_text(*line).trim().starts_with("//");
        let above: Vec<usize> = (0..line).rev().take_while(alone).collect();
        let text = |line: &usize| {
            let text = file.line_text(*line).trim().trim_start_matches('/');
            text.trim().to_owned()
        };
        above.iter().rev().map(text).collect()
    }
}

/// Maximum length of a comment line, in characters.
const COMMENT_LINE: usize = 100;

/// Writes a comment in lines of at most [`COMMENT_LINE`] characters, each after `mark`.
fn write_comment(out: &mut String, mark: &str, lines: &[String]) {
    for line in lines {
        let mut text = mark.to_owned();
        for word in line.split_whitespace() {
            if text.len() + 1 + word.len() > COMMENT_LINE {
                let _ = writeln!(out, "{text}");
                mark.clone_into(&mut text);
            }
            let _ = write!(text, " {word}");
        }
        let _ = writeln!(out, "{text}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::driver::{CompileOptions, Session};
    use crate::preproc::{MemoryLoader, SourceLoader};

    fn constants(text: &str) -> Constants {
        let mut loader = MemoryLoader::default();
        loader.add("p.p4", text);
        let mut session = Session::new(CompileOptions::new("p.p4"));
        let checked = session.checked(&loader as &dyn SourceLoader).unwrap();
        let checked = checked.unwrap_or_else(|_| panic!("{}", session.rendered()));
        Constants::of(&checked, &session.sources)
    }

    const PROGRAM: &str = r#"
#include <core.p4>

// The port of
// a protocol.
const bit<16> PORT = 4791;
typedef bit<48> mac_t;
const mac_t MAC = 0x02a1f14c0001;  // shared

const int<8> LEAST = -5;
const int WITHOUT_WIDTH = 5;
const bool IS_ON = true;
const bit<32> DOUBLED = (bit<32>)PORT * 2;

// What is done.
enum bit<3> Verdict {
    NONE = 0,
    PASS_ON = 2  // to the next
}
enum NotANumber { A, B }

// Before a frame.
@contract header tag_t {
    bit<3> kind;
    bit<1> is_last;
    bit<12> number;  // of the tag
    mac_t owner;
}
header private_t { bit<8> x; }
@contract header ragged_t { bit<7> x; }
"#;

    #[test]
    fn rust_has_the_programs_numbers_and_comments() {
        let text = Language::Rust.write(&constants(PROGRAM), "p.p4");
        insta::assert_snapshot!(text);
    }

    #[test]
    fn python_has_the_programs_numbers_and_comments() {
        let text = Language::Python.write(&constants(PROGRAM), "p.p4");
        insta::assert_snapshot!(text);
    }

    #[test]
    fn lua_has_the_programs_numbers_comments_and_all_headers() {
        let text = Language::Lua.write(&constants(PROGRAM), "p.p4");
        insta::assert_snapshot!(text);
    }

    #[test]
    fn lua_quotes_its_keywords_and_numbers_that_it_would_round() {
        let program = "const bit<64> LARGE = 0xffffffffffffffff;\n\
                       const int<64> SMALL = -9007199254740993;\n\
                       enum bit<8> Word { end = 1, ending = 2 }\n\
                       header quoted_t { bit<8> x; // the \"x\" of C:\\y\n}";
        let text = Language::Lua.write(&constants(program), "p.p4");
        for line in [
            "  LARGE = \"0xffffffffffffffff\",",
            "  SMALL = \"-0x20000000000001\",",
            "    [\"end\"] = 1,",
            "    ending = 2,",
            r#"    { name = "x", offset = 0, bits = 8, description = "the \"x\" of C:\\y" },"#,
        ] {
            assert!(text.lines().any(|found| found == line), "{line}: {text}");
        }
    }

    #[test]
    fn language_follows_from_the_file_extension() {
        let of = |name: &str| Language::of(Path::new(name));
        assert_eq!(of("a/b.rs"), Some(Language::Rust));
        assert_eq!(of("b.py"), Some(Language::Python));
        assert_eq!(of("b.lua"), Some(Language::Lua));
        assert_eq!((of("b.c"), of("rs")), (None, None));
    }
}
