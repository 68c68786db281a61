//! List scheduling: assigns a stage to each step.

use std::collections::{BTreeMap, BTreeSet};

use super::chip::{Budget, Use};
use super::depend::{exclude_each_other, Dependency};
use super::steps::{place_of, Kind, Step, Thing};
use super::{Cut, Link, Memory, Note, Placed, Report, NOT_CHECKED};
use crate::ir::{FlatProgram, RegisterId};

/// Maximum rounds of moving the accesses of each register to a common stage; more than any known program needs.
const ROUNDS: usize = 1_000;

/// Maximum attempts of placing all accesses of each register in one stage; more than any known program needs.
const MOST_ATTEMPTS: usize = 100;

/// Maximum number of stages, far more than any chip has; the scheduler stops there.
const MOST_STAGES: u32 = 256;

/// Places all steps.
pub fn report(
    program: &FlatProgram,
    budget: &Budget,
    steps: &[Step],
    dependencies: &[Dependency],
    mut notes: Vec<Note>,
) -> Report {
    let earliest = earliest(steps, dependencies, None);
    let longest_chain = end_of(steps, &earliest);
    let (stages, mut used) = schedule(budget, steps, dependencies, &earliest);
    let needed = stages.iter().map(|(_, last)| last + 1).max().unwrap_or(0);
    // The last stages may contain operations without memories.
    used.resize(needed as usize, Use::default());
    for step in steps {
        if !step.whole().fits(&wide(budget)) {
            notes.push(Note {
                source: place_of(&step.source),
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
                source: place_of(&step.source),
                stage: *stage,
                last: *last,
                takes: step.whole(),
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
    let by_name: BTreeMap<&String, &Use> = objects.collect();
    by_name
        .into_iter()
        .map(|(name, takes)| Memory {
            name: name.clone(),
            sram: takes.sram,
            tcam: takes.tcam,
        })
        .collect()
}

/// The budget of a table that may span several stages: memories are unlimited.
fn wide(budget: &Budget) -> Use {
    Use {
        sram: u64::MAX,
        tcam: u64::MAX,
        map_rams: u64::MAX,
        ..budget.stage
    }
}

/// The first stage of each step by dependencies alone, without `left_out` of them.
fn earliest(
    steps: &[Step],
    dependencies: &[Dependency],
    left_out: Option<(usize, usize)>,
) -> Vec<u32> {
    let mut stages: Vec<u32> = steps.iter().map(|step| step.from).collect();
    for _ in 0..ROUNDS {
        let before = stages.clone();
        for dependency in dependencies {
            let Dependency { from, to, why, .. } = *dependency;
            if why.costs() && left_out == Some((from, to)) {
                continue;
            }
            stages[to] = stages[to].max(stages[from] + dependency.distance(steps));
        }
        together(steps, &mut stages);
        if stages == before || stages.iter().any(|stage| *stage > MOST_STAGES) {
            break;
        }
    }
    stages
}

/// Moves all accesses of a register to a common stage, that of its memory.
fn together(steps: &[Step], stages: &mut [u32]) {
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

fn end_of(steps: &[Step], stages: &[u32]) -> u32 {
    let ends = steps
        .iter()
        .zip(stages)
        .map(|(step, stage)| stage + step.length.max(1));
    ends.max().unwrap_or(0)
}

/// First and last stage of each step, and the resources used by stage.
fn schedule(
    budget: &Budget,
    steps: &[Step],
    dependencies: &[Dependency],
    earliest: &[u32],
) -> (Vec<(u32, u32)>, Vec<Use>) {
    let mut least = earliest.to_vec();
    let mut rounds = 0;
    loop {
        let (stages, used) = attempt(budget, steps, dependencies, &least);
        rounds += 1;
        let mut firsts: Vec<u32> = stages.iter().map(|(first, _)| *first).collect();
        together(steps, &mut firsts);
        let apart = firsts
            .iter()
            .zip(&stages)
            .any(|(common, (first, _))| common != first);
        if !apart || used.len() as u32 > MOST_STAGES || rounds == MOST_ATTEMPTS {
            return (stages, used);
        }
        // Accesses of one register are in different stages: move all of them to the last one.
        for (at, common) in firsts.iter().enumerate() {
            if !steps[at].registers.is_empty() {
                least[at] = least[at].max(*common);
            }
        }
    }
}

/// Key of a logical table for statements: stage, gress and the conditions of the statements.
type Together = (u32, &'static str, Vec<(usize, u32)>);

/// The partial schedule.
#[derive(Default)]
struct Chip {
    used: Vec<Use>,
    /// Objects whose memories are allocated.
    objects: BTreeSet<String>,
    /// Logical tables of statements; statements with equal conditions share one.
    shared: BTreeSet<Together>,
    /// Fields on the exact and the ternary match crossbar of each stage.
    exact: BTreeSet<(u32, Thing)>,
    ternary: BTreeSet<(u32, Thing)>,
}

impl Chip {
    fn at(&mut self, stage: u32) -> &mut Use {
        let stage = stage as usize;
        if self.used.len() <= stage {
            self.used.resize(stage + 1, Use::default());
        }
        &mut self.used[stage]
    }
}

/// List scheduling: fills the stages in order with steps whose dependencies are met. Steps with the longest remaining chain come first.
fn attempt(
    budget: &Budget,
    steps: &[Step],
    dependencies: &[Dependency],
    least: &[u32],
) -> (Vec<(u32, u32)>, Vec<Use>) {
    let mut chip = Chip::default();
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
            let ready = waits[at].iter().try_fold(least[at], |first, dependency| {
                let (its_first, its_last) = placed[dependency.from]?;
                let from = match dependency.why.costs() {
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
                placed[at] = put(budget, &mut chip, &steps[at], stage);
            }
            placed[at].is_none()
        });
        // Dependencies of distance 0 allow the same stage, so repeat until no more steps fit.
        if left.len() == before {
            stage += 1;
        }
    }
    let placed = placed.into_iter().flatten().collect();
    (placed, chip.used)
}

/// Whether two steps that are not exclusive write different fields in one byte.
fn share_a_byte(one: &Step, other: &Step) -> bool {
    let both = one.byte.is_some() && one.byte == other.byte && one.gress == other.gress;
    both && !exclude_each_other(one, other)
}

/// Length in stages of the longest chain that starts at each step.
fn heights(steps: &[Step], dependencies: &[Dependency]) -> Vec<u32> {
    let mut heights: Vec<u32> = steps.iter().map(|step| step.length).collect();
    // Dependencies go forward only, and are sorted by dependent step.
    for dependency in dependencies.iter().rev() {
        let Dependency { from, to, .. } = *dependency;
        heights[from] = heights[from].max(dependency.distance(steps) + heights[to]);
    }
    heights
}

/// Places a step in a stage, if its resources are free there, or if no stage has enough.
fn put(budget: &Budget, chip: &mut Chip, step: &Step, stage: u32) -> Option<(u32, u32)> {
    let mut now = step.takes;
    for (name, of_object) in &step.objects {
        if !chip.objects.contains(name) {
            now += *of_object;
        }
    }
    let key = (stage, step.gress, step.ways.clone());
    let plain = matches!(step.kind, Kind::Statement | Kind::Register);
    now.tables += u64::from(plain && !chip.shared.contains(&key));
    now.exact_bytes += missing(&step.exact, &chip.exact, stage);
    now.ternary_bytes += missing(&step.ternary, &chip.ternary, stage);
    let room = *chip.at(stage);
    let units = now.without_memories();
    let free = budget.free_memories(&room);
    let memories = now.sram <= free.sram && now.tcam <= free.tcam && now.map_rams <= free.map_rams;
    let begins = step.kind == Kind::Table && memories_begin(now, free, &budget.stage);
    let hopeless = !units.fits(&budget.stage) || stage > MOST_STAGES;
    if !hopeless && !((room + units).fits(&budget.stage) && (memories || begins)) {
        return None;
    }
    chip.objects.extend(step.objects.keys().cloned());
    if plain {
        chip.shared.insert(key);
    }
    (chip.exact).extend(step.exact.keys().map(|thing| (stage, *thing)));
    (chip.ternary).extend(step.ternary.keys().map(|thing| (stage, *thing)));
    let last = fill(budget, chip, stage, now);
    Some((stage, last.max(stage + step.length.max(1) - 1)))
}

/// Bytes that a step adds to a crossbar of a stage.
fn missing(needs: &BTreeMap<Thing, u64>, there: &BTreeSet<(u32, Thing)>, stage: u32) -> u64 {
    let new = needs
        .iter()
        .filter(|(thing, _)| !there.contains(&(stage, **thing)));
    new.map(|(_, bytes)| bytes).sum()
}

/// Whether a table larger than a stage's memories can start in this stage: an eighth of the stage's memories, or of the
/// table's, must be free. With less, the table would only span one more stage.
fn memories_begin(now: Use, free: Use, stage: &Use) -> bool {
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

/// Allocates the resources of a step, the excess in the following stages; returns the last stage.
fn fill(budget: &Budget, chip: &mut Chip, first: u32, now: Use) -> u32 {
    let mut left = now;
    let mut stage = first;
    *chip.at(first) += now.without_memories();
    loop {
        let free = budget.free_memories(chip.at(stage));
        let here = Use {
            sram: left.sram.min(free.sram),
            tcam: left.tcam.min(free.tcam),
            map_rams: left.map_rams.min(free.map_rams),
            tables: u64::from(stage > first),
            ..Use::NOTHING
        };
        *chip.at(stage) += here;
        left.sram -= here.sram;
        left.tcam -= here.tcam;
        left.map_rams -= here.map_rams;
        if (left.sram, left.tcam, left.map_rams) == (0, 0, 0) || stage > MOST_STAGES {
            return stage;
        }
        stage += 1;
    }
}

/// The longest chain, found backwards from its last step.
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
        // Prefer a dependency that requires a later stage as the reason.
        let reason = tight.max_by_key(|dependency| (dependency.why.costs(), dependency.from));
        // An access is also delayed by the other accesses of its register.
        let sibling = (0..steps.len()).find(|other| {
            *other != at
                && !steps[*other].registers.is_disjoint(&steps[at].registers)
                && dependencies.iter().any(|dependency| {
                    dependency.to == *other
                        && dependency.why.costs()
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
            (Some(reason), _) if earliest[at] > 0 && (reason.why.costs() || sibling.is_none()) => {
                link.dependency = reason.why.name();
                link.field = reason
                    .thing
                    .map_or(String::new(), |thing| name(program, thing));
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

/// The source name of a field or object, approximately.
fn name(program: &FlatProgram, thing: Thing) -> String {
    match thing {
        Thing::Field(field) => {
            let header = &program.objects.storage.header(field.header).name;
            let field = &program.objects.storage.field(field).name;
            match field.contains('.') || header == "scalars" {
                true => field.clone(),
                false => format!("{header}.{field}"),
            }
        }
        Thing::Valid(header) => {
            format!("{}.isValid()", program.objects.storage.header(header).name)
        }
    }
}

/// The dependency of the chain whose removal shortens the longest chain most.
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
                .find(|one| one.from == from && one.to == to && one.why.costs())?;
            let left = end_of(steps, &earliest(steps, dependencies, Some((from, to))));
            (left < longest).then(|| Cut {
                from,
                to,
                field: costly
                    .thing
                    .map_or(String::new(), |thing| name(program, thing)),
                left,
            })
        })
        .min_by_key(|cut| cut.left)
}
