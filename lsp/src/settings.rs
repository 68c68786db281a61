//! The settings that an editor sends to the language server.

use std::path::PathBuf;

use serde::Deserialize;

/// Settings from `initializationOptions`, or from `settings.alfirk` of `workspace/didChangeConfiguration`. Every field
/// is optional.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct Settings {
    /// Main file of the program, relative to the open folder. Default: the file that includes the edited one.
    pub main: Option<PathBuf>,
    /// Architecture: `v1model`, `tna` or `t2na`. Default: the one whose file the program includes.
    pub arch: Option<String>,
    /// Folders to search for included files, relative to the open folder.
    pub include_dirs: Vec<PathBuf>,
    /// Preprocessor macros to define, as `NAME` or `NAME=VALUE`.
    pub defines: Vec<String>,
    /// Address of the book, whose page `errors.html` explains the codes. Default: diagnostics link to copies of the
    /// pages.
    pub book: Option<String>,
}
