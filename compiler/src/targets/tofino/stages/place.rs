//! Assignment of a stage to each step, by list scheduling.

use std::collections::{BTreeMap, BTreeSet};

use super::chip::{Budget, Resources};
use super::depend::{are_mutually_exclusive, Dependency};
use super::steps::{source_position, Kind, Location, Step};
use super::{Cut, Link, Memory, Note, Placed, Report, NOT_CHECKED};
use crate::ir::{FlatProgram, RegisterId};

/// Maximum number of iterations until all accesses of each register are in a common stage. No known program needs as many.
const MAX_ROUNDS: usize = 1_000;

/// Maximum number of schedules tried until all accesses of each register are in one stage. No known program needs as many.
const MAX_ATTEMPTS: usize = 100;

/// Maximum number of stages of a schedule, at which the scheduler stops; more than any chip has.
const MAX_STAGES: u32 = 256;

/// Schedules all steps of a program and writes the stage report.
pub fn report(
    program: &FlatProgram,
    budget: &Budget,
    steps: &[Step],
    dependencies: &[Dependency],
    mut notes: Vec<Note>,
) -> Report {
    let earliest = earliest(steps, dependencies, None);
    let longest_chain = stage_count(steps, &earliest);
    let (stages, mut used) = schedule(budget, steps, dependencies, &earliest);
    let needed = stages.iter().map(|(_, last)| last + 1).max().unwrap_or(0);
    // The last stages may contain only operations, which need no memories.
    used.resize(needed as usize, Resources::default());
    for step in steps {
        if !step.total_resources().fits(&without_memory_limits(budget)) {
            notes.push(Note {
                source: source_position(&step.source),
                text: format!("`{}` needs more of a resource than a stage has", step.name),
            });
        }
    }
    let chain = chain(program, steps, dependencies, &earliest);
    let cut = cut(program, steps, dependencies, &chain, longest_chain);
    Report {
        program: program.objects.source.clone(),
        pipe: None,
        architecture: program.objects.arch.name(),
        stages: budget.stages,
        needed,
        longest_chain,
        budget: budget.stage,
        steps: (steps.iter().zip(&stages))
            .map(|(step, (stage, last))| Placed {
                gress: step.gress,
                name: step.name.clone(),
                kind: step.kind.name(),
                source: source_position(&step.source),
                stage: *stage,
                last: *last,
                takes: step.total_resources(),
            })
            .collect(),
        used,
        memories: memories(steps),
        chain,
        cut,
        notes,
        not_checked: NOT_CHECKED,
    }
}

/// Memories of each object, counted once for all steps that use it.
fn memories(steps: &[Step]) -> Vec<Memory> {
    let objects = steps.iter().flat_map(|step| &step.objects);
    let by_name: BTreeMap<&String, &Resources> = objects.collect();
    by_name
        .into_iter()
        .map(|(name, takes)| Memory {
            name: name.clone(),
            sram: takes.sram,
            tcam: takes.tcam,
        })
        .collect()
}

/// The budget of a table that may span several stages: that of one stage, with unlimited memories.
fn without_memory_limits(budget: &Budget) -> Resources {
    Resources {
        sram: u64::MAX,
        tcam: u64::MAX,
        map_rams: u64::MAX,
        ..budget.stage
    }
}

/// The earliest stage of each step by dependencies, with unlimited resources. The dependencies between the steps `left_out` are ignored.
fn earliest(
    steps: &[Step],
    dependencies: &[Dependency],
    left_out: Option<(usize, usize)>,
) -> Vec<u32> {
    let mut stages: Vec<u32> = steps.iter().map(|step| step.min_stage).collect();
    for _ in 0..MAX_ROUNDS {
        let before = stages.clone();
        for dependency in dependencies {
            let Dependency { from, to, kind, .. } = *dependency;
            if kind.needs_later_stage() && left_out == Some((from, to)) {
                continue;
            }
            stages[to] = stages[to].max(stages[from] + dependency.distance(steps));
        }
        align_register_accesses(steps, &mut stages);
        if stages == before || stages.iter().any(|stage| *stage > MAX_STAGES) {
            break;
        }
    }
    stages
}

/// Moves all accesses of each register to the latest of their stages: an array is in one stage.
fn align_register_accesses(steps: &[Step], stages: &mut [u32]) {
    let mut of_register: BTreeMap<RegisterId, u32> = BTreeMap::new();
    for (step, stage) in steps.iter().zip(stages.iter()) {
        for register in &step.registers {
            let common = of_register.entry(*register).or_default();
            *common = (*common).max(*stage);
        }
    }
    for (step, stage) in steps.iter().zip(stages.iter_mut()) {
        for register in &step.registers {
            *stage = (*stage).max(of_register[register]);
        }
    }
}

/// Number of stages that the steps need when they start at `stages`.
fn stage_count(steps: &[Step], stages: &[u32]) -> u32 {
    let ends = steps
        .iter()
        .zip(stages)
        .map(|(step, stage)| stage + step.length.max(1));
    ends.max().unwrap_or(0)
}

/// First and last stage of each step, and the resources used in each stage.
fn schedule(
    budget: &Budget,
    steps: &[Step],
    dependencies: &[Dependency],
    earliest: &[u32],
) -> (Vec<(u32, u32)>, Vec<Resources>) {
    let mut lower_bounds = earliest.to_vec();
    let mut rounds = 0;
    loop {
        let (stages, used) = attempt(budget, steps, dependencies, &lower_bounds);
        rounds += 1;
        let mut firsts: Vec<u32> = stages.iter().map(|(first, _)| *first).collect();
        align_register_accesses(steps, &mut firsts);
        let apart = firsts
            .iter()
            .zip(&stages)
            .any(|(common, (first, _))| common != first);
        if !apart || used.len() as u32 > MAX_STAGES || rounds == MAX_ATTEMPTS {
            return (stages, used);
        }
        // Accesses of one register are in different stages: move all of them to the last one.
        for (at, common) in firsts.iter().enumerate() {
            if !steps[at].registers.is_empty() {
                lower_bounds[at] = lower_bounds[at].max(*common);
            }
        }
    }
}

/// A logical table that statements share: its stage, `ingress` or `egress`, and the control dependencies of its
/// statements.
type SharedTable = (u32, &'static str, Vec<(usize, u32)>);

/// The resources that the steps placed so far use.
#[derive(Default)]
struct PartialSchedule {
    /// Used resources by stage.
    used: Vec<Resources>,
    /// Names of the objects whose memories are allocated.
    objects: BTreeSet<String>,
    /// Logical tables of statements; statements with equal control dependencies share one.
    shared: BTreeSet<SharedTable>,
    /// Fields on the exact match crossbar of each stage.
    exact: BTreeSet<(u32, Location)>,
    /// Fields on the ternary match crossbar of each stage.
    ternary: BTreeSet<(u32, Location)>,
}

impl PartialSchedule {
    /// A mutable reference to the resources that placed steps use in a stage.
    fn stage_mut(&mut self, stage: u32) -> &mut Resources {
        let stage = stage as usize;
        if self.used.len() <= stage {
            self.used.resize(stage + 1, Resources::default());
        }
        &mut self.used[stage]
    }
}

/// List scheduling: fills the stages in order with steps whose dependencies are met. Steps with the longest remaining chain of dependencies
/// come first. No step is placed before its stage in `lower_bounds`.
fn attempt(
    budget: &Budget,
    steps: &[Step],
    dependencies: &[Dependency],
    lower_bounds: &[u32],
) -> (Vec<(u32, u32)>, Vec<Resources>) {
    let mut partial = PartialSchedule::default();
    let mut waits: Vec<Vec<&Dependency>> = vec![Vec::new(); steps.len()];
    for dependency in dependencies {
        waits[dependency.to].push(dependency);
    }
    let heights = heights(steps, dependencies);
    let mut left: Vec<usize> = (0..steps.len()).collect();
    left.sort_by_key(|at| (std::cmp::Reverse(heights[*at]), *at));
    let mut placed: Vec<Option<(u32, u32)>> = vec![None; steps.len()];
    let mut stage = 0;
    while !left.is_empty() {
        let before = left.len();
        left.retain(|&at| {
            let ready = waits[at]
                .iter()
                .try_fold(lower_bounds[at], |first, dependency| {
                    let (its_first, its_last) = placed[dependency.from]?;
                    let from = match dependency.kind.needs_later_stage() {
                        true => its_last + u32::from(steps[dependency.from].length > 0),
                        false => its_first,
                    };
                    Some(first.max(from))
                });
            let clash = steps[at].byte.is_some()
                && (0..steps.len()).any(|other| {
                    let there = placed[other].is_some_and(|(_, last)| last == stage);
                    there && share_a_byte(&steps[at], &steps[other])
                });
            if !clash && ready.is_some_and(|first| first <= stage) {
                placed[at] = place_step(budget, &mut partial, &steps[at], stage);
            }
            placed[at].is_none()
        });
        // A dependency of distance 0 allows the same stage, so the stage is tried again until no further step fits.
        if left.len() == before {
            stage += 1;
        }
    }
    let placed = placed.into_iter().flatten().collect();
    (placed, partial.used)
}

/// Whether two steps that are not mutually exclusive write fields in the same byte.
fn share_a_byte(one: &Step, other: &Step) -> bool {
    let both = one.byte.is_some() && one.byte == other.byte && one.gress == other.gress;
    both && !are_mutually_exclusive(one, other)
}

/// For each step, the length in stages of the longest chain of dependencies that starts with it.
fn heights(steps: &[Step], dependencies: &[Dependency]) -> Vec<u32> {
    let mut heights: Vec<u32> = steps.iter().map(|step| step.length).collect();
    // Dependencies go forward only, and are sorted by dependent step.
    for dependency in dependencies.iter().rev() {
        let Dependency { from, to, .. } = *dependency;
        heights[from] = heights[from].max(dependency.distance(steps) + heights[to]);
    }
    heights
}

/// Places a step in a stage if the stage has enough free resources, or if no stage has. Returns the step's first and last stage; `None` if
/// the step must be placed in a later stage.
fn place_step(
    budget: &Budget,
    partial: &mut PartialSchedule,
    step: &Step,
    stage: u32,
) -> Option<(u32, u32)> {
    let mut now = step.takes;
    for (name, of_object) in &step.objects {
        if !partial.objects.contains(name) {
            now += *of_object;
        }
    }
    let key = (stage, step.gress, step.control_dependencies.clone());
    let plain = matches!(step.kind, Kind::Statement | Kind::Register);
    now.tables += u64::from(plain && !partial.shared.contains(&key));
    now.exact_bytes += new_crossbar_bytes(&step.exact, &partial.exact, stage);
    now.ternary_bytes += new_crossbar_bytes(&step.ternary, &partial.ternary, stage);
    let room = *partial.stage_mut(stage);
    let units = now.without_memories();
    let free = budget.free_memories(&room);
    let memories = now.sram <= free.sram && now.tcam <= free.tcam && now.map_rams <= free.map_rams;
    let begins = step.kind == Kind::Table && can_start_here(now, free, &budget.stage);
    let hopeless = !units.fits(&budget.stage) || stage > MAX_STAGES;
    if !hopeless && !((room + units).fits(&budget.stage) && (memories || begins)) {
        return None;
    }
    partial.objects.extend(step.objects.keys().cloned());
    if plain {
        partial.shared.insert(key);
    }
    (partial.exact).extend(step.exact.keys().map(|location| (stage, *location)));
    (partial.ternary).extend(step.ternary.keys().map(|location| (stage, *location)));
    let last = allocate(budget, partial, stage, now);
    Some((stage, last.max(stage + step.length.max(1) - 1)))
}

/// Number of bytes that the fields in `needs` add to a crossbar of the stage. Fields in `there`, which earlier steps
/// have put on the crossbar, add none.
fn new_crossbar_bytes(
    needs: &BTreeMap<Location, u64>,
    there: &BTreeSet<(u32, Location)>,
    stage: u32,
) -> u64 {
    let new = needs
        .iter()
        .filter(|(location, _)| !there.contains(&(stage, **location)));
    new.map(|(_, bytes)| bytes).sum()
}

/// Whether a table larger than a stage's memories can start in this stage. An eighth of the stage's memories, or of the table's, must be
/// free; with less, the table would only span one more stage.
fn can_start_here(now: Resources, free: Resources, stage: &Resources) -> bool {
    let kinds = [
        (now.sram, free.sram, stage.sram),
        (now.tcam, free.tcam, stage.tcam),
        (now.map_rams, free.map_rams, stage.map_rams),
    ];
    let too_large = kinds.iter().any(|(now, _, stage)| now > stage);
    too_large
        && kinds
            .iter()
            .all(|(now, free, stage)| free * 8 >= *stage.min(now))
}

/// Allocates the resources of a step from stage `first` on, the memories also in later stages. Returns the last stage.
fn allocate(budget: &Budget, partial: &mut PartialSchedule, first: u32, now: Resources) -> u32 {
    let mut left = now;
    let mut stage = first;
    *partial.stage_mut(first) += now.without_memories();
    loop {
        let free = budget.free_memories(partial.stage_mut(stage));
        let here = Resources {
            sram: left.sram.min(free.sram),
            tcam: left.tcam.min(free.tcam),
            map_rams: left.map_rams.min(free.map_rams),
            tables: u64::from(stage > first),
            ..Resources::NOTHING
        };
        *partial.stage_mut(stage) += here;
        left.sram -= here.sram;
        left.tcam -= here.tcam;
        left.map_rams -= here.map_rams;
        if (left.sram, left.tcam, left.map_rams) == (0, 0, 0) || stage > MAX_STAGES {
            return stage;
        }
        stage += 1;
    }
}

/// The longest chain of dependencies, found backwards from its last step.
fn chain(
    program: &FlatProgram,
    steps: &[Step],
    dependencies: &[Dependency],
    earliest: &[u32],
) -> Vec<Link> {
    let end = |at: usize| earliest[at] + steps[at].length.max(1);
    let Some(mut at) = (0..steps.len()).max_by_key(|at| (end(*at), std::cmp::Reverse(*at))) else {
        return Vec::new();
    };
    let mut links: Vec<Link> = Vec::new();
    loop {
        let tight = dependencies.iter().filter(|dependency| {
            dependency.to == at
                && earliest[dependency.from] + dependency.distance(steps) == earliest[at]
        });
        // Among several dependencies, one that requires a later stage explains the delay best.
        let reason =
            tight.max_by_key(|dependency| (dependency.kind.needs_later_stage(), dependency.from));
        // A register access is also delayed by the dependencies of the register's other accesses.
        let sibling = (0..steps.len()).find(|other| {
            *other != at
                && !steps[*other].registers.is_disjoint(&steps[at].registers)
                && dependencies.iter().any(|dependency| {
                    dependency.to == *other
                        && dependency.kind.needs_later_stage()
                        && earliest[dependency.from] + dependency.distance(steps) == earliest[at]
                })
        });
        let mut link = Link {
            step: at,
            stage: earliest[at],
            dependency: "",
            field: String::new(),
        };
        match (reason, sibling) {
            (Some(reason), _)
                if earliest[at] > 0 && (reason.kind.needs_later_stage() || sibling.is_none()) =>
            {
                link.dependency = reason.kind.name();
                link.field = reason
                    .location
                    .map_or(String::new(), |location| name(program, location));
                links.push(link);
                at = reason.from;
            }
            (_, Some(sibling)) if earliest[at] > 0 && links.len() < steps.len() => {
                link.dependency = "same register";
                links.push(link);
                at = sibling;
            }
            _ => {
                links.push(link);
                break;
            }
        }
    }
    links.reverse();
    links
}

/// The name of a field or validity bit for reports, close to that in the source.
fn name(program: &FlatProgram, location: Location) -> String {
    match location {
        Location::Field(field) => {
            let header = &program.objects.storage.header(field.header).name;
            let field = &program.objects.storage.field(field).name;
            match field.contains('.') || header == "scalars" {
                true => field.clone(),
                false => format!("{header}.{field}"),
            }
        }
        Location::Valid(header) => {
            format!("{}.isValid()", program.objects.storage.header(header).name)
        }
    }
}

/// The dependency of the chain whose removal shortens the longest chain most; `None` if no single one shortens it.
fn cut(
    program: &FlatProgram,
    steps: &[Step],
    dependencies: &[Dependency],
    chain: &[Link],
    longest: u32,
) -> Option<Cut> {
    let pairs = chain.windows(2).map(|pair| (pair[0].step, pair[1].step));
    pairs
        .filter_map(|(from, to)| {
            let costly = (dependencies.iter())
                .find(|one| one.from == from && one.to == to && one.kind.needs_later_stage())?;
            let left = stage_count(steps, &earliest(steps, dependencies, Some((from, to))));
            (left < longest).then(|| Cut {
                from,
                to,
                field: costly
                    .location
                    .map_or(String::new(), |location| name(program, location)),
                left,
            })
        })
        .min_by_key(|cut| cut.left)
}
