//! The driver command of p4c, named `p4c`: preprocesses a program to `DIR/NAME.p4i` and compiles that to `DIR/NAME.json`.
//!
//! Each step is a run of p4c-bm2-ss with options derived from those of the driver; `-###` and `-v` print it as a command line. As in p4c, the
//! compile step gets the same `-D` and `-I` for the preprocessed program, and only the compile step defines `__TARGET_BMV2__`.

use std::ffi::OsString;
use std::io::Write;
use std::path::{Path, PathBuf};

use clap::{ArgAction, Parser};

use super::args::{IrOptions, MakeRules, P4cOptions, PassOptions, Request};
use super::command_line::with_long_options;
use super::run::{compile, fail, write_all, write_file};
use super::P4InfoFormat;
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
    include: Vec<PathBuf>,

    /// Define a macro: NAME or NAME=VALUE.
    #[arg(short = 'D', value_name = "MACRO", action = ArgAction::Append)]
    define: Vec<String>,

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
    p4runtime_files: Vec<String>,

    /// Write the P4Info to this file in the format of --p4runtime-format (deprecated: use --p4runtime-files).
    #[arg(long, value_name = "FILE")]
    p4runtime_file: Option<PathBuf>,

    /// Format of --p4runtime-file: binary, json or text.
    #[arg(long, value_name = "FORMAT", value_enum, default_value_t = P4InfoFormat::Binary, hide_possible_values = true)]
    p4runtime_format: P4InfoFormat,

    /// Treat all warnings, or the named ones, as errors.
    #[arg(long = "Werror", value_name = "NAMES", num_args = 0..=1, default_missing_value = "", action = ArgAction::Append)]
    werror: Vec<String>,

    /// Hide all warnings, or the named ones.
    #[arg(long = "Wdisable", value_name = "NAMES", num_args = 0..=1, default_missing_value = "", action = ArgAction::Append)]
    wdisable: Vec<String>,

    /// Ignore annotations of these names.
    #[arg(
        long,
        value_name = "NAMES",
        aliases = ["disable-annotation", "disable-pragmas", "disable-pragma"]
    )]
    disable_annotations: Option<String>,

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
    make: MakeRules,

    #[command(flatten)]
    passes: PassOptions,

    #[command(flatten)]
    ir: IrOptions,

    #[command(flatten)]
    hidden: HiddenArgs,
}

/// Options for one step, and options with little effect for BMv2.
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
    #[arg(
        long = "help-pragmas",
        hide = true,
        aliases = ["pragma-help", "pragmas-help", "help-annotations", "annotation-help", "annotations-help"]
    )]
    help_pragmas: bool,
    // Options of a p4c that is run from its build folder.
    #[arg(long, hide = true)]
    pp: Option<PathBuf>,
    #[arg(long, hide = true)]
    gdb: bool,
    #[arg(long, hide = true)]
    cgdb: bool,
    #[arg(long, hide = true)]
    lldb: bool,
}

/// The options for one step that the user has written as they are on the command line of p4c-bm2-ss (`-Xpreprocessor`, `-Xp4c`).
#[derive(Parser)]
#[command(name = "p4c-bm2-ss", no_binary_name = true, args_override_self = true)]
struct StepOptions {
    #[command(flatten)]
    options: P4cOptions,
}

impl StepOptions {
    /// Parses the words of a user's options; the message of an error has one line.
    fn parse(words: &[OsString]) -> Result<P4cOptions, String> {
        let step = StepOptions::try_parse_from(with_long_options(words.to_vec()));
        step.map(|step| step.options).map_err(|error| {
            let text = error.to_string();
            let line = text.lines().next().unwrap_or_default();
            line.trim_start_matches("error: ").to_owned()
        })
    }
}

/// The requested steps of the driver.
struct Steps<'a> {
    args: &'a StepArgs,
    source: &'a Path,
    /// Whether the source is preprocessed.
    preprocesses: bool,
    /// Whether the preprocessed program is compiled.
    compiles: bool,
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
        let steps = Steps::of(self)?;
        if self.hidden.test_only || self.verbose > 0 {
            write_all(stdout, steps.to_string().as_bytes())?;
        }
        if self.hidden.test_only {
            return Ok(0);
        }
        let preprocess = steps.preprocess()?;
        let compile_step = steps.compile()?;
        if let Some(request) = preprocess {
            let mut text = Vec::new();
            let code = compile(&request, &mut text, stderr)?;
            // The output may be empty if the dependency rule is written to its own file.
            if !text.is_empty() || request.rule.is_none_or(|rule| !rule.is_only_output) {
                write_file(&steps.file(".p4i"), &text)?;
            }
            if code != 0 {
                return Ok(code);
            }
        }
        match compile_step {
            Some(request) => compile(&request, stdout, stderr),
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
            [] if self.ir.from_json.is_some() => Ok(Path::new("-")),
            [] => Err("no program; give one P4 file".to_owned()),
            [_, second, ..] => Err(format!(
                "{}: a second source file; give one file, which includes the others",
                second.display()
            )),
        }
    }

    /// The dependency rule of the preprocessor step. `beside`: the file of a rule without `-MF`.
    fn rule(&self, beside: PathBuf) -> MakeRules {
        let mut rule = self.make.clone();
        if rule.rule && !rule.only_rule {
            rule.rule_file.get_or_insert(beside);
        }
        rule
    }

    /// Adds the macros and folders of the driver to the options of a step.
    fn add_macros_and_folders(&self, options: &mut P4cOptions) {
        options.macros.define(&self.define);
        options.include.extend(self.include.iter().cloned());
    }
}

impl<'a> Steps<'a> {
    /// The steps that the driver's options request.
    fn of(args: &'a StepArgs) -> Result<Steps<'a>, String> {
        let only_rule = args.make.only_rule;
        Ok(Steps {
            args,
            source: args.source()?,
            preprocesses: !args.skip_preprocessor || args.only_preprocess || only_rule,
            compiles: !args.only_preprocess && !only_rule,
        })
    }

    /// The output file with an extension, such as `.p4i`.
    fn file(&self, extension: &str) -> PathBuf {
        let name = self.source.file_stem().unwrap_or_default();
        let mut path = self.args.output.join(name).into_os_string();
        path.push(extension);
        path.into()
    }

    /// The request of the preprocessor step, if there is one.
    fn preprocess(&self) -> Result<Option<Request>, String> {
        if !self.preprocesses {
            return Ok(None);
        }
        let mut request = self.preprocess_options()?.request(self.source)?;
        request.options.preprocessor.target_macro = None;
        Ok(Some(request))
    }

    /// The request of the compile step, if there is one.
    fn compile(&self) -> Result<Option<Request>, String> {
        if !self.compiles {
            return Ok(None);
        }
        let options = self.compile_options()?;
        options.request(&self.file(".p4i")).map(Some)
    }

    /// The options of the preprocessor step. On its command line those of `-Xpreprocessor` follow those of the dependency rule.
    fn preprocess_options(&self) -> Result<P4cOptions, String> {
        let args = self.args;
        let mut options = StepOptions::parse(&args.hidden.for_preprocessor)?;
        options.preprocess_only |= !args.make.only_rule;
        options.make = args.rule(self.file(".d")).followed_by(options.make);
        args.add_macros_and_folders(&mut options);
        Ok(options)
    }

    /// The options of the compile step. On its command line those of `-Xp4c` come first, so that those of the driver override them.
    fn compile_options(&self) -> Result<P4cOptions, String> {
        let args = self.args;
        let mut options = StepOptions::parse(&args.hidden.for_compiler)?;
        args.add_macros_and_folders(&mut options);
        standard(&args.language).clone_into(&mut options.standard);
        options.arch = Some(args.arch.clone());
        options.wdisable.extend(args.wdisable.iter().cloned());
        options.werror.extend(args.werror.iter().cloned());
        let p4info = args.p4runtime_files.iter();
        let p4info = p4info.flat_map(|files| files.split(',')).map(PathBuf::from);
        options.p4runtime_files.extend(p4info);
        if let Some(file) = &args.p4runtime_file {
            options.p4runtime_file = Some(file.clone());
        }
        options.p4runtime_format = args.p4runtime_format;
        let disabled = args.disable_annotations.iter();
        let disabled = disabled
            .flat_map(|names| names.split(','))
            .map(str::to_owned);
        options.disable_annotations.extend(disabled);
        let unsupported = &mut options.unsupported;
        unsupported.ir = unsupported.ir.clone().followed_by(args.ir.clone());
        let passes = &mut options.ignored.passes;
        passes.top4.extend(args.passes.top4.iter().cloned());
        if let Some(folder) = &args.passes.dump {
            passes.dump = Some(folder.clone());
        }
        if let Some(file) = &args.hidden.pp {
            options.pp = Some(file.clone());
        }
        options.ndebug |= args.ndebug;
        options.output = Some(self.file(".json"));
        Ok(options)
    }

    /// The preprocessor step as words of a command line.
    fn preprocess_words(&self) -> Vec<OsString> {
        let args = self.args;
        let rule = args.rule(self.file(".d"));
        let mut words: Vec<OsString> = [
            ("-M", rule.only_rule),
            ("-MD", rule.rule),
            ("-MG", rule.missing_are_generated),
            ("-MP", rule.phony),
        ]
        .into_iter()
        .filter(|(_, given)| *given)
        .map(|(flag, _)| flag.into())
        .collect();
        push_pairs(&mut words, "-MF", rule.rule_file);
        push_pairs(&mut words, "-MT", rule.rule_target);
        push_pairs(&mut words, "-MQ", rule.quoted_rule_target);
        if !rule.only_rule {
            words.push("-E".into());
        }
        words.extend(args.hidden.for_preprocessor.iter().cloned());
        self.push_macros_and_folders(&mut words);
        words.push(self.source.into());
        words
    }

    /// The compile step as words of a command line.
    fn compile_words(&self) -> Vec<OsString> {
        let args = self.args;
        let mut words = args.hidden.for_compiler.clone();
        self.push_macros_and_folders(&mut words);
        push_joined(&mut words, "--std", [standard(&args.language)]);
        push_joined(&mut words, "--arch", [&args.arch]);
        push_joined(&mut words, "--Wdisable", &args.wdisable);
        push_joined(&mut words, "--Werror", &args.werror);
        push_joined(&mut words, "--p4runtime-files", &args.p4runtime_files);
        push_joined(&mut words, "--p4runtime-file", &args.p4runtime_file);
        push_joined(
            &mut words,
            "--p4runtime-format",
            [args.p4runtime_format.to_string()],
        );
        push_joined(
            &mut words,
            "--disable-annotations",
            &args.disable_annotations,
        );
        push_joined(&mut words, "--metrics", &args.ir.metrics);
        push_joined(&mut words, "--top4", &args.passes.top4);
        push_joined(&mut words, "--dump", &args.passes.dump);
        push_joined(&mut words, "--toJSON", &args.ir.to_json);
        push_joined(&mut words, "--fromJSON", &args.ir.from_json);
        push_joined(&mut words, "--pp", &args.hidden.pp);
        if args.ndebug {
            words.push("--ndebug".into());
        }
        push_pairs(&mut words, "-o", [self.file(".json")]);
        words.push(self.file(".p4i").into());
        words
    }

    fn push_macros_and_folders(&self, words: &mut Vec<OsString>) {
        push_pairs(words, "-D", &self.args.define);
        push_pairs(words, "-I", &self.args.include);
    }
}

/// Appends an option with each of `values` as two words.
fn push_pairs(
    words: &mut Vec<OsString>,
    option: &str,
    values: impl IntoIterator<Item = impl Into<OsString>>,
) {
    words.extend(
        values
            .into_iter()
            .flat_map(|value| [option.into(), value.into()]),
    );
}

/// Appends an option with each of `values` as one word: `--option=value`, or `--option` for an empty value.
fn push_joined(
    words: &mut Vec<OsString>,
    option: &str,
    values: impl IntoIterator<Item = impl Into<OsString>>,
) {
    words.extend(values.into_iter().map(|value| {
        let value = value.into();
        let mut word = OsString::from(option);
        if !value.is_empty() {
            word.push("=");
            word.push(value);
        }
        word
    }));
}

/// The steps as command lines of p4c-bm2-ss.
impl std::fmt::Display for Steps<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let line = |words: &[OsString]| {
            let words: Vec<_> = words.iter().map(|word| word.to_string_lossy()).collect();
            words.join(" ")
        };
        if self.preprocesses {
            let (words, file) = (line(&self.preprocess_words()), self.file(".p4i"));
            writeln!(f, "preprocessor:\np4c-bm2-ss {words} > {}", file.display())?;
        }
        if self.compiles {
            writeln!(f, "compiler:\np4c-bm2-ss {}", line(&self.compile_words()))?;
        }
        Ok(())
    }
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
