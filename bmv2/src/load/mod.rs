//! Compilation of BMv2 JSON to a [`LoadedProgram`]: resolves names, validates everything, and translates
//! expressions and actions to flat code.
//!
//! Phases:
//! - `layout` allocates words to headers and metadata.
//! - `objects` loads extern objects and calculations.
//! - `action`, `parser` and `pipeline` emit code through `expr` (name resolution), `simplify` and `lower`
//!   (instructions).
//! - `jump_threading` removes conditions with known outcomes (`facts`).
//! - `fuse` fuses consecutive instructions.

mod action;
mod compound;
mod cover;
mod error;
mod expr;
mod facts;
mod fuse;
mod jump_threading;
mod layout;
mod liveness;
mod lower;
mod objects;
mod parser;
mod pipeline;
mod reached;
mod simplify;
mod tofino;

pub use error::LoadError;
#[cfg(feature = "jit")]
pub(crate) use facts::{writes, Writes};

use crate::exec::node::{BigOp, Element};
use crate::exec::ops::{FusedOp, Op, Pc, Slot};
use crate::program::{
    Action, CounterArray, Deparser, DynHeader, Field, Layout, Listing, LoadedProgram, LogMessage,
    MeterArray, Note, Param, Parser, RegisterArray, ValueSet, SCALARS, USER_METADATA,
};
use alfirk_bmv2_json::{BmV2Json, Expr, FieldRef, SourceInfo};
use rustc_hash::{FxHashMap, FxHashSet};
use std::sync::OnceLock;

use self::cover::Cover;

type Names = FxHashMap<String, u16>;

/// Optional passes of the loader. None of them changes the behaviour of a program.
#[derive(Clone, Copy, Debug)]
pub struct LoadOptions {
    /// Adds notes to the code, by which conditions and primitives are written to [the log](crate::steps). Jumps are not
    /// threaded then.
    pub notes: bool,
    /// Adds counters of the statements, branches, transitions and table actions that packets execute; see
    /// [`Switch::coverage`](crate::Switch::coverage).
    pub coverage: bool,
    /// Removes conditional jumps whose outcome is known (jump threading).
    pub thread_jumps: bool,
    /// Replaces consecutive instructions by fused ones.
    pub fuse: bool,
}

impl Default for LoadOptions {
    /// Returns the options for the fastest code.
    fn default() -> LoadOptions {
        LoadOptions {
            notes: false,
            coverage: false,
            thread_jumps: true,
            fuse: true,
        }
    }
}

/// State of compiling a program from its JSON.
struct Loader<'a> {
    json: &'a BmV2Json,
    layout: Layout,
    header_names: Names,
    stack_names: Names,
    union_names: Names,
    union_stack_names: Names,
    calculation_names: Names,
    register_names: Names,
    counter_names: Names,
    meter_names: Names,
    vset_names: Names,
    aliases: FxHashMap<&'a str, &'a FieldRef>,
    registers: Vec<RegisterArray>,
    counters: Vec<CounterArray>,
    meters: Vec<MeterArray>,
    vsets: Vec<ValueSet>,
    actions: Vec<Action>,
    code: Vec<Op>,
    bigs: Vec<BigOp>,
    elements: Vec<Element>,
    dyn_headers: Vec<DynHeader>,
    logs: Vec<LogMessage>,
    asserts: Vec<String>,
    access_sites: Vec<String>,
    options: LoadOptions,
    /// Origin of the code, if it is wanted.
    listing: Option<Listing>,
    notes: Vec<Note>,
    cover: Cover<'a>,
    constants: FxHashMap<u64, Slot>,
    /// Word shared by all fields of width 0: always zero, never written.
    void: Slot,
    /// First words of the fields that saturate instead of wrapping.
    saturating: FxHashSet<Slot>,
    /// Temporaries of the statement being compiled, reused by the next one.
    temps: Vec<Slot>,
    temps_used: usize,
}

/// Context in which an expression is resolved: its location for messages, and the meaning of references to parameters.
#[derive(Clone, Copy)]
struct Scope<'a> {
    at: &'a str,
    /// Parameters of the action that contains the expression.
    params: &'a [Param],
    /// Fields of the header whose length is computed (P4_14).
    fields: &'a [Field],
}

impl<'a> Scope<'a> {
    fn plain(at: &'a str) -> Scope<'a> {
        Scope {
            at,
            params: &[],
            fields: &[],
        }
    }

    fn invalid(&self, why: impl Into<String>) -> LoadError {
        LoadError::invalid(self.at, why)
    }
}

impl LoadedProgram {
    /// Loads the output of `p4c-bm2-ss` or `alfirk p4c`.
    ///
    /// # Errors
    /// See [`LoadError`]. Invalid input never causes a panic.
    pub fn from_json(text: &str) -> Result<LoadedProgram, LoadError> {
        LoadedProgram::from_text(text, LoadOptions::default())
    }

    /// Loads a parsed program.
    ///
    /// # Errors
    /// As [`LoadedProgram::from_json`].
    pub fn from_typed(json: &BmV2Json) -> Result<LoadedProgram, LoadError> {
        load(json, LoadOptions::default())
    }

    /// Loads a program with notes about its conditions and primitives, for [the log](crate::steps). It behaves the
    /// same, but runs more slowly.
    ///
    /// # Errors
    /// As [`LoadedProgram::from_json`].
    pub fn with_notes(text: &str) -> Result<LoadedProgram, LoadError> {
        let options = LoadOptions {
            notes: true,
            ..LoadOptions::default()
        };
        LoadedProgram::from_text(text, options)
    }

    /// Loads a parsed program with the chosen optional passes of the loader.
    ///
    /// # Errors
    /// As [`LoadedProgram::from_json`].
    pub fn with_options(json: &BmV2Json, options: LoadOptions) -> Result<LoadedProgram, LoadError> {
        load(json, options)
    }

    /// Loads a program from its JSON text with the chosen optional passes of the loader.
    ///
    /// # Errors
    /// As [`LoadedProgram::from_json`].
    pub fn from_text(text: &str, options: LoadOptions) -> Result<LoadedProgram, LoadError> {
        load(&BmV2Json::from_text(text)?, options)
    }

    /// Loads a program together with the origin of its code.
    pub(crate) fn with_listing(text: &str) -> Result<(LoadedProgram, Listing), LoadError> {
        let json = BmV2Json::from_text(text)?;
        let listing = Some(Listing::default());
        let (program, listing) = load_listed(&json, LoadOptions::default(), listing)?;
        Ok((program, listing.unwrap_or_default()))
    }
}

pub(crate) fn load(json: &BmV2Json, options: LoadOptions) -> Result<LoadedProgram, LoadError> {
    Ok(load_listed(json, options, None)?.0)
}

/// Loads a program. A `listing` is returned with the origin of its code.
fn load_listed(
    json: &BmV2Json,
    options: LoadOptions,
    listing: Option<Listing>,
) -> Result<(LoadedProgram, Option<Listing>), LoadError> {
    if let Some(meta) = &json.meta {
        if meta.version.0 != BmV2Json::VERSION.0 {
            let (major, minor) = meta.version;
            return Err(LoadError::Version { major, minor });
        }
    }
    let mut loader = Loader::new(json, options, listing);
    loader.place_headers()?;
    let chip = loader.chip()?;
    let intrinsic = match chip {
        None => loader.intrinsic()?,
        Some(_) => loader.tofino_intrinsic()?,
    };
    loader.declare_objects()?;
    let calculations = loader.calculations()?;
    let field_lists = loader.field_lists()?;
    let learn_lists = loader.learn_lists()?;
    loader.compile_actions()?;
    let (mut parser, mut deparser) = (Parser::default(), Deparser::default());
    if chip.is_none() {
        parser = loader.compile_parser("parser")?;
        deparser = loader.compile_deparser("deparser")?;
    }
    let (verify, update) = loader.compile_checksums()?;
    let pipelines = loader.compile_pipelines()?;
    let tofino = match chip {
        Some(chip) => Some(loader.tofino(chip, |name| pipelines.start(name))?),
        None => None,
    };
    let zero = loader.constant(0)?;
    if let Some(listing) = &mut loader.listing {
        listing.constants = loader.constants.values().copied().collect();
    }
    let code = match options.fuse {
        true => fuse::fuse(&loader.code, zero),
        false => loader.code.iter().copied().map(FusedOp::from).collect(),
    };
    loader.cover.sites.resolve();
    let ops = std::mem::take(&mut loader.code);
    let mut program = LoadedProgram {
        parser,
        ingress: pipelines.start("ingress")?,
        egress: pipelines.start("egress")?,
        tofino,
        access_sites: loader.access_sites,
        deparser,
        verify,
        update,
        calculations,
        field_lists,
        learn_lists,
        intrinsic,
        tables: pipelines.tables,
        profiles: pipelines.profiles,
        errors: json.errors.clone(),
        code,
        #[cfg(feature = "jit")]
        ops: Vec::new(),
        #[cfg(feature = "jit")]
        constants: (loader.constants.iter())
            .map(|(value, slot)| (*slot, *value))
            .collect(),
        compiled: OnceLock::new(),
        tier_up: OnceLock::new(),
        layout: loader.layout,
        bigs: loader.bigs,
        elements: loader.elements,
        dyn_headers: loader.dyn_headers,
        logs: loader.logs,
        asserts: loader.asserts,
        metadata_name: options.notes.then(|| metadata_name(json)).flatten(),
        notes: loader.notes,
        sites: loader.cover.sites,
        actions: loader.actions,
        registers: loader.registers,
        counters: loader.counters,
        meters: loader.meters,
        vsets: loader.vsets,
    };
    program.layout.keeps_invalid_fields = program.tofino.is_some();
    program.layout.live = liveness::live_words(&program, &ops);
    #[cfg(feature = "jit")]
    {
        program.ops = ops;
    }
    Ok((program, loader.listing))
}

/// Returns the name of the user-defined metadata in the P4 source: that in the text of a statement that stores to a field
/// of it.
fn metadata_name(json: &BmV2Json) -> Option<String> {
    let statements = json.actions.iter().flat_map(|action| &action.primitives);
    let mut names = statements.filter_map(|statement| {
        let operands = statement.primitive.operands();
        let Some(Expr::Field(target)) = operands.first() else {
            return None;
        };
        let is_metadata = target.header == SCALARS && target.field.starts_with(USER_METADATA);
        let text = &statement.source_info.as_ref()?.source_fragment;
        let name: &str = text
            .split(|c: char| !c.is_alphanumeric() && c != '_')
            .next()?;
        let is_path = text[name.len()..].starts_with('.');
        (is_metadata && is_path && !name.is_empty()).then(|| name.to_owned())
    });
    names.next()
}

impl<'a> Loader<'a> {
    fn new(json: &'a BmV2Json, options: LoadOptions, listing: Option<Listing>) -> Loader<'a> {
        Loader {
            json,
            layout: Layout::default(),
            header_names: Names::default(),
            stack_names: Names::default(),
            union_names: Names::default(),
            union_stack_names: Names::default(),
            calculation_names: Names::default(),
            register_names: Names::default(),
            counter_names: Names::default(),
            meter_names: Names::default(),
            vset_names: Names::default(),
            aliases: json
                .field_aliases
                .iter()
                .map(|(name, field)| (name.as_str(), field))
                .collect(),
            registers: Vec::new(),
            counters: Vec::new(),
            meters: Vec::new(),
            vsets: Vec::new(),
            actions: Vec::new(),
            code: Vec::new(),
            bigs: Vec::new(),
            elements: Vec::new(),
            dyn_headers: Vec::new(),
            logs: Vec::new(),
            asserts: Vec::new(),
            access_sites: Vec::new(),
            options,
            listing,
            notes: Vec::new(),
            cover: match options.coverage {
                true => Cover::new(json),
                false => Cover::default(),
            },
            constants: FxHashMap::default(),
            void: 0,
            saturating: FxHashSet::default(),
            temps: Vec::new(),
            temps_used: 0,
        }
    }

    /// Allocates `n` consecutive words of the packet, and returns the first.
    fn words(&mut self, n: usize) -> Result<Slot, LoadError> {
        let start = self.layout.initial.len();
        let need = start + n;
        if need > usize::from(Slot::MAX) {
            let limit = u64::from(Slot::MAX);
            return Err(LoadError::TooLarge {
                what: "packet words",
                need: need as u64,
                limit,
            });
        }
        self.layout.initial.resize(need, 0);
        Ok(start as Slot)
    }

    /// Returns the word of a constant, allocating it if necessary.
    fn constant(&mut self, value: u64) -> Result<Slot, LoadError> {
        if let Some(&slot) = self.constants.get(&value) {
            return Ok(slot);
        }
        let slot = self.words(1)?;
        self.layout.initial[usize::from(slot)] = value;
        self.constants.insert(value, slot);
        Ok(slot)
    }

    /// Returns the first word of a constant wider than 64 bits, allocating its words if necessary.
    fn wide_constant(&mut self, words: &[u64]) -> Result<Slot, LoadError> {
        let slot = self.words(words.len())?;
        self.layout.initial[usize::from(slot)..][..words.len()].copy_from_slice(words);
        Ok(slot)
    }

    fn temp(&mut self) -> Result<Slot, LoadError> {
        if self.temps_used == self.temps.len() {
            let slot = self.words(1)?;
            self.temps.push(slot);
        }
        self.temps_used += 1;
        Ok(self.temps[self.temps_used - 1])
    }

    /// Starts a named part of the code, such as an action, under which a disassembly lists the instructions that
    /// follow.
    fn begin(&mut self, name: impl FnOnce() -> String) {
        let pc = self.pc();
        if let Some(listing) = &mut self.listing {
            listing.parts.push((pc, name()));
            listing.enter(None);
        }
    }

    /// Sets the position in the P4 source of the instructions that follow.
    fn locate(&mut self, info: Option<&SourceInfo>) {
        if let Some(listing) = &mut self.listing {
            listing.enter(info);
        }
    }

    /// Frees all temporaries for the next statement.
    fn end_statement(&mut self) {
        self.temps_used = 0;
    }

    fn pc(&self) -> Pc {
        self.code.len() as Pc
    }

    fn emit(&mut self, op: Op) -> usize {
        self.code.push(op);
        if let Some(listing) = &mut self.listing {
            listing.push();
        }
        self.code.len() - 1
    }

    /// Emits an instruction that writes a note to the log, if the program is loaded with notes. Notes beyond the limit
    /// are omitted.
    fn note(&mut self, note: impl FnOnce() -> Note) {
        if !self.options.notes {
            return;
        }
        if let Ok(index) = u16::try_from(self.notes.len()) {
            self.notes.push(note());
            self.emit(Op::Note { index });
        }
    }

    /// Adds a note for each outcome of a condition after its jumps, which are taken if it does not hold, if the program is loaded
    /// with notes. Returns the jumps that are taken then.
    fn note_outcomes(&mut self, jumps: Vec<usize>, note: impl Fn(bool) -> Note) -> Vec<usize> {
        if !self.options.notes {
            return jumps;
        }
        self.note(|| note(true));
        let ((), jump) = self.aside(jumps, |this| this.note(|| note(false)));
        vec![jump]
    }

    /// Emits code that only jumps lead to, beside the code that follows. Returns the result of `emit`, and the jump that is taken
    /// after that code.
    fn aside<T>(&mut self, jumps: Vec<usize>, emit: impl FnOnce(&mut Self) -> T) -> (T, usize) {
        let over = self.emit(Op::Jump { to: 0 });
        self.land(jumps);
        let result = emit(self);
        let jump = self.emit(Op::Jump { to: 0 });
        self.land(vec![over]);
        (result, jump)
    }

    /// Sets the target of the jump at position `at` of the code.
    fn patch(&mut self, at: usize, to: Pc) {
        *target(&mut self.code[at]) = to;
    }

    fn header(&self, name: &str, at: &str) -> Result<u16, LoadError> {
        find(&self.header_names, "header", name, at)
    }

    fn field(&self, field: &FieldRef, at: &str) -> Result<(u16, Field), LoadError> {
        let header = self.header(&field.header, at)?;
        Ok((header, self.field_of(header, &field.field, at)?))
    }

    fn field_of(&self, header: u16, name: &str, at: &str) -> Result<Field, LoadError> {
        let h = &self.layout.headers[usize::from(header)];
        if name == FieldRef::VALID {
            if h.metadata {
                return Err(LoadError::invalid(
                    at,
                    format!("{} is metadata and always valid", h.name),
                ));
            }
            let name = name.to_owned();
            return Ok(Field {
                name,
                slot: h.valid,
                bits: 1,
                signed: false,
                varbit: false,
            });
        }
        h.fields
            .iter()
            .find(|f| f.name == name)
            .cloned()
            .ok_or_else(|| LoadError::Undefined {
                at: at.to_owned(),
                what: "field",
                name: format!("{}.{name}", h.name),
            })
    }
}

/// Returns the target of a jump that the loader has emitted.
fn target(jump: &mut Op) -> &mut Pc {
    jump.target_mut()
        .expect("only positions of jumps are stored for patching")
}

fn find(names: &Names, what: &'static str, name: &str, at: &str) -> Result<u16, LoadError> {
    names
        .get(name)
        .copied()
        .ok_or_else(|| LoadError::Undefined {
            at: at.to_owned(),
            what,
            name: name.to_owned(),
        })
}

/// Assigns numbers to objects in the order of the file, by name. A duplicate name is an error.
fn number<'a>(
    what: &'static str,
    names: impl Iterator<Item = &'a str>,
) -> Result<Names, LoadError> {
    let mut numbers = Names::default();
    for (i, name) in names.enumerate() {
        let Ok(i) = u16::try_from(i) else {
            return Err(LoadError::TooLarge {
                what,
                need: i as u64 + 1,
                limit: u64::from(u16::MAX),
            });
        };
        if numbers.insert(name.to_owned(), i).is_some() {
            return Err(LoadError::Duplicate {
                what,
                name: name.to_owned(),
            });
        }
    }
    Ok(numbers)
}
