//! From text to syntax tree.

pub mod ast;
pub mod lexer;
pub mod parser;
pub mod print;
#[cfg(test)]
mod tests;
pub mod token;
