//! Pass: register accesses.
//!
//! Input: the inlined program. Output: the same program. Invariants: a packet accesses a register at most once, and only ingress
//! or only egress accesses a register. On the chip, a register is in one stage of the pipeline.

use std::collections::BTreeMap;

use crate::diag::{Code, Diagnostic, Diagnostics, Span};
use crate::ir::{walk, ActionScope, Effect, Follow, Label, Primitive, RegisterId, TableId};
use crate::passes::inlined::{Apply, InlinedProgram, Stmt, StmtKind};

/// Registers that a packet may have accessed, each with the number of the access (`Primitive::RegisterAccess`).
pub(super) type Accessed = BTreeMap<RegisterId, u32>;

/// Registers possibly accessed before the breaks out of the enclosing blocks, by the block's label.
type AtBreaks = BTreeMap<Label, Accessed>;

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
        check.accessed_after(body, Accessed::new(), &mut AtBreaks::new());
    }
}

/// A forward dataflow analysis of the registers that a packet may have accessed.
struct Check<'p> {
    program: &'p InlinedProgram,
    diagnostics: &'p mut Diagnostics,
}

impl Check<'_> {
    /// Registers possibly accessed at the end of a body, given those at its start (`now`); `None` if the end is
    /// unreachable.
    fn accessed_after(
        &mut self,
        body: &[Stmt],
        mut now: Accessed,
        at_breaks: &mut AtBreaks,
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
                    let paths =
                        [then, other].map(|path| self.accessed_after(path, now.clone(), at_breaks));
                    now = join_paths(paths)?;
                }
                StmtKind::Block { label, body } | StmtKind::Loop { label, body } => {
                    let end = self.accessed_after(body, now, at_breaks);
                    now = join_paths([end, at_breaks.remove(label)])?;
                }
                StmtKind::Break(label) => {
                    at_breaks.entry(*label).or_default().extend(now);
                    return None;
                }
                StmtKind::Exit => return None,
                StmtKind::Apply(apply) => now = self.accessed_after_table(apply, now, at_breaks)?,
                _ => {}
            }
        }
        Some(now)
    }

    fn accessed_after_table(
        &mut self,
        apply: &Apply,
        now: Accessed,
        at_breaks: &mut AtBreaks,
    ) -> Option<Accessed> {
        let program = self.program;
        let table = program.objects.table(apply.table);
        let only_default = table.default.constant.then_some(table.default.action);
        // Registers possibly accessed before each body that follows. A body is analysed once for all actions after which it runs.
        let bodies = apply.then.bodies();
        let mut entering: Vec<Option<Accessed>> = vec![None; bodies.len()];
        let mut enter = |body: usize, after: &Accessed| {
            (entering[body].get_or_insert_default())
                .extend(after.iter().map(|(id, site)| (*id, *site)));
        };
        for listed in &table.actions {
            let (action, scope) = (listed.action, listed.scope);
            let body = &program.action_bodies[action.index()];
            let Some(after) = self.accessed_after(body, now.clone(), &mut AtBreaks::new()) else {
                continue;
            };
            match &apply.then {
                Follow::Action { actions, .. } => {
                    let named = actions.iter().position(|(ids, _)| ids.contains(&action));
                    enter(named.unwrap_or(actions.len()), &after);
                }
                Follow::Hit { .. } => {
                    if scope != ActionScope::DefaultOnly {
                        enter(0, &after);
                    }
                    let may_miss =
                        only_default.map_or(scope != ActionScope::TableOnly, |only| only == action);
                    if may_miss {
                        enter(1, &after);
                    }
                }
            }
        }
        let ends: Vec<Option<Accessed>> = (bodies.into_iter().zip(entering))
            .filter_map(|(body, entering)| Some(self.accessed_after(body, entering?, at_breaks)))
            .collect();
        join_paths(ends)
    }

    /// Reports a register that a packet can access at two sites.
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

    /// Reports a register that both ingress and egress access.
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

    /// The source position of an access.
    fn site(&self, site: u32) -> Span {
        self.program.register_sites[site as usize]
    }
}

/// The union of the registers accessed on several paths; `None` if no path is reachable.
fn join_paths(paths: impl IntoIterator<Item = Option<Accessed>>) -> Option<Accessed> {
    paths.into_iter().flatten().reduce(|mut all, path| {
        all.extend(path);
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
