//! Pass: register accesses.
//!
//! Input: the inlined program for Tofino. Output: the same program. Invariant: a packet accesses a register at most once, and a register is
//! accessed in either ingress or egress. The reason is that a register is in one stage of the pipeline.

use std::collections::BTreeMap;

use super::inlined::{walk, Apply, InlinedProgram, Stmt, StmtKind};
use crate::diag::{Code, Diagnostic, Diagnostics, Span};
use crate::ir::{ActionScope, Effect, Follow, Label, Primitive, RegisterId, TableId};

/// Registers that a packet may have accessed, with the site of the access.
pub(super) type Accessed = BTreeMap<RegisterId, u32>;

/// Accessed registers at the breaks out of a block, by label.
type Leaving = BTreeMap<Label, Accessed>;

/// Reports registers that a packet can access twice, or that both ingress and egress access.
pub fn check(program: &InlinedProgram, diagnostics: &mut Diagnostics) {
    let mut check = Check {
        program,
        diagnostics,
    };
    let mut owners: BTreeMap<RegisterId, (&'static str, u32)> = BTreeMap::new();
    for (name, body) in program.controls() {
        let mut all = Accessed::new();
        collect(body, &mut all);
        for table in tables_of(body) {
            for action in &program.objects.table(table).actions {
                collect(&program.action_bodies[action.action.index()], &mut all);
            }
        }
        for (register, site) in &all {
            if let Some(owner) = owners.get(register) {
                check.report_gresses(*register, *owner, (name, *site));
            }
        }
        owners.extend(
            all.into_iter()
                .map(|(register, site)| (register, (name, site))),
        );
        check.behind(body, Accessed::new(), &mut Leaving::new());
    }
}

struct Check<'p> {
    program: &'p InlinedProgram,
    diagnostics: &'p mut Diagnostics,
}

impl Check<'_> {
    /// Registers possibly accessed at the end of a body, given those at its start (`now`); `None` if the end is
    /// unreachable.
    fn behind(
        &mut self,
        body: &[Stmt],
        mut now: Accessed,
        leaving: &mut Leaving,
    ) -> Option<Accessed> {
        for stmt in body {
            match &stmt.kind {
                StmtKind::Effect(Effect::Primitive(Primitive::RegisterAccess {
                    register,
                    site,
                })) => {
                    if let Some(first) = now.insert(*register, *site) {
                        self.report_twice(*register, first, *site);
                    }
                }
                StmtKind::If { then, other, .. } => {
                    let ways = [then, other].map(|way| self.behind(way, now.clone(), leaving));
                    now = either(ways)?;
                }
                StmtKind::Block { label, body } | StmtKind::Loop { label, body } => {
                    let end = self.behind(body, now, leaving);
                    now = either([end, leaving.remove(label)])?;
                }
                StmtKind::Break(label) => {
                    leaving.entry(*label).or_default().extend(now);
                    return None;
                }
                StmtKind::Exit => return None,
                StmtKind::Apply(apply) => now = self.behind_table(apply, now, leaving)?,
                _ => {}
            }
        }
        Some(now)
    }

    fn behind_table(
        &mut self,
        apply: &Apply,
        now: Accessed,
        leaving: &mut Leaving,
    ) -> Option<Accessed> {
        let program = self.program;
        let table = program.objects.table(apply.table);
        let only_default = table.default.constant.then_some(table.default.action);
        // Registers accessed before each of the following bodies. Each body is analysed once for all actions that lead to it.
        let bodies = apply.then.bodies();
        let mut entering: Vec<Option<Accessed>> = vec![None; bodies.len()];
        let mut enter = |body: usize, behind: &Accessed| {
            (entering[body].get_or_insert_default())
                .extend(behind.iter().map(|(id, site)| (*id, *site)));
        };
        for listed in &table.actions {
            let (action, scope) = (listed.action, listed.scope);
            let body = &program.action_bodies[action.index()];
            let Some(behind) = self.behind(body, now.clone(), &mut Leaving::new()) else {
                continue;
            };
            match &apply.then {
                Follow::Action { actions, .. } => {
                    let named = actions.iter().position(|(ids, _)| ids.contains(&action));
                    enter(named.unwrap_or(actions.len()), &behind);
                }
                Follow::Hit { .. } => {
                    if scope != ActionScope::DefaultOnly {
                        enter(0, &behind);
                    }
                    let may_miss =
                        only_default.map_or(scope != ActionScope::TableOnly, |only| only == action);
                    if may_miss {
                        enter(1, &behind);
                    }
                }
            }
        }
        let ends: Vec<Option<Accessed>> = (bodies.into_iter().zip(entering))
            .filter_map(|(body, entering)| Some(self.behind(body, entering?, leaving)))
            .collect();
        either(ends)
    }

    fn report_twice(&mut self, register: RegisterId, first: u32, second: u32) {
        let name = &self.program.objects.registers[register.index()].meta.name;
        let message = format!("a packet on this path accesses register {name} twice");
        let (first, second) = (self.site(first), self.site(second));
        let mut what = Diagnostic::error(Code::REGISTER_ACCESS, second, message);
        if first != second {
            what = what.other(first, "first accessed here");
        }
        self.diagnostics.report(
            what.note("a register is in one stage of the pipeline, and a packet passes it once")
                .help(
                    "combine both in one RegisterAction, or make the accesses mutually exclusive",
                ),
        );
    }

    fn report_gresses(
        &mut self,
        register: RegisterId,
        (one, first): (&str, u32),
        (other, second): (&str, u32),
    ) {
        let name = &self.program.objects.registers[register.index()].meta.name;
        let message = format!("{other} cannot access register {name}, which {one} accesses");
        let (first, second) = (self.site(first), self.site(second));
        self.diagnostics.report(
            Diagnostic::error(Code::REGISTER_ACCESS, second, message)
                .other(first, format!("{one} accesses it here"))
                .note("a register belongs to either ingress or egress")
                .help(
                    "carry what egress needs in a header in front of the packet (bridged metadata)",
                ),
        );
    }

    fn site(&self, site: u32) -> Span {
        self.program.register_sites[site as usize]
    }
}

/// Joins paths; `None` if none of them is reachable.
fn either(ways: impl IntoIterator<Item = Option<Accessed>>) -> Option<Accessed> {
    ways.into_iter().flatten().reduce(|mut all, way| {
        all.extend(way);
        all
    })
}

/// Collects all accesses of a body, independent of control flow.
pub(super) fn collect(body: &[Stmt], into: &mut Accessed) {
    walk(body, &mut |stmt| {
        if let StmtKind::Effect(Effect::Primitive(Primitive::RegisterAccess { register, site })) =
            &stmt.kind
        {
            into.entry(*register).or_insert(*site);
        }
    });
}

/// The tables that a body applies.
pub(super) fn tables_of(body: &[Stmt]) -> Vec<TableId> {
    let mut tables = Vec::new();
    walk(body, &mut |stmt| {
        if let StmtKind::Apply(apply) = &stmt.kind {
            tables.push(apply.table);
        }
    });
    tables
}
