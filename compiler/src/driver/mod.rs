//! The driver: runs the phases from a source file to BMv2 JSON and P4Info.
//!
//! [`compile`] is the entry point of the simulator and of tests. `alfirk p4c`, with the command line of p4c-bm2-ss, is [`P4cArgs`] and
//! [`run()`]. The driver command of p4c, named `p4c`, is [`StepArgs`] and [`run_steps`].

mod args;
mod command_line;
mod macros;
mod run;
mod steps;

pub use args::P4cArgs;
pub use command_line::with_long_options;
pub use run::run;
pub use steps::{run_steps, StepArgs};

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};

use alfirk_bf_rt_json::Schema;
use alfirk_bmv2_json::BmV2Json;
use alfirk_p4runtime::{p4::config::v1::P4Info, Message, Name};

use crate::arch::Arch;
use crate::constants::Constants;
use crate::diag::{
    catch_faults, render_all, Code, Diagnostic, Diagnostics, ErrorReported, SourceMap,
    WarningPolicy,
};
use crate::passes;
use crate::preproc::{self, DiskLoader, SourceLoader};
use crate::sema::{self, CheckedProgram};
use crate::stack::on_deep_stack;
use crate::syntax::ast::P4Program;
use crate::syntax::parser::parse_without;
use crate::syntax::print::print_with_includes;
use crate::syntax::token::Token;
use crate::{ir, p4info};

/// Options of a compilation.
#[derive(Clone, Debug)]
pub struct CompileOptions {
    /// The main source file.
    pub source: PathBuf,
    /// The architecture of the program.
    pub arch: Arch,
    /// Options of the preprocessor, such as folders for `#include` and macros.
    pub preprocessor: preproc::Options,
    /// Treatment of warnings: which are hidden, shown as errors, or shown as information.
    pub warnings: WarningPolicy,
    /// Whether to keep externs that the target does not implement. Default: they are errors.
    pub emit_externs: bool,
    /// Whether to remove calls of `assert` and `assume`.
    pub no_assertions: bool,
    /// Index, from 0, of the pipe to compile in a program with several pipes. Default: such a program can only be checked.
    pub pipe: Option<usize>,
    /// Whether two actions may have the same control-plane name, as p4c allows without a P4Info. Default: that is an error.
    pub actions_share_names: bool,
    /// Names of annotations to ignore.
    pub disabled_annotations: BTreeSet<String>,
}

impl CompileOptions {
    /// Default options for a source file.
    pub fn new(source: impl Into<PathBuf>) -> CompileOptions {
        let mut options = CompileOptions {
            source: source.into(),
            arch: Arch::default(),
            preprocessor: preproc::Options::default(),
            warnings: WarningPolicy::default(),
            emit_externs: false,
            no_assertions: false,
            pipe: None,
            actions_share_names: false,
            disabled_annotations: BTreeSet::new(),
        };
        options.set_arch(Arch::default());
        options
    }

    /// Sets the architecture and defines its macro, such as `__TARGET_TOFINO__`.
    pub fn set_arch(&mut self, arch: Arch) {
        self.arch = arch;
        arch.define(&mut self.preprocessor);
    }
}

/// The outputs of a compilation.
#[derive(Clone, Debug)]
pub struct Compiled {
    /// The program for the switch, in BMv2's JSON format.
    pub json: BmV2Json,
    /// The program's interface for a P4Runtime controller.
    pub p4info: P4Info,
    /// Warnings, rendered with their source lines; empty if there are none.
    pub warnings: String,
}

/// The reason why a compilation failed.
#[derive(Debug, thiserror::Error)]
pub enum CompileError {
    /// The main source file cannot be read.
    #[error("{}: {error}", path.display())]
    Read {
        /// Path of the file.
        path: PathBuf,
        /// The error of the operating system.
        error: io::Error,
    },
    /// The program has errors. The text shows them all, with their source lines.
    #[error("{report}{errors} error{}", if *errors == 1 { "" } else { "s" })]
    Program {
        /// All errors and warnings as text, with source lines.
        report: String,
        /// Number of errors.
        errors: usize,
    },
}

/// Compiles a file.
///
/// # Errors
/// The file cannot be read, or the program has errors.
pub fn compile(options: &CompileOptions) -> Result<Compiled, CompileError> {
    compile_with(options, &DiskLoader)
}

/// Compiles a file. `loader` reads the main file and all included files.
///
/// # Errors
/// As for [`compile`].
pub fn compile_with(
    options: &CompileOptions,
    loader: &dyn SourceLoader,
) -> Result<Compiled, CompileError> {
    let goals = Goals {
        json: true,
        p4info: true,
        ..Goals::default()
    };
    outputs_of(options, loader, goals, |outputs, warnings| {
        Some(Compiled {
            json: outputs.json?,
            p4info: outputs.p4info?,
            warnings,
        })
    })
}

/// Generates the BfRuntime schema of a file, which is empty for an architecture without BfRuntime.
///
/// # Errors
/// As for [`compile`].
pub fn bf_rt_schema(
    options: &CompileOptions,
    loader: &dyn SourceLoader,
) -> Result<Schema, CompileError> {
    let goals = Goals {
        json: true,
        bf_rt_schema: true,
        ..Goals::default()
    };
    outputs_of(options, loader, goals, |outputs, _| outputs.bf_rt_schema)
}

/// Compiles a file, and picks from the outputs and the rendered warnings. A missing output is an error of the program.
fn outputs_of<T: Send>(
    options: &CompileOptions,
    loader: &dyn SourceLoader,
    goals: Goals,
    pick: impl FnOnce(Outputs, String) -> Option<T> + Send,
) -> Result<T, CompileError> {
    on_deep_stack(|| {
        let mut session = Session::new(options.clone());
        let unreadable = |error| CompileError::Read {
            path: options.source.clone(),
            error,
        };
        let Results { outputs, .. } = session.results(loader, goals).map_err(unreadable)?;
        let report = session.rendered();
        let picked = outputs.map(|outputs| pick(outputs, report.clone()));
        picked.ok().flatten().ok_or_else(|| CompileError::Program {
            report,
            errors: session.diagnostics.error_count(),
        })
    })
}

/// The results that the caller of a compilation needs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Goals {
    /// The text of the parsed program.
    pub text: bool,
    /// The program's constants.
    pub constants: bool,
    /// The BMv2 JSON. Without it the program is only checked: limits of the software model are not reported, and there may be several
    /// pipes.
    pub json: bool,
    /// The P4Info.
    pub p4info: bool,
    /// The BfRuntime schema.
    pub bf_rt_schema: bool,
}

/// The results of a compilation.
#[derive(Debug)]
pub(crate) struct Results {
    /// The text of the parsed program; `None` if it is not a goal, or has errors of syntax.
    pub text: Option<String>,
    /// The results for a program without errors.
    pub outputs: Result<Outputs, ErrorReported>,
}

/// The results for a program without errors. Each is `None` unless it is a goal.
#[derive(Debug)]
pub(crate) struct Outputs {
    pub constants: Option<Constants>,
    pub json: Option<BmV2Json>,
    pub p4info: Option<P4Info>,
    /// The BfRuntime schema of all pipes.
    pub bf_rt_schema: Option<Schema>,
    /// The lowered program of each pipe; one for a program with JSON.
    pub programs: Vec<ir::FlatProgram>,
}

/// A compilation in progress: the sources read so far and their diagnostics. Its phases recurse as deeply as the program is nested; call
/// them on a large stack ([`on_deep_stack`]), as [`compile`] does.
#[derive(Debug)]
pub struct Session {
    options: CompileOptions,
    /// The source files read so far.
    pub sources: SourceMap,
    /// The diagnostics so far.
    pub diagnostics: Diagnostics,
    /// Included files that were not found and that `-MG` treats as generated.
    missing: Vec<String>,
    /// Whether a P4Info is requested, which requires unique names of actions.
    for_p4info: bool,
    /// Whether the program is only checked, without outputs.
    only_check: bool,
}

impl AsMut<Diagnostics> for Session {
    fn as_mut(&mut self) -> &mut Diagnostics {
        &mut self.diagnostics
    }
}

impl Session {
    /// Creates a session without sources.
    pub fn new(options: CompileOptions) -> Session {
        let diagnostics = Diagnostics::with_policy(options.warnings.clone());
        Session {
            options,
            sources: SourceMap::new(),
            diagnostics,
            missing: Vec::new(),
            for_p4info: false,
            only_check: false,
        }
    }

    /// Reads and preprocesses the main file.
    ///
    /// # Errors
    /// The main file cannot be read. Missing included files are diagnostics.
    pub fn tokens(&mut self, loader: &dyn SourceLoader) -> io::Result<Vec<Token>> {
        let text = loader.load(&self.options.source)?;
        let name = self.options.source.to_string_lossy().into_owned();
        let main = self.sources.add(name, text);
        self.diagnostics.enter("preproc");
        let preprocessed = catch_faults(self, |this| {
            preproc::preprocess(
                main,
                &mut this.sources,
                loader,
                &this.options.preprocessor,
                &mut this.diagnostics,
            )
        });
        // After an internal error, the program is empty.
        Ok(preprocessed.map_or(Vec::new(), |preprocessed| {
            self.missing = preprocessed.missing;
            preprocessed.tokens
        }))
    }

    /// Parses the program.
    ///
    /// # Errors
    /// As for [`Session::tokens`].
    pub fn tree(&mut self, loader: &dyn SourceLoader) -> io::Result<P4Program> {
        let tokens = self.tokens(loader)?;
        self.diagnostics.enter("parser");
        let tree = catch_faults(self, |this| {
            parse_without(
                tokens,
                &this.options.disabled_annotations,
                &mut this.diagnostics,
            )
        });
        // After an internal error, the program is empty.
        Ok(tree.unwrap_or_default())
    }

    /// The typed program; the inner error if it has errors.
    ///
    /// # Errors
    /// As for [`Session::tokens`].
    pub fn checked(
        &mut self,
        loader: &dyn SourceLoader,
    ) -> io::Result<Result<CheckedProgram, ErrorReported>> {
        let tree = self.tree(loader)?;
        Ok(self.checked_tree(tree))
    }

    fn checked_tree(&mut self, tree: P4Program) -> Result<CheckedProgram, ErrorReported> {
        let arch = self.options.arch;
        catch_faults(self, |this| sema::check(tree, arch, &mut this.diagnostics))?
    }

    /// Checks a program for editors, without outputs. The typed program is returned in spite of errors. Errors of elaboration are
    /// reported only if the earlier phases report none.
    ///
    /// # Errors
    /// As for [`Session::tokens`].
    pub fn checked_despite_errors(
        &mut self,
        loader: &dyn SourceLoader,
    ) -> io::Result<CheckedProgram> {
        let tree = self.tree(loader)?;
        let arch = self.options.arch;
        arch.target()
            .check_tree(&tree, false, &mut self.diagnostics);
        let checked = sema::check_despite_errors(tree, arch, &mut self.diagnostics);
        if checked.errors.is_none() {
            self.only_check = true;
            // Only the diagnostics are used.
            let _: Result<_, ErrorReported> = self.elaborated_program(&checked.program);
        }
        Ok(checked.program)
    }

    /// The elaborated program; the inner error if the program has errors.
    ///
    /// # Errors
    /// As for [`Session::tokens`].
    pub fn elaborated(
        &mut self,
        loader: &dyn SourceLoader,
    ) -> io::Result<Result<ir::FlatProgram, ErrorReported>> {
        let checked = self.checked(loader)?;
        Ok(checked.and_then(|checked| self.elaborated_program(&checked)))
    }

    /// The elaborated programs of all pipes, or of the selected pipe; stops at the first with errors.
    fn pipes(&mut self, checked: &CheckedProgram) -> Result<Vec<ir::FlatProgram>, ErrorReported> {
        let many = checked.main().map_or(1, |main| main.args.len());
        if self.options.pipe.is_some() || many <= 1 {
            return Ok(vec![self.elaborated_program(checked)?]);
        }
        let programs = (0..many).map(|pipe| self.elaborated_pipe(checked, Some(pipe)));
        programs.collect()
    }

    fn elaborated_program(
        &mut self,
        checked: &CheckedProgram,
    ) -> Result<ir::FlatProgram, ErrorReported> {
        self.elaborated_pipe(checked, self.options.pipe)
    }

    fn elaborated_pipe(
        &mut self,
        checked: &CheckedProgram,
        pipe: Option<usize>,
    ) -> Result<ir::FlatProgram, ErrorReported> {
        catch_faults(self, |this| this.lower_pipe(checked, pipe))?
    }

    fn lower_pipe(
        &mut self,
        checked: &CheckedProgram,
        pipe: Option<usize>,
    ) -> Result<ir::FlatProgram, ErrorReported> {
        let target = self.options.arch.target();
        self.diagnostics.enter("stages");
        target.check_operations(checked, &mut self.diagnostics);
        if let Some(reported) = self.diagnostics.error_reported() {
            return Err(reported);
        }
        let options = passes::Options {
            arch: self.options.arch,
            only_check: self.only_check,
            emit_externs: self.options.emit_externs,
            no_assertions: self.options.no_assertions,
            pipe,
            actions_need_names: self.for_p4info,
            source: self.options.source.to_string_lossy().into_owned(),
        };
        let program = passes::lower(checked, &self.sources, &mut self.diagnostics, &options)?;
        self.diagnostics.enter("stages");
        target.check_limits(&program, &mut self.diagnostics);
        match self.diagnostics.error_reported() {
            None => Ok(program),
            Some(reported) => Err(reported),
        }
    }

    /// Runs all phases that the goals need.
    ///
    /// # Errors
    /// As for [`Session::tokens`].
    pub(crate) fn results(
        &mut self,
        loader: &dyn SourceLoader,
        goals: Goals,
    ) -> io::Result<Results> {
        self.for_p4info = !self.options.actions_share_names;
        self.only_check = !goals.json;
        let tree = self.tree(loader)?;
        let target = self.options.arch.target();
        target.check_tree(&tree, goals.text, &mut self.diagnostics);
        let has_text = goals.text && !self.diagnostics.has_errors();
        Ok(Results {
            text: has_text.then(|| print_with_includes(&tree, &self.sources)),
            outputs: self.outputs(tree, goals),
        })
    }

    /// Runs the phases after the parser, as far as the goals need them, and returns their results.
    fn outputs(&mut self, tree: P4Program, goals: Goals) -> Result<Outputs, ErrorReported> {
        let checked = self.checked_tree(tree)?;
        let constants = goals
            .constants
            .then(|| Constants::of(&checked, &self.sources));
        let programs = match goals.json {
            true => vec![self.elaborated_program(&checked)?],
            false => self.pipes(&checked)?,
        };
        let (mut json, mut p4info) = (None, None);
        if let ([program], true) = (&programs[..], goals.json) {
            if goals.p4info {
                p4info = Some(self.p4info(program)?);
            }
            json = Some(self.json(program)?);
        }
        let mut bf_rt_schema = None;
        if goals.bf_rt_schema {
            for program in &programs {
                let pipe = self.bf_rt_schema(program)?;
                let all = bf_rt_schema.get_or_insert_with(Schema::default);
                all.merge(pipe);
            }
        }
        Ok(Outputs {
            bf_rt_schema,
            constants,
            json,
            p4info,
            programs,
        })
    }

    /// The BMv2 JSON of a program.
    ///
    /// # Errors
    /// The program breaks an invariant of the IR: an internal error.
    pub fn json(&mut self, program: &ir::FlatProgram) -> Result<BmV2Json, ErrorReported> {
        self.diagnostics.enter("bmv2");
        let target = self.options.arch.target();
        catch_faults(self, |_| target.emit(program))
    }

    /// The P4Info of a program.
    ///
    /// # Errors
    /// Explicit ids conflict, which is reported.
    pub fn p4info(&mut self, program: &ir::FlatProgram) -> Result<P4Info, ErrorReported> {
        self.diagnostics.enter("p4info");
        match catch_faults(self, |_| p4info::emit(&program.objects))? {
            Ok(info) => Ok(info),
            Err(errors) => Err(self.report_ids(errors)),
        }
    }

    /// The BfRuntime schema of a program.
    ///
    /// # Errors
    /// Explicit ids conflict, which is reported.
    fn bf_rt_schema(&mut self, program: &ir::FlatProgram) -> Result<Schema, ErrorReported> {
        self.diagnostics.enter("bf_rt");
        let target = self.options.arch.target();
        match catch_faults(self, |_| target.bf_rt_schema(&program.objects))? {
            Some(Ok(schema)) => Ok(schema),
            Some(Err(errors)) => Err(self.report_ids(errors)),
            None => Ok(Schema::default()),
        }
    }

    /// Reports invalid or conflicting ids.
    fn report_ids(&mut self, errors: Vec<p4info::IdError>) -> ErrorReported {
        for error in errors {
            let what = Diagnostic::global(Code::ANNOTATION_RULE, error.to_string());
            self.diagnostics.report_error(what);
        }
        self.diagnostics
            .follow_up(None, "a conflict of ids has no message")
    }

    /// Renders all diagnostics with their source lines, in order of position.
    pub fn rendered(&mut self) -> String {
        self.diagnostics.sort();
        render_all(&self.diagnostics, &self.sources)
    }
}

/// File formats of P4Info and of table entries.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, clap::ValueEnum)]
pub enum P4InfoFormat {
    /// Binary: protobuf's wire format.
    #[default]
    Binary,
    /// Protobuf's JSON mapping.
    Json,
    /// Protobuf's text format.
    Text,
}

impl P4InfoFormat {
    /// The format of a file's extension; `None` if it is unknown.
    pub fn of_file(path: &Path) -> Option<P4InfoFormat> {
        match path.extension()?.to_str()? {
            "txtpb" | "txt" | "pbtxt" | "prototxt" => Some(P4InfoFormat::Text),
            "json" => Some(P4InfoFormat::Json),
            "bin" | "pb" => Some(P4InfoFormat::Binary),
            _ => None,
        }
    }

    /// Encodes a protobuf message. Text begins with two comment lines that name the message type for tools.
    pub fn encode<M: Message + Name>(self, message: &M) -> Vec<u8> {
        match self {
            P4InfoFormat::Text => {
                let descriptor = alfirk_p4runtime::descriptor::of_p4info::<M>();
                let proto = descriptor.parent_file();
                let (proto, name) = (proto.name(), descriptor.full_name());
                let text = alfirk_p4runtime::text::to_string(message);
                format!("# proto-file: {proto}\n# proto-message: {name}\n\n{text}").into_bytes()
            }
            P4InfoFormat::Json => alfirk_p4runtime::json::to_string(message).into_bytes(),
            P4InfoFormat::Binary => message.encode_to_vec(),
        }
    }
}

#[cfg(test)]
mod tests;
