//! The program as steps: tables, conditions, register accesses and statements, with what each reads and writes.

use std::collections::{BTreeMap, BTreeSet};

use super::chip::{self, Use};
use super::Note;
use crate::ir::{
    self, walk_exprs, Apply, BinaryOp, CalculationInput, Expr, FieldPlace, FieldRef, FlatProgram,
    HeaderId, HeaderPlace, KeyTarget, MatchKind, Primitive, RegisterId, Scalar, Source, Stmt,
    StmtKind,
};

/// What steps read and write.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Thing {
    Field(FieldRef),
    /// Whether a header is valid.
    Valid(HeaderId),
}

/// What a step is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Table,
    Condition,
    Register,
    Statement,
}

impl Kind {
    pub fn name(self) -> &'static str {
        match self {
            Kind::Table => "table",
            Kind::Condition => "condition",
            Kind::Register => "register",
            Kind::Statement => "statement",
        }
    }
}

/// A step.
#[derive(Clone, Debug)]
pub struct Step {
    pub gress: &'static str,
    pub kind: Kind,
    pub name: String,
    pub source: Source,
    /// What it looks at before its action: keys, conditions, indices, inputs of hashes.
    pub matches: BTreeSet<Thing>,
    /// What its action reads.
    pub reads: BTreeSet<Thing>,
    pub writes: BTreeSet<Thing>,
    /// What registers, hashes and meters give it, on which its action can still do an operation.
    pub results: BTreeSet<Thing>,
    /// Whether it writes all of that whenever it runs.
    pub certain: bool,
    /// Stages from its first operation to its last.
    pub length: u32,
    /// The ways that lead to it: steps that decide, and which of their outcomes.
    pub ways: Vec<(usize, u32)>,
    pub takes: Use,
    /// What it needs on the crossbars of exact and of ternary matches, and how many bytes of it. Steps of a stage share them.
    pub exact: BTreeMap<Thing, u64>,
    pub ternary: BTreeMap<Thing, u64>,
    /// Registers that it accesses: all accesses of one are in one stage.
    pub registers: BTreeSet<RegisterId>,
    /// Objects (counters, meters, registers by name) whose memories are counted once however many steps use them.
    pub objects: BTreeMap<String, Use>,
}

/// All steps of a program.
pub struct Steps {
    pub steps: Vec<Step>,
    pub notes: Vec<Note>,
}

/// Reads a program's pipelines.
pub fn of(program: &FlatProgram) -> Steps {
    let mut collector = Collector {
        program,
        gress: "",
        steps: Vec::new(),
        notes: Vec::new(),
        ways: Vec::new(),
        copies: BTreeMap::new(),
        to_come: reads(program),
    };
    // Deparsers have units of their own.
    let gresses = program
        .pipelines
        .iter()
        .filter(|pipeline| !pipeline.name.ends_with("_deparser"));
    for pipeline in gresses {
        collector.gress = pipeline.name;
        collector.copies.clear();
        collector.body(&pipeline.body);
        // What is left lives on in the deparser and the next gress.
        collector.write_out(|_| true);
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
    /// Fields that were given copies of others, not written yet: readers take the others as long as these stay as they are.
    copies: BTreeMap<FieldRef, Copied>,
    /// How often each field is read by what is not looked at yet; actions of tables and inputs of hashes always count.
    to_come: BTreeMap<FieldRef, usize>,
}

#[derive(Clone, Debug)]
struct Copied {
    from: BTreeSet<Thing>,
    source: Source,
    /// The depth of ways at which it was made.
    depth: usize,
}

/// What an action or statement does.
#[derive(Clone, Debug, Default)]
struct Effect {
    matches: BTreeSet<Thing>,
    /// Of these, the key of a table with ternary matches.
    ternary: BTreeSet<Thing>,
    reads: BTreeSet<Thing>,
    writes: BTreeSet<Thing>,
    results: BTreeSet<Thing>,
    length: u32,
    takes: Use,
    registers: BTreeSet<RegisterId>,
    objects: BTreeMap<String, Use>,
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

    /// A read is no longer to come.
    fn read(&mut self, field: FieldRef) {
        if let Some(count) = self.to_come.get_mut(&field) {
            *count = count.saturating_sub(1);
        }
    }

    /// Its reads are no longer to come.
    fn looked_at(&mut self, expr: &Expr) {
        expr.walk(&mut |expr| {
            if let Expr::Field { place, .. } = expr {
                fixed(*place).into_iter().for_each(|field| self.read(field));
            }
        });
    }

    /// Whether somebody may still want a field: headers leave the pipeline, metadata does not.
    fn is_wanted(&self, field: FieldRef) -> bool {
        let metadata = self.program.objects.storage.header(field.header).metadata;
        !metadata || self.to_come.get(&field).is_some_and(|count| *count > 0)
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
        self.write_out(|copied| copied.depth >= depth);
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
        let mut all = Effect {
            ternary: match is_ternary {
                true => self.seen_through(keys.clone()),
                false => BTreeSet::new(),
            },
            matches: keys,
            takes: chip::table(self.program, table, table.size),
            ..Effect::default()
        };
        if let Some(profile) = table.implementation {
            let selector = &self.program.objects.action_profiles[profile.index()].selector;
            for input in selector.iter().flat_map(|selector| &selector.inputs) {
                all.matches.insert(Thing::Field(*input));
            }
        }
        for reference in &table.actions {
            let action = self.program.objects.action(reference.action);
            let effect = self.action(self.program.action_body(reference.action));
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
        let step = self.push(Kind::Table, source, name, all, one_action);
        let mut outcome = 0;
        let mut follow = |this: &mut Self, body: &[Stmt]| {
            this.branch(step, outcome, body);
            outcome += 1;
        };
        for body in apply.then.bodies() {
            follow(self, body);
        }
    }

    /// A register's access with all that its ALU does: reading the cell, the method, writing it back.
    fn register(&mut self, body: &[Stmt], register: RegisterId, source: &Source) {
        let effect = self.access(body, register);
        let name = self.program.objects.registers[register.index()]
            .meta
            .name
            .clone();
        self.push(Kind::Register, source, name, effect, true);
    }

    fn access(&self, body: &[Stmt], register: RegisterId) -> Effect {
        let mut effect = Effect {
            length: 1,
            ..Effect::default()
        };
        let mut read = BTreeSet::new();
        inside(body, &mut read, &mut effect.writes);
        effect.matches = self.seen_through(&read - &effect.writes);
        effect.results = effect.writes.clone();
        effect.registers.insert(register);
        let array = &self.program.objects.registers[register.index()];
        effect
            .objects
            .insert(array.meta.name.clone(), chip::register(array, array.size));
        effect
    }

    fn assign(&mut self, target: FieldPlace, value: &Expr, source: &Source) {
        let Some(field) = fixed(target) else { return };
        let from = self.seen_through(things_of(value));
        // What stood there is not needed any more.
        self.copies.remove(&field);
        self.written(&BTreeSet::from([Thing::Field(field)]));
        if operations(value) <= 1 && self.is_result(&from, field, operations(value)) {
            return;
        }
        if operations(value) == 0 {
            let copied = Copied {
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
            length: operations(value),
            ..Effect::default()
        };
        let name = source.fragment.trim().to_owned();
        self.push(Kind::Statement, source, name, effect, true);
    }

    /// Lets the step that computes `from`, or the result in it, write it to `field`, if that is under the same conditions and nobody in
    /// between uses the field: so results of registers and hashes go to their places, which have an ALU each for one operation on them.
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
        self.effect_of(stmt, &mut effect);
        if effect.reads.is_empty()
            && effect.writes.is_empty()
            && effect.matches.is_empty()
            && effect.objects.is_empty()
        {
            return;
        }
        effect.length = effect.length.max(1);
        effect.matches = self.seen_through(effect.matches);
        effect.reads = self.seen_through(effect.reads);
        let name = stmt.source.fragment.trim().to_owned();
        self.push(Kind::Statement, &stmt.source, name, effect, true);
    }

    /// What a table's action does, all of its operations together. Copies within it are seen through.
    fn action(&self, body: &[Stmt]) -> Effect {
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
        while at < body.len() {
            let stmt = &body[at];
            let mut one = Effect::default();
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
                    if let Some(field) = fixed(*target) {
                        one.reads = things_of(value);
                        one.writes.insert(Thing::Field(field));
                        one.length = operations(value);
                    }
                }
                _ => self.effect_of(stmt, &mut one),
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

    /// What a statement that is neither assignment nor control flow does.
    fn effect_of(&self, stmt: &Stmt, effect: &mut Effect) {
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
                        let takes = chip::counters(counter.size);
                        effect.objects.insert(counter.meta.name.clone(), takes);
                    }
                    Primitive::ExecuteMeter { meter, target, .. } => {
                        effect.results.insert(Thing::Field(*target));
                        let meter = &program.objects.meters[meter.index()];
                        let takes = chip::meters(meter.size);
                        effect.objects.insert(meter.meta.name.clone(), takes);
                        effect.writes.insert(Thing::Field(*target));
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
                        effect.takes = chip::hash(self.bits(Thing::Field(*target)));
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

    fn bits(&self, thing: Thing) -> u64 {
        match thing {
            Thing::Field(field) => {
                let scalar = self.program.objects.storage.field(field).scalar();
                u64::from(scalar.map_or(0, Scalar::width))
            }
            Thing::Valid(_) => 1,
        }
    }

    /// The same with copies replaced by what they are copies of.
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

    /// Makes copies real before what they are copies of changes, and forgets those that are overwritten.
    fn written(&mut self, things: &BTreeSet<Thing>) {
        for thing in things {
            if let Thing::Field(field) = thing {
                self.copies.remove(field);
            }
        }
        let things = things.clone();
        self.write_out(|copied| !copied.from.is_disjoint(&things));
    }

    fn write_out(&mut self, which: impl Fn(&Copied) -> bool) {
        let chosen: Vec<FieldRef> = (self.copies.iter())
            .filter(|(_, copied)| which(copied))
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
            crossbar.insert(*thing, self.bits(*thing).div_ceil(8));
        }
        self.steps.push(Step {
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

    fn note(&mut self, source: &Source, text: String) {
        let source = place_of(source);
        self.notes.push(Note { source, text });
    }
}

/// How often a program reads each field.
fn reads(program: &FlatProgram) -> BTreeMap<FieldRef, usize> {
    let mut counts = BTreeMap::new();
    let mut count = |field: FieldRef| *counts.entry(field).or_default() += 1;
    let pipelines = program.pipelines.iter().map(|pipeline| &pipeline.body);
    for body in pipelines.chain(&program.action_bodies) {
        walk_exprs(body, &mut |expr| {
            expr.walk(&mut |expr| {
                if let Expr::Field { place, .. } = expr {
                    fixed(*place).into_iter().for_each(&mut count);
                }
            });
        });
    }
    for key in program.objects.tables.iter().flat_map(|table| &table.keys) {
        if let KeyTarget::Field(field) = key.target {
            count(field);
        }
    }
    for input in (program.objects.calculations.iter()).flat_map(|calculation| &calculation.inputs) {
        if let CalculationInput::Field(field) = input {
            count(*field);
        }
    }
    for profile in &program.objects.action_profiles {
        let inputs = profile
            .selector
            .iter()
            .flat_map(|selector| &selector.inputs);
        inputs.copied().for_each(&mut count);
    }
    // What the traffic manager and deparsers look at.
    program
        .objects
        .aliases
        .iter()
        .for_each(|(_, field)| count(*field));
    for fields in &program.objects.field_lists {
        fields.fields.iter().copied().for_each(&mut count);
    }
    counts
}

/// As messages name it.
pub fn place_of(source: &Source) -> String {
    format!("{}:{}", source.file, source.line)
}

/// Where an access of a register that begins at `start` ends: with the cell written back, or read.
fn end_of_access(body: &[Stmt], start: usize, accessed: RegisterId) -> usize {
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

/// What statements read, conditions included, and write.
fn inside(body: &[Stmt], reads: &mut BTreeSet<Thing>, writes: &mut BTreeSet<Thing>) {
    for stmt in body {
        match &stmt.kind {
            StmtKind::Effect(ir::Effect::Assign { target, value }) => {
                reads.extend(things_of(value));
                writes.extend(fixed(*target).map(Thing::Field));
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

fn fixed(place: FieldPlace) -> Option<FieldRef> {
    match place.header {
        HeaderPlace::Fixed(header) => Some(FieldRef {
            header,
            field: place.field,
        }),
        _ => None,
    }
}

fn things_of(expr: &Expr) -> BTreeSet<Thing> {
    let mut things = BTreeSet::new();
    expr.walk(&mut |expr| match expr {
        Expr::Field { place, .. } => things.extend(fixed(*place).map(Thing::Field)),
        Expr::Valid(HeaderPlace::Fixed(header)) => {
            things.insert(Thing::Valid(*header));
        }
        _ => {}
    });
    things
}

/// How many operations of an ALU an expression takes one after another. Copies, casts, slices and concatenations, and masks and shifts by
/// constants, are moves.
fn operations(expr: &Expr) -> u32 {
    match expr {
        Expr::Unary { arg, .. } => 1 + operations(arg),
        Expr::Cast { arg, .. } | Expr::Slice { arg, .. } => operations(arg),
        Expr::Binary { op, left, right } => {
            let below = operations(left).max(operations(right));
            let moves = match op {
                BinaryOp::Concat => true,
                BinaryOp::And | BinaryOp::Shl | BinaryOp::Shr => {
                    right.is_constant() || (*op == BinaryOp::And && left.is_constant())
                }
                _ => false,
            };
            below + u32::from(!moves)
        }
        Expr::Choose { cond, then, other } => {
            let values = operations(then).max(operations(other));
            // The comparison is a gateway's.
            1 + values.max(operations(cond).saturating_sub(1))
        }
        _ => 0,
    }
}
