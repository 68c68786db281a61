//! The command line of `alfirk p4c`: that of p4c-bm2-ss, and the forms of the `p4c` driver that people type for BMv2.

use std::path::{Path, PathBuf};

use clap::{ArgAction, ValueEnum};

use super::{CompileOptions, P4InfoFormat};
use crate::diag::{Warning, WarningPolicy};
use crate::preproc::{self, MacroOption};

/// Compile a P4_16 program for v1model to BMv2 JSON and P4Info.
///
/// Exit codes: 0 compiled, 1 the program is wrong, 2 wrong usage or unreadable input.
#[derive(Clone, Debug, clap::Args)]
#[command(
    after_help = "Example:\n  alfirk p4c -o basic.json --p4runtime-files basic.p4info.txtpb basic.p4"
)]
pub struct P4cArgs {
    /// The P4_16 program.
    #[arg(value_name = "FILE")]
    source: PathBuf,

    /// Write the BMv2 JSON to this file, or to FILE's name in this folder.
    #[arg(short, long, value_name = "PATH")]
    output: Option<PathBuf>,

    /// Write the P4Info to these files: text for .txtpb and .txt, JSON for .json, binary for .bin.
    #[arg(long, value_name = "FILES", value_delimiter = ',')]
    p4runtime_files: Vec<PathBuf>,

    /// Write the P4Info to this file in the format of --p4runtime-format (deprecated: use --p4runtime-files).
    #[arg(long, value_name = "FILE")]
    p4runtime_file: Option<PathBuf>,

    /// Write the entries that the program gives to these files, as a P4Runtime WriteRequest; formats as for --p4runtime-files.
    #[arg(long, value_name = "FILES", value_delimiter = ',')]
    p4runtime_entries_files: Vec<PathBuf>,

    /// Write them to this file in the format of --p4runtime-format (deprecated: use --p4runtime-entries-files).
    #[arg(long, value_name = "FILE")]
    p4runtime_entries_file: Option<PathBuf>,

    /// Format of --p4runtime-file and --p4runtime-entries-file.
    #[arg(long, value_name = "FORMAT", value_enum, default_value_t = P4InfoFormat::Text)]
    p4runtime_format: P4InfoFormat,

    /// Search included files in this folder too, before the shipped ones.
    #[arg(short = 'I', value_name = "DIR")]
    include: Vec<PathBuf>,

    /// Define a macro: NAME or NAME=VALUE.
    #[arg(short = 'D', value_name = "MACRO")]
    define: Vec<String>,

    /// Undefine a macro.
    #[arg(short = 'U', value_name = "NAME")]
    undefine: Vec<String>,

    /// Only preprocess; the result goes to stdout.
    #[arg(short = 'E')]
    preprocess_only: bool,

    /// Write the program as the front end sees it to this file, `-` for stdout.
    #[arg(long, value_name = "FILE")]
    pp: Option<PathBuf>,

    /// Draw the parser and the control flow into this folder: dot text, and SVG where Graphviz is installed.
    #[arg(long, value_name = "DIR")]
    graph: Option<PathBuf>,

    /// Language version.
    #[arg(
        long = "std",
        alias = "p4v",
        value_name = "VERSION",
        default_value = "p4-16"
    )]
    standard: String,

    /// Architecture; this compiler knows v1model.
    #[arg(short = 'a', long, value_name = "ARCH")]
    arch: Option<String>,

    /// Target, as the p4c driver takes it; this compiler knows bmv2.
    #[arg(short = 'b', long, value_name = "TARGET")]
    target: Option<String>,

    /// Treat warnings as errors: all, or those named.
    #[arg(
        long = "Werror",
        value_name = "NAME",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "",
        action = ArgAction::Append
    )]
    werror: Vec<String>,

    /// Do not show warnings: none, or not those named.
    #[arg(
        long = "Wdisable",
        value_name = "NAME",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "",
        action = ArgAction::Append
    )]
    wdisable: Vec<String>,

    /// Show warnings (the default): all, or those named.
    #[arg(
        long = "Wwarn",
        value_name = "NAME",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "",
        action = ArgAction::Append
    )]
    wwarn: Vec<String>,

    /// Keep externs that v1model does not have, for a switch that is extended with them.
    #[arg(long)]
    emit_externs: bool,

    /// Print messages as JSON, one object a line.
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    ignored: Ignored,
}

/// Options of p4c that other people's makefiles have, and that change nothing here: they are about p4c's own passes.
#[derive(Clone, Debug, clap::Args)]
struct Ignored {
    #[arg(short = 'v', hide = true, action = ArgAction::Count)]
    verbose: u8,
    #[arg(short = 'T', value_name = "LEVELS", hide = true, action = ArgAction::Append)]
    log: Vec<String>,
    #[arg(short = 'g', hide = true)]
    debug: bool,
    #[arg(long, hide = true)]
    ndebug: bool,
    #[arg(long, value_name = "PASSES", hide = true)]
    top4: Option<String>,
    #[arg(long, value_name = "DIR", hide = true)]
    dump: Option<PathBuf>,
    #[arg(long = "maxErrorCount", value_name = "COUNT", hide = true)]
    max_error_count: Option<u32>,
    #[arg(long = "parser-inline-opt", hide = true)]
    parser_inline_opt: bool,
    #[arg(long = "loopsUnroll", hide = true)]
    loops_unroll: bool,
    #[arg(
        long = "disable-annotations",
        value_name = "NAMES",
        num_args = 0..=1,
        require_equals = true,
        hide = true,
        action = ArgAction::Append
    )]
    disable_annotations: Vec<String>,
}

/// What the command line asks for, checked.
#[derive(Clone, Debug)]
pub struct Request {
    /// What to compile.
    pub options: CompileOptions,
    /// Where the BMv2 JSON goes.
    pub output: Option<PathBuf>,
    /// Where the P4Info goes.
    pub p4info: Vec<(PathBuf, P4InfoFormat)>,
    /// Where the program's entries go.
    pub entries: Vec<(PathBuf, P4InfoFormat)>,
    /// Stop after the preprocessor.
    pub preprocess_only: bool,
    /// Where the program goes after the front end.
    pub pretty: Option<PathBuf>,
    /// Where graphs go.
    pub graph: Option<PathBuf>,
    /// Messages as JSON.
    pub json: bool,
}

impl P4cArgs {
    /// Checks the command line as a whole.
    ///
    /// # Errors
    /// What is wrong with it, and what to do.
    pub fn request(&self) -> Result<Request, String> {
        self.check_language()?;
        let p4info = self.files(
            "--p4runtime-files",
            &self.p4runtime_files,
            &self.p4runtime_file,
        )?;
        let entries = self.files(
            "--p4runtime-entries-files",
            &self.p4runtime_entries_files,
            &self.p4runtime_entries_file,
        )?;
        Ok(Request {
            options: CompileOptions {
                source: self.source.clone(),
                preprocessor: preproc::Options {
                    include_dirs: self.include.clone(),
                    macros: self.macros(),
                },
                warnings: self.warnings()?,
                emit_externs: self.emit_externs,
            },
            output: self.output_file(),
            p4info,
            entries,
            preprocess_only: self.preprocess_only,
            pretty: self.pp.clone(),
            graph: self.graph.clone(),
            json: self.json,
        })
    }

    /// Files whose format follows from their names, and the one that --p4runtime-format is for.
    fn files(
        &self,
        option: &str,
        named: &[PathBuf],
        other: &Option<PathBuf>,
    ) -> Result<Vec<(PathBuf, P4InfoFormat)>, String> {
        let mut files = Vec::new();
        for path in named {
            let Some(format) = P4InfoFormat::of_file(path) else {
                return Err(format!(
                    "{option} {}: the format follows from the extension; use .txtpb, .txt, .json or .bin",
                    path.display()
                ));
            };
            files.push((path.clone(), format));
        }
        files.extend(
            other
                .iter()
                .map(|path| (path.clone(), self.p4runtime_format)),
        );
        Ok(files)
    }

    fn check_language(&self) -> Result<(), String> {
        match self.standard.as_str() {
            "p4-16" | "p4_16" | "16" => {}
            "p4-14" | "p4_14" | "14" => {
                return Err("--std p4-14: only P4_16 is compiled; \
                     p4test --p4v 14 --pp turns a P4_14 program into a P4_16 one"
                    .to_owned());
            }
            other => {
                return Err(format!(
                    "--std {other}: there is no such version; use p4-16"
                ))
            }
        }
        match self.arch.as_deref() {
            None | Some("v1model") => {}
            Some(other) => {
                return Err(format!(
                    "--arch {other}: only v1model is compiled for BMv2 here"
                ))
            }
        }
        match self.target.as_deref() {
            None | Some("bmv2" | "bmv2-ss-p4org") => Ok(()),
            Some(other) => Err(format!("--target {other}: only bmv2 is compiled for")),
        }
    }

    /// `-D` and `-U`; a name that is undefined stays so, whatever the order, as clap does not tell it.
    fn macros(&self) -> Vec<MacroOption> {
        let define = self.define.iter().cloned().map(MacroOption::Define);
        let undefine = self.undefine.iter().cloned().map(MacroOption::Undefine);
        define.chain(undefine).collect()
    }

    fn warnings(&self) -> Result<WarningPolicy, String> {
        let mut policy = WarningPolicy::default();
        let each = |option: &str, names: &[String], make: &mut dyn FnMut(Option<&str>)| {
            for name in names {
                match name.as_str() {
                    "" => make(None),
                    name if Warning::is_known(name) => {
                        make(Some(name));
                    }
                    name => {
                        let known: Vec<&str> = Warning::ALL.iter().map(|w| w.name()).collect();
                        return Err(format!(
                            "--{option}={name}: there is no such warning; known are {}",
                            known.join(", ")
                        ));
                    }
                }
            }
            Ok(())
        };
        let (mut errors, mut disabled) = (Vec::new(), Vec::new());
        let (mut all_errors, mut all_disabled) = (false, false);
        each("Werror", &self.werror, &mut |name| match name {
            Some(name) => errors.push(name.to_owned()),
            None => all_errors = true,
        })?;
        each("Wdisable", &self.wdisable, &mut |name| match name {
            Some(name) => disabled.push(name.to_owned()),
            None => all_disabled = true,
        })?;
        each("Wwarn", &self.wwarn, &mut |_| {})?;
        policy.errors.extend(errors);
        policy.disabled.extend(disabled);
        policy.error_all = all_errors;
        policy.disable_all = all_disabled;
        for name in &self.wwarn {
            policy.errors.remove(name);
            policy.disabled.remove(name);
        }
        Ok(policy)
    }

    /// p4c-bm2-ss writes what `-o` names, and nothing without it. The p4c driver, known by `--target`, takes `-o` for a
    /// folder and writes to the current one without it.
    fn output_file(&self) -> Option<PathBuf> {
        let name = Path::new(self.source.file_name()?).with_extension("json");
        match &self.output {
            Some(path) => {
                let folder = path.is_dir() || (self.target.is_some() && path.extension().is_none());
                Some(if folder {
                    path.join(name)
                } else {
                    path.clone()
                })
            }
            None if self.target.is_some() => Some(name),
            None => None,
        }
    }
}

/// Names of the formats, for messages.
impl std::fmt::Display for P4InfoFormat {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.to_possible_value() {
            Some(value) => f.write_str(value.get_name()),
            None => Ok(()),
        }
    }
}
