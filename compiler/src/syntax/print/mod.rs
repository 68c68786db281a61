//! Prints a syntax tree as P4 text (`--pp`).
//!
//! Parsing the text gives the same tree. Parentheses are written where precedence requires them; comments and macros are lost. Declarations of
//! shipped headers are replaced by the `#include` of the header.

mod decl;
mod expr;
mod stmt;

use super::ast::*;
use crate::arch::versioned_header;
use crate::diag::SourceMap;

/// Prints the whole program, including the declarations of included files.
pub fn print_program(program: &P4Program) -> String {
    let mut printer = Printer::default();
    for decl in &program.decls {
        printer.decl(decl);
    }
    printer.out
}

/// Prints the program with an `#include` line for each file included with `<>`, in place of its declarations.
pub fn print_with_includes(program: &P4Program, map: &SourceMap) -> String {
    let mut printer = Printer::default();
    let mut included: Vec<String> = Vec::new();
    for decl in &program.decls {
        if !map.is_system(decl.span()) {
            printer.decl(decl);
            continue;
        }
        let file = map.location(decl.span()).file;
        let name = file.rsplit('/').next().unwrap_or(&file).to_owned();
        if !included.contains(&name) {
            // The header declares the version that the program defined, so define it again before the `#include`.
            if let Some(header) = versioned_header(&name) {
                if let Some(version) = program.constant(header.constant) {
                    let value = print_expr(&version.value);
                    printer.out += &format!("#define {} {value}\n", header.macro_name);
                }
            }
            printer.out += &format!("#include <{name}>\n\n");
            included.push(name);
        }
    }
    printer.out
}

/// Prints an expression as P4 source, without redundant parentheses.
pub fn print_expr(expr: &Expr) -> String {
    let mut printer = Printer::default();
    printer.expr(expr);
    printer.out
}

/// Prints a written type as P4 source.
pub fn print_type(ty: &TypeRef) -> String {
    let mut printer = Printer::default();
    printer.type_ref(ty);
    printer.out
}

#[derive(Default)]
struct Printer {
    out: String,
    indent: usize,
}

impl Printer {
    fn word(&mut self, text: &str) {
        self.out.push_str(text);
    }

    fn line_start(&mut self) {
        for _ in 0..self.indent {
            self.out.push_str("    ");
        }
    }

    fn line(&mut self, text: &str) {
        self.line_start();
        self.out.push_str(text);
        self.out.push('\n');
    }

    /// Prints ` {`, the indented lines of `body`, and `}`.
    fn braces(&mut self, body: impl FnOnce(&mut Self)) {
        self.word("{\n");
        self.indent += 1;
        body(self);
        self.indent -= 1;
        self.line_start();
        self.word("}");
    }

    fn list<T>(&mut self, list: &[T], mut element: impl FnMut(&mut Self, &T)) {
        for (i, e) in list.iter().enumerate() {
            if i > 0 {
                self.word(", ");
            }
            element(self, e);
        }
    }
}
