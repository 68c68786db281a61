//! Division of a program into steps: tables, conditions, register accesses and statements, with their reads and writes.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use super::arrays;
use super::chip::Resources;
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
use read::{in_hash, locations_in, operations, reads, slice};

mod effect;
mod outcomes;
mod read;
mod step;

pub use step::{Byte, Kind, Location, Step};

/// Largest stage number that `@stage` may set; larger ones are reduced to it.
const MAX_STAGE_ANNOTATION: u32 = 31;

/// Hash bits of the table of a deparser condition: the width of a row address.
const CONDITION_HASH_BITS: u64 = 10;

/// Fields that share a byte in Tofino 1's deparser or traffic manager.
const DEPARSER_BYTE: [&str; 5] = [
    "ingress_intrinsic_metadata_for_deparser.drop_ctl",
    "ingress_intrinsic_metadata_for_tm.bypass_egress",
    "ingress_intrinsic_metadata_for_tm.copy_to_cpu",
    "ingress_intrinsic_metadata_for_tm.deflect_on_drop",
    "ingress_intrinsic_metadata_for_tm.packet_color",
];

/// All steps of a program.
pub struct Steps {
    /// The steps in the order of the source, ingress before egress.
    pub steps: Vec<Step>,
    /// Actions that need more operations than a stage has.
    pub notes: Vec<Note>,
}

/// Divides a program's pipelines into steps.
pub fn of(program: &FlatProgram) -> Steps {
    let mut collector = Collector {
        program,
        gress: "",
        steps: Vec::new(),
        notes: Vec::new(),
        control_dependencies: Vec::new(),
        copies: BTreeMap::new(),
        last_result_source: None,
        remaining_reads: reads(program),
    };
    for pipeline in &program.pipelines {
        match pipeline.name.strip_suffix("_deparser") {
            None => {
                collector.gress = pipeline.name;
                collector.copies.clear();
                collector.body(&pipeline.body);
                // The deparser and egress may read the pending copies.
                collector.materialize_copies(|_, _| true);
            }
            // Deparsers compute checksums with their own units, but their conditions need a table of the pipeline.
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

/// Collects the steps of a program.
struct Collector<'a> {
    program: &'a FlatProgram,
    /// `ingress` or `egress`: the pipeline of the current statement.
    gress: &'static str,
    steps: Vec<Step>,
    notes: Vec<Note>,
    /// Control dependencies of the current statement: pairs of a deciding step and its outcome.
    control_dependencies: Vec<(usize, u32)>,
    /// Copies between fields that are not yet steps, by destination. Readers use the source as long as it is unchanged.
    copies: BTreeMap<FieldRef, FieldCopy>,
    /// File and line of the last call of an extern with a result. Operations at this position belong to the extern's unit.
    last_result_source: Option<(Rc<str>, u32)>,
    /// Number of reads of each field by statements that are not processed yet. Reads by actions of tables and by hashes are never removed.
    remaining_reads: BTreeMap<FieldRef, usize>,
}

/// A pending copy to a field.
#[derive(Clone, Debug)]
struct FieldCopy {
    /// Locations that are copied; empty for a constant.
    from: BTreeSet<Location>,
    source: Source,
    /// Number of control dependencies of the copy.
    depth: usize,
}

impl Collector<'_> {
    /// Adds the steps of statements.
    fn body(&mut self, body: &[Stmt]) {
        let mut at = 0;
        while at < body.len() {
            let stmt = &body[at];
            match &stmt.kind {
                StmtKind::If { cond, .. } => self.remove_reads_in(cond),
                StmtKind::Effect(ir::Effect::Assign { value, .. }) => self.remove_reads_in(value),
                StmtKind::Effect(ir::Effect::Primitive(Primitive::RegisterAccess {
                    register,
                    ..
                })) => {
                    let end = end_of_access(body, at, *register);
                    walk_exprs(&body[at..=end], &mut |expr| self.remove_reads_in(expr));
                }
                StmtKind::Effect(ir::Effect::Primitive(primitive)) => {
                    primitive
                        .exprs()
                        .into_iter()
                        .for_each(|expr| self.remove_reads_in(expr));
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

    /// Decrements the number of remaining reads of a field.
    fn remove_read(&mut self, field: FieldRef) {
        if let Some(count) = self.remaining_reads.get_mut(&field) {
            *count = count.saturating_sub(1);
        }
    }

    /// Decrements the number of remaining reads of each field in an expression.
    fn remove_reads_in(&mut self, expr: &Expr) {
        expr.walk(&mut |expr| {
            if let Expr::Field { place, .. } = expr {
                place
                    .fixed()
                    .into_iter()
                    .for_each(|field| self.remove_read(field));
            }
        });
    }

    /// Whether a field may be read later. Header fields are always live, as they leave the pipeline.
    fn is_live(&self, field: FieldRef) -> bool {
        let metadata = self.program.objects.storage.header(field.header).metadata;
        !metadata
            || self
                .remaining_reads
                .get(&field)
                .is_some_and(|count| *count > 0)
    }

    /// Adds a table for each checksum of a deparser whose condition depends on fields. It sets a bit that enables the checksum.
    fn checksums(&mut self, body: &[Stmt]) {
        for stmt in body {
            let StmtKind::If { cond, then, .. } = &stmt.kind else {
                continue;
            };
            let locations = locations_in(cond);
            let of_fields = locations
                .iter()
                .any(|location| matches!(location, Location::Field(_)));
            if !(of_fields && self.effects().computes_checksum(then)) {
                continue;
            }
            let effect = Effect {
                matches: locations,
                takes: Resources {
                    tables: 1,
                    sram: 1,
                    hash_bits: CONDITION_HASH_BITS,
                    ..Resources::NOTHING
                },
                ..Effect::default()
            };
            let name = stmt.source.fragment.trim().to_owned();
            let step = self.push(Kind::Table, &stmt.source, name, effect, true);
            self.steps[step].byte = Some(Byte::Checksums);
        }
    }

    /// Adds the step of a condition, and the steps of both branches.
    fn condition(&mut self, cond: &Expr, then: &[Stmt], other: &[Stmt], source: &Source) {
        let locations = self.resolve_copies(locations_in(cond));
        let step = self.push(
            Kind::Condition,
            source,
            source.fragment.trim().to_owned(),
            Effect {
                matches: locations,
                takes: Resources {
                    gateways: 1,
                    ..Resources::default()
                },
                ..Effect::default()
            },
            true,
        );
        self.branch(step, 0, then);
        self.branch(step, 1, other);
    }

    /// Adds the steps of a body that runs after one outcome of a step.
    fn branch(&mut self, step: usize, outcome: u32, body: &[Stmt]) {
        if body.is_empty() {
            return;
        }
        self.control_dependencies.push((step, outcome));
        self.body(body);
        let depth = self.control_dependencies.len();
        self.materialize_copies(|_, copied| copied.depth >= depth);
        self.control_dependencies.pop();
    }

    /// Adds the step of a table application, and the steps of the bodies that follow.
    fn apply(&mut self, apply: &Apply, source: &Source) {
        let table = self.program.objects.table(apply.table);
        let keys: BTreeSet<Location> = (table.keys.iter())
            .filter_map(|key| match key.target {
                KeyTarget::Field(field) => Some(Location::Field(field)),
                KeyTarget::Valid(header) => Some(Location::Valid(header)),
                KeyTarget::UnionValid(_) => None,
            })
            .collect();
        let is_ternary = table.keys.iter().any(|key| key.kind != MatchKind::Exact);
        // A key field that holds a constant has no source to match instead, so it must be written before.
        self.materialize_copies(|field, copied| {
            copied.from.is_empty() && keys.contains(&Location::Field(field))
        });
        let mut all = Effect {
            ternary: match is_ternary {
                true => self.resolve_copies(keys.clone()),
                false => BTreeSet::new(),
            },
            matches: keys,
            takes: Resources {
                tables: 1,
                ..Resources::NOTHING
            },
            objects: self.memories(table),
            ..Effect::default()
        };
        if let Some(profile) = table.implementation {
            let selector = &self.program.objects.action_profiles[profile.index()].selector;
            for input in selector.iter().flat_map(|selector| &selector.inputs) {
                all.matches.insert(Location::Field(*input));
            }
        }
        let mut written: Vec<(ActionId, BTreeSet<Location>)> = Vec::new();
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
        all.matches = self.resolve_copies(all.matches);
        all.reads = self.resolve_copies(all.reads);
        for key in &table.keys {
            if let KeyTarget::Field(field) = key.target {
                self.remove_read(field);
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
        let from = shape::annotation_number(table, "stage").unwrap_or(0);
        self.steps[step].min_stage = u32::try_from(from).unwrap_or(0).min(MAX_STAGE_ANNOTATION);
        let mut outcome = 0;
        let mut follow = |this: &mut Self, body: &[Stmt]| {
            this.branch(step, outcome, body);
            outcome += 1;
        };
        for body in apply.then.bodies() {
            follow(self, body);
        }
    }

    /// Memories of a table and of its action profile, by name. Each is counted once for all applications.
    fn memories(&self, table: &ir::Table) -> BTreeMap<String, Resources> {
        let takes = shape::table(self.program, table, table.size);
        let mut memories = BTreeMap::from([(table.meta.name.clone(), takes)]);
        if let Some(profile) = table.implementation {
            let profile = &self.program.objects.action_profiles[profile.index()];
            let takes = shape::profile(self.program, profile, profile.size);
            memories.insert(profile.meta.name.clone(), takes);
        }
        memories
    }

    /// Adds the step of a register access, which reads the cell, computes and writes the cell back.
    fn register(&mut self, body: &[Stmt], register: RegisterId, source: &Source) {
        let mut effect = self.effects().access(body, register);
        effect.matches = self.resolve_copies(effect.matches);
        let name = self.program.objects.registers[register.index()]
            .meta
            .name
            .clone();
        self.push(Kind::Register, source, name, effect, true);
    }

    /// Adds the step of an assignment to a field. Copies become pending, and operations on a recent result join the step that computes it.
    fn assign(&mut self, target: FieldPlace, value: &Expr, source: &Source) {
        let Some(field) = target.fixed() else { return };
        if let Some((bits, value)) = slice(field, value) {
            self.assign_slice(field, bits, value, source);
            return;
        }
        let from = self.resolve_copies(locations_in(value));
        // Copying an unchanged parameter back to its argument has no effect.
        if operations(value) == 0 && from == BTreeSet::from([Location::Field(field)]) {
            return;
        }
        // A pending copy to the overwritten field is dead.
        self.copies.remove(&field);
        self.invalidate_copies(&BTreeSet::from([Location::Field(field)]));
        let mut operations = operations(value);
        if in_hash(value) {
            let effect = Effect {
                matches: from,
                writes: BTreeSet::from([Location::Field(field)]),
                results: BTreeSet::from([Location::Field(field)]),
                length: 1,
                takes: arrays::hash(self.effects().bits(Location::Field(field))),
                ..Effect::default()
            };
            let name = source.fragment.trim().to_owned();
            self.push(Kind::Statement, source, name, effect, true);
            return;
        }
        let result = self.last_result_source == Some((source.file.clone(), source.line));
        if result || self.effects().is_color(value) {
            operations = operations.min(1);
        }
        if operations <= 1 && self.merge_into_producer(&from, field, operations) {
            return;
        }
        if operations == 0 {
            let copied = FieldCopy {
                from,
                source: source.clone(),
                depth: self.control_dependencies.len(),
            };
            self.copies.insert(field, copied);
            return;
        }
        let effect = Effect {
            reads: from,
            writes: BTreeSet::from([Location::Field(field)]),
            length: operations,
            ..Effect::default()
        };
        let name = source.fragment.trim().to_owned();
        self.push(Kind::Statement, source, name, effect, true);
    }

    /// Adds the step of an assignment to a slice of a field.
    fn assign_slice(&mut self, field: FieldRef, bits: BigInt, value: &Expr, source: &Source) {
        let from = self.resolve_copies(locations_in(value));
        let location = Location::Field(field);
        // The other bits of the field keep their value, so a pending copy to the field is needed.
        self.materialize_copies(|other, _| other == field);
        if operations(value) <= 1 && self.merge_into_producer(&from, field, operations(value)) {
            return;
        }
        let mut effect = Effect {
            writes: BTreeSet::from([location]),
            length: operations(value).max(1),
            ..Effect::default()
        };
        match in_hash(value) {
            true => {
                effect.matches = from;
                effect.results = BTreeSet::from([location]);
                effect.length = 1;
                effect.takes = arrays::hash(bits.magnitude().count_ones());
            }
            false => effect.reads = from,
        }
        let name = source.fragment.trim().to_owned();
        let step = self.push(Kind::Statement, source, name, effect, true);
        self.steps[step].slice = Some((location, bits));
    }

    /// Lets the step that computes `from` write its result directly to `field`, with at most one operation on it. Returns false if that is
    /// impossible: both must have the same control dependencies, and no step in between may use the field.
    ///
    /// So results of registers and hashes are written to their destination, whose ALU can apply one operation to them.
    fn merge_into_producer(
        &mut self,
        from: &BTreeSet<Location>,
        field: FieldRef,
        operations: u32,
    ) -> bool {
        let field = Location::Field(field);
        let Some(at) = (self.steps.iter()).rposition(|step| !step.writes.is_disjoint(from)) else {
            return false;
        };
        let step = &self.steps[at];
        let others: BTreeSet<Location> = from - &step.writes;
        let free = |later: &Step| {
            let looks = later.matches.contains(&field) || later.reads.contains(&field);
            !looks && !later.writes.contains(&field) && later.writes.is_disjoint(&others)
        };
        let raw = operations == 0 || (from & &step.writes).is_subset(&step.results);
        let fits = step.gress == self.gress
            && step.slice.is_none()
            && matches!(step.kind, Kind::Register | Kind::Statement)
            && step.control_dependencies == self.control_dependencies
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

    /// Adds the step of a statement that is neither an assignment to a field, a register access nor control flow.
    fn statement(&mut self, stmt: &Stmt) {
        let mut effect = Effect::default();
        self.effects().add_effect_of(stmt, &mut effect);
        if effect.reads.is_empty()
            && effect.writes.is_empty()
            && effect.matches.is_empty()
            && effect.objects.is_empty()
        {
            return;
        }
        if !effect.results.is_empty() {
            self.last_result_source = Some((stmt.source.file.clone(), stmt.source.line));
        }
        effect.length = effect.length.max(1);
        effect.matches = self.resolve_copies(effect.matches);
        effect.reads = self.resolve_copies(effect.reads);
        let name = stmt.source.fragment.trim().to_owned();
        self.push(Kind::Statement, &stmt.source, name, effect, true);
    }

    /// Replaces pending copies by their sources.
    fn resolve_copies(&self, locations: BTreeSet<Location>) -> BTreeSet<Location> {
        (locations.into_iter())
            .flat_map(|location| match location {
                Location::Field(field) if self.copies.contains_key(&field) => {
                    self.copies[&field].from.clone()
                }
                other => BTreeSet::from([other]),
            })
            .collect()
    }

    /// Updates the pending copies before a write to `locations`: discards copies to these locations, and adds steps for
    /// copies from them.
    fn invalidate_copies(&mut self, locations: &BTreeSet<Location>) {
        for location in locations {
            if let Location::Field(field) = location {
                self.copies.remove(field);
            }
        }
        let locations = locations.clone();
        self.materialize_copies(|_, copied| !copied.from.is_disjoint(&locations));
    }

    /// Adds steps for the pending copies that `which` selects, if their destination is live.
    fn materialize_copies(&mut self, which: impl Fn(FieldRef, &FieldCopy) -> bool) {
        let chosen: Vec<FieldRef> = (self.copies.iter())
            .filter(|(field, copied)| which(**field, copied))
            .map(|(field, _)| *field)
            .collect();
        for field in chosen {
            let Some(copied) = self.copies.remove(&field) else {
                continue;
            };
            if !self.is_live(field) {
                continue;
            }
            let effect = Effect {
                reads: copied.from,
                writes: BTreeSet::from([Location::Field(field)]),
                length: 1,
                ..Effect::default()
            };
            let name = copied.source.fragment.trim().to_owned();
            self.push_step(Kind::Statement, &copied.source, name, effect, true);
        }
    }

    /// Adds a step, after steps for pending copies whose source it overwrites. Returns the position of the step.
    fn push(
        &mut self,
        kind: Kind,
        source: &Source,
        name: String,
        effect: Effect,
        is_unconditional: bool,
    ) -> usize {
        self.invalidate_copies(&effect.writes);
        self.push_step(kind, source, name, effect, is_unconditional)
    }

    /// Adds a step without regard to pending copies. Returns the position of the step.
    fn push_step(
        &mut self,
        kind: Kind,
        source: &Source,
        name: String,
        effect: Effect,
        is_unconditional: bool,
    ) -> usize {
        let (mut exact, mut ternary) = (BTreeMap::new(), BTreeMap::new());
        for location in &effect.matches {
            let crossbar = match effect.ternary.contains(location) {
                true => &mut ternary,
                false => &mut exact,
            };
            crossbar.insert(*location, self.effects().bits(*location).div_ceil(8));
        }
        let in_byte = effect
            .writes
            .iter()
            .any(|location| self.in_deparser_byte(*location));
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
            min_stage: 0,
            is_unconditional,
            length: match kind {
                Kind::Condition => 0,
                _ => effect.length.max(1),
            },
            control_dependencies: self.control_dependencies.clone(),
            takes: effect.takes,
            registers: effect.registers,
            objects: effect.objects,
        });
        self.steps.len() - 1
    }

    /// Whether a field is one of those that share a byte in Tofino 1's deparser or traffic manager.
    fn in_deparser_byte(&self, location: Location) -> bool {
        let Location::Field(field) = location else {
            return false;
        };
        let name = &self.program.objects.storage.field(field).name;
        self.program.objects.arch == Arch::TNA && DEPARSER_BYTE.contains(&name.as_str())
    }

    /// Adds a note to the report.
    fn note(&mut self, source: &Source, text: String) {
        let source = source_position(source);
        self.notes.push(Note { source, text });
    }
}

/// A source position for messages, as `file:line`.
pub fn source_position(source: &Source) -> String {
    format!("{}:{}", source.file, source.line)
}
