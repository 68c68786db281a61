//! Lexer, parser, syntax tree and printer.

pub mod ast;
pub mod lexer;
pub mod parser;
pub mod print;
#[cfg(test)]
mod tests;
pub mod token;
