//! Parsers: states and sub-parsers.
//!
//! Statements of a state are elaborated like those of other bodies. A call of a sub-parser creates copies of the sub-parser's states, whose
//! `accept` leads to a state for the statements after the call.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::rc::Rc;

use rustc_hash::FxHashMap;

use super::frame::{Binding, Frame, Instance, ParserInstance};
use super::select::EvaluatedSelect;
use super::{method_base, Elaborator, Region};
use crate::diag::{Code, Span};
use crate::ir::{Expr as IrExpr, Source, StateId, Take};
use crate::names::Names;
use crate::passes::annotations::full_name;
use crate::passes::inlined::{BlockCode, Case, Next, Pending, State, StateCode, Stmt, Transition};
use crate::sema::{CallInfo, Resolution};
use crate::syntax::ast::{
    Arg, Call, Decl, DeclId, Expr, ExprKind, Name, State as AstState, Stmt as AstStmt,
    StmtKind as AstStmtKind, Transition as AstTransition,
};
use crate::syntax::print::print_expr;

/// The states of a parser and its sub-parsers, elaborated so far.
#[derive(Default)]
pub struct States {
    list: Vec<State>,
    names: Names,
}

/// One application of a parser, with the states elaborated for it.
pub struct ParserRun {
    /// The environment of the parser.
    frame: Rc<Frame>,
    /// Prefix of the names of states.
    prefix: String,
    /// Target of `accept`.
    accept: Next,
    /// States in the output, by declaration.
    known: BTreeMap<DeclId, StateId>,
    /// Declarations of the parser's states, by name.
    states: FxHashMap<Name, Rc<AstState>>,
    /// States that are referenced, but not elaborated yet.
    waiting: VecDeque<(Rc<AstState>, StateId)>,
}

impl Elaborator<'_> {
    /// Elaborates a parser of the package; `name` is the target's name for it.
    pub fn parser_block(
        &mut self,
        instance: &Rc<ParserInstance>,
        name: &'static str,
        arguments: Vec<Binding>,
    ) {
        self.region = Region::Parser;
        self.states = States::default();
        let frame = self.parser_frame(instance);
        for (param, binding) in instance.decl.params.iter().zip(arguments) {
            frame.bind(param.id, binding);
        }
        let frame = Rc::new(frame);
        let start = self.new_state("start", Source::default(), true);
        let body = self.block(|this| this.parser_locals(instance, &frame));
        let mut run = self.new_run(frame, String::new(), Next::End);
        let first = self.first_state(instance, &mut run);
        self.set_code(start, body, Transition::Always(first), &run);
        self.finish_run(&mut run);
        let states = std::mem::take(&mut self.states.list);
        self.add_block(name, instance.decl.name.span, BlockCode::Parser(states));
    }

    /// The environment of a parser's body, with its constructor arguments.
    fn parser_frame(&self, instance: &Rc<ParserInstance>) -> Frame {
        let mut frame = Frame::inside(&self.top);
        frame.substitution = instance.substitution.clone();
        frame.name = instance.name.clone();
        frame.parser = Some(Rc::clone(instance));
        for (param, binding) in &instance.arguments {
            frame.bind(*param, binding.clone());
        }
        frame
    }

    /// Creates an application of the parser whose environment is `frame`, with no states elaborated yet.
    fn new_run(&self, frame: Rc<Frame>, prefix: String, accept: Next) -> ParserRun {
        let body = frame
            .parser
            .as_ref()
            .and_then(|instance| instance.decl.body.as_ref());
        let mut states = FxHashMap::default();
        for state in body.iter().flat_map(|body| &body.states) {
            states
                .entry(Rc::clone(&state.name.name))
                .or_insert_with(|| Rc::clone(state));
        }
        ParserRun {
            states,
            frame,
            prefix,
            accept,
            known: BTreeMap::new(),
            waiting: VecDeque::new(),
        }
    }

    /// Elaborates the local declarations of a parser.
    fn parser_locals(&mut self, instance: &Rc<ParserInstance>, frame: &Rc<Frame>) {
        let Some(body) = &instance.decl.body else {
            return;
        };
        for decl in &body.locals {
            match decl {
                Decl::Var(decl) => self.variable(decl, frame, true),
                Decl::Const(decl) => {
                    let ty = self.written_type(&decl.ty, frame);
                    let data = match self.checked.const_value(decl.id) {
                        Some(value) => self.data_of(value, &ty),
                        None => {
                            let data = self.eval(&decl.value, frame);
                            self.cast(data, &ty)
                        }
                    };
                    frame.bind(decl.id, Binding::Data(data));
                }
                Decl::Instantiation(decl) => {
                    let known = instance.instances.borrow().get(&decl.id).cloned();
                    match known {
                        Some(known) => frame.bind(decl.id, Binding::Instance(known)),
                        None => {
                            if let Some(made) = self.instantiate(decl, frame) {
                                instance.instances.borrow_mut().insert(decl.id, made);
                            }
                        }
                    }
                }
                Decl::ValueSet(decl) => {
                    let known = instance.value_sets.borrow().get(&decl.id).copied();
                    if known.is_none() {
                        if let Some(id) = self.value_set(decl, frame) {
                            instance.value_sets.borrow_mut().insert(decl.id, id);
                        }
                    }
                }
                _ => {}
            }
        }
    }

    /// Adds a state whose statements follow later; its name is derived from `wanted`.
    fn new_state(&mut self, wanted: &str, source: Source, synthetic: bool) -> StateId {
        let name = self.states.names.unique(wanted);
        self.states.list.push(State {
            name,
            code: None,
            source,
            synthetic,
        });
        StateId::from(self.states.list.len() - 1)
    }

    /// Sets the statements and the transition of a state.
    fn set_code(
        &mut self,
        state: StateId,
        body: Vec<Stmt>,
        transition: Transition,
        run: &ParserRun,
    ) {
        self.states.list[state.index()].code = Some(StateCode {
            body,
            scope: run.frame.name.clone(),
            transition,
        });
    }

    /// The target of a transition to the parser's state `start`.
    fn first_state(&mut self, instance: &Rc<ParserInstance>, run: &mut ParserRun) -> Next {
        let start = instance.decl.body.as_ref().and_then(|body| {
            body.states
                .iter()
                .find(|state| &*state.name.name == "start")
                .cloned()
        });
        match start {
            Some(state) => Next::State(self.state_id(&state, run)),
            None => Next::End,
        }
    }

    /// The state in the output for a state of the parser. A state that is not elaborated yet is queued.
    fn state_id(&mut self, state: &Rc<AstState>, run: &mut ParserRun) -> StateId {
        if let Some(id) = run.known.get(&state.id) {
            return *id;
        }
        let name = full_name(&run.prefix, &state.annotations, &state.name.name);
        let source = self.source(state.name.span);
        let id = self.new_state(&name, source, false);
        run.known.insert(state.id, id);
        run.waiting.push_back((Rc::clone(state), id));
        id
    }

    /// The target of a transition to the state `name`, `accept` or `reject`.
    pub fn target_state(&mut self, name: &str, run: &mut ParserRun) -> Next {
        match name {
            "accept" => run.accept,
            "reject" => Next::Reject,
            name => {
                let state = run.states.get(name).cloned();
                match state {
                    Some(state) => Next::State(self.state_id(&state, run)),
                    None => {
                        self.impossible(None, "a transition leads to an unknown state");
                        Next::End
                    }
                }
            }
        }
    }

    /// Elaborates all states that are reachable from those referenced so far.
    fn finish_run(&mut self, run: &mut ParserRun) {
        while let Some((state, id)) = run.waiting.pop_front() {
            if self.count_parts(state.name.span, 1).is_err() {
                return;
            }
            self.state(&state, id, run);
        }
    }

    /// Elaborates the statements and the transition of a state.
    fn state(&mut self, state: &Rc<AstState>, id: StateId, run: &mut ParserRun) {
        let frame = Rc::new(Frame::inside(&run.frame));
        let mut plan = None;
        let body = self.block(|this| {
            this.statements(&state.stmts, &frame);
            if let AstTransition::Select(select) = &state.transition {
                plan = Some(this.select(select, &frame));
            }
        });
        let transition = match &state.transition {
            AstTransition::None => Transition::Always(Next::End),
            AstTransition::Direct(name) => Transition::Always(self.target_state(&name.name, run)),
            AstTransition::Select(_) => {
                let EvaluatedSelect { keys, cases } = plan.unwrap_or_default();
                let cases = cases.into_iter().map(|(keyset, name, span)| Case {
                    keyset,
                    next: self.target_state(&name, run),
                    source: self.source(span),
                });
                let cases = cases.collect();
                Transition::Select { keys, cases }
            }
        };
        self.set_code(id, body, transition, run);
    }

    /// Emits a `verify` with a parser error of core.p4.
    pub fn verify(&mut self, cond: IrExpr, error: &str, span: Span) {
        let number = self.program.errors.iter().position(|name| name == error);
        let error = IrExpr::bits(number.unwrap_or(0), crate::passes::control_view::ENUM_BITS);
        self.emit(span, Take::Verify { cond, error });
    }

    /// Elaborates `sub_parser.apply(...)` in a parser state.
    pub fn apply_sub_parser(
        &mut self,
        info: &CallInfo,
        call: &Call,
        span: Span,
        frame: &Rc<Frame>,
    ) {
        let instance =
            method_base(&call.callee).and_then(|base| Some((base, self.instance_of(base, frame)?)));
        let Some((base, Instance::Parser(instance))) = instance else {
            self.impossible(span, "an applied parser is not a parser");
            return;
        };
        let copied = self.has_several_argument_lists(base, frame);
        self.enter_parser(&instance, copied, info, call, span, frame);
    }

    /// Whether the calls of a sub-parser in the current parser differ in their arguments.
    fn has_several_argument_lists(&mut self, sub_parser: &Expr, frame: &Rc<Frame>) -> bool {
        let (Resolution::Decl(id), Some(caller)) =
            (self.checked.resolution(sub_parser), frame.parser.clone())
        else {
            return false;
        };
        if let Some(known) = self.several_argument_lists.get(&id) {
            return *known;
        }
        let mut lists = BTreeSet::new();
        let states = caller.decl.body.iter().flat_map(|body| &body.states);
        for state in states {
            self.argument_lists(&state.stmts, id, &mut lists);
        }
        let several = lists.len() > 1;
        self.several_argument_lists.insert(id, several);
        several
    }

    /// Adds the argument lists, as text, of the calls of a sub-parser in statements.
    fn argument_lists(&self, stmts: &[AstStmt], id: DeclId, lists: &mut BTreeSet<Vec<String>>) {
        for stmt in stmts {
            match &stmt.kind {
                AstStmtKind::Call(expr) => {
                    let ExprKind::Call(call) = &expr.kind else {
                        continue;
                    };
                    let is_apply = method_base(&call.callee)
                        .is_some_and(|base| self.checked.resolution(base) == Resolution::Decl(id));
                    if is_apply {
                        let text = |arg: &Arg| match &arg.name {
                            Some(name) => format!("{name} = {}", print_expr(&arg.value)),
                            None => print_expr(&arg.value),
                        };
                        lists.insert(call.args.iter().map(text).collect());
                    }
                }
                AstStmtKind::If {
                    then, otherwise, ..
                } => {
                    self.argument_lists(std::slice::from_ref(then), id, lists);
                    if let Some(otherwise) = otherwise {
                        self.argument_lists(std::slice::from_ref(otherwise), id, lists);
                    }
                }
                AstStmtKind::Block(block) => self.argument_lists(&block.stmts, id, lists),
                _ => {}
            }
        }
    }

    /// Elaborates an application of a sub-parser: its states, and a transition to them.
    ///
    /// If `copied`, parameters are new variables, and `out` and `inout` parameters are copied out when the sub-parser accepts, but not when it
    /// rejects. Otherwise parameters are aliases of their arguments, as in p4c for a sub-parser whose calls all have the same arguments.
    pub fn enter_parser(
        &mut self,
        instance: &Rc<ParserInstance>,
        copied: bool,
        info: &CallInfo,
        call: &Call,
        span: Span,
        frame: &Rc<Frame>,
    ) {
        if self.region != Region::Parser {
            self.error(
                Code::CALL_CONTEXT,
                span,
                "a parser can be applied only in a parser",
            );
            return;
        }
        let bound = self.arguments_for(&instance.decl.params, info, &call.args, frame);
        let callee = self.parser_frame(instance);
        let copies = self.bind_arguments(bound, &callee, copied, frame);
        let callee = Rc::new(callee);
        self.parser_locals(instance, &callee);
        let source = self.source(span);
        let join = self.new_state(&format!("{}_end", instance.name), source, true);
        let mut run = self.new_run(callee, instance.name.clone(), Next::State(join));
        let start = self.first_state(instance, &mut run);
        let outer = std::mem::take(&mut self.out);
        self.finish_run(&mut run);
        self.out = outer;
        if let Next::State(start) = start {
            self.emit(span, Pending::Enter { start, join });
        }
        self.copy_out(copies, span, frame);
    }
}
