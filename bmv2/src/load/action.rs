//! Actions and primitives.

use super::expr::{Dest, HeaderRef};
use super::{find, LoadError, Loader, Scope};
use crate::coverage::{Count, SiteKind};
use crate::exec::node::{Kind, Node, Unary};
use crate::exec::ops::{Op, Slot, Test};
use crate::exec::words::param_words;
use crate::program::{Action, DynHeader, DynHeaderOp, DynRef, LogMessage, Note, Param};
use alfirk_bmv2_json::{Expr, Operator, Primitive, PrimitiveCall, SourceInfo};
use rustc_hash::FxHashMap;

/// The jumps to a primitive.
#[derive(Default)]
struct Jumps {
    /// Number of jumps.
    all: usize,
    /// Numbers of executions of the jumps that were compiled, where they are known.
    seen: Vec<Option<Count>>,
}

impl Jumps {
    /// Returns the number of executions of the primitive that is reached by these jumps and by `line`, if it is known.
    fn joined(&self, line: Option<Count>) -> Option<Count> {
        let mut sum = line.filter(|_| self.seen.len() == self.all)?;
        for jump in &self.seen {
            sum = sum.plus(jump.as_ref()?);
        }
        Some(sum)
    }
}

impl Loader<'_> {
    pub(super) fn compile_actions(&mut self) -> Result<(), LoadError> {
        if self.json.actions.len() > usize::from(u16::MAX) {
            let need = self.json.actions.len() as u64;
            return Err(LoadError::TooLarge {
                what: "actions",
                need,
                limit: u64::from(u16::MAX),
            });
        }
        for action in &self.json.actions {
            let at = format!("action {}", action.name);
            let mut params = Vec::new();
            let mut words = 0;
            for param in &action.runtime_data {
                let (name, bits) = (param.name.clone(), param.bitwidth);
                params.push(Param {
                    name,
                    bits,
                    offset: words,
                });
                words += param_words(bits);
            }
            self.begin(|| at.clone());
            let code = self.pc();
            self.note(|| Note::Action(action.name.clone()));
            self.begin_action();
            self.cover_action(action);
            self.compile_primitives(
                &action.primitives,
                Scope {
                    params: &params,
                    ..Scope::plain(&at)
                },
            )?;
            self.end_line();
            self.locate(None);
            self.emit(Op::Return);
            self.actions.push(Action {
                name: action.name.clone(),
                id: action.id,
                params,
                words,
                code,
            });
        }
        Ok(())
    }

    /// Returns the number of an action, which is given by its id in the JSON file. `at` is the referring object, for
    /// messages.
    pub(super) fn action_by_id(&self, id: i64, at: &str) -> Result<u16, LoadError> {
        let position = self.actions.iter().position(|a| a.id == id);
        position
            .map(|i| i as u16)
            .ok_or_else(|| LoadError::Undefined {
                at: at.to_owned(),
                what: "action with id",
                name: id.to_string(),
            })
    }

    pub(super) fn compile_primitives(
        &mut self,
        calls: &[PrimitiveCall],
        scope: Scope,
    ) -> Result<(), LoadError> {
        let mut starts = Vec::with_capacity(calls.len() + 1);
        let mut jumps: Vec<(usize, usize)> = Vec::new();
        let mut incoming = self.jumps_by_target(calls, scope)?;
        let mut last = None;
        for (number, call) in calls.iter().enumerate() {
            starts.push(self.pc());
            if let Some(jumps) = incoming.get(&number) {
                let line = self.line();
                self.begin_line(jumps.joined(line));
            }
            let (name, info) = (call.primitive.name(), call.source_info.as_ref());
            let at = match info {
                Some(info) if info.line > 0 => {
                    format!("{}, {name} ({}:{})", scope.at, info.filename, info.line)
                }
                _ => format!("{}, {name}", scope.at),
            };
            let scope = Scope { at: &at, ..scope };
            self.locate(info);
            // A statement of the source may be several primitives.
            let is_jump = matches!(call.primitive, Primitive::Jump { .. });
            let begins = !is_jump && std::mem::replace(&mut last, info) != info;
            let is_condition = matches!(call.primitive, Primitive::JumpIfZero { .. });
            self.note(|| match begins && !is_condition {
                true => Note::Primitive(info.cloned()),
                false => Note::Part(info.cloned()),
            });
            if begins {
                self.cover_inlined(info);
                self.cover(|| SiteKind::Statement, info);
            }
            let without_extra = without_extra_operands(&call.primitive);
            match without_extra.as_ref().unwrap_or(&call.primitive) {
                Primitive::Jump { target } => {
                    let target = self.jump_target(target, calls.len(), scope)?;
                    jumps.push((self.emit(Op::Jump { to: 0 }), target));
                    let line = self.line();
                    if let Some(at) = incoming.get_mut(&target) {
                        at.seen.push(line);
                    }
                    // What follows is reached by jumps only.
                    self.begin_line(Some(Count::default()));
                }
                Primitive::JumpIfZero { condition, target } => {
                    let cond = self.node(condition, scope)?;
                    let target = self.jump_target(target, calls.len(), scope)?;
                    let is_set = Node::new(Kind::Unary(Unary::NonZero, Box::new(cond)));
                    let taken = self.branch(&is_set, false)?;
                    let outcome = |holds| {
                        let info = info.cloned();
                        Note::Outcome { info, holds }
                    };
                    let taken = self.note_outcomes(taken, outcome);
                    let taken = self.cover_outcomes(taken, false, info);
                    let otherwise = self.take_otherwise();
                    if let Some(at) = incoming.get_mut(&target) {
                        at.seen.push(otherwise);
                    }
                    jumps.extend(taken.into_iter().map(|jump| (jump, target)));
                }
                primitive => {
                    self.primitive(primitive, info, scope)?;
                    let may_drop = matches!(
                        primitive,
                        Primitive::Assert { .. }
                            | Primitive::Assume { .. }
                            | Primitive::RegisterAccess { .. }
                    );
                    if may_drop {
                        self.end_line();
                    }
                }
            }
            self.end_statement();
        }
        starts.push(self.pc());
        if let Some(jumps) = incoming.get(&calls.len()) {
            let line = self.line();
            self.begin_line(jumps.joined(line));
        }
        for (jump, target) in jumps {
            self.patch(jump, starts[target]);
        }
        Ok(())
    }

    /// Returns the jumps of primitives to each of them, none of which is seen.
    fn jumps_by_target(
        &mut self,
        calls: &[PrimitiveCall],
        scope: Scope,
    ) -> Result<FxHashMap<usize, Jumps>, LoadError> {
        let mut jumps: FxHashMap<usize, Jumps> = FxHashMap::default();
        if !self.options.coverage {
            return Ok(jumps);
        }
        for call in calls {
            if let Primitive::Jump { target } | Primitive::JumpIfZero { target, .. } =
                &call.primitive
            {
                let target = self.jump_target(target, calls.len(), scope)?;
                jumps.entry(target).or_default().all += 1;
            }
        }
        Ok(jumps)
    }

    fn jump_target(&mut self, expr: &Expr, count: usize, scope: Scope) -> Result<usize, LoadError> {
        let target = match &self.node(expr, scope)?.kind {
            Kind::Const(value) => value.to_i128().and_then(|v| usize::try_from(v).ok()),
            _ => None,
        };
        let target = target.filter(|t| *t <= count);
        target.ok_or_else(|| {
            scope.invalid(format!(
                "the jump target must be a constant of at most {count}"
            ))
        })
    }

    /// Compiles a call of a primitive that is not a jump.
    fn primitive(
        &mut self,
        primitive: &Primitive,
        info: Option<&SourceInfo>,
        scope: Scope,
    ) -> Result<(), LoadError> {
        let mut binary =
            |op, target, left, right| self.assign_binary(op, target, left, right, scope);
        match primitive {
            Primitive::Assign { target, value } | Primitive::ModifyField { target, value } => {
                let value = self.node(value, scope)?;
                self.assign_to(target, &value, scope)
            }
            Primitive::AssignVl { target, value } => self.assign_vl(target, value, scope),
            Primitive::AssignHeader { target, value } | Primitive::CopyHeader { target, value } => {
                self.assign_header(target, value, scope)
            }
            Primitive::AddHeader { header } | Primitive::AddHeaderFast { header } => {
                match self.header_ref(header, scope)? {
                    HeaderRef::Static(h) => self.emit_one(Op::AddHeader { h }),
                    dest => self.dyn_header(DynHeaderOp::Add, dest, None),
                }
            }
            Primitive::RemoveHeader { header } => match self.header_ref(header, scope)? {
                HeaderRef::Static(h) => self.emit_one(Op::RemoveHeader { h }),
                dest => self.dyn_header(DynHeaderOp::Remove, dest, None),
            },
            Primitive::AssignUnion { target, value } => {
                let d = self.union_arg(target, scope)?;
                let s = self.union_arg(value, scope)?;
                self.same_unions(d, s, scope)?;
                self.emit_one(Op::AssignUnion { d, s })
            }
            Primitive::AssignHeaderStack { target, value } => {
                self.assign_stack(target, value, scope)
            }
            Primitive::AssignUnionStack { target, value } => {
                self.assign_union_stack(target, value, scope)
            }
            Primitive::Push { stack, count } => {
                let stack = self.any_stack_arg(stack, scope)?;
                let n = self.amount_arg(count, scope)?;
                self.emit_one(Op::Push { stack, n })
            }
            Primitive::Pop { stack, count } => {
                let stack = self.any_stack_arg(stack, scope)?;
                let n = self.amount_arg(count, scope)?;
                self.emit_one(Op::Pop { stack, n })
            }
            Primitive::AddToField { target, value } => binary(Operator::Add, target, target, value),
            Primitive::SubtractFromField { target, value } => {
                binary(Operator::Sub, target, target, value)
            }
            Primitive::Add {
                target,
                left,
                right,
            } => binary(Operator::Add, target, left, right),
            Primitive::Subtract {
                target,
                left,
                right,
            } => binary(Operator::Sub, target, left, right),
            Primitive::BitXor {
                target,
                left,
                right,
            } => binary(Operator::BitXor, target, left, right),
            Primitive::BitOr {
                target,
                left,
                right,
            } => binary(Operator::BitOr, target, left, right),
            Primitive::BitAnd {
                target,
                left,
                right,
            } => binary(Operator::BitAnd, target, left, right),
            Primitive::ShiftLeft {
                target,
                left,
                right,
            } => binary(Operator::Shl, target, left, right),
            Primitive::ShiftRight {
                target,
                left,
                right,
            } => binary(Operator::Shr, target, left, right),
            Primitive::RegisterRead {
                target,
                register,
                index,
            } => self.register_read(target, register, index, scope),
            Primitive::RegisterWrite {
                register,
                index,
                value,
            } => self.register_write(register, index, value, scope),
            Primitive::Count { counter, index } => self.count(counter, index, scope),
            Primitive::ExecuteMeter {
                meter,
                index,
                target,
                precolor,
            } => self.execute_meter(meter, index, target, precolor.as_ref(), scope),
            Primitive::Hash {
                target,
                base,
                calculation,
                size,
            } => self.hash(target, base, calculation, size, scope),
            Primitive::Random { target, low, high } => self.random(target, low, high, scope),
            Primitive::MarkToDrop { metadata } => self.mark_to_drop(metadata.as_ref(), scope),
            Primitive::Drop {} => self.drop_packet(),
            Primitive::Digest { receiver: _, list } => {
                let list = self.amount_arg(list, scope)?;
                self.emit_one(Op::Digest { list })
            }
            Primitive::CloneIngress { session, list } | Primitive::Mirror { session, list } => {
                let (session, list) = self.clone_args(session, list.as_ref(), scope)?;
                self.emit_one(Op::CloneIngress { session, list })
            }
            Primitive::CloneEgress { session, list } => {
                let (session, list) = self.clone_args(session, list.as_ref(), scope)?;
                self.emit_one(Op::CloneEgress { session, list })
            }
            Primitive::Resubmit { list } => {
                let list = self.amount_arg(list, scope)?;
                self.emit_one(Op::Resubmit { list })
            }
            Primitive::Recirculate { list } => {
                let list = self.amount_arg(list, scope)?;
                self.emit_one(Op::Recirculate { list })
            }
            Primitive::Truncate { length } => {
                let bytes = self.amount_arg(length, scope)?;
                self.emit_one(Op::Truncate { bytes })
            }
            Primitive::LogMsg { format, values } => self.log_msg(format, values.as_ref(), scope),
            Primitive::Assert { condition } | Primitive::Assume { condition } => {
                let text = match info {
                    Some(info) => format!(
                        "{} failed: {}, file {}, line {}",
                        primitive.name(),
                        info.source_fragment,
                        info.filename,
                        info.line
                    ),
                    None => format!("{} failed", scope.at),
                };
                self.assertion(condition, text, scope)
            }
            Primitive::Exit {} => self.emit_one(Op::Exit),
            Primitive::NoOp {} => Ok(()),
            Primitive::RegisterAccess { register } => self.register_access(register, info, scope),
            Primitive::Filter {
                target,
                spec,
                spec_index,
                memory,
                index,
                value,
            } => {
                let which = "the second and fourth operand are register arrays";
                let (spec, memory) = (
                    self.register_arg(spec, which, scope)?,
                    self.register_arg(memory, which, scope)?,
                );
                let s = self.amount_arg(spec_index, scope)?;
                let i = self.amount_arg(index, scope)?;
                let value = self.amount_arg(value, scope)?;
                let d = self.temp()?;
                self.emit(Op::Filter {
                    d,
                    spec,
                    s,
                    memory,
                    i,
                    value,
                });
                self.assign_to(target, &word(d, 32), scope)
            }
            Primitive::Jump { .. } | Primitive::JumpIfZero { .. } => {
                Err(scope.invalid("jumps are compiled with the action"))
            }
            Primitive::Other { name, operands } => {
                Err(scope.invalid(match Primitive::operand_counts(name) {
                    Some(counts) => {
                        let (need, has) = (counts.start(), operands.len());
                        format!("needs at least {need} operands, has {has}")
                    }
                    None => format!("simple_switch has no primitive named {name:?}"),
                }))
            }
        }
    }

    /// Emits the single instruction that implements a primitive.
    fn emit_one(&mut self, op: Op) -> Result<(), LoadError> {
        self.emit(op);
        Ok(())
    }

    fn assign_header(
        &mut self,
        target: &Expr,
        value: &Expr,
        scope: Scope,
    ) -> Result<(), LoadError> {
        let (dest, source) = (
            self.header_ref(target, scope)?,
            self.header_ref(value, scope)?,
        );
        self.same_type(first(&dest, scope)?, first(&source, scope)?, scope)?;
        match (&dest, &source) {
            (HeaderRef::Static(d), HeaderRef::Static(s)) => {
                self.emit_one(Op::AssignHeader { d: *d, s: *s })
            }
            _ => self.dyn_header(DynHeaderOp::Assign, dest, Some(source)),
        }
    }

    fn assign_stack(&mut self, target: &Expr, value: &Expr, scope: Scope) -> Result<(), LoadError> {
        let (d, s) = (
            self.stack_arg(target, scope)?,
            self.stack_arg(value, scope)?,
        );
        let stacks = &self.layout.stacks;
        let (a, b) = (&stacks[usize::from(d)], &stacks[usize::from(s)]);
        if let (Some(a), Some(b)) = (a.headers.first(), b.headers.first()) {
            self.same_type(*a, *b, scope)?;
        }
        self.emit_one(Op::AssignStack { d, s })
    }

    fn assign_union_stack(
        &mut self,
        target: &Expr,
        value: &Expr,
        scope: Scope,
    ) -> Result<(), LoadError> {
        let d = self.union_stack_arg(target, scope)?;
        let s = self.union_stack_arg(value, scope)?;
        let stacks = &self.layout.union_stacks;
        let (a, b) = (&stacks[usize::from(d)], &stacks[usize::from(s)]);
        if let (Some(a), Some(b)) = (a.unions.first(), b.unions.first()) {
            self.same_unions(*a, *b, scope)?;
        }
        self.emit_one(Op::AssignUnionStack { d, s })
    }

    /// Resolves a stack of headers or of header unions. The numbers of stacks of unions follow those of stacks of
    /// headers.
    fn any_stack_arg(&self, stack: &Expr, scope: Scope) -> Result<u16, LoadError> {
        match stack.unwrapped() {
            expr @ Expr::HeaderUnionStack(_) => {
                Ok(self.union_stack_arg(expr, scope)? + self.layout.stacks.len() as u16)
            }
            expr => self.stack_arg(expr, scope),
        }
    }

    fn register_write(
        &mut self,
        register: &Expr,
        index: &Expr,
        value: &Expr,
        scope: Scope,
    ) -> Result<(), LoadError> {
        let which = "the first operand must be a register array";
        let array = self.register_arg(register, which, scope)?;
        let bits = self.registers[usize::from(array)].bits;
        let index = self.node(index, scope)?;
        let value = self.node(value, scope)?;
        let shown = index.clone();
        self.write_register(array, bits, index, &value)?;
        if self.options.notes {
            let i = self.amount(&shown)?;
            self.note(|| Note::RegisterWrite { array, i });
        }
        Ok(())
    }

    fn count(&mut self, counter: &Expr, index: &Expr, scope: Scope) -> Result<(), LoadError> {
        let Expr::CounterArray(name) = counter.unwrapped() else {
            return Err(scope.invalid("the first operand must be a counter array"));
        };
        let array = find(&self.counter_names, "counter array", name, scope.at)?;
        let i = self.amount_arg(index, scope)?;
        self.emit(Op::Count { array, i });
        self.note(|| Note::Count { array, i });
        Ok(())
    }

    fn execute_meter(
        &mut self,
        meter: &Expr,
        index: &Expr,
        target: &Expr,
        precolor: Option<&Expr>,
        scope: Scope,
    ) -> Result<(), LoadError> {
        let Expr::MeterArray(name) = meter.unwrapped() else {
            return Err(scope.invalid("the first operand must be a meter array"));
        };
        let array = find(&self.meter_names, "meter array", name, scope.at)?;
        let i = self.amount_arg(index, scope)?;
        self.note(|| Note::Meter { array, i });
        // Beyond the array, neither meter nor field change.
        let size = self.meters[usize::from(array)].size as u64;
        let b = self.constant(size)?;
        let skip = self.emit(Op::JumpIfNot {
            a: i,
            b,
            to: 0,
            test: Test::LtU,
        });
        let before = match precolor {
            Some(color) => self.amount_arg(color, scope)?,
            None => self.constant(0)?,
        };
        let d = self.temp()?;
        self.emit(Op::Meter {
            d,
            array,
            i,
            before,
        });
        self.assign_to(target, &word(d, 2), scope)?;
        self.land(vec![skip]);
        Ok(())
    }

    fn hash(
        &mut self,
        target: &Expr,
        base: &Expr,
        calculation: &Expr,
        size: &Expr,
        scope: Scope,
    ) -> Result<(), LoadError> {
        let base_node = self.node(base, scope)?;
        let base = self.amount(&base_node)?;
        let Expr::Calculation(name) = calculation.unwrapped() else {
            return Err(scope.invalid("the third operand must be a calculation"));
        };
        let calculation = find(&self.calculation_names, "calculation", name, scope.at)?;
        let max_node = self.node(size, scope)?;
        let max = self.amount(&max_node)?;
        let d = self.temp()?;
        self.emit(Op::Hash {
            d,
            calculation,
            base,
            max,
        });
        self.note(|| Note::Hash {
            base,
            max,
            value: d,
        });
        let mut value = word(d, 64);
        if let (Some((0, 0)), Some((max, last))) = (base_node.range, max_node.range) {
            if max == last && max > 0 {
                value.range = Some((0, max - 1));
            }
        }
        self.assign_to(target, &value, scope)
    }

    fn random(
        &mut self,
        target: &Expr,
        low: &Expr,
        high: &Expr,
        scope: Scope,
    ) -> Result<(), LoadError> {
        let low = self.amount_arg(low, scope)?;
        let high = self.amount_arg(high, scope)?;
        let d = self.temp()?;
        self.emit(Op::Random { d, low, high });
        self.note(|| Note::Random {
            low,
            high,
            value: d,
        });
        self.assign_to(target, &word(d, 64), scope)
    }

    fn log_msg(
        &mut self,
        format: &Expr,
        values: Option<&Expr>,
        scope: Scope,
    ) -> Result<(), LoadError> {
        let Expr::Str(format) = format.unwrapped() else {
            return Err(scope.invalid("the first operand must be a string"));
        };
        let values = match values.map(Expr::unwrapped) {
            None => &[][..],
            Some(Expr::ParametersVector(values)) => values,
            Some(_) => return Err(scope.invalid("the second operand must be a list")),
        };
        let values = values
            .iter()
            .map(|v| self.node(v, scope))
            .collect::<Result<_, _>>()?;
        let index = self.count_u16("log messages", self.logs.len())?;
        self.logs.push(LogMessage {
            format: format.clone(),
            args: values,
        });
        self.emit_one(Op::Log { index })
    }

    /// Compiles an `assert` or `assume`. `text` is the message that is logged when the condition does not hold.
    fn assertion(&mut self, condition: &Expr, text: String, scope: Scope) -> Result<(), LoadError> {
        let cond = self.node(condition, scope)?;
        let a = self.low(&cond)?;
        let index = self.count_u16("assertions", self.asserts.len())?;
        self.asserts.push(text);
        self.emit_one(Op::Assert { a, index })
    }

    fn register_access(
        &mut self,
        register: &Expr,
        info: Option<&SourceInfo>,
        scope: Scope,
    ) -> Result<(), LoadError> {
        let which = "the operand must be a register array";
        let array = self.register_arg(register, which, scope)?;
        let site = self.count_u16("register accesses", self.access_sites.len())?;
        self.access_sites.push(match info {
            Some(source) => format!("{}:{}", source.filename, source.line),
            None => scope.at.to_owned(),
        });
        self.emit_one(Op::RegisterAccess { array, site })
    }

    /// Resolves an operand that must be a register array. `otherwise` is the error message for any other operand.
    fn register_arg(&self, expr: &Expr, otherwise: &str, scope: Scope) -> Result<u16, LoadError> {
        match expr.unwrapped() {
            Expr::RegisterArray(name) => {
                find(&self.register_names, "register array", name, scope.at)
            }
            _ => Err(scope.invalid(otherwise)),
        }
    }

    fn count_u16(&self, what: &'static str, count: usize) -> Result<u16, LoadError> {
        let limit = u64::from(u16::MAX);
        u16::try_from(count).map_err(|_| LoadError::TooLarge {
            what,
            need: count as u64 + 1,
            limit,
        })
    }

    fn assign_to(&mut self, dest: &Expr, value: &Node, scope: Scope) -> Result<(), LoadError> {
        let dest = self.dest(dest, scope)?;
        self.assign(dest, value)
    }

    fn assign_binary(
        &mut self,
        op: Operator,
        dest: &Expr,
        left: &Expr,
        right: &Expr,
        scope: Scope,
    ) -> Result<(), LoadError> {
        let value = Expr::binary(op, left.clone(), right.clone());
        let value = self.node(&value, scope)?;
        self.assign_to(dest, &value, scope)
    }

    /// Resolves an operand that is a count, an index or another small number.
    fn amount_arg(&mut self, expr: &Expr, scope: Scope) -> Result<Slot, LoadError> {
        let node = self.node(expr, scope)?;
        self.amount(&node)
    }

    fn clone_args(
        &mut self,
        session: &Expr,
        list: Option<&Expr>,
        scope: Scope,
    ) -> Result<(Slot, Slot), LoadError> {
        let session = self.amount_arg(session, scope)?;
        let list = match list {
            Some(list) => self.amount_arg(list, scope)?,
            None => self.constant(0)?,
        };
        Ok((session, list))
    }

    /// Compiles `mark_to_drop`. The operand is the header whose `egress_spec` is set; it may be a copy of standard
    /// metadata. Files of older compilers have no operand.
    fn mark_to_drop(&mut self, metadata: Option<&Expr>, scope: Scope) -> Result<(), LoadError> {
        let Some(Expr::Header(name)) = metadata.map(Expr::unwrapped) else {
            return self.drop_packet();
        };
        let header = &self.layout.headers[usize::from(self.header(name, scope.at)?)];
        let field = |name: &str| header.fields.iter().find(|f| f.name == name);
        let Some(spec) = field("egress_spec") else {
            return Err(scope.invalid(format!("{name} has no field egress_spec")));
        };
        if !(1..=64).contains(&spec.bits) {
            let why = format!("egress_spec must have 1 to 64 bits, not {}", spec.bits);
            return Err(scope.invalid(why));
        }
        let group = field("mcast_grp").filter(|f| f.bits > 0).map(|f| f.slot);
        let (spec, bits) = (spec.slot, spec.bits as u8);
        self.emit(Op::MarkToDrop { spec, bits, group });
        Ok(())
    }

    fn drop_packet(&mut self) -> Result<(), LoadError> {
        let intrinsic = self.intrinsic()?;
        let group = intrinsic.mcast_grp.map(|field| field.slot);
        if let Some(spec) = intrinsic.egress_spec {
            let bits = spec.mask.count_ones() as u8;
            self.emit(Op::MarkToDrop {
                spec: spec.slot,
                bits,
                group,
            });
        }
        Ok(())
    }

    fn register_read(
        &mut self,
        target: &Expr,
        register: &Expr,
        index: &Expr,
        scope: Scope,
    ) -> Result<(), LoadError> {
        let which = "the second operand must be a register array";
        let array = self.register_arg(register, which, scope)?;
        let (bits, size) = {
            let register = &self.registers[usize::from(array)];
            (register.bits, register.size as u64)
        };
        let index = self.node(index, scope)?;
        let dest = self.dest(target, scope)?;
        let i = self.amount(&index)?;
        self.note(|| Note::RegisterRead { array, i });
        match dest {
            // The instruction does not write the field when the index is beyond the array.
            Dest::Field {
                slot,
                bits: field,
                signed: false,
            } if bits <= field && field <= 64 => {
                self.emit(Op::RegisterRead { d: slot, array, i });
            }
            dest => {
                let b = self.constant(size)?;
                let skip = self.emit(Op::JumpIfNot {
                    a: i,
                    b,
                    to: 0,
                    test: Test::LtU,
                });
                let index = Box::new(word(i, 64));
                self.assign(dest, &Node::new(Kind::Register { array, bits, index }))?;
                self.land(vec![skip]);
            }
        }
        Ok(())
    }

    fn assign_vl(&mut self, target: &Expr, value: &Expr, scope: Scope) -> Result<(), LoadError> {
        let varbit = |expr: &Expr| {
            let Expr::Field(field) = expr.unwrapped() else {
                return Err(scope.invalid("operands must be fields"));
            };
            let (header, field) = self.field(field, scope.at)?;
            if !field.varbit {
                return Err(scope.invalid(format!("{} is not of variable length", field.name)));
            }
            Ok(header)
        };
        let (d, s) = (varbit(target)?, varbit(value)?);
        self.emit(Op::AssignVl { d, s });
        Ok(())
    }

    fn dyn_header(
        &mut self,
        op: DynHeaderOp,
        dest: HeaderRef,
        source: Option<HeaderRef>,
    ) -> Result<(), LoadError> {
        let dest = self.dyn_ref(dest)?;
        let source = source.map(|source| self.dyn_ref(source)).transpose()?;
        let index = self.count_u16("operations on stack elements", self.dyn_headers.len())?;
        self.dyn_headers.push(DynHeader { op, dest, source });
        self.emit(Op::DynHeader { op: index });
        Ok(())
    }

    fn dyn_ref(&mut self, header: HeaderRef) -> Result<DynRef, LoadError> {
        Ok(match header {
            HeaderRef::Static(header) => DynRef {
                headers: vec![header],
                index: None,
            },
            HeaderRef::Dynamic { headers, index, .. } => DynRef {
                headers,
                index: Some(self.amount(&index)?),
            },
        })
    }

    fn union_arg(&self, expr: &Expr, scope: Scope) -> Result<u16, LoadError> {
        match expr.unwrapped() {
            Expr::HeaderUnion(name) => find(&self.union_names, "header union", name, scope.at),
            other => Err(scope.invalid(format!("{other:?} is not a header union"))),
        }
    }

    pub(super) fn stack_arg(&self, expr: &Expr, scope: Scope) -> Result<u16, LoadError> {
        match expr.unwrapped() {
            Expr::HeaderStack(name) => find(&self.stack_names, "header stack", name, scope.at),
            other => Err(scope.invalid(format!("{other:?} is not a header stack"))),
        }
    }

    fn union_stack_arg(&self, expr: &Expr, scope: Scope) -> Result<u16, LoadError> {
        match expr.unwrapped() {
            Expr::HeaderUnionStack(name) => find(
                &self.union_stack_names,
                "header union stack",
                name,
                scope.at,
            ),
            other => Err(scope.invalid(format!("{other:?} is not a header union stack"))),
        }
    }
}

/// Returns an expression that reads an unsigned number of `bits` bits from a word.
fn word(slot: Slot, bits: u32) -> Node {
    Node::new(Kind::Field {
        slot,
        bits,
        signed: false,
    })
}

fn first(header: &HeaderRef, scope: Scope) -> Result<u16, LoadError> {
    match header {
        HeaderRef::Static(h) => Ok(*h),
        HeaderRef::Dynamic { headers, .. } => headers
            .first()
            .copied()
            .ok_or_else(|| scope.invalid("the stack is empty")),
    }
}

/// Removes the superfluous operands of a known primitive, since they are ignored. `None` for any other primitive.
fn without_extra_operands(primitive: &Primitive) -> Option<Primitive> {
    let Primitive::Other { name, operands } = primitive else {
        return None;
    };
    let known = operands.get(..*Primitive::operand_counts(name)?.end())?;
    Some(Primitive::new(name, known.to_vec()))
}
