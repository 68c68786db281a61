//! Compilation of a loaded program to machine code, by Cranelift.
//!
//! Each pipeline, parser and deparser of a program becomes a function over the packet's words. The interpreter is the
//! definition of what these functions do: the results are the same, also in errors and at the limits of steps. Rare
//! instructions and statements call the interpreter's own code.
//!
//! - [`builder`] has the operations on words, [`instructions`] those of single instructions.
//! - [`registers`] accesses register cells; [`wide`] computes with more than 64 bits.
//! - [`flow`] finds the blocks of the code; [`pipeline`] connects them, and inlines actions.
//! - [`parser`] and [`deparser`] compile what is not code: states, checksums and headers.
//! - [`machine`] is the interface between machine code and the switch.
//! - [`verify`] proves that no access leaves the packet's words.
//!
//! The code of a program is in pages of its own, which are writable until it is complete, and executable afterwards.

mod builder;
mod deparser;
mod flow;
mod instructions;
mod machine;
mod parser;
mod pipeline;
mod registers;
mod verify;
mod wide;

#[cfg(test)]
mod tests;

use self::builder::{Code, Imports};
use self::machine::{Function, Machine};
use self::pipeline::Regions;
use crate::exec::ops::Pc;
use crate::exec::run::Context;
use crate::frame::{Frame, Rest};
use crate::program::{self, CompileError, LoadedProgram};
use crate::state::State;
use cranelift_codegen::ir::{types::I64, AbiParam, Endianness, Signature};
use cranelift_codegen::isa::CallConv;
use cranelift_codegen::settings::{self, Configurable};
use cranelift_frontend::{FunctionBuilder, FunctionBuilderContext};
use cranelift_jit::{JITBuilder, JITModule};
use cranelift_module::{default_libcall_names, FuncId, Linkage, Module, ModuleError};
use std::fmt::{self, Debug, Formatter};

/// Machine code of a program.
pub(crate) struct Compiled {
    /// Functions of pipelines and of the code of Tofino's deparsers, by their first instruction.
    code: Vec<(Pc, Function)>,
    /// Functions of parsers, in the order of [`parsers`].
    parsers: Vec<Function>,
    /// Functions of deparsers, in the order of [`deparsers`].
    deparsers: Vec<Function>,
    verify: Function,
    memory: Option<JITModule>,
}

// SAFETY: after `new`, the module is not used until it is dropped; its code is constant.
unsafe impl Send for Compiled {}
// SAFETY: as above.
unsafe impl Sync for Compiled {}

impl Debug for Compiled {
    fn fmt(&self, f: &mut Formatter) -> fmt::Result {
        f.debug_struct("Compiled")
            .field("functions", &self.code.len())
            .finish_non_exhaustive()
    }
}

impl Drop for Compiled {
    fn drop(&mut self) {
        if let Some(memory) = self.memory.take() {
            // SAFETY: no switch runs the program any more, since the program owns this code.
            unsafe { memory.free_memory() };
        }
    }
}

/// Returns the parsers of a program: one, or those of ingress and egress.
fn parsers(program: &LoadedProgram) -> Vec<&program::Parser> {
    match &program.tofino {
        None => vec![&program.parser],
        Some(tofino) => vec![&tofino.ingress.parser, &tofino.egress.parser],
    }
}

/// Returns the deparsers of a program: one, or those of ingress and egress.
fn deparsers(program: &LoadedProgram) -> Vec<&program::Deparser> {
    match &program.tofino {
        None => vec![&program.deparser],
        Some(tofino) => vec![&tofino.ingress.deparser, &tofino.egress.deparser],
    }
}

/// Returns the first instruction of each pipeline, and of the code of Tofino's deparsers.
fn pipelines(program: &LoadedProgram) -> Vec<Pc> {
    match &program.tofino {
        None => vec![program.ingress, program.egress],
        Some(tofino) => [&tofino.ingress, &tofino.egress]
            .into_iter()
            .flat_map(|gress| [gress.control, gress.deparse])
            .collect(),
    }
}

impl From<ModuleError> for CompileError {
    fn from(error: ModuleError) -> CompileError {
        CompileError::new(error.to_string())
    }
}

impl Compiled {
    /// Compiles a program.
    ///
    /// # Errors
    /// As [`LoadedProgram::compile`].
    pub fn new(program: &LoadedProgram) -> Result<Compiled, CompileError> {
        if !verify::is_sound(program) {
            return Err(CompileError::new(
                "an instruction exceeds the packet's words",
            ));
        }
        compile(program)
    }

    /// Runs the pipeline that begins at `start`, as [`crate::exec::run::run`] does. Returns false if it is not compiled.
    #[allow(clippy::too_many_arguments)]
    #[inline]
    pub fn run(
        &self,
        program: &LoadedProgram,
        state: &mut State,
        drop_port: u32,
        words: &mut [u64],
        rest: Rest,
        ctx: &mut Context,
        start: Pc,
    ) -> bool {
        let Some((_, function)) = self.code.iter().find(|(pc, _)| *pc == start) else {
            return false;
        };
        let mut machine = Machine::new(program, state, drop_port, words, rest, ctx);
        // SAFETY: the function was compiled for this program, and the machine is complete for a pipeline.
        unsafe { function(&mut machine) };
        true
    }

    /// Runs a parser, as [`crate::exec::parse::parse_with`] does. Returns `None` if it is not compiled.
    #[inline]
    pub fn parse(
        &self,
        program: &LoadedProgram,
        parser: &program::Parser,
        state: &mut State,
        words: &mut [u64],
        frame: &Frame,
        ctx: &mut Context,
    ) -> Option<(u64, usize)> {
        let function = match &program.tofino {
            Some(tofino) if std::ptr::eq(parser, &tofino.egress.parser) => self.parsers.get(1),
            _ => self.parsers.first(),
        }?;
        let mut machine = Machine::new(program, state, 0, words, Rest::NONE, ctx);
        let head = frame.head();
        machine.bytes = head.as_ptr();
        machine.contiguous = head.len() as u64;
        machine.length = frame.len() as u64;
        machine.frame = frame;
        machine.parser = parser;
        // SAFETY: the function was compiled for this program, and the machine is complete for a parser.
        unsafe { function(&mut machine) };
        Some((machine.result, machine.cursor as usize))
    }

    /// Returns whether all checksums are right, as the interpreter's verification does.
    #[inline]
    pub fn verify(
        &self,
        program: &LoadedProgram,
        state: &mut State,
        words: &mut [u64],
        rest: Rest,
        ctx: &mut Context,
    ) -> bool {
        let mut machine = Machine::new(program, state, 0, words, rest, ctx);
        // SAFETY: the function was compiled for this program, and the machine is complete for checksums.
        unsafe { (self.verify)(&mut machine) };
        machine.result != 0
    }

    /// Runs a deparser, as [`crate::exec::deparse::deparse`] does. Returns `None` if it is not compiled.
    #[inline]
    pub fn deparse(
        &self,
        program: &LoadedProgram,
        deparser: &program::Deparser,
        state: &mut State,
        words: &mut [u64],
        rest: Rest,
        ctx: &mut Context,
    ) -> Option<usize> {
        let function = match &program.tofino {
            Some(tofino) if std::ptr::eq(deparser, &tofino.egress.deparser) => {
                self.deparsers.get(1)
            }
            _ => self.deparsers.first(),
        }?;
        let headers = state.headers.as_mut_ptr();
        let mut machine = Machine::new(program, state, 0, words, rest, ctx);
        machine.headers = headers;
        // SAFETY: the function was compiled for this program, and the state's buffer has space for all headers.
        unsafe { function(&mut machine) };
        Some(machine.emitted as usize)
    }
}

fn compile(program: &LoadedProgram) -> Result<Compiled, CompileError> {
    let mut flags = settings::builder();
    // The verifier checks generated code for mistakes of ours.
    let is_checked = if cfg!(test) { "true" } else { "false" };
    for (name, value) in [
        // With optimisation the code was not faster, and compilation took longer.
        ("opt_level", "none"),
        ("enable_verifier", is_checked),
        ("is_pic", "false"),
        ("use_colocated_libcalls", "false"),
        ("enable_probestack", "false"),
    ] {
        flags.set(name, value).expect("Cranelift has the setting");
    }
    let isa = cranelift_native::builder().map_err(CompileError::new)?;
    let isa = isa
        .finish(settings::Flags::new(flags))
        .map_err(|error| CompileError::new(error.to_string()))?;
    // Words and frames are accessed as on little-endian processors.
    if isa.endianness() != Endianness::Little || isa.pointer_bits() != 64 {
        return Err(CompileError::new(
            "the processor is not little-endian with 64 bits",
        ));
    }
    let convention = isa.default_call_conv();
    let mut builder = JITBuilder::with_isa(isa, default_libcall_names());
    for (name, address, _, _) in imports() {
        builder.symbol(name, address);
    }
    let mut compiler = Compiler::new(JITModule::new(builder), convention)?;
    let (parsers, deparsers, pipelines) =
        (parsers(program), deparsers(program), pipelines(program));
    let parsed = parsers.iter().flat_map(|parser| parser::starts(parser));
    let checked = deparser::starts(&program.verify, None);
    let deparsed = deparsers
        .iter()
        .flat_map(|deparser| deparser::starts(&program.update, Some(deparser)));
    let all = pipelines
        .iter()
        .copied()
        .chain(parsed)
        .chain(checked)
        .chain(deparsed);
    let regions = Regions::new(program, all);

    let mut code = Vec::new();
    for start in pipelines {
        if regions.is_compiled(start) {
            let function = compiler.function(program, |code| {
                code.counts_steps = regions.may_be_endless(start);
                regions.compile(code, start, code.end);
            })?;
            code.push((start, function));
        }
    }
    let parsers: Vec<FuncId> = (parsers.iter())
        .map(|parser| compiler.function(program, |code| parser::compile(code, &regions, parser)))
        .collect::<Result<_, _>>()?;
    let deparsers: Vec<FuncId> = (deparsers.iter())
        .map(|deparser| {
            compiler.function(program, |code| deparser::compile(code, &regions, deparser))
        })
        .collect::<Result<_, _>>()?;
    let verify = compiler.function(program, |code| deparser::compile_verify(code, &regions))?;

    let mut module = compiler.module;
    module.finalize_definitions()?;
    let function = |id: FuncId| -> Function {
        let address = module.get_finalized_function(id);
        // SAFETY: all functions are compiled with this signature and calling convention.
        unsafe { std::mem::transmute::<*const u8, Function>(address) }
    };
    Ok(Compiled {
        code: code
            .into_iter()
            .map(|(pc, id)| (pc, function(id)))
            .collect(),
        parsers: parsers.into_iter().map(function).collect(),
        deparsers: deparsers.into_iter().map(function).collect(),
        verify: function(verify),
        memory: Some(module),
    })
}

/// Returns name, address, number of arguments after the machine, and whether there is a result, of each function of the
/// switch that compiled code calls.
fn imports() -> [(&'static str, *const u8, usize, bool); 13] {
    use self::machine::*;
    [
        ("step", call_step as *const u8, 1, true),
        ("apply", call_apply as *const u8, 1, true),
        ("resume", call_resume as *const u8, 2, false),
        ("register_write", call_register_write as *const u8, 3, false),
        ("register_word", call_register_word as *const u8, 3, false),
        ("count", call_count as *const u8, 2, false),
        ("endless", call_endless as *const u8, 0, false),
        ("has_fault", call_has_fault as *const u8, 0, true),
        ("whole", call_whole as *const u8, 0, false),
        ("parser_step", call_parser_step as *const u8, 2, true),
        ("parser_next", call_parser_next as *const u8, 1, true),
        ("calculate", call_calculate as *const u8, 1, true),
        ("emit", call_emit as *const u8, 2, true),
    ]
}

/// State of compiling the functions of a program.
struct Compiler {
    module: JITModule,
    convention: CallConv,
    /// Ids of the functions of [`imports`], in order.
    imports: Vec<FuncId>,
    context: FunctionBuilderContext,
}

impl Compiler {
    fn new(mut module: JITModule, convention: CallConv) -> Result<Compiler, CompileError> {
        let mut declared = Vec::new();
        for (name, _, args, has_result) in imports() {
            let signature = signature(convention, 1 + args, has_result);
            declared.push(module.declare_function(name, Linkage::Import, &signature)?);
        }
        Ok(Compiler {
            module,
            convention,
            imports: declared,
            context: FunctionBuilderContext::new(),
        })
    }

    /// Compiles a function whose body `build` emits.
    fn function(
        &mut self,
        program: &LoadedProgram,
        build: impl FnOnce(&mut Code),
    ) -> Result<FuncId, CompileError> {
        let mut context = self.module.make_context();
        context.func.signature = signature(self.convention, 1, false);
        let id = self
            .module
            .declare_anonymous_function(&context.func.signature)?;
        let mut imported = self
            .imports
            .iter()
            .map(|id| self.module.declare_func_in_func(*id, &mut context.func));
        let mut next = || imported.next().expect("each import is declared");
        let imports = Imports {
            step: next(),
            apply: next(),
            resume: next(),
            register_write: next(),
            register_word: next(),
            count: next(),
            endless: next(),
            has_fault: next(),
            whole: next(),
            parser_step: next(),
            parser_next: next(),
            calculate: next(),
            emit: next(),
        };
        let b = FunctionBuilder::new(&mut context.func, &mut self.context);
        let mut code = Code::new(b, imports, &program.constants);
        build(&mut code);
        code.finish();
        self.module.define_function(id, &mut context)?;
        Ok(id)
    }
}

/// Returns the signature of a function with `args` arguments of 64 bits.
fn signature(convention: CallConv, args: usize, has_result: bool) -> Signature {
    let mut signature = Signature::new(convention);
    signature.params = vec![AbiParam::new(I64); args];
    if has_result {
        signature.returns.push(AbiParam::new(I64));
    }
    signature
}
