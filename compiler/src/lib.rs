//! P4_16 compiler for BMv2.

pub mod diag;
pub mod preproc;
pub mod sema;
pub mod syntax;

#[cfg(test)]
mod tests;
