//! List scheduling: assigns a stage to each step.

use std::collections::{BTreeMap, BTreeSet};

use super::chip::{Budget, Use};
use super::depend::{exclude_each_other, Dependency};
use super::steps::{place_of, Kind, Step, Thing};
use super::{Cut, Link, Memory, Note, Placed, Report, NOT_CHECKED};
use crate::ir::{FlatProgram, RegisterId};

/// Rounds in which the accesses of registers find their common stages; more than any program took.
const ROUNDS: usize = 1_000;

/// Attempts to find room for all accesses of each register in one stage; more than any program took that has such a placement.
const MOST_ATTEMPTS: usize = 100;

/// Stages behind which the model gives up: far more than any chip has.
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
    // The last ones may have operations only.
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

/// What each object has, however many steps use it.
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

/// The budget of a table that may lie in several stages: memories have no end.
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

/// All accesses of a register are in the stage of its memory.
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

/// First and last stage of each step, and what stages take.
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
        // Accesses of one register found room in different stages: all of them wait for the last one.
        for (at, common) in firsts.iter().enumerate() {
            if !steps[at].registers.is_empty() {
                least[at] = least[at].max(*common);
            }
        }
    }
}

/// A stage, a gress and the ways to statements that are one logical table there.
type Together = (u32, &'static str, Vec<(usize, u32)>);

/// What is in the stages so far.
#[derive(Default)]
struct Chip {
    used: Vec<Use>,
    /// Objects that have their memories, and in which stage.
    objects: BTreeSet<String>,
    /// Statements under the same conditions share a logical table.
    shared: BTreeSet<Together>,
    /// What is on the crossbars of each stage, of exact and of ternary matches.
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

/// A list scheduler: fills one stage after another with steps whose dependencies allow it, those first that most stages wait for.
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
        // Steps without distance between them go into the same stage, one pass after the other.
        if left.len() == before {
            stage += 1;
        }
    }
    let placed = placed.into_iter().flatten().collect();
    (placed, chip.used)
}

/// Whether two steps that some packet runs both write in one byte, and not the same field, which would be a dependency.
fn share_a_byte(one: &Step, other: &Step) -> bool {
    let both = one.byte.is_some() && one.byte == other.byte && one.gress == other.gress;
    both && !exclude_each_other(one, other)
}

/// How many stages follow each step's first one on the longest way to the end.
fn heights(steps: &[Step], dependencies: &[Dependency]) -> Vec<u32> {
    let mut heights: Vec<u32> = steps.iter().map(|step| step.length).collect();
    // Dependencies go forward only, and stand in the order of those that wait.
    for dependency in dependencies.iter().rev() {
        let Dependency { from, to, .. } = *dependency;
        heights[from] = heights[from].max(dependency.distance(steps) + heights[to]);
    }
    heights
}

/// Puts a step into a stage, if there is room or can be room nowhere.
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

/// Bytes of what a step needs on a crossbar and is not there yet.
fn missing(needs: &BTreeMap<Thing, u64>, there: &BTreeSet<(u32, Thing)>, stage: u32) -> u64 {
    let new = needs
        .iter()
        .filter(|(thing, _)| !there.contains(&(stage, **thing)));
    new.map(|(_, bytes)| bytes).sum()
}

/// Whether a table that is larger than a stage's memories can begin here: an eighth of the stage's, or of what it
/// needs, must be free, for less would only make it one stage longer.
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

/// Takes what a step needs, what does not fit from the stages behind; gives the last one.
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

/// The longest chain, followed from its end.
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
        // One that costs is the reason; others only where nothing costs.
        let reason = tight.max_by_key(|dependency| (dependency.why.costs(), dependency.from));
        // An access waits for the register's other ones, too.
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

/// As the source has it, near enough.
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

/// The dependency of the chain whose loss shortens the longest chain most.
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
