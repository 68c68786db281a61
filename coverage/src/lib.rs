//! Coverage of P4 programs: sums of counts by source line, as LCOV, text and HTML.
//!
//! A [`Report`] is made from the counts of a switch ([`alfirk_bmv2::Switch::coverage`]) or from an LCOV file, and reports
//! of several runs are added. Reading and writing files, except for [`add_to_file`], is left to the caller.

mod file;
mod html;
mod lcov;
mod report;
mod text;

pub use file::{add_to_file, read, FileError};
pub use html::html;
pub use lcov::LcovError;
pub use report::{Branch, File, Function, MergeError, Report, Summary};
