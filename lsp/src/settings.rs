//! The settings of an editor for the server.

use std::path::PathBuf;

use serde::Deserialize;

/// `initializationOptions`, or `settings.alfirk` of `workspace/didChangeConfiguration`. All of it may be left out.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct Settings {
    /// The program's main file, which others are parts of, from the folder that the editor has open. Default: what includes the file.
    pub main: Option<PathBuf>,
    /// `v1model`, `tna` or `t2na`. Default: what the program includes.
    pub arch: Option<String>,
    /// Folders for `#include`, from the folder that the editor has open.
    pub include_dirs: Vec<PathBuf>,
    /// Macros as `NAME` or `NAME=VALUE`.
    pub defines: Vec<String>,
    /// Address of the book, whose page `errors.html` explains the codes. Default: diagnostics link to copies of the pages.
    pub book: Option<String>,
}
