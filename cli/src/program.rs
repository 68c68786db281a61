//! Compiles the data plane in this process: the built-in sources of `p4src`, or a file.

use std::io;
use std::ops::Range;
use std::path::{Component, Path, PathBuf};

use alfirk_bf_rt_json::Schema;
use alfirk_bmv2_json::BmV2Json;
use alfirk_compiler::arch::Arch;
use alfirk_compiler::driver::{compile, compile_with, CompileError, CompileOptions, Compiled};
use alfirk_compiler::preproc::{DiskLoader, MacroOption, SourceLoader};
use alfirk_p4runtime::p4::config::v1::P4Info;

use clap::ValueEnum;

use crate::exit::Failure;

/// Files of the repository in this executable: paths and texts.
#[cfg_attr(not(feature = "play"), allow(dead_code))]
pub mod embedded {
    include!(concat!(env!("OUT_DIR"), "/p4src.rs"));
}

/// Kind of switch for which the data plane is compiled.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub enum Target {
    /// p4src/v1model, on simple_switch's architecture
    #[default]
    V1model,
    /// p4src/tna, on a model of Tofino
    Tna,
    /// p4src/tna, on a model of Tofino 2, with 64 paths
    T2na,
}

impl Target {
    /// Path of the main file of the built-in program.
    fn main(self) -> &'static str {
        match self {
            Target::V1model => "p4src/v1model/main.p4",
            Target::Tna | Target::T2na => "p4src/tna/main.p4",
        }
    }

    /// Architecture of the target's program.
    fn arch(self) -> Arch {
        match self {
            Target::V1model => Arch::V1MODEL,
            Target::Tna => Arch::TNA,
            Target::T2na => Arch::T2NA,
        }
    }

    /// Numbers of the recirculation ports: packets sent there re-enter the ingress, so no link can use these ports.
    pub fn recirculation_ports(self) -> Range<u32> {
        match self {
            Target::V1model => 0..0,
            Target::Tna => 68..72,
            Target::T2na => 6..8,
        }
    }

    fn options(self, file: Option<&Path>) -> CompileOptions {
        let mut options = CompileOptions::new(file.unwrap_or(Path::new(self.main())));
        if self != Target::V1model {
            options.set_arch(self.arch());
            // v1model's CPU port may be any; this one is also that of the TNA switches.
            let cpu_port = format!("CPU_PORT={}", alfirk_ctrl::constants::CPU_PORT);
            options
                .preprocessor
                .macros
                .push(MacroOption::Define(cpu_port));
        }
        options
    }
}

/// Flags of a P4 source that a user names.
#[derive(Debug, Clone, clap::Args)]
pub struct SourceFlags {
    /// Add a folder to the search path of included files.
    #[arg(short = 'I', value_name = "DIR")]
    pub include: Vec<PathBuf>,

    /// Define a macro: NAME or NAME=VALUE.
    #[arg(short = 'D', value_name = "MACRO")]
    pub define: Vec<String>,

    /// The program's architecture: v1model, tna or t2na.
    #[arg(long, value_name = "ARCH", default_value = "v1model")]
    pub arch: String,
}

impl SourceFlags {
    /// Options of the compiler for the source `path`.
    ///
    /// # Errors
    /// There is no such architecture.
    pub fn options(&self, path: &Path) -> Result<CompileOptions, Failure> {
        let arch = Arch::of(Some(&self.arch), None).map_err(Failure::bad_input)?;
        let mut options = CompileOptions::new(path);
        options.preprocessor.include_dirs.clone_from(&self.include);
        let macros = self.define.iter().cloned().map(MacroOption::Define);
        options.preprocessor.macros = macros.collect();
        options.set_arch(arch);
        Ok(options)
    }
}

/// Compiles a P4 source that is tested.
///
/// # Errors
/// Exit code 2 if the source cannot be read, and 1 if it has errors.
pub fn compile_source(options: &CompileOptions) -> Result<Compiled, Failure> {
    match compile(options) {
        Ok(compiled) => Ok(compiled),
        Err(error @ CompileError::Read { .. }) => Err(Failure::bad_input(error)),
        Err(error) => Err(Failure::failed(error)),
    }
}

/// Compiles a program for packet tests, in which the actions of a table may share names, as p4c's tests assume.
///
/// # Errors
/// As [`compile_source`].
pub fn compile_for_test(source: &SourceFlags, path: &Path) -> Result<Compiled, Failure> {
    let mut options = source.options(path)?;
    options.actions_share_names = true;
    compile_source(&options)
}

/// Whether a program is compiled BMv2 JSON, by the end of its name.
pub fn is_json(path: &Path) -> bool {
    path.extension()
        .is_some_and(|extension| extension == "json")
}

/// A compiled data plane.
#[derive(Debug)]
pub struct CompiledProgram {
    pub p4info: P4Info,
    /// BMv2 JSON of the program: the target-specific configuration (P4Runtime `p4_device_config`).
    pub device_config: Vec<u8>,
    /// The program of which `device_config` is the text.
    pub json: BmV2Json,
}

/// Compiles `file`, or the built-in program of the target.
pub fn compile_program(target: Target, file: Option<&Path>) -> Result<CompiledProgram, Failure> {
    let options = target.options(file);
    let compiled = match file {
        Some(_) => compile(&options),
        None => compile_with(&options, &Embedded),
    };
    let Compiled {
        json,
        p4info,
        warnings,
    } = compiled.map_err(refused)?;
    if !warnings.is_empty() {
        tracing::warn!("{}", warnings.trim_end());
    }
    let device_config = serde_json::to_vec(&json).expect("BMv2 JSON has no strange keys");
    Ok(CompiledProgram {
        p4info,
        device_config,
        json,
    })
}

/// Generates the BfRuntime schema (`bf-rt.json`) of `file`, or of the built-in program of the target, as text.
pub fn bf_rt_schema(target: Target, file: Option<&Path>) -> Result<Vec<u8>, Failure> {
    let loader: &dyn SourceLoader = match file {
        Some(_) => &DiskLoader,
        None => &Embedded,
    };
    let schema = alfirk_compiler::driver::bf_rt_schema(&target.options(file), loader);
    Ok(schema.map_err(refused)?.to_text().into_bytes())
}

/// Generates the BfRuntime schema of a source.
///
/// # Errors
/// As [`compile_source`].
pub fn bf_rt_schema_of(options: &CompileOptions) -> Result<Schema, Failure> {
    match alfirk_compiler::driver::bf_rt_schema(options, &DiskLoader) {
        Ok(schema) => Ok(schema),
        Err(error @ CompileError::Read { .. }) => Err(Failure::bad_input(error)),
        Err(error) => Err(Failure::failed(error)),
    }
}

/// The failure of a compilation of the data plane.
fn refused(error: CompileError) -> Failure {
    match error {
        CompileError::Read { .. } => Failure::bad_input(error),
        // The compiler's report has lines of its own.
        CompileError::Program { .. } => {
            Failure::bad_input(format_args!("the P4 program has errors\n{error}"))
        }
    }
}

/// Source loader that reads the P4 files embedded in this executable.
struct Embedded;

impl SourceLoader for Embedded {
    fn load(&self, path: &Path) -> io::Result<String> {
        let path = without_dots(path);
        embedded::P4SRC
            .iter()
            .find(|(name, _)| Path::new(name) == path)
            .map(|(_, text)| (*text).to_string())
            .ok_or_else(|| io::ErrorKind::NotFound.into())
    }
}

/// Normalizes `a/b/../c` to `a/c`.
fn without_dots(path: &Path) -> PathBuf {
    let mut clean = PathBuf::new();
    for component in path.components() {
        match component {
            Component::ParentDir => {
                clean.pop();
            }
            Component::CurDir => {}
            other => clean.push(other),
        }
    }
    clean
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn built_in_program_compiles() {
        let program = compile_program(Target::V1model, None).unwrap();
        assert!(program.p4info.tables.len() > 5);
        assert!(program.device_config.starts_with(b"{"));
    }

    #[test]
    fn missing_file_is_bad_input() {
        let error = compile_program(Target::V1model, Some(Path::new("no/such.p4"))).unwrap_err();
        assert!(matches!(error, Failure::BadInput(e) if e.to_string().contains("no/such.p4")));
    }
}
