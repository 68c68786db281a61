//! Effects of statements and actions: the things that they read and write.

use std::collections::{BTreeMap, BTreeSet};

use super::read::{in_hash, operations, things_of};
use super::Thing;
use crate::ir::{
    self, walk, Algorithm, CalculationInput, Expr, FieldRef, FlatProgram, HeaderId, HeaderPlace,
    Primitive, RegisterId, Scalar, Stmt, StmtKind,
};
use crate::stages::arrays;
use crate::stages::chip::Use;

/// The reads, writes and resources of an action or statement.
#[derive(Clone, Debug, Default)]
pub struct Effect {
    pub matches: BTreeSet<Thing>,
    /// The subset of a ternary key.
    pub ternary: BTreeSet<Thing>,
    pub reads: BTreeSet<Thing>,
    pub writes: BTreeSet<Thing>,
    pub results: BTreeSet<Thing>,
    pub length: u32,
    pub takes: Use,
    pub registers: BTreeSet<RegisterId>,
    pub objects: BTreeMap<String, Use>,
}

/// Computes effects.
#[derive(Clone, Copy)]
pub struct Effects<'a> {
    pub program: &'a FlatProgram,
}

impl Effects<'_> {
    /// The effect of a register access: all operations of its ALU, from reading the cell to writing it back.
    pub fn access(&self, body: &[Stmt], register: RegisterId) -> Effect {
        let mut effect = Effect {
            length: 1,
            ..Effect::default()
        };
        let mut read = BTreeSet::new();
        inside(body, &mut read, &mut effect.writes);
        effect.matches = &read - &effect.writes;
        effect.results = effect.writes.clone();
        effect.registers.insert(register);
        let array = &self.program.objects.registers[register.index()];
        let mut takes = arrays::register(array, array.size);
        // Accesses of one array share the hash unit that computes the index.
        if body.iter().any(has_computed_index) {
            takes += arrays::index(array.size);
        }
        if self.is_direct(register) {
            // The cells are counted with the table.
            (takes.sram, takes.map_rams) = (0, 0);
        }
        effect.objects.insert(array.meta.name.clone(), takes);
        effect
    }

    /// Whether a register is direct: its cells belong to a table's entries.
    fn is_direct(&self, register: RegisterId) -> bool {
        let cells = self.program.objects.tables.iter();
        let mut cells = cells.flat_map(|table| &table.direct_cells);
        cells.any(|cells| cells.register == register)
    }

    /// Whether the body computes a checksum.
    pub fn sums(&self, body: &[Stmt]) -> bool {
        let mut sums = false;
        walk(body, &mut |stmt| {
            if let StmtKind::Effect(ir::Effect::Primitive(Primitive::Hash {
                calculation, ..
            })) = &stmt.kind
            {
                let calculation = &self.program.objects.calculations[calculation.index()];
                sums |= calculation.algorithm == Algorithm::Csum16;
            }
        });
        sums
    }

    /// Whether a value depends on the colour of a direct meter.
    pub fn is_color(&self, value: &Expr) -> bool {
        let colors: BTreeSet<Thing> = (self.program.objects.meters.iter())
            .filter_map(|meter| meter.result)
            .map(Thing::Field)
            .collect();
        let things = things_of(value);
        !things.is_empty() && things.is_subset(&colors)
    }

    /// The effect of a table's action, with all its operations. Copies within the action are propagated.
    pub fn action(&self, body: &[Stmt]) -> Effect {
        let mut all = Effect::default();
        let mut depth: BTreeMap<Thing, u32> = BTreeMap::new();
        let mut before: BTreeMap<Thing, BTreeSet<Thing>> = BTreeMap::new();
        self.action_body(body, &mut all, &mut depth, &mut before);
        all.length = all.length.max(1);
        all
    }

    fn action_body(
        &self,
        body: &[Stmt],
        all: &mut Effect,
        depth: &mut BTreeMap<Thing, u32>,
        before: &mut BTreeMap<Thing, BTreeSet<Thing>>,
    ) {
        let mut at = 0;
        // An extern call whose result is pending: operations on it at the same source position belong to the extern's unit.
        let mut unit: Option<(&str, u32)> = None;
        while at < body.len() {
            let stmt = &body[at];
            let mut one = Effect::default();
            let here = (&*stmt.source.file, stmt.source.line);
            if gives_result(stmt) {
                unit = Some(here);
            } else if unit != Some(here) {
                unit = None;
            }
            match &stmt.kind {
                StmtKind::Effect(ir::Effect::Primitive(Primitive::RegisterAccess {
                    register,
                    ..
                })) => {
                    let end = end_of_access(body, at, *register);
                    one = self.access(&body[at..=end], *register);
                    at = end;
                }
                StmtKind::Block { body, .. } | StmtKind::Loop { body, .. } => {
                    self.action_body(body, all, depth, before);
                }
                StmtKind::If {
                    cond, then, other, ..
                } => {
                    one.reads = things_of(cond);
                    one.length = 1;
                    self.action_body(then, all, depth, before);
                    self.action_body(other, all, depth, before);
                }
                StmtKind::Effect(ir::Effect::Assign { target, value }) => {
                    if let Some(field) = target.fixed() {
                        one.reads = things_of(value);
                        one.writes.insert(Thing::Field(field));
                        one.length = operations(value);
                        if in_hash(value) {
                            one.matches = std::mem::take(&mut one.reads);
                            one.takes = arrays::hash(self.bits(Thing::Field(field)));
                            one.results.clone_from(&one.writes);
                            one.length = 1;
                        }
                        if unit.is_some() || self.is_color(value) {
                            one.length = 1;
                            one.results.clone_from(&one.writes);
                        }
                    }
                }
                _ => self.of(stmt, &mut one),
            }
            at += 1;
            let start = (one.reads.iter().chain(&one.matches))
                .map(|thing| depth.get(thing).copied().unwrap_or(0))
                .max()
                .unwrap_or(0);
            let end = start + one.length;
            all.length = all.length.max(end);
            let origin = |things: &BTreeSet<Thing>| -> BTreeSet<Thing> {
                (things.iter())
                    .flat_map(|thing| match before.get(thing) {
                        Some(from) => from.clone(),
                        None => BTreeSet::from([*thing]),
                    })
                    .collect()
            };
            let (reads, matches) = (origin(&one.reads), origin(&one.matches));
            for thing in &one.writes {
                let result = one.results.contains(thing);
                depth.insert(*thing, end - u32::from(result && end > 0));
                before.insert(*thing, &reads | &matches);
            }
            all.reads.extend(reads);
            all.matches.extend(matches);
            all.writes.extend(one.writes);
            all.takes += one.takes;
            all.registers.extend(one.registers);
            all.objects.extend(one.objects);
        }
    }

    /// Adds the effect of a statement that is neither assignment nor control flow.
    pub fn of(&self, stmt: &Stmt, effect: &mut Effect) {
        let program = self.program;
        match &stmt.kind {
            StmtKind::Effect(ir::Effect::AssignHeader { target, value }) => {
                if let (HeaderPlace::Fixed(target), HeaderPlace::Fixed(value)) = (target, value) {
                    effect.writes.extend(self.whole(*target));
                    effect.reads.extend(self.whole(*value));
                }
            }
            StmtKind::Effect(ir::Effect::SetValidity {
                target: HeaderPlace::Fixed(header),
                ..
            }) => {
                effect.writes.insert(Thing::Valid(*header));
            }
            StmtKind::Effect(ir::Effect::Primitive(primitive)) => {
                for expr in primitive.exprs() {
                    effect.matches.extend(things_of(expr));
                }
                match primitive {
                    Primitive::Count { counter, .. } => {
                        let counter = &program.objects.counters[counter.index()];
                        let takes = arrays::counters(counter, counter.size);
                        effect.objects.insert(counter.meta.name.clone(), takes);
                    }
                    Primitive::ExecuteMeter { meter, target, .. } => {
                        effect.results.insert(Thing::Field(*target));
                        let meter = &program.objects.meters[meter.index()];
                        let takes = arrays::meters(meter.size);
                        effect.objects.insert(meter.meta.name.clone(), takes);
                        effect.writes.insert(Thing::Field(*target));
                    }
                    // The thresholds of a WRED: a cell of a meter.
                    Primitive::RegisterRead {
                        register, target, ..
                    } if program.objects.registers[register.index()].size > 1
                        || self.is_direct(*register) =>
                    {
                        effect.results.insert(Thing::Field(*target));
                        effect.writes.insert(Thing::Field(*target));
                        let array = &program.objects.registers[register.index()];
                        let mut takes = arrays::meters(array.size);
                        if self.is_direct(*register) {
                            (takes.sram, takes.map_rams) = (0, 0);
                        }
                        effect.objects.insert(array.meta.name.clone(), takes);
                    }
                    Primitive::Filter(filter) => {
                        effect.results.insert(Thing::Field(filter.target));
                        effect.writes.insert(Thing::Field(filter.target));
                    }
                    Primitive::Hash {
                        target,
                        calculation,
                        ..
                    } => {
                        let inputs = &program.objects.calculations[calculation.index()].inputs;
                        for input in inputs {
                            if let CalculationInput::Field(field) = input {
                                effect.matches.insert(Thing::Field(*field));
                            }
                        }
                        effect.writes.insert(Thing::Field(*target));
                        effect.results.insert(Thing::Field(*target));
                        effect.takes = arrays::hash(self.bits(Thing::Field(*target)));
                    }
                    Primitive::Random { target, .. } => {
                        effect.writes.insert(Thing::Field(*target));
                        effect.results.insert(Thing::Field(*target));
                        effect.takes.hash_units = 1;
                    }
                    _ => {}
                }
                effect.length = 1;
            }
            _ => {}
        }
    }

    fn whole(&self, header: HeaderId) -> BTreeSet<Thing> {
        let fields = self
            .program
            .objects
            .storage
            .header_type(header)
            .fields
            .len() as u32;
        (0..fields)
            .map(|field| Thing::Field(FieldRef { header, field }))
            .chain([Thing::Valid(header)])
            .collect()
    }

    pub fn bits(&self, thing: Thing) -> u64 {
        match thing {
            Thing::Field(field) => {
                let scalar = self.program.objects.storage.field(field).scalar();
                u64::from(scalar.map_or(0, Scalar::width))
            }
            Thing::Valid(_) => 1,
        }
    }
}

/// The end of a register access that begins at `start`: the write of the cell, or its read if it is not written.
pub fn end_of_access(body: &[Stmt], start: usize, accessed: RegisterId) -> usize {
    let mut end = start;
    for (at, stmt) in body.iter().enumerate().skip(start + 1) {
        match &stmt.kind {
            StmtKind::Effect(ir::Effect::Primitive(Primitive::RegisterWrite {
                register, ..
            })) if *register == accessed => {
                return at;
            }
            StmtKind::Effect(ir::Effect::Primitive(Primitive::RegisterRead {
                register, ..
            })) if *register == accessed => {
                end = at;
            }
            StmtKind::Effect(ir::Effect::Assign { .. })
            | StmtKind::Block { .. }
            | StmtKind::If { .. } => {}
            _ => return end,
        }
    }
    end
}

/// Collects the reads, including conditions, and the writes of statements.
fn inside(body: &[Stmt], reads: &mut BTreeSet<Thing>, writes: &mut BTreeSet<Thing>) {
    for stmt in body {
        match &stmt.kind {
            StmtKind::Effect(ir::Effect::Assign { target, value }) => {
                reads.extend(things_of(value));
                writes.extend(target.fixed().map(Thing::Field));
            }
            StmtKind::If {
                cond, then, other, ..
            } => {
                reads.extend(things_of(cond));
                inside(then, reads, writes);
                inside(other, reads, writes);
            }
            StmtKind::Block { body, .. } | StmtKind::Loop { body, .. } => {
                inside(body, reads, writes);
            }
            StmtKind::Effect(ir::Effect::Primitive(primitive)) => {
                for expr in primitive.exprs() {
                    reads.extend(things_of(expr));
                }
                if let Primitive::RegisterRead { target, .. } = primitive {
                    writes.insert(Thing::Field(*target));
                }
            }
            _ => {}
        }
    }
}

/// Whether a statement calls an extern with a result.
fn gives_result(stmt: &Stmt) -> bool {
    matches!(
        &stmt.kind,
        StmtKind::Effect(ir::Effect::Primitive(
            Primitive::ExecuteMeter { .. }
                | Primitive::Filter(_)
                | Primitive::Hash { .. }
                | Primitive::Random { .. }
                | Primitive::RegisterRead { .. }
        ))
    )
}

/// Whether a statement reads a cell whose index is neither a constant nor action data.
fn has_computed_index(stmt: &Stmt) -> bool {
    let StmtKind::Effect(ir::Effect::Primitive(Primitive::RegisterRead { index, .. })) = &stmt.kind
    else {
        return false;
    };
    !things_of(index).is_empty()
}
