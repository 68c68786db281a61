//! Actions: statements to a straight list of primitives with jumps.

use std::collections::BTreeMap;

use alfirk_bmv2_json as json;
use num_bigint::BigInt;

use super::{
    expr::{hex, Exprs},
    source_info,
};
use crate::ir::{Expr, ExternArg, FlatProgram, Label, Primitive, Source, Stmt, StmtKind};
use crate::names::Names;

/// All actions of the output: those of the program, then the ones made for statements outside of tables.
pub struct Actions<'a> {
    exprs: Exprs<'a>,
    list: Vec<json::Action>,
    names: Names,
}

impl<'a> Actions<'a> {
    /// The program's actions, which keep their ids as positions.
    pub fn of(program: &'a FlatProgram) -> Self {
        let exprs = Exprs::new(program);
        let list: Vec<_> = (program.actions.iter().enumerate())
            .map(|(id, action)| json::Action {
                name: action.meta.name.clone(),
                id: id as i64,
                runtime_data: (action.params.iter())
                    .map(|param| json::ActionParam {
                        name: param.name.clone(),
                        bitwidth: param.ty.width(),
                    })
                    .collect(),
                primitives: primitives(exprs, &action.body),
            })
            .collect();
        let mut names = Names::default();
        names.extend(list.iter().map(|action| action.name.clone()));
        Actions { exprs, list, names }
    }

    /// Adds an action made for statements of a control; returns its id and name.
    pub fn add_hidden(&mut self, body: &[Stmt]) -> (i64, String) {
        let first = body
            .first()
            .map(|stmt| stmt.source.clone())
            .unwrap_or_default();
        let name = self.names.unique(&hidden_stem(&first));
        let id = self.list.len() as i64;
        self.list.push(json::Action {
            name: name.clone(),
            id,
            runtime_data: Vec::new(),
            primitives: primitives(self.exprs, body),
        });
        (id, name)
    }

    /// The finished list.
    pub fn finish(self) -> Vec<json::Action> {
        self.list
    }
}

/// File stem and line, as p4c names such actions: `basic115`.
fn hidden_stem(source: &Source) -> String {
    let file = source.file.rsplit(['/', '\\']).next().unwrap_or_default();
    let stem: String = file
        .split('.')
        .next()
        .unwrap_or_default()
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() { c } else { '_' })
        .collect();
    match source.line {
        0 => "act".to_owned(),
        line => format!("{stem}{line}"),
    }
}

/// Writes a body.
pub fn primitives(exprs: Exprs, body: &[Stmt]) -> Vec<json::Primitive> {
    let mut code = Code {
        exprs,
        list: Vec::new(),
        targets: BTreeMap::new(),
        jumps: Vec::new(),
    };
    code.body(body);
    // The last one has nothing to skip.
    if let (Some((at, Target::End)), Some(StmtKind::Exit)) =
        (code.jumps.last(), body.last().map(|stmt| &stmt.kind))
    {
        code.list.truncate(*at);
        code.jumps.pop();
    }
    code.resolve()
}

/// A place that jumps lead to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Target {
    After(Label),
    Before(Label),
    /// Made for an `if`.
    Local(usize),
    /// After the last primitive.
    End,
}

struct Code<'a> {
    exprs: Exprs<'a>,
    list: Vec<json::Primitive>,
    targets: BTreeMap<Target, usize>,
    /// Primitives whose last operand is to become the position of the target.
    jumps: Vec<(usize, Target)>,
}

impl Code<'_> {
    fn body(&mut self, body: &[Stmt]) {
        for stmt in body {
            self.stmt(stmt);
        }
    }

    fn stmt(&mut self, stmt: &Stmt) {
        match &stmt.kind {
            StmtKind::If {
                cond, then, other, ..
            } => self.branch(stmt, cond, then, other),
            StmtKind::Block { label, body } => {
                self.body(body);
                self.targets.insert(Target::After(*label), self.list.len());
            }
            StmtKind::Loop { label, body } => {
                self.targets.insert(Target::Before(*label), self.list.len());
                self.body(body);
                self.jump("_jump", Vec::new(), Target::Before(*label), stmt);
                self.targets.insert(Target::After(*label), self.list.len());
            }
            StmtKind::Break(label) => self.jump("_jump", Vec::new(), Target::After(*label), stmt),
            // BMv2 takes note of it, and goes on with the action.
            StmtKind::Exit => {
                self.list.extend(simple(self.exprs, stmt));
                self.jump("_jump", Vec::new(), Target::End, stmt);
            }
            _ => self.list.extend(simple(self.exprs, stmt)),
        }
    }

    fn branch(&mut self, stmt: &Stmt, cond: &Expr, then: &[Stmt], other: &[Stmt]) {
        let local = self.jumps.len();
        // Positions of jumps number the targets; each `if` takes two.
        let (to_other, to_end) = (Target::Local(2 * local), Target::Local(2 * local + 1));
        self.jump(
            "_jump_if_zero",
            vec![self.exprs.number(cond).wrapped()],
            to_other,
            stmt,
        );
        self.body(then);
        if !other.is_empty() {
            self.jump("_jump", Vec::new(), to_end, stmt);
        }
        self.targets.insert(to_other, self.list.len());
        self.body(other);
        self.targets.insert(to_end, self.list.len());
    }

    fn jump(&mut self, op: &str, operands: Vec<json::Expr>, target: Target, stmt: &Stmt) {
        self.jumps.push((self.list.len(), target));
        self.list.push(json::Primitive {
            op: op.to_owned(),
            parameters: operands,
            source_info: source_info(&stmt.source),
        });
    }

    fn resolve(mut self) -> Vec<json::Primitive> {
        for (position, target) in &self.jumps {
            // A label outside of the body is one that the body cannot leave to, so jump to the end.
            let to = self.targets.get(target).copied().unwrap_or(self.list.len());
            self.list[*position]
                .parameters
                .push(json::Expr::hex(hex(&BigInt::from(to), 32)));
        }
        self.list
    }
}

/// Writes a statement that is one primitive; none for those that BMv2 does by itself.
pub fn simple(exprs: Exprs, stmt: &Stmt) -> Option<json::Primitive> {
    let storage = &exprs.program().storage;
    let number = |value: u32| json::Expr::hex(hex(&BigInt::from(value), 32));
    let (op, parameters): (&str, Vec<json::Expr>) = match &stmt.kind {
        StmtKind::Assign { target, value } => (
            "assign",
            vec![
                exprs.operand(&Expr::field(*target, crate::ir::Scalar::Bit(1))),
                exprs.operand(value),
            ],
        ),
        StmtKind::AssignVarbit { target, value } => {
            ("assign_VL", vec![exprs.field(*target), exprs.field(*value)])
        }
        StmtKind::AssignHeader { target, value } => (
            "assign_header",
            vec![exprs.header_operand(*target), exprs.header_operand(*value)],
        ),
        StmtKind::AssignUnion { target, value } => {
            let union = |id| json::Expr::HeaderUnion(storage.union(id).name.clone());
            ("assign_union", vec![union(*target), union(*value)])
        }
        StmtKind::AssignStack { target, value } => (
            "assign_header_stack",
            vec![exprs.stack(*target), exprs.stack(*value)],
        ),
        StmtKind::AssignUnionStack { target, value } => (
            "assign_union_stack",
            vec![exprs.union_stack(*target), exprs.union_stack(*value)],
        ),
        StmtKind::SetValidity {
            target,
            valid: true,
        } => ("add_header", vec![exprs.header_operand(*target)]),
        StmtKind::SetValidity {
            target,
            valid: false,
        } => ("remove_header", vec![exprs.header_operand(*target)]),
        StmtKind::Push { target, count } => ("push", vec![exprs.stack(*target), number(*count)]),
        StmtKind::Pop { target, count } => ("pop", vec![exprs.stack(*target), number(*count)]),
        StmtKind::PushUnion { target, count } => {
            ("push", vec![exprs.union_stack(*target), number(*count)])
        }
        StmtKind::PopUnion { target, count } => {
            ("pop", vec![exprs.union_stack(*target), number(*count)])
        }
        StmtKind::Exit => ("exit", Vec::new()),
        StmtKind::Primitive(primitive) => return Some(extern_call(exprs, primitive, &stmt.source)),
        StmtKind::If { .. }
        | StmtKind::Block { .. }
        | StmtKind::Loop { .. }
        | StmtKind::Break(_)
        | StmtKind::Enter { .. }
        | StmtKind::Checksum(_)
        | StmtKind::Emit(_)
        | StmtKind::Apply(_)
        | StmtKind::Extract { .. }
        | StmtKind::ExtractNext { .. }
        | StmtKind::ExtractNextMember { .. }
        | StmtKind::Advance(_)
        | StmtKind::Verify { .. } => return None,
    };
    Some(json::Primitive {
        op: op.to_owned(),
        parameters,
        source_info: source_info(&stmt.source),
    })
}

fn extern_call(exprs: Exprs, primitive: &Primitive, source: &Source) -> json::Primitive {
    let program = exprs.program();
    let number = |value: usize| json::Expr::hex(hex(&BigInt::from(value), 32));
    let operand = |expr: &Expr| exprs.operand(expr);
    let (op, parameters): (&str, Vec<json::Expr>) = match primitive {
        Primitive::MarkToDrop => {
            let standard = program
                .storage
                .header(crate::ir::Storage::STANDARD_METADATA);
            (
                "mark_to_drop",
                vec![json::Expr::Header(standard.name.clone())],
            )
        }
        Primitive::RegisterRead {
            target,
            register,
            index,
        } => {
            let register =
                json::Expr::RegisterArray(program.registers[register.index()].meta.name.clone());
            (
                "register_read",
                vec![exprs.field(*target), register, operand(index)],
            )
        }
        Primitive::RegisterWrite {
            register,
            index,
            value,
        } => {
            let register =
                json::Expr::RegisterArray(program.registers[register.index()].meta.name.clone());
            (
                "register_write",
                vec![register, operand(index), operand(value)],
            )
        }
        Primitive::RegisterAccess { register, .. } => {
            let register = &program.registers[register.index()].meta.name;
            (
                "register_access",
                vec![json::Expr::RegisterArray(register.clone())],
            )
        }
        Primitive::Mirror { session, fields } => {
            ("mirror", vec![operand(session), number(fields.index() + 1)])
        }
        Primitive::Count { counter, index } => {
            let counter =
                json::Expr::CounterArray(program.counters[counter.index()].meta.name.clone());
            ("count", vec![counter, operand(index)])
        }
        Primitive::ExecuteMeter {
            meter,
            index,
            target,
        } => {
            let meter = json::Expr::MeterArray(program.meters[meter.index()].meta.name.clone());
            (
                "execute_meter",
                vec![meter, operand(index), exprs.field(*target)],
            )
        }
        Primitive::Hash {
            target,
            base,
            calculation,
            max,
        } => {
            let name = super::objects::calculation_name(exprs.program(), *calculation);
            let calculation = json::Expr::Calculation(name);
            (
                "modify_field_with_hash_based_offset",
                vec![
                    exprs.field(*target),
                    operand(base),
                    calculation,
                    operand(max),
                ],
            )
        }
        Primitive::Random { target, low, high } => (
            "modify_field_rng_uniform",
            vec![exprs.field(*target), operand(low), operand(high)],
        ),
        Primitive::Digest { receiver, digest } => (
            "generate_digest",
            vec![operand(receiver), number(digest.index() + 1)],
        ),
        Primitive::Clone {
            egress,
            session,
            fields,
        } => {
            let op = if *egress {
                "clone_egress_pkt_to_egress"
            } else {
                "clone_ingress_pkt_to_egress"
            };
            (op, vec![operand(session), number(fields.index() + 1)])
        }
        Primitive::Resubmit { fields } => ("resubmit", vec![number(fields.index() + 1)]),
        Primitive::Recirculate { fields } => ("recirculate", vec![number(fields.index() + 1)]),
        Primitive::Truncate(length) => ("truncate", vec![operand(length)]),
        Primitive::LogMsg { format, args } => {
            let args = args.iter().map(operand).collect();
            (
                "log_msg",
                vec![
                    json::Expr::Str(format.clone()),
                    json::Expr::ParametersVector(args),
                ],
            )
        }
        Primitive::Assert(cond) => ("assert", vec![exprs.number(cond).wrapped()]),
        Primitive::Assume(cond) => ("assume", vec![exprs.number(cond).wrapped()]),
        Primitive::Extern {
            name,
            instance,
            args,
        } => {
            let instance = instance.map(|instance| {
                json::Expr::Extern(program.extern_instances[instance.index()].name.clone())
            });
            let args = args.iter().map(|arg| match arg {
                ExternArg::Expr(expr) => operand(expr),
                ExternArg::Header(place) => exprs.header_operand(*place),
                ExternArg::String(text) => json::Expr::Str(text.clone()),
            });
            (name.as_str(), instance.into_iter().chain(args).collect())
        }
    };
    json::Primitive {
        op: op.to_owned(),
        parameters,
        source_info: source_info(source),
    }
}
