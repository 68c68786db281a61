//! Compilation of a loaded program to machine code, by Cranelift.
//!
//! Pipelines, parsers and deparsers become functions over the packet's words. The interpreter is the definition of what
//! these functions do: the results are the same, also in errors and at the limits of steps. Rare instructions and
//! statements call the interpreter's own code.
//!
//! - [`builder`] has the operations on words, [`instructions`] those of single instructions.
//! - [`registers`] accesses register cells; [`wide`] computes with more than 64 bits.
//! - [`flow`] finds the blocks of the code; [`pipeline`] connects them, and inlines actions.
//! - [`parser`] and [`deparser`] compile what is not code: states, checksums and headers; [`calculation`] compiles hashes.
//! - [`v1model`] combines them to two functions. Programs for Tofino have a function for each.
//! - [`machine`] is the interface between machine code and the switch.
//! - [`run`] has the machine code process a packet of v1model.
//! - [`words`] clears and copies the words of packets.
//! - [`verify`] proves that no access leaves the packet's words.
//!
//! The code of a program is in pages of its own, which are writable until it is complete, and executable afterwards.

mod builder;
mod calculation;
mod deparser;
mod flow;
mod instructions;
mod machine;
mod parser;
mod pipeline;
mod registers;
mod run;
mod v1model;
mod verify;
mod wide;
mod words;

#[cfg(test)]
mod tests;

use self::builder::{Code, Imports};
use self::machine::{Function, Machine};
use self::pipeline::Regions;
pub(crate) use self::run::V1model;
use self::words::{WordFunction, WordFunctions};
use crate::exec::ops::Pc;
use crate::exec::run::Context;
use crate::frame::{Frame, Rest};
use crate::program::{self, CompileError, Gress, LoadedProgram, Tofino};
use crate::state::State;
use cranelift_codegen::ir::{types::I64, AbiParam, Endianness, InstBuilder, Signature, Value};
use cranelift_codegen::isa::CallConv;
use cranelift_codegen::settings::{self, Configurable};
use cranelift_frontend::{FunctionBuilder, FunctionBuilderContext};
use cranelift_jit::{JITBuilder, JITModule};
use cranelift_module::{default_libcall_names, FuncId, Linkage, Module, ModuleError};
use std::fmt::{self, Debug, Formatter};

/// Machine code of a program.
pub(crate) struct Compiled {
    code: Functions<Function>,
    /// Functions on the live words of packets; `None` if it is not known which are live.
    words: Option<WordFunctions<WordFunction>>,
    memory: Option<JITModule>,
}

/// The functions of a program: `F` is [`FuncId`] while the module is incomplete, [`Function`] afterwards.
enum Functions<F> {
    V1model {
        /// Parser, verification of checksums, and ingress.
        ingress: F,
        /// Egress and deparser.
        egress: F,
    },
    Tofino {
        /// Controls, and the code of deparsers, by their first instruction.
        code: Vec<(Pc, F)>,
        /// Parsers of ingress and egress.
        parsers: [F; 2],
        /// Deparsers of ingress and egress.
        deparsers: [F; 2],
    },
}

// SAFETY: after `new`, the module is not used until it is dropped; its code is constant.
unsafe impl Send for Compiled {}
// SAFETY: as above.
unsafe impl Sync for Compiled {}

impl Debug for Compiled {
    fn fmt(&self, f: &mut Formatter) -> fmt::Result {
        f.debug_struct("Compiled").finish_non_exhaustive()
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

    /// Sets the live words of a received packet to zero. Returns false, without effect, if there is no function for it, or if a
    /// large variable-length field is in use.
    #[inline]
    pub fn clear_words(&self, words: &mut [u64]) -> bool {
        let functions = self.words.as_ref();
        functions.is_some_and(|functions| functions.clear(words))
    }

    /// Copies the words that are live in egress. Returns false as [`Compiled::clear_words`] does.
    #[inline]
    pub fn copy_words(&self, from: &[u64], to: &mut [u64]) -> bool {
        let functions = self.words.as_ref();
        functions.is_some_and(|functions| functions.copy(from, to))
    }

    /// Copies the words that are restored between copies of a packet. Returns false as [`Compiled::clear_words`] does.
    #[inline]
    pub fn restore_words(&self, from: &[u64], to: &mut [u64]) -> bool {
        let functions = self.words.as_ref();
        functions.is_some_and(|functions| functions.restore(from, to))
    }

    /// Runs the pipeline that begins at `start`, as [`crate::exec::run::run`] does. Returns false if it has no function
    /// of its own.
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
        let Functions::Tofino { code, .. } = &self.code else {
            return false;
        };
        let Some((_, function)) = code.iter().find(|(pc, _)| *pc == start) else {
            return false;
        };
        let mut machine = Machine::new(program, state, drop_port, words, rest, ctx);
        // SAFETY: the function was compiled for this program, and the machine is complete for a pipeline.
        unsafe { function(&mut machine) };
        true
    }

    /// Runs a parser, as [`crate::exec::parse::parse_with`] does. Returns `None` if it has no function of its own.
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
        let (Functions::Tofino { parsers, .. }, Some(tofino)) = (&self.code, &program.tofino)
        else {
            return None;
        };
        let function = parsers[usize::from(std::ptr::eq(parser, &tofino.egress.parser))];
        let mut machine = Machine::new(program, state, 0, words, Rest::NONE, ctx);
        machine.set_frame(frame, parser);
        // SAFETY: the function was compiled for this program, and the machine is complete for a parser.
        unsafe { function(&mut machine) };
        Some((machine.result, machine.cursor as usize))
    }

    /// Runs a deparser, as [`crate::exec::deparse::deparse`] does.
    #[inline]
    pub fn deparse(
        &self,
        program: &LoadedProgram,
        deparser: &program::Deparser,
        state: &mut State,
        words: &mut [u64],
        rest: Rest,
        ctx: &mut Context,
    ) -> usize {
        let function = match (&self.code, &program.tofino) {
            (Functions::V1model { egress, .. }, _) => *egress,
            (Functions::Tofino { deparsers, .. }, tofino) => {
                let egress = tofino.as_ref().map(|tofino| &tofino.egress.deparser);
                let is_egress = egress.is_some_and(|egress| std::ptr::eq(deparser, egress));
                deparsers[usize::from(is_egress)]
            }
        };
        let mut machine = Machine::new(program, state, 0, words, rest, ctx);
        machine.is_part = 1;
        // SAFETY: the function was compiled for this program, and the state's buffer has space for all headers.
        unsafe { function(&mut machine) };
        machine.emitted as usize
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
    let ids = match &program.tofino {
        None => {
            let starts = v1model::ingress_starts(program).chain(v1model::egress_starts(program));
            let regions = Regions::new(program, starts);
            Functions::V1model {
                ingress: compiler
                    .function(program, |code| v1model::compile_ingress(code, &regions))?,
                egress: compiler
                    .function(program, |code| v1model::compile_egress(code, &regions))?,
            }
        }
        Some(tofino) => compile_tofino(program, tofino, &mut compiler)?,
    };

    let live = program.layout.live.as_ref();
    let words = live.map(|live| WordFunctions::compile(live, &program.layout, &mut compiler));
    let words = words.transpose()?;

    let mut module = compiler.module;
    module.finalize_definitions()?;
    let words = words.map(|words| words.finish(&module));
    let function = |id: FuncId| -> Function {
        let address = module.get_finalized_function(id);
        // SAFETY: all functions are compiled with this signature and calling convention.
        unsafe { std::mem::transmute::<*const u8, Function>(address) }
    };
    let code = match ids {
        Functions::V1model { ingress, egress } => Functions::V1model {
            ingress: function(ingress),
            egress: function(egress),
        },
        Functions::Tofino {
            code,
            parsers,
            deparsers,
        } => Functions::Tofino {
            code: code
                .into_iter()
                .map(|(pc, id)| (pc, function(id)))
                .collect(),
            parsers: parsers.map(function),
            deparsers: deparsers.map(function),
        },
    };
    Ok(Compiled {
        code,
        words,
        memory: Some(module),
    })
}

fn compile_tofino(
    program: &LoadedProgram,
    tofino: &Tofino,
    compiler: &mut Compiler,
) -> Result<Functions<FuncId>, CompileError> {
    let gresses = [&tofino.ingress, &tofino.egress];
    let pipelines = gresses.map(|gress| [gress.control, gress.deparse]);
    let pipelines = pipelines.as_flattened();
    let parsed = gresses
        .iter()
        .flat_map(|gress| parser::starts(&gress.parser));
    let deparsed = gresses
        .iter()
        .flat_map(|gress| deparser::starts(&program.update, Some(&gress.deparser)));
    let starts = pipelines.iter().copied().chain(parsed).chain(deparsed);
    let regions = Regions::new(program, starts);
    let mut code = Vec::new();
    for start in pipelines.iter().copied() {
        if regions.is_compiled(start) {
            let function = compiler.function(program, |code| {
                code.counts_steps = regions.may_be_endless(start);
                regions.compile(code, start, code.end);
            })?;
            code.push((start, function));
        }
    }
    let mut of_parser = |gress: &Gress| {
        compiler.function(program, |code| {
            let mut starts = parser::starts(&gress.parser);
            code.counts_steps = starts.any(|start| regions.may_be_endless(start));
            parser::compile(code, &regions, &gress.parser, code.end);
        })
    };
    let parsers = [of_parser(&tofino.ingress)?, of_parser(&tofino.egress)?];
    let mut of_deparser = |gress: &Gress| {
        compiler.function(program, |code| {
            let mut starts = deparser::starts(&program.update, Some(&gress.deparser));
            code.counts_steps = starts.any(|start| regions.may_be_endless(start));
            deparser::compile(code, &regions, &gress.deparser);
        })
    };
    Ok(Functions::Tofino {
        code,
        parsers,
        deparsers: [of_deparser(&tofino.ingress)?, of_deparser(&tofino.egress)?],
    })
}

/// Returns name, address, number of arguments after the machine, and whether there is a result, of each function of the
/// switch that compiled code calls.
fn imports() -> [(&'static str, *const u8, usize, bool); 14] {
    use self::machine::*;
    [
        ("step", call_step as *const u8, 1, true),
        ("apply", call_apply as *const u8, 1, true),
        ("apply_word", call_apply_word as *const u8, 3, true),
        ("resume", call_resume as *const u8, 2, false),
        ("register_write", call_register_write as *const u8, 3, false),
        ("register_word", call_register_word as *const u8, 3, false),
        ("endless", call_endless as *const u8, 0, false),
        ("has_fault", call_has_fault as *const u8, 0, true),
        ("whole", call_whole as *const u8, 0, false),
        ("parser_step", call_parser_step as *const u8, 2, true),
        ("parser_next", call_parser_next as *const u8, 1, true),
        ("calculate", call_calculate as *const u8, 1, true),
        ("hash_joined", call_hash_joined as *const u8, 1, true),
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

    /// Declares a function with `args` arguments. Returns its id and the context in which it is compiled.
    fn declare(
        &mut self,
        args: usize,
        has_result: bool,
    ) -> Result<(FuncId, cranelift_codegen::Context), CompileError> {
        let mut context = self.module.make_context();
        context.func.signature = signature(self.convention, args, has_result);
        let signature = &context.func.signature;
        let id = self.module.declare_anonymous_function(signature)?;
        Ok((id, context))
    }

    /// Compiles a function on the words of two packets, whose addresses `build` receives. `build` returns the result.
    fn word_function(
        &mut self,
        build: impl FnOnce(&mut FunctionBuilder, [Value; 2]) -> Value,
    ) -> Result<FuncId, CompileError> {
        let (id, mut context) = self.declare(2, true)?;
        let mut b = FunctionBuilder::new(&mut context.func, &mut self.context);
        let entry = b.create_block();
        b.append_block_params_for_function_params(entry);
        b.switch_to_block(entry);
        let params = [b.block_params(entry)[0], b.block_params(entry)[1]];
        let result = build(&mut b, params);
        b.ins().return_(&[result]);
        b.seal_all_blocks();
        b.finalize();
        self.module.define_function(id, &mut context)?;
        Ok(id)
    }

    /// Compiles a function whose body `build` emits.
    fn function(
        &mut self,
        program: &LoadedProgram,
        build: impl FnOnce(&mut Code),
    ) -> Result<FuncId, CompileError> {
        let (id, mut context) = self.declare(1, false)?;
        let mut imported = self
            .imports
            .iter()
            .map(|id| self.module.declare_func_in_func(*id, &mut context.func));
        let mut next = || imported.next().expect("each import is declared");
        let imports = Imports {
            step: next(),
            apply: next(),
            apply_word: next(),
            resume: next(),
            register_write: next(),
            register_word: next(),
            endless: next(),
            has_fault: next(),
            whole: next(),
            parser_step: next(),
            parser_next: next(),
            calculate: next(),
            hash_joined: next(),
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
