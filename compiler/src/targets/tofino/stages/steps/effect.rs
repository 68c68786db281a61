//! Effects of statements and actions: the fields and validity bits that they read and write.

use std::collections::{BTreeMap, BTreeSet};

use super::read::{in_hash, locations_in, operations};
use super::Location;
use crate::ir::{
    self, walk, Algorithm, CalculationInput, Expr, FieldRef, FlatProgram, HeaderId, HeaderPlace,
    Primitive, RegisterId, Scalar, Stmt, StmtKind,
};
use crate::targets::tofino::stages::arrays;
use crate::targets::tofino::stages::chip::Resources;

/// The reads, writes and resources of an action or statement.
#[derive(Clone, Debug, Default)]
pub struct Effect {
    /// Locations read before the action runs: keys, conditions, indices, inputs of hashes.
    pub matches: BTreeSet<Location>,
    /// The locations of `matches` that a ternary match reads.
    pub ternary: BTreeSet<Location>,
    /// Locations that the action reads.
    pub reads: BTreeSet<Location>,
    /// Locations that the action may write.
    pub writes: BTreeSet<Location>,
    /// Written locations that hold the result of an extern, on which the action can do one more operation.
    pub results: BTreeSet<Location>,
    /// Number of stages that the chain of operations needs.
    pub length: u32,
    /// Resources of the action or statement itself, without those of the accessed objects.
    pub takes: Resources,
    /// Registers that are accessed.
    pub registers: BTreeSet<RegisterId>,
    /// Resources of the accessed objects (counters, meters, registers), by name.
    pub objects: BTreeMap<String, Resources>,
}

/// Computes the effects of a program's statements.
#[derive(Clone, Copy)]
pub struct Effects<'a> {
    /// The program, whose objects determine the resources.
    pub program: &'a FlatProgram,
}

impl Effects<'_> {
    /// The effect of a register access. `body` has all operations of the stateful ALU, from reading the cell to writing it back.
    pub fn access(&self, body: &[Stmt], register: RegisterId) -> Effect {
        let mut effect = Effect {
            length: 1,
            ..Effect::default()
        };
        let mut read = BTreeSet::new();
        collect_accesses(body, &mut read, &mut effect.writes);
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
    pub fn computes_checksum(&self, body: &[Stmt]) -> bool {
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
        let colors: BTreeSet<Location> = (self.program.objects.meters.iter())
            .filter_map(|meter| meter.result)
            .map(Location::Field)
            .collect();
        let locations = locations_in(value);
        !locations.is_empty() && locations.is_subset(&colors)
    }

    /// The effect of the body of a table's action. Copies within the action are propagated.
    pub fn action(&self, body: &[Stmt]) -> Effect {
        let mut all = Effect::default();
        let mut depth: BTreeMap<Location, u32> = BTreeMap::new();
        let mut before: BTreeMap<Location, BTreeSet<Location>> = BTreeMap::new();
        self.action_body(body, &mut all, &mut depth, &mut before);
        all.length = all.length.max(1);
        all
    }

    /// Adds the effects of statements to `all`. For each location that the action has written, `depth` has the stage of its operations and
    /// `before` the locations on which its value depends.
    fn action_body(
        &self,
        body: &[Stmt],
        all: &mut Effect,
        depth: &mut BTreeMap<Location, u32>,
        before: &mut BTreeMap<Location, BTreeSet<Location>>,
    ) {
        let mut at = 0;
        // Position of the last call of an extern with a result. Operations at the same position belong to the extern's unit.
        let mut unit: Option<(&str, u32)> = None;
        while at < body.len() {
            let stmt = &body[at];
            let mut one = Effect::default();
            let here = (&*stmt.source.file, stmt.source.line);
            if calls_extern_with_result(stmt) {
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
                    one.reads = locations_in(cond);
                    one.length = 1;
                    self.action_body(then, all, depth, before);
                    self.action_body(other, all, depth, before);
                }
                StmtKind::Effect(ir::Effect::Assign { target, value }) => {
                    if let Some(field) = target.fixed() {
                        one.reads = locations_in(value);
                        one.writes.insert(Location::Field(field));
                        one.length = operations(value);
                        if in_hash(value) {
                            one.matches = std::mem::take(&mut one.reads);
                            one.takes = arrays::hash(self.bits(Location::Field(field)));
                            one.results.clone_from(&one.writes);
                            one.length = 1;
                        }
                        if unit.is_some() || self.is_color(value) {
                            one.length = 1;
                            one.results.clone_from(&one.writes);
                        }
                    }
                }
                _ => self.add_effect_of(stmt, &mut one),
            }
            at += 1;
            let start = (one.reads.iter().chain(&one.matches))
                .map(|location| depth.get(location).copied().unwrap_or(0))
                .max()
                .unwrap_or(0);
            let end = start + one.length;
            all.length = all.length.max(end);
            let origin = |locations: &BTreeSet<Location>| -> BTreeSet<Location> {
                (locations.iter())
                    .flat_map(|location| match before.get(location) {
                        Some(from) => from.clone(),
                        None => BTreeSet::from([*location]),
                    })
                    .collect()
            };
            let (reads, matches) = (origin(&one.reads), origin(&one.matches));
            for location in &one.writes {
                let result = one.results.contains(location);
                depth.insert(*location, end - u32::from(result && end > 0));
                before.insert(*location, &reads | &matches);
            }
            all.reads.extend(reads);
            all.matches.extend(matches);
            all.writes.extend(one.writes);
            all.takes += one.takes;
            all.registers.extend(one.registers);
            all.objects.extend(one.objects);
        }
    }

    /// Adds the effect of a statement other than an assignment to a field or control flow.
    pub fn add_effect_of(&self, stmt: &Stmt, effect: &mut Effect) {
        let program = self.program;
        match &stmt.kind {
            StmtKind::Effect(ir::Effect::AssignHeader { target, value }) => {
                if let (HeaderPlace::Fixed(target), HeaderPlace::Fixed(value)) = (target, value) {
                    effect.writes.extend(self.locations_of_header(*target));
                    effect.reads.extend(self.locations_of_header(*value));
                }
            }
            StmtKind::Effect(ir::Effect::SetValidity {
                target: HeaderPlace::Fixed(header),
                ..
            }) => {
                effect.writes.insert(Location::Valid(*header));
            }
            StmtKind::Effect(ir::Effect::Primitive(primitive)) => {
                for expr in primitive.exprs() {
                    effect.matches.extend(locations_in(expr));
                }
                match primitive {
                    Primitive::Count { counter, .. } => {
                        let counter = &program.objects.counters[counter.index()];
                        let takes = arrays::counters(counter, counter.size);
                        effect.objects.insert(counter.meta.name.clone(), takes);
                    }
                    Primitive::ExecuteMeter { meter, target, .. } => {
                        effect.results.insert(Location::Field(*target));
                        let meter = &program.objects.meters[meter.index()];
                        let takes = arrays::meters(meter.size);
                        effect.objects.insert(meter.meta.name.clone(), takes);
                        effect.writes.insert(Location::Field(*target));
                    }
                    // A read without a register access marker reads the thresholds of a WRED, which the chip stores in a meter cell.
                    Primitive::RegisterRead {
                        register, target, ..
                    } if program.objects.registers[register.index()].size > 1
                        || self.is_direct(*register) =>
                    {
                        effect.results.insert(Location::Field(*target));
                        effect.writes.insert(Location::Field(*target));
                        let array = &program.objects.registers[register.index()];
                        let mut takes = arrays::meters(array.size);
                        if self.is_direct(*register) {
                            (takes.sram, takes.map_rams) = (0, 0);
                        }
                        effect.objects.insert(array.meta.name.clone(), takes);
                    }
                    Primitive::Filter(filter) => {
                        effect.results.insert(Location::Field(filter.target));
                        effect.writes.insert(Location::Field(filter.target));
                    }
                    Primitive::Hash {
                        target,
                        calculation,
                        ..
                    } => {
                        let inputs = &program.objects.calculations[calculation.index()].inputs;
                        for input in inputs {
                            if let CalculationInput::Field(field) = input {
                                effect.matches.insert(Location::Field(*field));
                            }
                        }
                        effect.writes.insert(Location::Field(*target));
                        effect.results.insert(Location::Field(*target));
                        effect.takes = arrays::hash(self.bits(Location::Field(*target)));
                    }
                    Primitive::Random { target, .. } => {
                        effect.writes.insert(Location::Field(*target));
                        effect.results.insert(Location::Field(*target));
                        effect.takes.hash_units = 1;
                    }
                    _ => {}
                }
                effect.length = 1;
            }
            _ => {}
        }
    }

    /// All fields of a header and its validity bit.
    fn locations_of_header(&self, header: HeaderId) -> BTreeSet<Location> {
        let fields = self
            .program
            .objects
            .storage
            .header_type(header)
            .fields
            .len() as u32;
        (0..fields)
            .map(|field| Location::Field(FieldRef { header, field }))
            .chain([Location::Valid(header)])
            .collect()
    }

    /// Width of a location in bits; 0 for a varbit field.
    pub fn bits(&self, location: Location) -> u64 {
        match location {
            Location::Field(field) => {
                let scalar = self.program.objects.storage.field(field).scalar();
                u64::from(scalar.map_or(0, Scalar::width))
            }
            Location::Valid(_) => 1,
        }
    }
}

/// The position of the last statement of a register access that begins at `start`: the write of the cell, or its read if it is not written.
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
fn collect_accesses(
    body: &[Stmt],
    reads: &mut BTreeSet<Location>,
    writes: &mut BTreeSet<Location>,
) {
    for stmt in body {
        match &stmt.kind {
            StmtKind::Effect(ir::Effect::Assign { target, value }) => {
                reads.extend(locations_in(value));
                writes.extend(target.fixed().map(Location::Field));
            }
            StmtKind::If {
                cond, then, other, ..
            } => {
                reads.extend(locations_in(cond));
                collect_accesses(then, reads, writes);
                collect_accesses(other, reads, writes);
            }
            StmtKind::Block { body, .. } | StmtKind::Loop { body, .. } => {
                collect_accesses(body, reads, writes);
            }
            StmtKind::Effect(ir::Effect::Primitive(primitive)) => {
                for expr in primitive.exprs() {
                    reads.extend(locations_in(expr));
                }
                if let Primitive::RegisterRead { target, .. } = primitive {
                    writes.insert(Location::Field(*target));
                }
            }
            _ => {}
        }
    }
}

/// Whether a statement calls an extern that stores a result in a field.
fn calls_extern_with_result(stmt: &Stmt) -> bool {
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
    !locations_in(index).is_empty()
}
