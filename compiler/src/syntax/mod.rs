//! From text to syntax tree.

pub mod ast;
pub mod lexer;
pub mod parser;
#[cfg(test)]
mod tests;
pub mod token;
