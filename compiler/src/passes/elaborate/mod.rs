//! Pass: elaborate.
//!
//! Input: a program that the checker accepted. Output: the inlined program ([`crate::passes::inlined::InlinedProgram`]), with extern objects
//! and calls not yet lowered ([`crate::passes::externs::call`]), in the [`Builder`] that built it. Invariants: all names except those for
//! the control plane are resolved, and expressions have no side effects. Variables have their own fields, generics are instantiated, and
//! constants are folded. The pass is independent of the target.
//!
//! The pass starts from the blocks that [`crate::passes::package`] determines. A body is traversed once per application, in an environment
//! that binds names to instances and values (see `frame`), and calls are inlined. This is a single pass because the environment determines
//! which arguments are passed without a copy, which loops are unrolled and which conditions are constant.
//!
//! Only the externs of core.p4 are handled here: `packet_in`, `packet_out`, `verify` and `static_assert`. Calls of other externs become
//! [`crate::passes::inlined::Pending::Call`], with [`crate::ir::Expr::Result`] as their value.

mod access;
mod action;
mod call;
mod control;
mod deparser;
mod entries;
mod expr;
mod externs;
pub mod frame;
mod instance;
mod keys;
mod listing;
mod loops;
mod packet;
mod parser;
mod select;
mod stacks;
mod stmt;
mod table;

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::{Deref, DerefMut};
use std::rc::Rc;

use frame::{Binding, ControlInstance, Frame};
use rustc_hash::FxHashMap;

use crate::diag::{Code, Diagnostic, ErrorReported, Span};
use crate::ir::{self, Label};
use crate::names::join;
use crate::passes::builder::data::{Data, Place};
use crate::passes::builder::{ops, Builder};
use crate::passes::externs::call::{InstanceId, Region};
use crate::passes::inlined::{Block, BlockCode, Stmt};
use crate::sema::{DefKind, Substitution, Type};
use crate::stack::levels;
use crate::syntax::ast::{Decl, DeclId, Expr, ExprId, ExprKind, TypeRef};

/// The elaboration of a program: the output so far, and the context of the current statement.
pub struct Elaborator<'a> {
    /// The program under construction.
    build: Builder<'a>,
    /// The kind of block that is being elaborated.
    pub region: Region,
    /// Number of nested calls that are being inlined, to detect recursion.
    depth: usize,
    /// Nesting depth of the current statement or expression, including that of the enclosing calls.
    level: u32,
    /// Copies at the end of the enclosing calls, the innermost call last. An `exit` must execute them.
    pending_copies: Vec<Vec<(Place, Data, Type)>>,
    /// All instances of controls.
    controls: Vec<Rc<ControlInstance>>,
    /// Labels of the enclosing loops: the targets of `break` and `continue`.
    loops: Vec<(Label, Label)>,
    /// The environment of the top level.
    pub top: Rc<Frame>,
    /// Cache of [`Elaborator::has_effects`].
    effects: RefCell<FxHashMap<ExprId, bool>>,
    /// Top-level actions elaborated so far, without those whose parameters a table binds.
    top_actions: BTreeMap<DeclId, ir::ActionId>,
    /// Implementations of abstract methods, by object.
    bodies: BTreeMap<InstanceId, Rc<externs::AbstractMethods>>,
    /// States of the current parser, elaborated so far.
    states: parser::States,
    /// For each instance of a sub-parser, whether its calls have different arguments.
    several_argument_lists: BTreeMap<DeclId, bool>,
    /// Enums without an underlying type whose members the program uses.
    used_enums: BTreeSet<DeclId>,
    /// Number of action profiles that tables construct in their `implementation` property.
    implicit_profiles: usize,
}

impl<'a> Deref for Elaborator<'a> {
    type Target = Builder<'a>;

    fn deref(&self) -> &Builder<'a> {
        &self.build
    }
}

impl<'a> DerefMut for Elaborator<'a> {
    fn deref_mut(&mut self) -> &mut Builder<'a> {
        &mut self.build
    }
}

/// Maximum nesting of calls.
const MAX_DEPTH: usize = 2_000;

impl<'a> Elaborator<'a> {
    /// Creates the state of an elaboration that has not begun.
    pub fn new(build: Builder<'a>) -> Self {
        Elaborator {
            build,
            region: Region::Parser,
            depth: 0,
            level: 0,
            pending_copies: Vec::new(),
            controls: Vec::new(),
            loops: Vec::new(),
            top: Rc::new(Frame::default()),
            effects: RefCell::default(),
            top_actions: BTreeMap::new(),
            bodies: BTreeMap::new(),
            states: parser::States::default(),
            several_argument_lists: BTreeMap::new(),
            used_enums: BTreeSet::new(),
            implicit_profiles: 0,
        }
    }

    /// Finishes elaboration and returns the builder with the program.
    pub fn finish(mut self) -> Builder<'a> {
        // The environment of a control refers to its instance: break the reference cycle, so that the memory is freed.
        for control in &self.controls {
            control.state.take();
        }
        self.finish_enums();
        self.build
    }

    /// Elaborates the extern objects at the top level.
    pub fn top_instances(&mut self) {
        let checked = self.checked;
        for decl in &checked.program.decls {
            if let Decl::Instantiation(instance) = decl {
                if matches!(self.checked.type_ref(&instance.ty), Type::Extern(_)) {
                    let top = Rc::clone(&self.top);
                    self.instantiate(instance, &top);
                }
            }
        }
    }

    /// Elaborates a control of the package; `name` is the target's name for it.
    pub fn control_block(
        &mut self,
        instance: &Rc<frame::ControlInstance>,
        region: Region,
        name: &'static str,
        arguments: Vec<Binding>,
    ) {
        self.region = region;
        let body = self.block(|this| this.apply_top(instance, arguments));
        self.add_block(name, instance.decl.name.span, BlockCode::Control(body));
    }

    /// Adds a block of the package.
    pub fn add_block(&mut self, name: &'static str, span: Span, code: BlockCode) {
        let source = self.source(span);
        self.into.blocks.push(Block { name, source, code });
    }

    /// Adds enums without an underlying type to the output, with the numbers of their members.
    fn finish_enums(&mut self) {
        for id in std::mem::take(&mut self.used_enums) {
            if let DefKind::Enum(decl) = &self.checked.def(id).kind {
                if self.sources.is_system(decl.span) {
                    continue;
                }
                let members = decl
                    .members
                    .iter()
                    .map(|member| member.name.name.to_string())
                    .collect();
                self.program
                    .enums
                    .push((decl.name.name.to_string(), members));
            }
        }
    }

    /// Runs `make` one level deeper in the nesting of statements, expressions and calls.
    ///
    /// # Errors
    /// The level or the number of generated parts exceeds its limit, which is reported; `make` is not run.
    fn one_level_deeper<T>(
        &mut self,
        span: Span,
        make: impl FnOnce(&mut Self) -> T,
    ) -> Result<T, ErrorReported> {
        // A call at the maximum depth of one body may have a callee whose body has the maximum depth, too.
        let most = 2 * levels();
        if self.level >= most {
            let message =
                format!("this is nested more than {most} levels deep, with the calls around it");
            let what = Diagnostic::error(Code::NESTING, span, message).help(
                "assign the result of the call to a variable, instead of calling within an expression",
            );
            return Err(self.diagnostics.report_last(what));
        }
        self.observes_limit()?;
        self.level += 1;
        let made = make(self);
        self.level -= 1;
        Ok(made)
    }

    /// Runs `make` with an empty list of statements and returns the statements that it emits.
    pub fn block(&mut self, make: impl FnOnce(&mut Self)) -> Vec<Stmt> {
        let outer = std::mem::take(&mut self.out);
        make(self);
        std::mem::replace(&mut self.out, outer)
    }

    /// A type as written, with the type parameters of the frame replaced.
    fn written_type(&self, ty: &TypeRef, frame: &Frame) -> Type {
        self.checked.type_ref(ty).substitute(&frame.substitution)
    }

    /// The type that an expression has before its implicit cast.
    fn type_of(&self, expr: &Expr, frame: &Frame) -> Type {
        self.checked.type_of(expr).substitute(&frame.substitution)
    }

    /// The type of an expression after its implicit cast.
    fn type_as_used(&self, expr: &Expr, frame: &Frame) -> Type {
        self.checked
            .type_as_used(expr)
            .substitute(&frame.substitution)
    }

    /// The types of the type parameters `params` for a call with the type arguments `args`.
    fn call_types(
        &self,
        params: &[crate::syntax::ast::TypeParam],
        args: &[Type],
        frame: &Frame,
    ) -> Substitution {
        let args = args.iter().map(|ty| ty.substitute(&frame.substitution));
        Substitution::new(params.iter().map(|param| param.id), args)
    }
}

/// The expression `base` of a callee `base.method`; `None` for other callees.
fn method_base(callee: &Expr) -> Option<&Expr> {
    match &callee.kind {
        ExprKind::Member(base, _) => Some(base),
        _ => None,
    }
}
