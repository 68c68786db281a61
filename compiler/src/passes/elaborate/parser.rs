//! Parsers: states, sub-parsers, and choices inside of states.
//!
//! A state's statements are made like those of any other body. Then they are laid out as states of the target, which
//! hold straight-line code only: a choice becomes a `select` on a variable, a call of a sub-parser a transition to its
//! first state, whose end leads back.

use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;

use num_bigint::BigInt;

use super::annotations::full_name;
use super::frame::{Binding, Frame, Instance, ParserInstance};
use super::{method_base, Elaborator, Region};
use crate::diag::{Code, Span};
use crate::ir::{
    Expr as IrExpr, Keyset, Label, ParseState, Parser, Scalar, SelectKey, Source, StateId,
    StateRef, Stmt, StmtKind, Transition,
};
use crate::sema::CallInfo;
use crate::syntax::ast::{Call, Decl, DeclId, State, Transition as AstTransition};

/// States being made.
#[derive(Default)]
pub struct States {
    list: Vec<Building>,
    /// Where a select goes that has no case for its keys.
    no_match: Option<StateId>,
}

struct Building {
    name: String,
    body: Vec<Stmt>,
    transition: Transition,
    source: Source,
    /// Made by the compiler: may vanish into the states before and after it.
    synthetic: bool,
}

/// One run of a parser: where its states went and where its end leads.
pub struct Run {
    frame: Rc<Frame>,
    prefix: String,
    accept: StateRef,
    known: BTreeMap<DeclId, StateId>,
    waiting: VecDeque<(Rc<State>, StateId)>,
    /// Labels of blocks around the code being laid out, with the states behind them.
    after: BTreeMap<Label, StateId>,
}

impl Elaborator<'_> {
    /// A parser of the architecture, and what the target calls it.
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
        let mut run = self.run_of(frame, String::new(), StateRef::End);
        if let Some(end) = self.lay_out(body, start, &mut run) {
            let first = self.first_state(instance, &mut run);
            self.states.list[end.index()].transition = Transition::Always(first);
        }
        self.finish_run(&mut run);
        let states = self.finish_parser();
        let source = self.source(instance.decl.name.span);
        self.program.parsers.push(Parser {
            name,
            states,
            source,
        });
    }

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

    fn run_of(&self, frame: Rc<Frame>, prefix: String, accept: StateRef) -> Run {
        Run {
            frame,
            prefix,
            accept,
            known: BTreeMap::new(),
            waiting: VecDeque::new(),
            after: BTreeMap::new(),
        }
    }

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

    fn new_state(&mut self, wanted: &str, source: Source, synthetic: bool) -> StateId {
        let taken =
            |this: &Self, name: &str| this.states.list.iter().any(|state| state.name == name);
        let name = match taken(self, wanted) {
            false => wanted.to_owned(),
            true => (0..)
                .map(|n| format!("{wanted}_{n}"))
                .find(|name| !taken(self, name))
                .expect("some number is free"),
        };
        let transition = Transition::Always(StateRef::End);
        self.states.list.push(Building {
            name,
            body: Vec::new(),
            transition,
            source,
            synthetic,
        });
        StateId::from(self.states.list.len() - 1)
    }

    /// The state that `start` of the parser became.
    fn first_state(&mut self, instance: &Rc<ParserInstance>, run: &mut Run) -> StateRef {
        let start = instance.decl.body.as_ref().and_then(|body| {
            body.states
                .iter()
                .find(|state| &*state.name.name == "start")
                .cloned()
        });
        match start {
            Some(state) => StateRef::State(self.state_id(&state, run)),
            None => StateRef::End,
        }
    }

    fn state_id(&mut self, state: &Rc<State>, run: &mut Run) -> StateId {
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

    /// Where a name in a transition leads.
    pub fn target_state(&mut self, name: &str, run: &mut Run) -> StateRef {
        match name {
            "accept" => run.accept,
            // v1model goes on to ingress, with whatever error there is.
            "reject" if !self.program.arch.is_tofino() => StateRef::End,
            // The model looks for an error.
            "reject" => StateRef::State(self.no_match(Span::default())),
            name => {
                let body = run
                    .frame
                    .parser
                    .as_ref()
                    .and_then(|instance| instance.decl.body.clone());
                let state = body.and_then(|body| {
                    body.states
                        .iter()
                        .find(|state| &*state.name.name == name)
                        .cloned()
                });
                match state {
                    Some(state) => StateRef::State(self.state_id(&state, run)),
                    None => StateRef::End,
                }
            }
        }
    }

    /// Makes all states that were met.
    fn finish_run(&mut self, run: &mut Run) {
        while let Some((state, id)) = run.waiting.pop_front() {
            self.state(&state, id, run);
        }
    }

    fn state(&mut self, state: &Rc<State>, id: StateId, run: &mut Run) {
        let frame = Rc::new(Frame::inside(&run.frame));
        let mut plan = None;
        let body = self.block(|this| {
            this.statements(&state.stmts, &frame);
            if let AstTransition::Select(select) = &state.transition {
                plan = Some(this.select(select, &frame));
            }
        });
        let Some(end) = self.lay_out(body, id, run) else {
            return;
        };
        let transition = match &state.transition {
            AstTransition::None => Transition::Always(StateRef::End),
            AstTransition::Direct(name) => Transition::Always(self.target_state(&name.name, run)),
            AstTransition::Select(_) => {
                let plan = plan.unwrap_or_default();
                let mut cases: Vec<(Keyset, StateRef)> = Vec::new();
                for (keyset, name) in plan.cases {
                    cases.push((keyset, self.target_state(&name, run)));
                }
                if !matches!(cases.last(), Some((Keyset::Default, _))) {
                    let no_match = self.no_match(state.name.span);
                    cases.push((Keyset::Default, StateRef::State(no_match)));
                }
                match &cases[..] {
                    [(Keyset::Default, only), ..] => Transition::Always(*only),
                    _ => Transition::Select {
                        keys: plan.keys,
                        cases,
                    },
                }
            }
        };
        self.states.list[end.index()].transition = transition;
    }

    /// The state that rejects with `error.NoMatch`: the target itself would accept.
    fn no_match(&mut self, span: Span) -> StateId {
        if let Some(state) = self.states.no_match {
            return state;
        }
        let state = self.new_state("noMatch", Source::default(), false);
        let body = self.block(|this| this.verify(IrExpr::Bool(false), "NoMatch", span));
        self.states.list[state.index()].body = body;
        self.states.no_match = Some(state);
        state
    }

    /// Emits a check whose failure is an error of the core library.
    pub fn verify(&mut self, cond: IrExpr, error: &str, span: Span) {
        let number = self.program.errors.iter().position(|name| name == error);
        let error = IrExpr::bits(number.unwrap_or(0), super::layout::ENUM_BITS);
        self.emit(span, StmtKind::Verify { cond, error });
    }

    /// Appends code to a state, with more states where it branches. Returns the state in which it ends.
    fn lay_out(&mut self, code: Vec<Stmt>, mut state: StateId, run: &mut Run) -> Option<StateId> {
        for stmt in code {
            match stmt.kind {
                StmtKind::If {
                    cond, then, other, ..
                } => {
                    let (yes, no) = (self.more(state), self.more(state));
                    self.branch(state, cond, stmt.source, yes, no, run);
                    let ends = [self.lay_out(then, yes, run), self.lay_out(other, no, run)];
                    if ends.iter().all(Option::is_none) {
                        return None;
                    }
                    let join = self.more(state);
                    for end in ends.into_iter().flatten() {
                        self.goto(end, join);
                    }
                    state = join;
                }
                StmtKind::Block { label, body } => {
                    let join = self.more(state);
                    run.after.insert(label, join);
                    if let Some(end) = self.lay_out(body, state, run) {
                        self.goto(end, join);
                    }
                    state = join;
                }
                StmtKind::Loop { label, body } => {
                    let (head, join) = (self.more(state), self.more(state));
                    run.after.insert(label, join);
                    self.goto(state, head);
                    if let Some(end) = self.lay_out(body, head, run) {
                        self.goto(end, head);
                    }
                    state = join;
                }
                StmtKind::Break(label) => {
                    if let Some(to) = run.after.get(&label).copied() {
                        self.goto(state, to);
                    }
                    return None;
                }
                StmtKind::Enter { start, join } => {
                    self.states.list[state.index()].transition = Transition::Always(start);
                    state = join;
                }
                _ => self.states.list[state.index()].body.push(stmt),
            }
        }
        Some(state)
    }

    fn more(&mut self, like: StateId) -> StateId {
        let Building { name, source, .. } = &self.states.list[like.index()];
        let (name, source) = (name.clone(), source.clone());
        self.new_state(&name, source, true)
    }

    fn goto(&mut self, from: StateId, to: StateId) {
        self.states.list[from.index()].transition = Transition::Always(StateRef::State(to));
    }

    fn branch(
        &mut self,
        state: StateId,
        cond: IrExpr,
        source: Source,
        yes: StateId,
        no: StateId,
        run: &Run,
    ) {
        let place = match cond {
            IrExpr::Field { place, .. } => place,
            cond => {
                let held = self.temporary(&run.frame, "tmp", Scalar::Bool);
                let kind = StmtKind::Assign {
                    target: held.into(),
                    value: cond,
                };
                self.states.list[state.index()]
                    .body
                    .push(Stmt { kind, source });
                held.into()
            }
        };
        let one = vec![(BigInt::from(1), BigInt::from(1))];
        self.states.list[state.index()].transition = Transition::Select {
            keys: vec![SelectKey::Field { place, width: 1 }],
            cases: vec![
                (Keyset::Values(one), StateRef::State(yes)),
                (Keyset::Default, StateRef::State(no)),
            ],
        };
    }

    /// `sub_parser.apply(...)` in a state.
    pub fn apply_sub_parser(
        &mut self,
        info: &CallInfo,
        call: &Call,
        span: Span,
        frame: &Rc<Frame>,
    ) {
        let instance = method_base(&call.callee).and_then(|base| self.instance_of(base, frame));
        if let Some(Instance::Parser(instance)) = instance {
            self.enter_parser(&instance, info, call, span, frame);
        }
    }

    /// Makes the states of a sub-parser and a way through them.
    pub fn enter_parser(
        &mut self,
        instance: &Rc<ParserInstance>,
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
        let copies = self.pass(bound, &callee, false, frame);
        let callee = Rc::new(callee);
        self.parser_locals(instance, &callee);
        let source = self.source(span);
        let join = self.new_state(&format!("{}_end", instance.name), source, true);
        let mut run = self.run_of(callee, instance.name.clone(), StateRef::State(join));
        let start = self.first_state(instance, &mut run);
        let outer = std::mem::take(&mut self.out);
        self.finish_run(&mut run);
        self.out = outer;
        self.emit(span, StmtKind::Enter { start, join });
        self.copy_out(copies, span, frame);
    }

    /// Takes out states that the source does not have, where nothing is lost, and numbers the rest.
    fn finish_parser(&mut self) -> Vec<ParseState> {
        self.skip_empty_states();
        self.merge_states();
        let mut numbers: BTreeMap<usize, StateId> = BTreeMap::new();
        let mut order = vec![0];
        let mut position = 0;
        while position < order.len() {
            let state = order[position];
            numbers.insert(state, StateId::from(position));
            for next in successors(&self.states.list[state].transition) {
                if !order.contains(&next) {
                    order.push(next);
                }
            }
            position += 1;
        }
        let renumber = |next: &StateRef| match next {
            StateRef::State(id) => numbers
                .get(&id.index())
                .map_or(StateRef::End, |id| StateRef::State(*id)),
            StateRef::End => StateRef::End,
        };
        order
            .iter()
            .map(|index| {
                let state = &self.states.list[*index];
                let transition = match &state.transition {
                    Transition::Always(next) => Transition::Always(renumber(next)),
                    Transition::Select { keys, cases } => Transition::Select {
                        keys: keys.clone(),
                        cases: cases
                            .iter()
                            .map(|(keyset, next)| (keyset.clone(), renumber(next)))
                            .collect(),
                    },
                };
                ParseState {
                    name: state.name.clone(),
                    body: state.body.clone(),
                    transition,
                    source: state.source.clone(),
                }
            })
            .collect()
    }

    /// Transitions to an empty state of the compiler's go where it goes.
    fn skip_empty_states(&mut self) {
        let through: Vec<Option<StateRef>> = self
            .states
            .list
            .iter()
            .enumerate()
            .map(|(index, state)| match (&state.transition, index) {
                (Transition::Always(next), 1..) if state.synthetic && state.body.is_empty() => {
                    Some(*next)
                }
                _ => None,
            })
            .collect();
        let resolve = |next: &mut StateRef| {
            // A ring of empty states has no end; the count bounds the walk.
            for _ in 0..through.len() {
                match next {
                    StateRef::State(id) => match through[id.index()] {
                        Some(to) => *next = to,
                        None => return,
                    },
                    StateRef::End => return,
                }
            }
            *next = StateRef::End;
        };
        for state in &mut self.states.list {
            match &mut state.transition {
                Transition::Always(next) => resolve(next),
                Transition::Select { cases, .. } => {
                    cases.iter_mut().for_each(|(_, next)| resolve(next))
                }
            }
        }
    }

    /// A state with one way in, from a state with one way out, becomes a part of that one.
    fn merge_states(&mut self) {
        let mut incoming = vec![0usize; self.states.list.len()];
        incoming[0] = 1;
        let mut reached = vec![0];
        let mut seen = vec![false; self.states.list.len()];
        seen[0] = true;
        while let Some(state) = reached.pop() {
            for next in successors(&self.states.list[state].transition) {
                incoming[next] += 1;
                if !std::mem::replace(&mut seen[next], true) {
                    reached.push(next);
                }
            }
        }
        for index in 0..self.states.list.len() {
            if !seen[index] {
                continue;
            }
            while let Transition::Always(StateRef::State(next)) = self.states.list[index].transition
            {
                let next = next.index();
                let fits = self.states.list[index].synthetic || self.states.list[next].synthetic;
                if next == index || next == 0 || incoming[next] != 1 || !fits {
                    break;
                }
                let taken = std::mem::replace(
                    &mut self.states.list[next],
                    Building {
                        name: String::new(),
                        body: Vec::new(),
                        transition: Transition::Always(StateRef::End),
                        source: Source::default(),
                        synthetic: true,
                    },
                );
                seen[next] = false;
                let state = &mut self.states.list[index];
                state.body.extend(taken.body);
                state.transition = taken.transition;
                if state.synthetic && !taken.synthetic {
                    state.source = taken.source;
                    state.synthetic = false;
                    if index != 0 {
                        state.name = taken.name;
                    }
                }
            }
        }
    }
}

fn successors(transition: &Transition) -> Vec<usize> {
    let one = |next: &StateRef| match next {
        StateRef::State(id) => Some(id.index()),
        StateRef::End => None,
    };
    match transition {
        Transition::Always(next) => one(next).into_iter().collect(),
        Transition::Select { cases, .. } => {
            cases.iter().filter_map(|(_, next)| one(next)).collect()
        }
    }
}
