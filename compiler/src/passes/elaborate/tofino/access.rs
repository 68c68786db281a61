//! The access rule: a register is in one place of the pipeline, so a packet passes it once, in one gress.

use std::collections::BTreeMap;

use super::super::Elaborator;
use crate::diag::{Code, Diagnostic, Span};
use crate::ir::{ActionId, ActionScope, Apply, Label, Primitive, RegisterId, Stmt, StmtKind};

/// Registers that a packet may have accessed, and where.
type Accessed = BTreeMap<RegisterId, u32>;

/// What packets may have accessed where they leave a block early.
type Leaving = BTreeMap<Label, Accessed>;

impl Elaborator<'_> {
    /// Refuses programs in which a packet can access a register twice, or that access one in both gresses.
    pub fn check_register_accesses(&mut self) {
        let pipelines = std::mem::take(&mut self.program.pipelines);
        let mut owners: BTreeMap<RegisterId, (&'static str, u32)> = BTreeMap::new();
        for pipeline in &pipelines {
            let first_site = |register| owners.get(&register).copied();
            let mut all = Accessed::new();
            collect(&pipeline.body, &mut all);
            for table in tables_of(&pipeline.body) {
                for action in &self.program.tables[table].actions {
                    collect(&self.program.action(action.action).body, &mut all);
                }
            }
            let foreign: Vec<_> = (all.iter())
                .filter_map(|(register, site)| Some((*register, first_site(*register)?, *site)))
                .collect();
            for (register, owner, site) in foreign {
                self.report_gresses(register, owner, (pipeline.name, site));
            }
            owners.extend(
                all.into_iter()
                    .map(|(register, site)| (register, (pipeline.name, site))),
            );
            self.behind(&pipeline.body, Accessed::new(), &mut Leaving::new());
        }
        self.program.pipelines = pipelines;
    }

    /// What packets may have accessed at the end of a body, when they had accessed `now` in front of it; none if no packet
    /// comes to its end.
    fn behind(
        &mut self,
        body: &[Stmt],
        mut now: Accessed,
        leaving: &mut Leaving,
    ) -> Option<Accessed> {
        for stmt in body {
            match &stmt.kind {
                StmtKind::Primitive(Primitive::RegisterAccess { register, site }) => {
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
        let table = &self.program.tables[apply.table.index()];
        let only_default = table.default.constant.then_some(table.default.action);
        let listed: Vec<(ActionId, ActionScope)> = (table.actions.iter())
            .map(|action| (action.action, action.scope))
            .collect();
        let mut ends = Vec::new();
        for (action, scope) in listed {
            let body = std::mem::take(&mut self.program.actions[action.index()].body);
            let behind = self.behind(&body, now.clone(), &mut Leaving::new());
            self.program.actions[action.index()].body = body;
            let Some(behind) = behind else { continue };
            if !apply.actions.is_empty() {
                let named = apply.actions.iter().find(|(ids, _)| ids.contains(&action));
                let next = named.map_or(&apply.other, |(_, next)| next);
                ends.push(self.behind(next, behind, leaving));
                continue;
            }
            if scope != ActionScope::DefaultOnly {
                ends.push(self.behind(&apply.hit, behind.clone(), leaving));
            }
            let may_miss =
                only_default.map_or(scope != ActionScope::TableOnly, |only| only == action);
            if may_miss {
                ends.push(self.behind(&apply.miss, behind, leaving));
            }
        }
        either(ends)
    }

    fn report_twice(&mut self, register: RegisterId, first: u32, second: u32) {
        let name = &self.program.registers[register.index()].meta.name;
        let message = format!("a packet that comes this way accesses register {name} twice");
        let (first, second) = (self.site(first), self.site(second));
        let mut what = Diagnostic::error(Code::REGISTER_ACCESS, second, message);
        if first != second {
            what = what.other(first, "here it was accessed before");
        }
        self.diagnostics.report(
            what.note("a register is in one stage of the pipeline, and a packet passes it once")
                .help("do both in one RegisterAction, or put them where only one of them can be reached"),
        );
    }

    fn report_gresses(
        &mut self,
        register: RegisterId,
        (one, first): (&str, u32),
        (other, second): (&str, u32),
    ) {
        let name = &self.program.registers[register.index()].meta.name;
        let message = format!("{other} cannot access register {name}, which {one} accesses");
        let (first, second) = (self.site(first), self.site(second));
        self.diagnostics.report(
            Diagnostic::error(Code::REGISTER_ACCESS, second, message)
                .other(first, format!("{one} does it here"))
                .note("a register belongs to one gress")
                .help(
                    "carry what egress needs in a header in front of the packet (bridged metadata)",
                ),
        );
    }

    fn site(&self, site: u32) -> Span {
        self.tofino.accesses[site as usize]
    }
}

/// The ways of packets that come together; none if no packet does.
fn either(ways: impl IntoIterator<Item = Option<Accessed>>) -> Option<Accessed> {
    ways.into_iter().flatten().reduce(|mut all, way| {
        all.extend(way);
        all
    })
}

/// All accesses of a body, in whatever order.
fn collect(body: &[Stmt], into: &mut Accessed) {
    for stmt in body {
        match &stmt.kind {
            StmtKind::Primitive(Primitive::RegisterAccess { register, site }) => {
                into.entry(*register).or_insert(*site);
            }
            StmtKind::If { then, other, .. } => {
                collect(then, into);
                collect(other, into);
            }
            StmtKind::Block { body, .. } | StmtKind::Loop { body, .. } => collect(body, into),
            StmtKind::Apply(apply) => apply.bodies().for_each(|body| collect(body, into)),
            _ => {}
        }
    }
}

/// Positions of the tables that a body applies.
fn tables_of(body: &[Stmt]) -> Vec<usize> {
    let mut tables = Vec::new();
    for stmt in body {
        match &stmt.kind {
            StmtKind::If { then, other, .. } => {
                tables.extend(tables_of(then));
                tables.extend(tables_of(other));
            }
            StmtKind::Block { body, .. } | StmtKind::Loop { body, .. } => {
                tables.extend(tables_of(body))
            }
            StmtKind::Apply(apply) => {
                tables.push(apply.table.index());
                tables.extend(apply.bodies().flat_map(|body| tables_of(body)));
            }
            _ => {}
        }
    }
    tables
}
