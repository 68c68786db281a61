//! Division of a program into steps: tables, conditions, register accesses and statements, with their reads and writes.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use super::arrays;
use super::chip::Use;
use super::shape;
use super::Note;
use crate::arch::Arch;
use crate::ir::{
    self, walk_exprs, ActionId, Apply, Expr, FieldPlace, FieldRef, FlatProgram, KeyTarget,
    MatchKind, Primitive, RegisterId, Source, Stmt, StmtKind,
};
use effect::{end_of_access, Effect, Effects};
use num_bigint::BigInt;
use outcomes::outcomes;
use read::{in_hash, operations, reads, slice, things_of};

mod effect;
mod outcomes;
mod read;
mod step;

pub use step::{Byte, Kind, Step, Thing};

/// Largest stage number for `@stage`.
const MOST_STAGE: u32 = 31;

/// Hash bits of a condition's table: the bits of a row address.
const CONDITION_HASH_BITS: u64 = 10;

/// Fields that share a byte in Tofino's deparser.
const DEPARSER_BYTE: [&str; 5] = [
    "ingress_intrinsic_metadata_for_deparser.drop_ctl",
    "ingress_intrinsic_metadata_for_tm.bypass_egress",
    "ingress_intrinsic_metadata_for_tm.copy_to_cpu",
    "ingress_intrinsic_metadata_for_tm.deflect_on_drop",
    "ingress_intrinsic_metadata_for_tm.packet_color",
];

/// All steps of a program.
pub struct Steps {
    pub steps: Vec<Step>,
    pub notes: Vec<Note>,
}

/// Divides a program's pipelines into steps.
pub fn of(program: &FlatProgram) -> Steps {
    let mut collector = Collector {
        program,
        gress: "",
        steps: Vec::new(),
        notes: Vec::new(),
        ways: Vec::new(),
        copies: BTreeMap::new(),
        result_at: None,
        to_come: reads(program),
    };
    for pipeline in &program.pipelines {
        match pipeline.name.strip_suffix("_deparser") {
            None => {
                collector.gress = pipeline.name;
                collector.copies.clear();
                collector.body(&pipeline.body);
                // Pending copies are live in the deparser and in egress.
                collector.write_out(|_, _| true);
            }
            // Deparsers have their own units, except for conditions.
            Some(gress) => {
                collector.gress = gress;
                collector.checksums(&pipeline.body);
            }
        }
    }
    Steps {
        steps: collector.steps,
        notes: collector.notes,
    }
}

struct Collector<'a> {
    program: &'a FlatProgram,
    gress: &'static str,
    steps: Vec<Step>,
    notes: Vec<Note>,
    ways: Vec<(usize, u32)>,
    /// Pending copies between fields. Readers use the source as long as it is unchanged.
    copies: BTreeMap<FieldRef, FieldCopy>,
    /// The last call of an extern with a result: operations on it at the same source position belong to the extern's unit.
    result_at: Option<(Rc<str>, u32)>,
    /// Remaining reads of each field by statements that are not processed yet. Actions of tables and inputs of hashes always count.
    to_come: BTreeMap<FieldRef, usize>,
}

#[derive(Clone, Debug)]
struct FieldCopy {
    from: BTreeSet<Thing>,
    source: Source,
    /// Depth of conditions at the copy.
    depth: usize,
}

impl Collector<'_> {
    fn body(&mut self, body: &[Stmt]) {
        let mut at = 0;
        while at < body.len() {
            let stmt = &body[at];
            match &stmt.kind {
                StmtKind::If { cond, .. } => self.looked_at(cond),
                StmtKind::Effect(ir::Effect::Assign { value, .. }) => self.looked_at(value),
                StmtKind::Effect(ir::Effect::Primitive(Primitive::RegisterAccess {
                    register,
                    ..
                })) => {
                    let end = end_of_access(body, at, *register);
                    walk_exprs(&body[at..=end], &mut |expr| self.looked_at(expr));
                }
                StmtKind::Effect(ir::Effect::Primitive(primitive)) => {
                    primitive
                        .exprs()
                        .into_iter()
                        .for_each(|expr| self.looked_at(expr));
                }
                _ => {}
            }
            match &stmt.kind {
                StmtKind::If {
                    cond, then, other, ..
                } => self.condition(cond, then, other, &stmt.source),
                StmtKind::Apply(apply) => self.apply(apply, &stmt.source),
                StmtKind::Block { body, .. } | StmtKind::Loop { body, .. } => self.body(body),
                StmtKind::Effect(ir::Effect::Primitive(Primitive::RegisterAccess {
                    register,
                    ..
                })) => {
                    let end = end_of_access(body, at, *register);
                    self.register(&body[at..=end], *register, &stmt.source);
                    at = end;
                }
                StmtKind::Effect(ir::Effect::Assign { target, value }) => {
                    self.assign(*target, value, &stmt.source)
                }
                _ => self.statement(stmt),
            }
            at += 1;
        }
    }

    fn effects(&self) -> Effects<'_> {
        Effects {
            program: self.program,
        }
    }

    /// Removes a read from the remaining ones.
    fn read(&mut self, field: FieldRef) {
        if let Some(count) = self.to_come.get_mut(&field) {
            *count = count.saturating_sub(1);
        }
    }

    /// Removes the reads of an expression from the remaining ones.
    fn looked_at(&mut self, expr: &Expr) {
        expr.walk(&mut |expr| {
            if let Expr::Field { place, .. } = expr {
                place.fixed().into_iter().for_each(|field| self.read(field));
            }
        });
    }

    /// Whether a field is live at the end: headers leave the pipeline, metadata does not.
    fn is_wanted(&self, field: FieldRef) -> bool {
        let metadata = self.program.objects.storage.header(field.header).metadata;
        !metadata || self.to_come.get(&field).is_some_and(|count| *count > 0)
    }

    /// Adds a table that sets a bit for a deparser's checksum whose condition depends on metadata, with a row for each value of the condition.
    fn checksums(&mut self, body: &[Stmt]) {
        for stmt in body {
            let StmtKind::If { cond, then, .. } = &stmt.kind else {
                continue;
            };
            let things = things_of(cond);
            let of_fields = things.iter().any(|thing| matches!(thing, Thing::Field(_)));
            if !(of_fields && self.effects().sums(then)) {
                continue;
            }
            let effect = Effect {
                matches: things,
                takes: Use {
                    tables: 1,
                    sram: 1,
                    hash_bits: CONDITION_HASH_BITS,
                    ..Use::NOTHING
                },
                ..Effect::default()
            };
            let name = stmt.source.fragment.trim().to_owned();
            let step = self.push(Kind::Table, &stmt.source, name, effect, true);
            self.steps[step].byte = Some(Byte::Checksums);
        }
    }

    fn condition(&mut self, cond: &Expr, then: &[Stmt], other: &[Stmt], source: &Source) {
        let things = self.seen_through(things_of(cond));
        let step = self.push(
            Kind::Condition,
            source,
            source.fragment.trim().to_owned(),
            Effect {
                matches: things,
                takes: Use {
                    gateways: 1,
                    ..Use::default()
                },
                ..Effect::default()
            },
            true,
        );
        self.branch(step, 0, then);
        self.branch(step, 1, other);
    }

    fn branch(&mut self, step: usize, outcome: u32, body: &[Stmt]) {
        if body.is_empty() {
            return;
        }
        self.ways.push((step, outcome));
        self.body(body);
        let depth = self.ways.len();
        self.write_out(|_, copied| copied.depth >= depth);
        self.ways.pop();
    }

    fn apply(&mut self, apply: &Apply, source: &Source) {
        let table = self.program.objects.table(apply.table);
        let keys: BTreeSet<Thing> = (table.keys.iter())
            .filter_map(|key| match key.target {
                KeyTarget::Field(field) => Some(Thing::Field(field)),
                KeyTarget::Valid(header) => Some(Thing::Valid(header)),
                KeyTarget::UnionValid(_) => None,
            })
            .collect();
        let is_ternary = table.keys.iter().any(|key| key.kind != MatchKind::Exact);
        // A key field that holds a constant is not part of the key, but must be written before.
        self.write_out(|field, copied| {
            copied.from.is_empty() && keys.contains(&Thing::Field(field))
        });
        let mut all = Effect {
            ternary: match is_ternary {
                true => self.seen_through(keys.clone()),
                false => BTreeSet::new(),
            },
            matches: keys,
            takes: Use {
                tables: 1,
                ..Use::NOTHING
            },
            objects: self.memories(table),
            ..Effect::default()
        };
        if let Some(profile) = table.implementation {
            let selector = &self.program.objects.action_profiles[profile.index()].selector;
            for input in selector.iter().flat_map(|selector| &selector.inputs) {
                all.matches.insert(Thing::Field(*input));
            }
        }
        let mut written: Vec<(ActionId, BTreeSet<Thing>)> = Vec::new();
        for reference in &table.actions {
            let action = self.program.objects.action(reference.action);
            let effect = self
                .effects()
                .action(self.program.action_body(reference.action));
            written.push((reference.action, effect.writes.clone()));
            if effect.length > 1 {
                let name = action.meta.name.clone();
                self.note(
                    &action.meta.source,
                    format!(
                        "action `{name}` needs {} operations one after another, and a stage has one: split the table, or \
                         compute before",
                        effect.length
                    ),
                );
            }
            all.matches.extend(effect.matches);
            all.reads.extend(effect.reads);
            all.writes.extend(effect.writes);
            all.length = all.length.max(effect.length);
            all.takes += effect.takes;
            all.registers.extend(effect.registers);
            all.objects.extend(effect.objects);
        }
        all.matches = self.seen_through(all.matches);
        all.reads = self.seen_through(all.reads);
        for key in &table.keys {
            if let KeyTarget::Field(field) = key.target {
                self.read(field);
            }
        }
        let name = table.meta.name.clone();
        let one_action = table.keys.is_empty() && table.default.constant;
        let source = match table.meta.source.line {
            0 => source,
            _ => &table.meta.source,
        };
        let outcomes = outcomes(table, &apply.then, &written);
        let step = self.push(Kind::Table, source, name, all, one_action);
        self.steps[step].outcomes = outcomes;
        let from = shape::given(table, "stage").unwrap_or(0);
        self.steps[step].from = u32::try_from(from).unwrap_or(0).min(MOST_STAGE);
        let mut outcome = 0;
        let mut follow = |this: &mut Self, body: &[Stmt]| {
            this.branch(step, outcome, body);
            outcome += 1;
        };
        for body in apply.then.bodies() {
            follow(self, body);
        }
    }

    /// Memories of a table and of its profile, counted once for all uses.
    fn memories(&self, table: &ir::Table) -> BTreeMap<String, Use> {
        let takes = shape::table(self.program, table, table.size);
        let mut memories = BTreeMap::from([(table.meta.name.clone(), takes)]);
        if let Some(profile) = table.implementation {
            let profile = &self.program.objects.action_profiles[profile.index()];
            let takes = shape::profile(self.program, profile, profile.size);
            memories.insert(profile.meta.name.clone(), takes);
        }
        memories
    }

    /// Adds the step of a register access: reading the cell, the method, and writing it back.
    fn register(&mut self, body: &[Stmt], register: RegisterId, source: &Source) {
        let mut effect = self.effects().access(body, register);
        effect.matches = self.seen_through(effect.matches);
        let name = self.program.objects.registers[register.index()]
            .meta
            .name
            .clone();
        self.push(Kind::Register, source, name, effect, true);
    }

    fn assign(&mut self, target: FieldPlace, value: &Expr, source: &Source) {
        let Some(field) = target.fixed() else { return };
        if let Some((bits, value)) = slice(field, value) {
            self.assign_slice(field, bits, value, source);
            return;
        }
        let from = self.seen_through(things_of(value));
        // A copy of a parameter back to its source has no effect.
        if operations(value) == 0 && from == BTreeSet::from([Thing::Field(field)]) {
            return;
        }
        // The overwritten copy is dead.
        self.copies.remove(&field);
        self.written(&BTreeSet::from([Thing::Field(field)]));
        let mut operations = operations(value);
        if in_hash(value) {
            let effect = Effect {
                matches: from,
                writes: BTreeSet::from([Thing::Field(field)]),
                results: BTreeSet::from([Thing::Field(field)]),
                length: 1,
                takes: arrays::hash(self.effects().bits(Thing::Field(field))),
                ..Effect::default()
            };
            let name = source.fragment.trim().to_owned();
            self.push(Kind::Statement, source, name, effect, true);
            return;
        }
        let result = self.result_at == Some((source.file.clone(), source.line));
        if result || self.effects().is_color(value) {
            operations = operations.min(1);
        }
        if operations <= 1 && self.is_result(&from, field, operations) {
            return;
        }
        if operations == 0 {
            let copied = FieldCopy {
                from,
                source: source.clone(),
                depth: self.ways.len(),
            };
            self.copies.insert(field, copied);
            return;
        }
        let effect = Effect {
            reads: from,
            writes: BTreeSet::from([Thing::Field(field)]),
            length: operations,
            ..Effect::default()
        };
        let name = source.fragment.trim().to_owned();
        self.push(Kind::Statement, source, name, effect, true);
    }

    /// Adds the step of an assignment to a slice of a field.
    fn assign_slice(&mut self, field: FieldRef, bits: BigInt, value: &Expr, source: &Source) {
        let from = self.seen_through(things_of(value));
        let thing = Thing::Field(field);
        // The other bits of the field remain live.
        self.write_out(|other, _| other == field);
        if operations(value) <= 1 && self.is_result(&from, field, operations(value)) {
            return;
        }
        let mut effect = Effect {
            writes: BTreeSet::from([thing]),
            length: operations(value).max(1),
            ..Effect::default()
        };
        match in_hash(value) {
            true => {
                effect.matches = from;
                effect.results = BTreeSet::from([thing]);
                effect.length = 1;
                effect.takes = arrays::hash(bits.magnitude().count_ones());
            }
            false => effect.reads = from,
        }
        let name = source.fragment.trim().to_owned();
        let step = self.push(Kind::Statement, source, name, effect, true);
        self.steps[step].slice = Some((thing, bits));
    }

    /// Lets the step that computes `from` write the result directly to `field`. The conditions must be equal, and no step in between may use
    /// the field. So results of registers and hashes are written to their destination, whose ALU can apply one operation to them.
    fn is_result(&mut self, from: &BTreeSet<Thing>, field: FieldRef, operations: u32) -> bool {
        let field = Thing::Field(field);
        let Some(at) = (self.steps.iter()).rposition(|step| !step.writes.is_disjoint(from)) else {
            return false;
        };
        let step = &self.steps[at];
        let others: BTreeSet<Thing> = from - &step.writes;
        let free = |later: &Step| {
            let looks = later.matches.contains(&field) || later.reads.contains(&field);
            !looks && !later.writes.contains(&field) && later.writes.is_disjoint(&others)
        };
        let raw = operations == 0 || (from & &step.writes).is_subset(&step.results);
        let fits = step.gress == self.gress
            && step.slice.is_none()
            && matches!(step.kind, Kind::Register | Kind::Statement)
            && step.ways == self.ways
            && (others.is_empty() || operations == 1)
            && raw
            && self.steps[at + 1..].iter().all(free);
        if fits {
            let step = &mut self.steps[at];
            step.writes.insert(field);
            step.reads.extend(others);
        }
        fits
    }

    fn statement(&mut self, stmt: &Stmt) {
        let mut effect = Effect::default();
        self.effects().of(stmt, &mut effect);
        if effect.reads.is_empty()
            && effect.writes.is_empty()
            && effect.matches.is_empty()
            && effect.objects.is_empty()
        {
            return;
        }
        if !effect.results.is_empty() {
            self.result_at = Some((stmt.source.file.clone(), stmt.source.line));
        }
        effect.length = effect.length.max(1);
        effect.matches = self.seen_through(effect.matches);
        effect.reads = self.seen_through(effect.reads);
        let name = stmt.source.fragment.trim().to_owned();
        self.push(Kind::Statement, &stmt.source, name, effect, true);
    }

    /// Replaces pending copies by their sources.
    fn seen_through(&self, things: BTreeSet<Thing>) -> BTreeSet<Thing> {
        (things.into_iter())
            .flat_map(|thing| match thing {
                Thing::Field(field) if self.copies.contains_key(&field) => {
                    self.copies[&field].from.clone()
                }
                other => BTreeSet::from([other]),
            })
            .collect()
    }

    /// Materialises pending copies before their source changes, and discards those that are overwritten.
    fn written(&mut self, things: &BTreeSet<Thing>) {
        for thing in things {
            if let Thing::Field(field) = thing {
                self.copies.remove(field);
            }
        }
        let things = things.clone();
        self.write_out(|_, copied| !copied.from.is_disjoint(&things));
    }

    fn write_out(&mut self, which: impl Fn(FieldRef, &FieldCopy) -> bool) {
        let chosen: Vec<FieldRef> = (self.copies.iter())
            .filter(|(field, copied)| which(**field, copied))
            .map(|(field, _)| *field)
            .collect();
        for field in chosen {
            let Some(copied) = self.copies.remove(&field) else {
                continue;
            };
            if !self.is_wanted(field) {
                continue;
            }
            let effect = Effect {
                reads: copied.from,
                writes: BTreeSet::from([Thing::Field(field)]),
                length: 1,
                ..Effect::default()
            };
            let name = copied.source.fragment.trim().to_owned();
            self.push_step(Kind::Statement, &copied.source, name, effect, true);
        }
    }

    fn push(
        &mut self,
        kind: Kind,
        source: &Source,
        name: String,
        effect: Effect,
        certain: bool,
    ) -> usize {
        self.written(&effect.writes);
        self.push_step(kind, source, name, effect, certain)
    }

    fn push_step(
        &mut self,
        kind: Kind,
        source: &Source,
        name: String,
        effect: Effect,
        certain: bool,
    ) -> usize {
        let (mut exact, mut ternary) = (BTreeMap::new(), BTreeMap::new());
        for thing in &effect.matches {
            let crossbar = match effect.ternary.contains(thing) {
                true => &mut ternary,
                false => &mut exact,
            };
            crossbar.insert(*thing, self.effects().bits(*thing).div_ceil(8));
        }
        let in_byte = effect
            .writes
            .iter()
            .any(|thing| self.in_deparser_byte(*thing));
        self.steps.push(Step {
            byte: in_byte.then_some(Byte::Deparser),
            exact,
            ternary,
            results: effect.results,
            gress: self.gress,
            kind,
            name,
            source: source.clone(),
            matches: effect.matches,
            reads: effect.reads,
            writes: effect.writes,
            outcomes: Vec::new(),
            slice: None,
            from: 0,
            certain,
            length: match kind {
                Kind::Condition => 0,
                _ => effect.length.max(1),
            },
            ways: self.ways.clone(),
            takes: effect.takes,
            registers: effect.registers,
            objects: effect.objects,
        });
        self.steps.len() - 1
    }

    /// Whether a field shares a byte with others in Tofino's deparser or traffic manager.
    fn in_deparser_byte(&self, thing: Thing) -> bool {
        let Thing::Field(field) = thing else {
            return false;
        };
        let name = &self.program.objects.storage.field(field).name;
        self.program.objects.arch == Arch::Tna && DEPARSER_BYTE.contains(&name.as_str())
    }

    fn note(&mut self, source: &Source, text: String) {
        let source = place_of(source);
        self.notes.push(Note { source, text });
    }
}

/// A source position for messages, as `file:line`.
pub fn place_of(source: &Source) -> String {
    format!("{}:{}", source.file, source.line)
}
