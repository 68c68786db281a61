//! From the typed program to the IR.

pub mod elaborate;
