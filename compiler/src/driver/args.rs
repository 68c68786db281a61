//! The command line of `alfirk p4c`: the options of p4c-bm2-ss, and the options of the `p4c` driver that are common for BMv2.

use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use clap::{ArgAction, ValueEnum};

use super::macros::Macros;
use super::{CompileOptions, Goals, P4InfoFormat};
use crate::arch::Arch;
use crate::constants::Language;
use crate::diag::{Warning, WarningPolicy};
use crate::preproc::{self, quoted_for_make, Dependencies};
use crate::syntax::parser::TRANSLATE_P4_14;

/// Compile a P4_16 program to BMv2 JSON and P4Info, with the options of p4c-bm2-ss.
///
/// Exit codes: 0 compiled, 1 the program has errors, 2 wrong usage or unreadable input, 101 a fault of the compiler.
#[derive(Clone, Debug, clap::Args)]
#[command(
    args_override_self = true,
    after_help = "Also accepted, as by p4c-bm2-ss: -M, -MD, -MF FILE, -MG, -MP, -MT TARGET and -MQ TARGET for rules of make; \
-O[LEVEL] and -W[FLAG], which have no effect except -Werror.\n\n\
Example:\n  alfirk p4c -o basic.json --p4runtime-files basic.p4info.txtpb basic.p4"
)]
pub struct P4cArgs {
    /// The P4_16 program; `-` reads stdin, which is not preprocessed.
    #[arg(value_name = "FILE", required_unless_present_any = ["explain", "from_json", "list_frontend_passes", "list_midend_passes"])]
    source: Option<PathBuf>,

    /// Print the page that explains an error code, such as E0408, or a warning, such as unused, with a wrong and a right example.
    #[arg(long, value_name = "CODE")]
    explain: Option<String>,

    #[command(flatten)]
    options: P4cOptions,

    /// Whether diagnostics are followed by a line that names `--explain`.
    #[arg(skip)]
    names_explain: bool,
}

/// The options of p4c-bm2-ss for one source file.
///
/// The command line of `alfirk p4c` is parsed to them. The `p4c` command fills them in for each of its steps ([`super::StepArgs`]).
#[derive(Clone, Debug, clap::Args)]
pub(super) struct P4cOptions {
    /// Write the BMv2 JSON to this file, or to FILE's name in this folder.
    #[arg(short, long, value_name = "PATH", help_heading = "Output")]
    pub(super) output: Option<PathBuf>,

    /// Write the P4Info to these files: text for .txtpb and .txt, JSON for .json, binary for .bin.
    #[arg(
        long,
        value_name = "FILES",
        value_delimiter = ',',
        help_heading = "P4Runtime"
    )]
    pub(super) p4runtime_files: Vec<PathBuf>,

    /// Write the P4Info to this file in the format of --p4runtime-format (deprecated: use --p4runtime-files).
    #[arg(long, value_name = "FILE", help_heading = "P4Runtime")]
    pub(super) p4runtime_file: Option<PathBuf>,

    /// Write the program's constant table entries to these files, as a P4Runtime WriteRequest; formats as for
    /// --p4runtime-files.
    #[arg(
        long,
        value_name = "FILES",
        value_delimiter = ',',
        help_heading = "P4Runtime"
    )]
    p4runtime_entries_files: Vec<PathBuf>,

    /// Write the entries to this file in the format of --p4runtime-format (deprecated: use --p4runtime-entries-files).
    #[arg(long, value_name = "FILE", help_heading = "P4Runtime")]
    p4runtime_entries_file: Option<PathBuf>,

    /// Format of --p4runtime-file and --p4runtime-entries-file.
    #[arg(long, value_name = "FORMAT", value_enum, default_value_t = P4InfoFormat::Binary, help_heading = "P4Runtime")]
    pub(super) p4runtime_format: P4InfoFormat,

    /// Write the program's constants and serializable enums to these files: Rust for .rs, Python for .py, Lua for .lua.
    #[arg(
        long,
        value_name = "FILES",
        value_delimiter = ',',
        help_heading = "Output"
    )]
    constants_files: Vec<PathBuf>,

    /// Report stage placement: the stages of tables, registers and conditions, the resources they use and the longest
    /// dependency chain. Text to FILE or stdout, JSON if FILE ends with .json; fails if the chip has too few stages.
    #[arg(long, value_name = "FILE", num_args = 0..=1, default_missing_value = "-", require_equals = true, help_heading = "Tofino")]
    report: Option<PathBuf>,

    /// Write the BfRuntime schema to this file: the tables, ids and fields that BfRuntime's clients use (bf-rt.json).
    #[arg(long, value_name = "FILE", help_heading = "Tofino")]
    bf_rt_schema: Option<PathBuf>,

    /// Compile this pipe, from 0, of a `Switch` with several pipelines. The ports of each pipe need a switch of their own.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(0..4), help_heading = "Tofino")]
    pipe: Option<u8>,

    /// Add a folder to the search path of included files, before the shipped ones.
    #[arg(short = 'I', value_name = "DIR", help_heading = "Input")]
    pub(super) include: Vec<PathBuf>,

    #[command(flatten)]
    pub(super) macros: Macros,

    /// Preprocess only; the result goes to stdout.
    #[arg(short = 'E', help_heading = "Input")]
    pub(super) preprocess_only: bool,

    /// Do not preprocess; the program is preprocessed already.
    #[arg(long, help_heading = "Input")]
    nocpp: bool,

    /// Write the program after the front end to this file, `-` for stdout.
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    pub(super) pp: Option<PathBuf>,

    /// Draw the parser and the control flow into this folder: dot text, and SVG where Graphviz is installed.
    #[arg(long, value_name = "DIR", help_heading = "Output")]
    graph: Option<PathBuf>,

    /// Language version.
    #[arg(
        long = "std",
        alias = "p4v",
        value_name = "VERSION",
        default_value = "p4-16",
        help_heading = "Input"
    )]
    pub(super) standard: String,

    /// Architecture: v1model, tna or t2na. TNA programs are compiled for the model in `alfirk switch`, or only checked if no
    /// output is given.
    #[arg(short = 'a', long, value_name = "ARCH")]
    pub(super) arch: Option<String>,

    /// Target of the p4c driver: bmv2, or tofino and tofino2, whose programs are checked and not compiled.
    #[arg(short = 'b', long, value_name = "TARGET")]
    target: Option<String>,

    /// Treat all warnings, or the named ones, as errors.
    #[arg(
        long = "Werror",
        value_name = "NAME",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "",
        action = ArgAction::Append, help_heading = "Messages")]
    pub(super) werror: Vec<String>,

    /// Disable warnings: all, or those named.
    #[arg(
        long = "Wdisable",
        value_name = "NAME",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "",
        action = ArgAction::Append, help_heading = "Messages")]
    pub(super) wdisable: Vec<String>,

    /// Show all warnings (the default), or the named ones.
    #[arg(
        long = "Wwarn",
        value_name = "NAME",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "",
        action = ArgAction::Append, help_heading = "Messages")]
    wwarn: Vec<String>,

    /// Show the named warnings as information only.
    #[arg(
        long = "Winfo",
        value_name = "NAME",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "",
        action = ArgAction::Append, help_heading = "Messages")]
    winfo: Vec<String>,

    /// Maximum number of errors shown.
    #[arg(
        long = "maxErrorCount",
        value_name = "COUNT",
        help_heading = "Messages"
    )]
    max_errors: Option<usize>,

    /// Ignore annotations of these names.
    #[arg(
        long = "disable-annotations",
        value_name = "NAMES",
        num_args = 0..=1,
        require_equals = true,
        value_delimiter = ',',
        action = ArgAction::Append, help_heading = "Input")]
    pub(super) disable_annotations: Vec<String>,

    /// Leave out `assert` and `assume`.
    #[arg(long, help_heading = "Output")]
    pub(super) ndebug: bool,

    /// Keep externs that v1model lacks, for a switch that implements them.
    #[arg(long, help_heading = "Output")]
    emit_externs: bool,

    /// Print messages as JSON, one object per line.
    #[arg(long, help_heading = "Messages")]
    json: bool,

    #[command(flatten)]
    pub(super) make: MakeRules,

    #[command(flatten)]
    pub(super) ignored: Ignored,

    #[command(flatten)]
    pub(super) unsupported: Unsupported,
}

/// The options for dependency rules of make, such as `-MD`. [`with_long_options`](super::with_long_options) has replaced their single
/// dash by two.
#[derive(Clone, Debug, clap::Args)]
pub(super) struct MakeRules {
    #[arg(long = "M", hide = true)]
    pub(super) only_rule: bool,
    #[arg(long = "MD", hide = true)]
    pub(super) rule: bool,
    #[arg(long = "MF", value_name = "FILE", hide = true)]
    pub(super) rule_file: Option<PathBuf>,
    #[arg(long = "MG", hide = true)]
    pub(super) missing_are_generated: bool,
    #[arg(long = "MP", hide = true)]
    pub(super) phony: bool,
    #[arg(long = "MT", value_name = "TARGET", hide = true, action = ArgAction::Append)]
    pub(super) rule_target: Vec<String>,
    #[arg(long = "MQ", value_name = "TARGET", hide = true, action = ArgAction::Append)]
    pub(super) quoted_rule_target: Vec<String>,
}

impl MakeRules {
    /// The rules of a command line that has these options first, and then those of `later`.
    pub(super) fn followed_by(mut self, later: MakeRules) -> MakeRules {
        self.rule_target.extend(later.rule_target);
        self.quoted_rule_target.extend(later.quoted_rule_target);
        MakeRules {
            only_rule: self.only_rule || later.only_rule,
            rule: self.rule || later.rule,
            rule_file: later.rule_file.or(self.rule_file),
            missing_are_generated: self.missing_are_generated || later.missing_are_generated,
            phony: self.phony || later.phony,
            ..self
        }
    }

    fn request(&self, source: &Path) -> Result<Option<RuleRequest>, String> {
        if !self.only_rule && !self.rule {
            let given = [
                ("-MF", self.rule_file.is_some()),
                ("-MG", self.missing_are_generated),
                ("-MP", self.phony),
                ("-MT", !self.rule_target.is_empty()),
                ("-MQ", !self.quoted_rule_target.is_empty()),
            ];
            return match given.iter().find(|(_, given)| *given) {
                None => Ok(None),
                Some((option, _)) => {
                    Err(format!("{option}: add -M or -MD, which request the rule"))
                }
            };
        }
        if self.missing_are_generated && !self.only_rule {
            return Err("-MG: works only with -M, without -MD".to_owned());
        }
        let quoted = self
            .quoted_rule_target
            .iter()
            .map(|target| quoted_for_make(target));
        let beside = Path::new(source.file_name().unwrap_or_default()).with_extension("d");
        Ok(Some(RuleRequest {
            dependencies: Dependencies {
                targets: self.rule_target.iter().cloned().chain(quoted).collect(),
                phony: self.phony,
            },
            file: match &self.rule_file {
                Some(file) => Some(file.clone()),
                None => (!self.only_rule).then_some(beside),
            },
            is_only_output: self.only_rule,
        }))
    }
}

/// Options of p4c that existing makefiles use and that have no effect here, as they concern p4c's own passes.
#[derive(Clone, Debug, clap::Args)]
pub(super) struct Ignored {
    #[arg(short = 'v', hide = true, action = ArgAction::Count)]
    verbose: u8,
    #[command(flatten)]
    pub(super) passes: PassOptions,
    #[arg(long = "O", value_name = "LEVEL", hide = true, action = ArgAction::Append)]
    optimize: Vec<String>,
    #[arg(long = "W", value_name = "FLAG", hide = true, action = ArgAction::Append)]
    preprocessor_warnings: Vec<String>,
    #[arg(long = "doNotEmitIncludes", hide = true)]
    no_includes_in_dumps: bool,
    #[arg(long = "testJson", hide = true)]
    test_json: bool,
    #[arg(long = "loopsUnroll", hide = true)]
    loops_unroll: bool,
}

/// The ignored options that p4c-bm2-ss and the driver `p4c` share.
#[derive(Clone, Debug, clap::Args)]
pub(super) struct PassOptions {
    #[arg(short = 'T', value_name = "LEVELS", hide = true, action = ArgAction::Append)]
    pass_log: Vec<String>,
    #[arg(short = 'g', hide = true)]
    debug_info: bool,
    #[arg(long = "parser-inline-opt", hide = true)]
    parser_inline_opt: bool,
    #[arg(long, value_name = "PASSES", hide = true, action = ArgAction::Append)]
    pub(super) top4: Vec<String>,
    #[arg(long, value_name = "DIR", hide = true)]
    pub(super) dump: Option<PathBuf>,
}

impl Ignored {
    fn check(&self) -> Result<(), String> {
        for level in &self.optimize {
            let rest = level.strip_prefix(|c: char| c.is_ascii_digit());
            let rest = rest.unwrap_or(level);
            let rest = rest.strip_prefix('g').unwrap_or(rest);
            if !rest.strip_prefix('z').unwrap_or(rest).is_empty() {
                return Err(format!(
                    "-O{level}: unknown level; use -O0 to -O3, -Og or -Oz"
                ));
            }
        }
        Ok(())
    }

    /// Notes about given options that have no effect, for the user.
    fn notes(&self) -> Vec<String> {
        let dumps = [
            ("--top4", !self.passes.top4.is_empty()),
            ("--dump", self.passes.dump.is_some()),
        ];
        let given = dumps.iter().find(|(_, given)| *given);
        given
            .map(|(option, _)| {
                format!("{option} has no effect: it concerns p4c's own passes; use --pp FILE to write the program")
            })
            .into_iter()
            .collect()
    }

    fn preprocessor_errors(&self) -> bool {
        let flags = self.preprocessor_warnings.iter().rev();
        let last = flags
            .map(String::as_str)
            .find(|flag| matches!(*flag, "error" | "no-error"));
        last == Some("error")
    }
}

/// Options of p4c that are not supported, and rejected, as ignoring them would give another result than the user expects.
#[derive(Clone, Debug, clap::Args)]
pub(super) struct Unsupported {
    #[command(flatten)]
    pub(super) ir: IrOptions,
    #[arg(long = "listFrontendPasses", hide = true)]
    list_frontend_passes: bool,
    #[arg(long = "listMidendPasses", hide = true)]
    list_midend_passes: bool,
    #[arg(long = "excludeFrontendPasses", value_name = "PASSES", hide = true)]
    exclude_frontend_passes: Option<String>,
    #[arg(long = "excludeMidendPasses", value_name = "PASSES", hide = true)]
    exclude_midend_passes: Option<String>,
}

/// The unsupported options that p4c-bm2-ss and the driver `p4c` share: files and metrics of p4c's IR.
#[derive(Clone, Debug, clap::Args)]
pub(super) struct IrOptions {
    #[arg(long = "toJSON", alias = "toJson", value_name = "FILE", hide = true)]
    pub(super) to_json: Option<PathBuf>,
    #[arg(
        long = "fromJSON",
        alias = "fromJson",
        value_name = "FILE",
        hide = true
    )]
    pub(super) from_json: Option<PathBuf>,
    #[arg(long, value_name = "METRICS", hide = true)]
    pub(super) metrics: Option<String>,
}

impl IrOptions {
    /// The options of a command line that has these first, and then those of `later`.
    pub(super) fn followed_by(self, later: IrOptions) -> IrOptions {
        IrOptions {
            to_json: later.to_json.or(self.to_json),
            from_json: later.from_json.or(self.from_json),
            metrics: later.metrics.or(self.metrics),
        }
    }
}

impl Unsupported {
    fn check(&self) -> Result<(), String> {
        let no_ir =
            "not supported, as the IR is p4c's own; use --pp FILE to write the parsed program";
        let no_passes = "not supported, as the passes are p4c's own";
        for (option, given, why) in [
            ("--toJSON", self.ir.to_json.is_some(), no_ir),
            (
                "--fromJSON",
                self.ir.from_json.is_some(),
                "not supported, as the IR is p4c's own; give the P4 program",
            ),
            (
                "--metrics",
                self.ir.metrics.is_some(),
                "not supported; p4c collects metrics",
            ),
            ("--listFrontendPasses", self.list_frontend_passes, no_passes),
            ("--listMidendPasses", self.list_midend_passes, no_passes),
            (
                "--excludeFrontendPasses",
                self.exclude_frontend_passes.is_some(),
                no_passes,
            ),
            (
                "--excludeMidendPasses",
                self.exclude_midend_passes.is_some(),
                no_passes,
            ),
        ] {
            if given {
                return Err(format!("{option}: {why}"));
            }
        }
        Ok(())
    }
}

/// The dependency rule for make that `-M` or `-MD` requests.
#[derive(Clone, Debug)]
pub struct RuleRequest {
    /// Targets and form of the rule.
    pub dependencies: Dependencies,
    /// Output file of the rule; `None` for stdout.
    pub file: Option<PathBuf>,
    /// Whether only the rule is written and nothing is compiled (`-M`).
    pub is_only_output: bool,
}

/// The validated command line: what to compile and which files to write.
#[derive(Clone, Debug)]
pub struct Request {
    /// The options of the compilation.
    pub options: CompileOptions,
    /// Output file of the BMv2 JSON; `None` writes none.
    pub output: Option<PathBuf>,
    /// Output files of the P4Info, with their formats.
    pub p4info: Vec<(PathBuf, P4InfoFormat)>,
    /// Output files of the program's table entries, with their formats.
    pub entries: Vec<(PathBuf, P4InfoFormat)>,
    /// Output files of the program's constants, with their languages.
    pub constants: Vec<(PathBuf, Language)>,
    /// Whether to stop after the preprocessor (`-E`).
    pub preprocess_only: bool,
    /// Output file of the parsed program (`--pp`); `-` is stdout.
    pub pretty: Option<PathBuf>,
    /// Output folder of the graphs of parsers and control flow (`--graph`).
    pub graph: Option<PathBuf>,
    /// Output file of the stage report (`--report`); `-` is stdout.
    pub report: Option<PathBuf>,
    /// Output file of the BfRuntime schema (`--bf-rt-schema`).
    pub bf_rt_schema: Option<PathBuf>,
    /// The dependency rule for make, if one is requested.
    pub rule: Option<RuleRequest>,
    /// Whether diagnostics are printed as JSON.
    pub json: bool,
    /// Whether diagnostics are followed by a line that names `--explain`.
    pub names_explain: bool,
    /// Notes about the command line, printed before the diagnostics.
    pub notes: Vec<String>,
}

impl Request {
    /// The results of the compilation that the outputs need.
    pub(super) fn goals(&self) -> Goals {
        Goals {
            text: self.pretty.is_some(),
            constants: !self.constants.is_empty(),
            json: !self.only_checks(),
            p4info: !self.options.actions_share_names,
            bf_rt_schema: self.bf_rt_schema.is_some(),
        }
    }

    /// Whether the program is only checked: its target writes outputs only on request, and none is requested.
    pub fn only_checks(&self) -> bool {
        let made = [
            self.output.is_some(),
            self.graph.is_some(),
            !self.p4info.is_empty(),
            !self.entries.is_empty(),
        ];
        self.options.arch.target().is_only_checked_without_output() && !made.contains(&true)
    }
}

impl P4cArgs {
    /// Sets whether diagnostics are followed by a line that names `--explain`. Default: they are not, as with p4c.
    pub fn name_explain(mut self, names_explain: bool) -> P4cArgs {
        self.names_explain = names_explain;
        self
    }

    /// The code of `--explain CODE`; `None` without the option. With it, nothing is compiled.
    pub(super) fn explained_code(&self) -> Option<&str> {
        self.explain.as_deref()
    }

    /// Validates the command line.
    pub fn request(&self) -> Result<Request, String> {
        let Some(source) = &self.source else {
            self.options.unsupported.check()?;
            return Err("no program: give a file, or - for stdin".to_owned());
        };
        Ok(Request {
            names_explain: self.names_explain,
            ..self.options.request(source)?
        })
    }
}

impl P4cOptions {
    /// Validates the options for the program `source`; `-` is stdin.
    pub(super) fn request(&self, source: &Path) -> Result<Request, String> {
        self.unsupported.check()?;
        self.ignored.check()?;
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
        let arch = Arch::of(self.arch.as_deref(), self.target.as_deref())?;
        let preprocessor = self.preprocessor(source);
        let rule = self.make.request(source)?;
        let mut options = CompileOptions {
            arch,
            preprocessor,
            source: source.to_owned(),
            warnings: self.warnings()?,
            emit_externs: self.emit_externs,
            no_assertions: self.ndebug,
            pipe: self.pipe(arch)?,
            actions_share_names: p4info.is_empty() && entries.is_empty(),
            disabled_annotations: self.disable_annotations.iter().cloned().collect(),
        };
        options.set_arch(arch);
        Ok(Request {
            options,
            output: self.output_file(source, arch),
            p4info,
            entries,
            constants: self.constants()?,
            preprocess_only: self.preprocess_only,
            pretty: self.pp.clone(),
            graph: self.graph.clone(),
            report: self.report(arch)?,
            bf_rt_schema: self.bf_rt_schema(arch)?,
            rule,
            json: self.json,
            names_explain: false,
            notes: self.ignored.notes(),
        })
    }

    fn pipe(&self, arch: Arch) -> Result<Option<usize>, String> {
        match self.pipe {
            Some(_) if arch.target().stages().is_none() => Err(format!(
                "--pipe: {} has no pipes; add --arch tna or --arch t2na",
                arch.name()
            )),
            pipe => Ok(pipe.map(usize::from)),
        }
    }

    fn report(&self, arch: Arch) -> Result<Option<PathBuf>, String> {
        match self.report {
            Some(_) if arch.target().stages().is_none() => Err(format!(
                "--report: {} has no stages; add --arch tna or --arch t2na",
                arch.name()
            )),
            _ => Ok(self.report.clone()),
        }
    }

    fn bf_rt_schema(&self, arch: Arch) -> Result<Option<PathBuf>, String> {
        match self.bf_rt_schema {
            Some(_) if arch.target().stages().is_none() => Err(format!(
                "--bf-rt-schema: {} has no BfRuntime; add --arch tna or --arch t2na",
                arch.name()
            )),
            _ => Ok(self.bf_rt_schema.clone()),
        }
    }

    fn constants(&self) -> Result<Vec<(PathBuf, Language)>, String> {
        let files = self.constants_files.iter().map(|path| {
            let language = Language::of(path).ok_or_else(|| {
                let path = path.display();
                format!("--constants-files {path}: unknown extension; use .rs, .py or .lua")
            })?;
            Ok((path.clone(), language))
        });
        files.collect()
    }

    fn preprocessor(&self, source: &Path) -> preproc::Options {
        let mut include_dirs = self.include.clone();
        // p4c's driver sets this variable to the folder of the architecture's headers.
        include_dirs.extend(std::env::var_os("P4C_16_INCLUDE_PATH").map(PathBuf::from));
        preproc::Options {
            include_dirs,
            macros: self.macros.0.clone(),
            target_macro: None,
            only_line_markers: self.nocpp || source == Path::new("-"),
            now: Some(now()),
            missing_are_generated: self.make.missing_are_generated,
        }
    }

    /// The output files of an option with the formats of their extensions, and the file of the deprecated option with the format of
    /// --p4runtime-format.
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
                    "{option} {}: unknown extension; use .txtpb, .txt, .json or .bin",
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
                return Err(format!(
                    "--std p4-14: only P4_16 is supported; {TRANSLATE_P4_14}"
                ));
            }
            other => return Err(format!("--std {other}: unknown version; use p4-16")),
        }
        Ok(())
    }

    fn warnings(&self) -> Result<WarningPolicy, String> {
        let mut policy = WarningPolicy::default();
        let each = |option: &str, names: &[String], make: &mut dyn FnMut(Option<&str>)| {
            for name in names {
                match name.as_str() {
                    "" => make(None),
                    names if names.split(',').all(Warning::is_known) => {
                        names.split(',').for_each(|name| make(Some(name)));
                    }
                    name => {
                        let known: Vec<&str> = Warning::ALL.iter().map(|w| w.name()).collect();
                        return Err(format!(
                            "--{option}={name}: unknown warning; use one of {}",
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
        let mut infos = Vec::new();
        each("Winfo", &self.winfo, &mut |name| {
            infos.extend(name.map(str::to_owned))
        })?;
        let mut shown = Vec::new();
        each("Wwarn", &self.wwarn, &mut |name| {
            shown.extend(name.map(str::to_owned))
        })?;
        policy.errors.extend(errors);
        policy.disabled.extend(disabled);
        policy.infos.extend(infos);
        policy.error_all = all_errors;
        policy.disable_all = all_disabled;
        policy.max_errors = self.max_errors;
        if self.ignored.preprocessor_errors() {
            policy
                .errors
                .insert(Warning::Preprocessor.name().to_owned());
        }
        for name in &shown {
            policy.errors.remove(name);
            policy.disabled.remove(name);
        }
        Ok(policy)
    }

    /// The file of the BMv2 JSON. p4c-bm2-ss writes to the file of `-o`, or nothing without `-o`. With `--target`, an option of the p4c
    /// driver, `-o` is a folder, by default the current one.
    fn output_file(&self, source: &Path, arch: Arch) -> Option<PathBuf> {
        let name = Path::new(source.file_name()?).with_extension("json");
        match &self.output {
            Some(path) => {
                let folder = path.is_dir() || (self.target.is_some() && path.extension().is_none());
                Some(if folder {
                    path.join(name)
                } else {
                    path.clone()
                })
            }
            // As p4c's driver.
            None if self.target.is_some() && !arch.target().is_only_checked_without_output() => {
                Some(name)
            }
            None => None,
        }
    }
}

/// The time of `__DATE__` and `__TIME__`: `SOURCE_DATE_EPOCH` for reproducible builds, or the current time.
pub(super) fn now() -> SystemTime {
    let fixed = std::env::var("SOURCE_DATE_EPOCH").ok();
    let seconds = fixed.and_then(|text| text.parse().ok());
    seconds.map_or_else(SystemTime::now, |seconds| {
        UNIX_EPOCH + Duration::from_secs(seconds)
    })
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
