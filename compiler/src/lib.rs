//! The P4_16 compiler: translates programs for v1model and Tofino (TNA, T2NA) to BMv2 JSON and P4Info, and reports on Tofino stages.

pub mod arch;
pub mod bmv2;
pub mod constants;
pub mod diag;
pub mod driver;
pub mod format;
pub mod ide;
pub mod ir;
mod names;
pub mod p4info;
pub mod passes;
pub mod preproc;
pub mod sema;
mod stack;
pub mod syntax;
mod targets;

pub use stack::on_deep_stack;

#[cfg(test)]
mod tests;
