//! The driver command of p4c, named `p4c`: preprocesses a program to `DIR/NAME.p4i` and compiles that to `DIR/NAME.json`.
//!
//! Each step is a command line of p4c-bm2-ss, derived from that of the driver. As in p4c, the compile step gets the same `-D` and `-I` for
//! the preprocessed program, and only the compile step defines `__TARGET_BMV2__`.

use std::ffi::OsString;
use std::io::Write;
use std::path::{Path, PathBuf};

use clap::{ArgAction, Parser};

use super::args::Request;
use super::command_line::with_long_options;
use super::run::{compile, fail, write_all, write_file};
use super::P4cArgs;
use crate::stack::on_deep_stack;

/// Compile a P4_16 program for BMv2 as p4c's driver does, to NAME.p4i and NAME.json in a folder.
///
/// Exit codes: 0 compiled, 1 the program has errors, 2 wrong usage or unreadable input, 101 a fault of the compiler.
#[derive(Clone, Debug, clap::Args)]
#[command(
    args_override_self = true,
    disable_version_flag = true,
    after_help = "Also accepted: -### (only print the steps), -M, -MD, -MF FILE, -MG, -MP, -MT TARGET and -MQ TARGET (rules of make), \
-Xpreprocessor OPTION and -Xp4c OPTION (for one step).\n\n\
Example:\n  p4c --target bmv2 --arch v1model -o build basic.p4"
)]
pub struct StepArgs {
    /// The P4_16 program.
    #[arg(value_name = "FILE")]
    sources: Vec<PathBuf>,

    /// Write into this folder.
    #[arg(short, long, value_name = "DIR", default_value = ".")]
    output: PathBuf,

    /// Target: bmv2.
    #[arg(
        short = 'b',
        long,
        value_name = "TARGET",
        env = "P4C_DEFAULT_TARGET",
        default_value = "bmv2"
    )]
    target: String,

    /// Architecture: v1model.
    #[arg(
        short = 'a',
        long,
        value_name = "ARCH",
        env = "P4C_DEFAULT_ARCH",
        default_value = "v1model"
    )]
    arch: String,

    /// Language version.
    #[arg(
        long = "std",
        short = 'x',
        value_name = "VERSION",
        env = "P4C_DEFAULT_LANGUAGE",
        default_value = "p4-16"
    )]
    language: String,

    /// Search included files in this folder too, before the shipped headers.
    #[arg(short = 'I', value_name = "DIR", action = ArgAction::Append)]
    include: Vec<OsString>,

    /// Define a macro: NAME or NAME=VALUE.
    #[arg(short = 'D', value_name = "MACRO", action = ArgAction::Append)]
    define: Vec<OsString>,

    /// Preprocess only.
    #[arg(short = 'E')]
    only_preprocess: bool,

    /// Skip the preprocessor and read an existing NAME.p4i.
    #[arg(short = 'e')]
    skip_preprocessor: bool,

    /// Preprocess and compile, as by default: BMv2 has no assembler.
    #[arg(short = 'S')]
    until_assembler: bool,

    /// Preprocess and compile (the default).
    #[arg(short = 'c', long = "compile")]
    all: bool,

    /// Write the P4Info to these files: text for .txtpb and .txt, JSON for .json, binary for .bin.
    #[arg(long, value_name = "FILES", action = ArgAction::Append)]
    p4runtime_files: Vec<OsString>,

    /// Write the P4Info to this file in the format of --p4runtime-format (deprecated: use --p4runtime-files).
    #[arg(long, value_name = "FILE")]
    p4runtime_file: Option<OsString>,

    /// Format of --p4runtime-file: binary, json or text.
    #[arg(long, value_name = "FORMAT", default_value = "binary")]
    p4runtime_format: OsString,

    /// Treat all warnings, or the named ones, as errors.
    #[arg(long = "Werror", value_name = "NAMES", num_args = 0..=1, default_missing_value = "", action = ArgAction::Append)]
    werror: Vec<OsString>,

    /// Hide all warnings, or the named ones.
    #[arg(long = "Wdisable", value_name = "NAMES", num_args = 0..=1, default_missing_value = "", action = ArgAction::Append)]
    wdisable: Vec<OsString>,

    /// Ignore annotations of these names.
    #[arg(
        long,
        value_name = "NAMES",
        aliases = ["disable-annotation", "disable-pragmas", "disable-pragma"]
    )]
    disable_annotations: Option<OsString>,

    /// Remove calls of `assert` and `assume`.
    #[arg(long)]
    ndebug: bool,

    /// List the targets.
    #[arg(long, aliases = ["target-help", "targets-help"])]
    help_targets: bool,

    /// Print each step before it runs.
    #[arg(short = 'v', long = "debug", action = ArgAction::Count)]
    verbose: u8,

    /// Print the version.
    #[arg(short = 'V', long)]
    version: bool,

    #[command(flatten)]
    hidden: HiddenArgs,
}

/// Options such as `-MD` that are written with one dash, and options with little effect for BMv2.
#[derive(Clone, Debug, clap::Args)]
struct HiddenArgs {
    #[arg(long, hide = true)]
    test_only: bool,
    #[arg(long = "Xpreprocessor", hide = true, action = ArgAction::Append, allow_hyphen_values = true)]
    for_preprocessor: Vec<OsString>,
    #[arg(long = "Xp4c", hide = true, action = ArgAction::Append, allow_hyphen_values = true)]
    for_compiler: Vec<OsString>,
    // There is neither an assembler nor a linker for BMv2.
    #[arg(long = "Xassembler", hide = true, action = ArgAction::Append, allow_hyphen_values = true)]
    for_assembler: Vec<OsString>,
    #[arg(long = "Xlinker", hide = true, action = ArgAction::Append, allow_hyphen_values = true)]
    for_linker: Vec<OsString>,
    #[arg(long = "M", hide = true)]
    only_rule: bool,
    #[arg(long = "MD", hide = true)]
    rule: bool,
    #[arg(long = "MF", hide = true)]
    rule_file: Option<OsString>,
    #[arg(long = "MG", hide = true)]
    missing_are_generated: bool,
    #[arg(long = "MP", hide = true)]
    phony: bool,
    #[arg(long = "MT", hide = true, action = ArgAction::Append)]
    rule_target: Vec<OsString>,
    #[arg(long = "MQ", hide = true, action = ArgAction::Append)]
    quoted_rule_target: Vec<OsString>,
    #[arg(short = 'g', hide = true)]
    debug_info: bool,
    #[arg(long, hide = true)]
    parser_inline_opt: bool,
    #[arg(long, hide = true)]
    metrics: Option<OsString>,
    #[arg(
        long = "help-pragmas",
        hide = true,
        aliases = ["pragma-help", "pragmas-help", "help-annotations", "annotation-help", "annotations-help"]
    )]
    help_pragmas: bool,
    // Options of a p4c that is run from its build folder.
    #[arg(short = 'T', hide = true, action = ArgAction::Append)]
    pass_log: Vec<OsString>,
    #[arg(long, hide = true, action = ArgAction::Append)]
    top4: Vec<OsString>,
    #[arg(long, hide = true)]
    dump: Option<OsString>,
    #[arg(long = "toJson", hide = true)]
    to_json: Option<OsString>,
    #[arg(long = "fromJson", hide = true)]
    from_json: Option<OsString>,
    #[arg(long, hide = true)]
    pp: Option<OsString>,
    #[arg(long, hide = true)]
    gdb: bool,
    #[arg(long, hide = true)]
    cgdb: bool,
    #[arg(long, hide = true)]
    lldb: bool,
}

/// The requested steps of the driver: command lines of p4c-bm2-ss.
struct Steps {
    /// Arguments of the preprocessor step, and its output file.
    preprocess: Option<(Vec<OsString>, PathBuf)>,
    compile: Option<Vec<OsString>>,
}

/// One step as the command line of p4c-bm2-ss.
#[derive(Parser)]
#[command(name = "p4c-bm2-ss", no_binary_name = true)]
struct Step {
    #[command(flatten)]
    args: P4cArgs,
}

/// Runs the driver and returns its exit code. Results go to `stdout`, messages to `stderr`.
pub fn run_steps(
    args: &StepArgs,
    stdout: &mut (dyn Write + Send),
    stderr: &mut (dyn Write + Send),
) -> u8 {
    match on_deep_stack(|| args.run(stdout, stderr)) {
        Ok(code) => code,
        Err(what) => fail(stderr, &what),
    }
}

impl StepArgs {
    fn run(&self, stdout: &mut dyn Write, stderr: &mut dyn Write) -> Result<u8, String> {
        if self.version {
            let text = format!("p4c {} (Alfirk)\n", env!("CARGO_PKG_VERSION"));
            write_all(stdout, text.as_bytes())?;
            return Ok(0);
        }
        if self.help_targets {
            let text = "Supported targets in \"target, arch\" tuple:\nbmv2-v1model\n";
            write_all(stdout, text.as_bytes())?;
            return Ok(0);
        }
        if self.hidden.help_pragmas {
            let text = "bmv2-v1model has no help on annotations; the P4_16 and P4Runtime specifications list them\n";
            write_all(stdout, text.as_bytes())?;
            return Ok(0);
        }
        self.check()?;
        let steps = self.steps()?;
        if self.hidden.test_only || self.verbose > 0 {
            write_all(stdout, steps.to_string().as_bytes())?;
        }
        if self.hidden.test_only {
            return Ok(0);
        }
        if let Some((words, file)) = &steps.preprocess {
            let mut request = request(words)?;
            request.options.preprocessor.without_target = true;
            let mut text = Vec::new();
            let code = compile(&request, &mut text, stderr)?;
            // The output may be empty if the dependency rule is written to its own file.
            if !text.is_empty() || request.rule.is_none_or(|rule| !rule.is_only_output) {
                write_file(file, &text)?;
            }
            if code != 0 {
                return Ok(code);
            }
        }
        match &steps.compile {
            Some(words) => compile(&request(words)?, stdout, stderr),
            None => Ok(0),
        }
    }

    /// Validates the options that are not passed to a step.
    fn check(&self) -> Result<(), String> {
        let (target, arch) = (&self.target, &self.arch);
        if !matches!(target.as_str(), "bmv2" | "bmv2-ss-p4org") || arch != "v1model" {
            return Err(format!("unknown backend {target}-{arch}: use bmv2-v1model"));
        }
        let debugger = [
            ("--gdb", self.hidden.gdb),
            ("--cgdb", self.hidden.cgdb),
            ("--lldb", self.hidden.lldb),
        ];
        if let Some((option, _)) = debugger.iter().find(|(_, given)| *given) {
            return Err(format!(
                "{option}: start the debugger itself: {} --args p4c ...",
                option.trim_start_matches('-')
            ));
        }
        Ok(())
    }

    /// The source file. With `--fromJSON`, the compile step rejects the program.
    fn source(&self) -> Result<&Path, String> {
        match &self.sources[..] {
            [source] if source.is_file() => Ok(source),
            [source] => Err(format!("{}: there is no such file", source.display())),
            [] if self.hidden.from_json.is_some() => Ok(Path::new("-")),
            [] => Err("no program; give one P4 file".to_owned()),
            [_, second, ..] => Err(format!(
                "{}: a second source file; give one file, which includes the others",
                second.display()
            )),
        }
    }

    fn steps(&self) -> Result<Steps, String> {
        let source = self.source()?;
        let base = self.output.join(source.file_stem().unwrap_or_default());
        let with = |extension: &str| {
            let mut path = base.clone().into_os_string();
            path.push(extension);
            PathBuf::from(path)
        };
        let both: Vec<OsString> = [("-D", &self.define), ("-I", &self.include)]
            .into_iter()
            .flat_map(|(option, values)| {
                values.iter().flat_map(move |v| [option.into(), v.clone()])
            })
            .collect();
        let only_rule = self.hidden.only_rule;
        let preprocess =
            (!self.skip_preprocessor || self.only_preprocess || only_rule).then(|| {
                let mut words = self.rule_words(&with(".d"));
                if !only_rule {
                    words.push("-E".into());
                }
                words.extend(self.hidden.for_preprocessor.iter().cloned());
                words.extend(both.iter().cloned());
                words.push(source.into());
                (words, with(".p4i"))
            });
        let compile = (!self.only_preprocess && !only_rule).then(|| {
            let mut words = self.hidden.for_compiler.clone();
            words.extend(both.iter().cloned());
            words.extend(self.compiler_words());
            words.extend(["-o".into(), with(".json").into()]);
            words.push(with(".p4i").into());
            words
        });
        Ok(Steps {
            preprocess,
            compile,
        })
    }

    /// The command-line words that request a dependency rule for make, written to the folder of the file `beside`.
    fn rule_words(&self, beside: &Path) -> Vec<OsString> {
        let hidden = &self.hidden;
        let flags = [
            ("-M", hidden.only_rule),
            ("-MD", hidden.rule),
            ("-MG", hidden.missing_are_generated),
            ("-MP", hidden.phony),
        ];
        let mut words: Vec<OsString> = flags
            .iter()
            .filter(|(_, given)| *given)
            .map(|(flag, _)| (*flag).into())
            .collect();
        let file = match &hidden.rule_file {
            Some(file) => Some(file.clone()),
            None => (hidden.rule && !hidden.only_rule).then(|| beside.into()),
        };
        let values = [
            ("-MF", file.into_iter().collect()),
            ("-MT", hidden.rule_target.clone()),
            ("-MQ", hidden.quoted_rule_target.clone()),
        ];
        for (option, values) in values {
            words.extend(values.into_iter().flat_map(|value| [option.into(), value]));
        }
        words
    }

    /// The command-line words for options that p4c-bm2-ss has under the same name.
    fn compiler_words(&self) -> Vec<OsString> {
        let hidden = &self.hidden;
        let mut words: Vec<OsString> = Vec::new();
        let one = |value: &Option<OsString>| value.iter().cloned().collect::<Vec<_>>();
        for (option, values) in [
            ("--std", vec![standard(&self.language).into()]),
            ("--arch", vec![self.arch.clone().into()]),
            ("--Wdisable", self.wdisable.clone()),
            ("--Werror", self.werror.clone()),
            ("--p4runtime-files", self.p4runtime_files.clone()),
            ("--p4runtime-file", one(&self.p4runtime_file)),
            ("--p4runtime-format", vec![self.p4runtime_format.clone()]),
            ("--disable-annotations", one(&self.disable_annotations)),
            ("--metrics", one(&hidden.metrics)),
            ("--top4", hidden.top4.clone()),
            ("--dump", one(&hidden.dump)),
            ("--toJSON", one(&hidden.to_json)),
            ("--fromJSON", one(&hidden.from_json)),
            ("--pp", one(&hidden.pp)),
        ] {
            for value in values {
                let mut word = OsString::from(option);
                if !value.is_empty() {
                    word.push("=");
                    word.push(value);
                }
                words.push(word);
            }
        }
        if self.ndebug {
            words.push("--ndebug".into());
        }
        words
    }
}

impl std::fmt::Display for Steps {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let line = |words: &[OsString]| {
            let words: Vec<_> = words.iter().map(|word| word.to_string_lossy()).collect();
            words.join(" ")
        };
        if let Some((words, file)) = &self.preprocess {
            let file = file.display();
            writeln!(f, "preprocessor:\np4c-bm2-ss {} > {file}", line(words))?;
        }
        if let Some(words) = &self.compile {
            writeln!(f, "compiler:\np4c-bm2-ss {}", line(words))?;
        }
        Ok(())
    }
}

/// Parses the command line of a step to its request.
fn request(words: &[OsString]) -> Result<Request, String> {
    let step = Step::try_parse_from(with_long_options(words.to_vec())).map_err(|error| {
        let text = error.to_string();
        let line = text.lines().next().unwrap_or_default();
        line.trim_start_matches("error: ").to_owned()
    })?;
    step.args.request()
}

/// The name of a language version in the form of p4c-bm2-ss.
fn standard(language: &str) -> &str {
    match language {
        "P4₁₆" => "p4-16",
        "P4₁₄" => "p4-14",
        other => other,
    }
}

#[cfg(test)]
mod tests;
