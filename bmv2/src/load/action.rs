//! Actions and primitives.

use super::expr::{Dest, HeaderRef};
use super::{find, LoadError, Loader, Scope};
use crate::exec::node::{Kind, Node};
use crate::exec::ops::{Op, Slot, Test};
use crate::exec::words::param_words;
use crate::program::{Action, DynHeader, DynHeaderOp, DynRef, LogMessage, Note, Param};
use alfirk_bmv2_json::{Expr, Operator, Primitive, SourceInfo};

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
            let code = self.pc();
            self.note(|| Note::Text(format!("Action {}", action.name)));
            self.compile_primitives(
                &action.primitives,
                Scope {
                    params: &params,
                    ..Scope::plain(&at)
                },
            )?;
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

    /// Returns the number of an action by its id in the file.
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
        primitives: &[Primitive],
        scope: Scope,
    ) -> Result<(), LoadError> {
        let mut starts = Vec::with_capacity(primitives.len() + 1);
        let mut jumps: Vec<(usize, usize)> = Vec::new();
        for primitive in primitives {
            starts.push(self.pc());
            let at = match &primitive.source_info {
                Some(info) if info.line > 0 => {
                    format!(
                        "{}, {} ({}:{})",
                        scope.at, primitive.op, info.filename, info.line
                    )
                }
                _ => format!("{}, {}", scope.at, primitive.op),
            };
            let scope = Scope { at: &at, ..scope };
            self.note(|| {
                let text = |info: &SourceInfo| format!("Primitive {}", info.source_fragment);
                let none = || "Primitive (no source info)".to_owned();
                Note::Text(located(primitive.source_info.as_ref(), text, none))
            });
            let args = Args {
                args: &primitive.parameters,
                scope,
            };
            match primitive.op.as_str() {
                "_jump" => {
                    let target = self.jump_target(args.get(0)?, primitives.len(), scope)?;
                    jumps.push((self.emit(Op::Jump { to: 0 }), target));
                }
                "_jump_if_zero" => {
                    let cond = self.node(args.get(0)?, scope)?;
                    let target = self.jump_target(args.get(1)?, primitives.len(), scope)?;
                    let taken = self.branch(
                        &Node::new(Kind::Unary(
                            crate::exec::node::Unary::NonZero,
                            Box::new(cond),
                        )),
                        false,
                    )?;
                    jumps.extend(taken.into_iter().map(|jump| (jump, target)));
                }
                _ => self.primitive(primitive, &args, scope)?,
            }
            self.end_statement();
        }
        starts.push(self.pc());
        for (jump, target) in jumps {
            self.patch(jump, starts[target]);
        }
        Ok(())
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

    fn primitive(
        &mut self,
        primitive: &Primitive,
        args: &Args,
        scope: Scope,
    ) -> Result<(), LoadError> {
        match primitive.op.as_str() {
            "assign" | "modify_field" => {
                let value = self.node(args.get(1)?, scope)?;
                self.assign_to(args.get(0)?, &value, scope)?;
            }
            "assign_VL" => return self.assign_vl(args, scope),
            "assign_header" | "copy_header" => {
                let (dest, source) = (
                    self.header_ref(args.get(0)?, scope)?,
                    self.header_ref(args.get(1)?, scope)?,
                );
                self.same_type(first(&dest, scope)?, first(&source, scope)?, scope)?;
                match (&dest, &source) {
                    (HeaderRef::Static(d), HeaderRef::Static(s)) => {
                        self.emit(Op::AssignHeader { d: *d, s: *s });
                    }
                    _ => self.dyn_header(DynHeaderOp::Assign, dest, Some(source))?,
                }
            }
            "add_header" | "add_header_fast" => match self.header_ref(args.get(0)?, scope)? {
                HeaderRef::Static(h) => {
                    self.emit(Op::AddHeader { h });
                }
                dest => self.dyn_header(DynHeaderOp::Add, dest, None)?,
            },
            "remove_header" => match self.header_ref(args.get(0)?, scope)? {
                HeaderRef::Static(h) => {
                    self.emit(Op::RemoveHeader { h });
                }
                dest => self.dyn_header(DynHeaderOp::Remove, dest, None)?,
            },
            "assign_union" => {
                let d = self.union_arg(args.get(0)?, scope)?;
                let s = self.union_arg(args.get(1)?, scope)?;
                self.same_unions(d, s, scope)?;
                self.emit(Op::AssignUnion { d, s });
            }
            "assign_header_stack" => {
                let (d, s) = (
                    self.stack_arg(args.get(0)?, scope)?,
                    self.stack_arg(args.get(1)?, scope)?,
                );
                let (a, b) = (
                    &self.layout.stacks[usize::from(d)],
                    &self.layout.stacks[usize::from(s)],
                );
                if let (Some(a), Some(b)) = (a.headers.first(), b.headers.first()) {
                    self.same_type(*a, *b, scope)?;
                }
                self.emit(Op::AssignStack { d, s });
            }
            "assign_union_stack" => {
                let d = self.union_stack_arg(args.get(0)?, scope)?;
                let s = self.union_stack_arg(args.get(1)?, scope)?;
                let stacks = &self.layout.union_stacks;
                let (a, b) = (&stacks[usize::from(d)], &stacks[usize::from(s)]);
                if let (Some(a), Some(b)) = (a.unions.first(), b.unions.first()) {
                    self.same_unions(*a, *b, scope)?;
                }
                self.emit(Op::AssignUnionStack { d, s });
            }
            "push" | "pop" => {
                let stack = match args.get(0)?.unwrapped() {
                    expr @ Expr::HeaderUnionStack(_) => {
                        self.union_stack_arg(expr, scope)? + self.layout.stacks.len() as u16
                    }
                    expr => self.stack_arg(expr, scope)?,
                };
                let n = self.amount_arg(args.get(1)?, scope)?;
                self.emit(if primitive.op == "push" {
                    Op::Push { stack, n }
                } else {
                    Op::Pop { stack, n }
                });
            }
            "add_to_field" | "subtract_from_field" => {
                let op = if primitive.op == "add_to_field" {
                    Operator::Add
                } else {
                    Operator::Sub
                };
                self.assign_binary(op, args.get(0)?, args.get(0)?, args.get(1)?, scope)?;
            }
            "add" | "subtract" | "bit_xor" | "bit_or" | "bit_and" | "shift_left"
            | "shift_right" => {
                let op = match primitive.op.as_str() {
                    "add" => Operator::Add,
                    "subtract" => Operator::Sub,
                    "bit_xor" => Operator::BitXor,
                    "bit_or" => Operator::BitOr,
                    "bit_and" => Operator::BitAnd,
                    "shift_left" => Operator::Shl,
                    _ => Operator::Shr,
                };
                self.assign_binary(op, args.get(0)?, args.get(1)?, args.get(2)?, scope)?;
            }
            "register_read" => return self.register_read(args, scope),
            "register_write" => {
                let Expr::RegisterArray(name) = args.get(0)?.unwrapped() else {
                    return Err(scope.invalid("the first operand must be a register array"));
                };
                let array = find(&self.register_names, "register array", name, scope.at)?;
                let bits = self.registers[usize::from(array)].bits;
                let index = self.node(args.get(1)?, scope)?;
                let value = self.node(args.get(2)?, scope)?;
                let shown = index.clone();
                self.write_register(array, bits, index, &value)?;
                if self.with_notes {
                    let i = self.amount(&shown)?;
                    self.note(|| Note::RegisterWrite { array, i });
                }
            }
            "count" => {
                let Expr::CounterArray(name) = args.get(0)?.unwrapped() else {
                    return Err(scope.invalid("the first operand must be a counter array"));
                };
                let array = find(&self.counter_names, "counter array", name, scope.at)?;
                let i = self.amount_arg(args.get(1)?, scope)?;
                self.emit(Op::Count { array, i });
                self.note(|| Note::Count { array, i });
            }
            "execute_meter" => {
                let Expr::MeterArray(name) = args.get(0)?.unwrapped() else {
                    return Err(scope.invalid("the first operand must be a meter array"));
                };
                let array = find(&self.meter_names, "meter array", name, scope.at)?;
                let i = self.amount_arg(args.get(1)?, scope)?;
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
                let before = match args.args.get(3) {
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
                self.assign_to(args.get(2)?, &word(d, 2), scope)?;
                self.land(vec![skip]);
            }
            "modify_field_with_hash_based_offset" => {
                let base_node = self.node(args.get(1)?, scope)?;
                let base = self.amount(&base_node)?;
                let Expr::Calculation(name) = args.get(2)?.unwrapped() else {
                    return Err(scope.invalid("the third operand must be a calculation"));
                };
                let calculation = find(&self.calculation_names, "calculation", name, scope.at)?;
                let max_node = self.node(args.get(3)?, scope)?;
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
                self.assign_to(args.get(0)?, &value, scope)?;
            }
            "modify_field_rng_uniform" => {
                let low = self.amount_arg(args.get(1)?, scope)?;
                let high = self.amount_arg(args.get(2)?, scope)?;
                let d = self.temp()?;
                self.emit(Op::Random { d, low, high });
                self.note(|| Note::Random {
                    low,
                    high,
                    value: d,
                });
                self.assign_to(args.get(0)?, &word(d, 64), scope)?;
            }
            "mark_to_drop" => self.mark_to_drop(args, scope)?,
            "drop" => self.drop_packet()?,
            "generate_digest" => {
                let list = self.amount_arg(args.get(1)?, scope)?;
                self.emit(Op::Digest { list });
            }
            "clone_ingress_pkt_to_egress" => {
                let (session, list) = self.clone_args(args, scope)?;
                self.emit(Op::CloneIngress { session, list });
            }
            "clone_egress_pkt_to_egress" => {
                let (session, list) = self.clone_args(args, scope)?;
                self.emit(Op::CloneEgress { session, list });
            }
            "register_access" => {
                let Expr::RegisterArray(name) = args.get(0)?.unwrapped() else {
                    return Err(scope.invalid("the operand must be a register array"));
                };
                let array = find(&self.register_names, "register array", name, scope.at)?;
                let site = self.count_u16("register accesses", self.access_sites.len())?;
                self.access_sites.push(match &primitive.source_info {
                    Some(source) => format!("{}:{}", source.filename, source.line),
                    None => scope.at.to_owned(),
                });
                self.emit(Op::RegisterAccess { array, site });
            }
            "filter" => {
                let array = |operand: &Expr| match operand.unwrapped() {
                    Expr::RegisterArray(name) => {
                        find(&self.register_names, "register array", name, scope.at)
                    }
                    _ => Err(scope.invalid("the second and fourth operand are register arrays")),
                };
                let (spec, memory) = (array(args.get(1)?)?, array(args.get(3)?)?);
                let s = self.amount_arg(args.get(2)?, scope)?;
                let i = self.amount_arg(args.get(4)?, scope)?;
                let value = self.amount_arg(args.get(5)?, scope)?;
                let d = self.temp()?;
                self.emit(Op::Filter {
                    d,
                    spec,
                    s,
                    memory,
                    i,
                    value,
                });
                self.assign_to(args.get(0)?, &word(d, 32), scope)?;
            }
            "mirror" => {
                let (session, list) = self.clone_args(args, scope)?;
                self.emit(Op::CloneIngress { session, list });
            }
            "resubmit" => {
                let list = self.amount_arg(args.get(0)?, scope)?;
                self.emit(Op::Resubmit { list });
            }
            "recirculate" => {
                let list = self.amount_arg(args.get(0)?, scope)?;
                self.emit(Op::Recirculate { list });
            }
            "truncate" => {
                let bytes = self.amount_arg(args.get(0)?, scope)?;
                self.emit(Op::Truncate { bytes });
            }
            "log_msg" => {
                let Expr::Str(format) = args.get(0)?.unwrapped() else {
                    return Err(scope.invalid("the first operand must be a string"));
                };
                let values = match args.args.get(1).map(Expr::unwrapped) {
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
                self.emit(Op::Log { index });
            }
            "assert" | "assume" => {
                let cond = self.node(args.get(0)?, scope)?;
                let a = self.low(&cond)?;
                let index = self.count_u16("assertions", self.asserts.len())?;
                let text = match &primitive.source_info {
                    Some(info) => format!(
                        "{} failed: {}, file {}, line {}",
                        primitive.op, info.source_fragment, info.filename, info.line
                    ),
                    None => format!("{} failed", scope.at),
                };
                self.asserts.push(text);
                self.emit(Op::Assert { a, index });
            }
            "exit" => {
                self.emit(Op::Exit);
            }
            "no_op" => {}
            other => {
                return Err(
                    scope.invalid(format!("simple_switch has no primitive named {other:?}"))
                );
            }
        }
        Ok(())
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

    fn clone_args(&mut self, args: &Args, scope: Scope) -> Result<(Slot, Slot), LoadError> {
        let session = self.amount_arg(args.get(0)?, scope)?;
        let list = match args.args.get(1) {
            Some(list) => self.amount_arg(list, scope)?,
            None => self.constant(0)?,
        };
        Ok((session, list))
    }

    /// Compiles `mark_to_drop`. The operand is the header whose `egress_spec` is set; it may be a copy of standard
    /// metadata. Files of older compilers have no operand.
    fn mark_to_drop(&mut self, args: &Args, scope: Scope) -> Result<(), LoadError> {
        let Some(Expr::Header(name)) = args.args.first().map(Expr::unwrapped) else {
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

    fn register_read(&mut self, args: &Args, scope: Scope) -> Result<(), LoadError> {
        let Expr::RegisterArray(name) = args.get(1)?.unwrapped() else {
            return Err(scope.invalid("the second operand must be a register array"));
        };
        let array = find(&self.register_names, "register array", name, scope.at)?;
        let (bits, size) = {
            let register = &self.registers[usize::from(array)];
            (register.bits, register.size as u64)
        };
        let index = self.node(args.get(2)?, scope)?;
        let dest = self.dest(args.get(0)?, scope)?;
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

    fn assign_vl(&mut self, args: &Args, scope: Scope) -> Result<(), LoadError> {
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
        let (d, s) = (varbit(args.get(0)?)?, varbit(args.get(1)?)?);
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

/// Returns the log text of a statement: `text` after the file and line, or `none` if the source location is unknown.
pub(super) fn located(
    info: Option<&SourceInfo>,
    text: impl FnOnce(&SourceInfo) -> String,
    none: impl FnOnce() -> String,
) -> String {
    match info {
        Some(info) => format!("{}({}) {}", info.filename, info.line, text(info)),
        None => none(),
    }
}

/// Returns a word as an operand of `bits` bits.
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

/// The operands of a primitive.
struct Args<'a> {
    args: &'a [Expr],
    scope: Scope<'a>,
}

impl<'a> Args<'a> {
    fn get(&self, index: usize) -> Result<&'a Expr, LoadError> {
        self.args.get(index).ok_or_else(|| {
            let (need, has) = (index + 1, self.args.len());
            self.scope
                .invalid(format!("needs at least {need} operands, has {has}"))
        })
    }
}
