//! Jump threading: removes conditional jumps whose outcome is known.
//!
//! Controls test the same conditions repeatedly: each step for some packets starts with a test of the kind of packet,
//! and variables set in one branch are tested by the next statement. The pass copies code after a branch once per set
//! of dataflow facts (block versioning), so that no condition is tested twice on a path.

mod flow;

use super::facts::{Constants, Facts, Writes};
use super::target;
use crate::exec::ops::{Branch, Condition, Flow as OpFlow, Op, Pc, Slot};
use rustc_hash::FxHashMap;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Maximum number of versions of one block. Beyond it, the version for the facts common to all paths is used. With more, packets
/// take as long: with up to 24, the multicast program is twice as long and takes three times as long to compile.
const MAX_VERSIONS: usize = 6;

/// Maximum number of versions of one block that use all facts. Further versions use only facts about frequently tested
/// words.
const MAX_EXACT_VERSIONS: usize = 3;

/// Minimum number of conditions on a word for it to count as frequently tested.
const FREQUENT: usize = 10;

/// Maximum length of a pipeline in instructions; longer ones are not threaded, to bound the loading time.
const MAX_LENGTH: usize = 1 << 13;

/// Effect of a table on the packet's words and on control flow.
pub(super) struct TableEffect {
    pub writes: Writes,
    /// Instructions that may follow the table.
    pub next: Vec<Pc>,
}

/// The control flow of a pipeline before jump threading.
pub(super) struct Flow<'a> {
    pub code: &'a [Op],
    /// Index of the pipeline's first instruction in the program's code.
    pub base: Pc,
    pub start: Pc,
    /// Effect of each table of the pipeline, by the table's number.
    pub tables: BTreeMap<u16, TableEffect>,
    pub constants: Constants,
    pub zero: Slot,
}

/// The code of a pipeline after jump threading.
pub(super) struct Threaded {
    pub code: Vec<Op>,
    /// For each instruction after jump threading, the position of the original one.
    pub origins: Vec<Pc>,
    /// New positions of the pipeline's start and of the instructions to which tables lead, by their old positions.
    pub at: FxHashMap<Pc, Pc>,
}

/// Threads the jumps of a pipeline. `None` for a pipeline that is too long.
pub(super) fn thread_jumps(flow: &Flow) -> Option<Threaded> {
    if flow.code.len() > MAX_LENGTH {
        return None;
    }
    let live = LiveFacts::of(flow);
    let on_all_paths = facts_on_all_paths(flow, &live);
    let mut threader = JumpThreader {
        flow,
        live: &live,
        on_all_paths: &on_all_paths,
        leaders: flow.leaders(),
        code: Vec::new(),
        origins: Vec::new(),
        versions: FxHashMap::default(),
        fixes: Vec::new(),
        waiting: VecDeque::new(),
        by_value: flow.constants.iter().map(|(s, v)| (*v, *s)).collect(),
        test_counts: flow.test_counts(),
    };
    let entries = flow.entries();
    for &entry in &entries {
        let facts = on_all_paths.get(&entry).cloned().unwrap_or_default();
        threader.version_for(entry, facts);
    }
    threader.run();
    let at = entries
        .iter()
        .map(|entry| (*entry, threader.versions[entry][0].at.unwrap_or_default()));
    Some(Threaded {
        at: at.collect(),
        code: threader.code,
        origins: threader.origins,
    })
}

impl Flow<'_> {
    fn op(&self, pc: Pc) -> Op {
        let at = (pc - self.base) as usize;
        self.code.get(at).copied().unwrap_or(Op::End)
    }

    /// Returns the instructions at which control enters the code: the start and the targets of tables.
    fn entries(&self) -> BTreeSet<Pc> {
        let nexts = self.tables.values().flat_map(|table| &table.next);
        nexts.copied().chain([self.start]).collect()
    }

    /// Returns the first instructions of basic blocks: entries and targets of jumps.
    fn leaders(&self) -> BTreeSet<Pc> {
        let jumps = self.code.iter().filter_map(|op| match op.flow(self.zero) {
            OpFlow::Jump { to } | OpFlow::Branch(Branch { to, .. }) => Some(to),
            OpFlow::Next
            | OpFlow::Table { .. }
            | OpFlow::Call
            | OpFlow::MayEnd
            | OpFlow::Return
            | OpFlow::End => None,
        });
        jumps.chain(self.entries()).collect()
    }

    fn test_counts(&self) -> FxHashMap<Slot, usize> {
        let mut test_counts = FxHashMap::default();
        let conditions = self
            .code
            .iter()
            .filter_map(|op| op.flow(self.zero).branch());
        for slot in conditions.flat_map(|b| b.condition.words()) {
            *test_counts.entry(slot).or_default() += 1;
        }
        test_counts
    }

    fn is_constant(&self, slot: Slot) -> bool {
        self.constants.contains_key(&slot)
    }

    /// Applies the effect of a table to facts; returns its targets.
    fn apply_table(&self, table: u16, facts: &mut Facts) -> &[Pc] {
        match self.tables.get(&table) {
            Some(effect) => {
                facts.invalidate(&effect.writes);
                &effect.next
            }
            None => &[],
        }
    }
}

/// Backward dataflow analysis: the words and conditions that code after each instruction may test. Each has a bit.
struct LiveFacts {
    base: Pc,
    /// Position of each word's bit in the bit sets of live words.
    words: FxHashMap<Slot, usize>,
    conditions: FxHashMap<Condition, usize>,
    /// Bits that are cleared by a write to a word: the word's own bit, and those of the conditions that read the word.
    bits_of_word: FxHashMap<Slot, Vec<usize>>,
    bits: Vec<Vec<u64>>,
}

impl LiveFacts {
    fn of(flow: &Flow) -> LiveFacts {
        let (mut words, mut conditions) = (FxHashMap::default(), FxHashMap::default());
        let mut bits_of_word: FxHashMap<Slot, Vec<usize>> = FxHashMap::default();
        let mut next = 0;
        for op in flow.code {
            let condition = op.flow(flow.zero).branch().map(|b| b.condition);
            let computed = op.value().map(|(_, value)| value.words().to_vec());
            let test_counts = condition.map(|c| c.words().to_vec()).or(computed);
            for slot in test_counts.unwrap_or_default() {
                if !flow.is_constant(slot) && !words.contains_key(&slot) {
                    words.insert(slot, next);
                    bits_of_word.entry(slot).or_default().push(next);
                    next += 1;
                }
            }
            if let Some(condition) = condition.filter(|c| !conditions.contains_key(c)) {
                conditions.insert(condition, next);
                for slot in condition.words() {
                    bits_of_word.entry(slot).or_default().push(next);
                }
                next += 1;
            }
        }
        let mut live = LiveFacts {
            base: flow.base,
            words,
            conditions,
            bits_of_word,
            bits: vec![vec![0; next.div_ceil(64)]; flow.code.len()],
        };
        let mut changes = true;
        while changes {
            changes = false;
            for at in (0..flow.code.len()).rev() {
                let bits = live.before(flow, flow.base + at as Pc);
                if bits != live.bits[at] {
                    live.bits[at] = bits;
                    changes = true;
                }
            }
        }
        live
    }

    fn at(&self, pc: Pc) -> Vec<u64> {
        let none = || vec![0; self.bits.first().map_or(0, Vec::len)];
        let bits = self.bits.get((pc - self.base) as usize);
        bits.cloned().unwrap_or_else(none)
    }

    fn add(bits: &mut [u64], bit: Option<&usize>) {
        if let Some(bit) = bit {
            bits[bit / 64] |= 1 << (bit % 64);
        }
    }

    /// Clears the bits of a word that is written. Returns true if the word was live: code after the instruction may
    /// test it.
    fn remove(&self, bits: &mut [u64], slot: Slot) -> bool {
        let live = self.words.get(&slot).is_some_and(|bit| has(bits, *bit));
        for bit in self.bits_of_word.get(&slot).into_iter().flatten() {
            bits[bit / 64] &= !(1 << (bit % 64));
        }
        live
    }

    fn before(&self, flow: &Flow, pc: Pc) -> Vec<u64> {
        let op = flow.op(pc);
        let merge = |words: &mut Vec<u64>, more: &[u64]| {
            words.iter_mut().zip(more).for_each(|(a, b)| *a |= b);
        };
        let invalidate = |words: &mut Vec<u64>, writes: &Writes| match writes {
            Writes::All => words.fill(0),
            Writes::Words(slots) => slots.iter().for_each(|slot| {
                self.remove(words, *slot);
            }),
        };
        let mut words = self.at(pc + 1);
        match op.flow(flow.zero) {
            OpFlow::Jump { to } => return self.at(to),
            OpFlow::Branch(Branch { condition, to, .. }) => {
                merge(&mut words, &self.at(to));
                for slot in condition.words() {
                    LiveFacts::add(&mut words, self.words.get(&slot));
                }
                LiveFacts::add(&mut words, self.conditions.get(&condition));
            }
            OpFlow::Table { table } => {
                words.fill(0);
                if let Some(effect) = flow.tables.get(&table) {
                    for next in &effect.next {
                        merge(&mut words, &self.at(*next));
                    }
                    invalidate(&mut words, &effect.writes);
                }
            }
            OpFlow::Call | OpFlow::Return | OpFlow::End => words.fill(0),
            OpFlow::Next | OpFlow::MayEnd => match op.value() {
                Some((d, value)) => {
                    if self.remove(&mut words, d) {
                        for slot in value.words() {
                            LiveFacts::add(&mut words, self.words.get(&slot));
                        }
                    }
                }
                None => invalidate(&mut words, &super::facts::writes(op)),
            },
        }
        words
    }

    /// Removes facts about words and conditions that are not live at an instruction.
    fn restrict(&self, facts: &mut Facts, pc: Pc) {
        let Some(bits) = self.bits.get((pc - self.base) as usize) else {
            return;
        };
        let word = |slot: &Slot| self.words.get(slot).is_some_and(|bit| has(bits, *bit));
        let condition = |c: &Condition| self.conditions.get(c).is_some_and(|bit| has(bits, *bit));
        facts.restrict(word, condition);
    }
}

fn has(bits: &[u64], bit: usize) -> bool {
    bits[bit / 64] >> (bit % 64) & 1 == 1
}

/// Forward dataflow analysis: facts that hold at block starts on all paths.
fn facts_on_all_paths(flow: &Flow, live: &LiveFacts) -> FxHashMap<Pc, Facts> {
    let leaders = flow.leaders();
    let mut known: FxHashMap<Pc, Facts> = FxHashMap::default();
    known.insert(flow.start, Facts::default());
    let mut waiting = VecDeque::from([flow.start]);
    while let Some(leader) = waiting.pop_front() {
        let mut facts = known[&leader].clone();
        let mut reach = |to: Pc, mut facts: Facts| {
            live.restrict(&mut facts, to);
            let less = match known.get_mut(&to) {
                Some(known) => known.meet(&facts),
                None => {
                    known.insert(to, facts);
                    true
                }
            };
            if less && !waiting.contains(&to) {
                waiting.push_back(to);
            }
        };
        let mut pc = leader;
        loop {
            if pc != leader && leaders.contains(&pc) {
                reach(pc, facts);
                break;
            }
            let op = flow.op(pc);
            match op.flow(flow.zero) {
                OpFlow::Branch(Branch {
                    condition,
                    falls_through_on,
                    to,
                }) => match facts.outcome(condition, &flow.constants) {
                    Some(outcome) if outcome == falls_through_on => {}
                    Some(_) => {
                        reach(to, facts);
                        break;
                    }
                    None => {
                        let mut jumped = facts.clone();
                        jumped.assume(condition, !falls_through_on, &flow.constants);
                        reach(to, jumped);
                        facts.assume(condition, falls_through_on, &flow.constants);
                    }
                },
                OpFlow::Jump { to } => {
                    reach(to, facts);
                    break;
                }
                OpFlow::Return | OpFlow::End => break,
                OpFlow::Table { table } => {
                    for next in flow.apply_table(table, &mut facts) {
                        reach(*next, facts.clone());
                    }
                    break;
                }
                OpFlow::Next | OpFlow::Call | OpFlow::MayEnd => {
                    facts.transfer(op, &flow.constants);
                }
            }
            pc += 1;
        }
    }
    known
}

/// A version of a basic block, specialised to facts that hold at its start.
struct BlockVersion {
    facts: Facts,
    at: Option<Pc>,
}

struct JumpThreader<'a> {
    flow: &'a Flow<'a>,
    live: &'a LiveFacts,
    on_all_paths: &'a FxHashMap<Pc, Facts>,
    leaders: BTreeSet<Pc>,
    code: Vec<Op>,
    /// For each instruction of `code`, the position of the original instruction.
    origins: Vec<Pc>,
    versions: FxHashMap<Pc, Vec<BlockVersion>>,
    /// New jumps whose targets must be set, each with the block version that it leads to.
    fixes: Vec<(usize, (Pc, usize))>,
    waiting: VecDeque<(Pc, usize)>,
    by_value: FxHashMap<u64, Slot>,
    /// Number of conditions of the pipeline that test each word.
    test_counts: FxHashMap<Slot, usize>,
}

impl JumpThreader<'_> {
    fn run(&mut self) {
        while let Some(version) = self.waiting.pop_front() {
            self.emit(version);
        }
        for (jump, (pc, number)) in std::mem::take(&mut self.fixes) {
            *target(&mut self.code[jump]) = self.versions[&pc][number].at.unwrap_or_default();
        }
        // A jump to a jump leads to the final target; cycles of jumps are kept.
        for at in 0..self.code.len() {
            let Some(&mut first) = self.code[at].target_mut() else {
                continue;
            };
            let mut to = first;
            for _ in 0..self.code.len() {
                let Op::Jump { to: further } = self.code[(to - self.flow.base) as usize] else {
                    break;
                };
                to = further;
            }
            *target(&mut self.code[at]) = to;
            let last = self.code[(to - self.flow.base) as usize];
            if let (Op::Jump { .. }, Op::End) = (self.code[at], last) {
                self.code[at] = Op::End;
            }
        }
    }

    fn here(&self) -> Pc {
        self.flow.base + self.code.len() as Pc
    }

    /// Returns the version of the block at `pc` for the given facts: the block and the version's number. A new version
    /// is queued for code generation.
    fn version_for(&mut self, pc: Pc, mut facts: Facts) -> (Pc, usize) {
        self.live.restrict(&mut facts, pc);
        let least = self.on_all_paths.get(&pc).cloned().unwrap_or_default();
        let versions = self.versions.entry(pc).or_default();
        if let Some(known) = versions.iter().position(|version| version.facts == facts) {
            return (pc, known);
        }
        if versions.len() >= MAX_EXACT_VERSIONS {
            let often = |slot: &Slot| self.test_counts.get(slot).is_some_and(|n| *n >= FREQUENT);
            facts.restrict(often, |_| false);
            if let Some(known) = versions.iter().position(|version| version.facts == facts) {
                return (pc, known);
            }
        }
        if versions.len() + 1 >= MAX_VERSIONS {
            let fits = (0..versions.len()).filter(|at| versions[*at].facts.is_implied_by(&facts));
            if let Some(best) = fits.max_by_key(|at| versions[*at].facts.len()) {
                return (pc, best);
            }
            if let Some(known) = versions.iter().position(|version| version.facts == least) {
                return (pc, known);
            }
            facts = least;
        }
        versions.push(BlockVersion { facts, at: None });
        let version = (pc, versions.len() - 1);
        self.waiting.push_back(version);
        version
    }

    /// Emits the code of a block version, and of the blocks that follow it up to the next branch.
    fn emit(&mut self, version: (Pc, usize)) {
        let here = self.here();
        let first = self
            .versions
            .get_mut(&version.0)
            .map(|all| &mut all[version.1]);
        let Some(first) = first.filter(|first| first.at.is_none()) else {
            return;
        };
        first.at = Some(here);
        let (mut facts, mut pc) = (first.facts.clone(), version.0);
        let mut entered = true;
        let constants = &self.flow.constants;
        loop {
            if !entered && self.leaders.contains(&pc) {
                let version = self.version_for(pc, facts);
                let here = self.here();
                let next = &mut self
                    .versions
                    .get_mut(&pc)
                    .expect("version_for has added it")[version.1];
                if next.at.is_some() {
                    self.fixes.push((self.code.len(), version));
                    self.push(Op::Jump { to: 0 }, pc);
                    return;
                }
                next.at = Some(here);
                facts = next.facts.clone();
            }
            entered = false;
            let op = self.flow.op(pc);
            match op.flow(self.flow.zero) {
                OpFlow::Branch(Branch {
                    condition,
                    falls_through_on,
                    to,
                }) => match facts.outcome(condition, constants) {
                    Some(outcome) if outcome == falls_through_on => pc += 1,
                    Some(_) => pc = to,
                    None => {
                        let mut jumped = facts.clone();
                        jumped.assume(condition, !falls_through_on, constants);
                        let version = self.version_for(to, jumped);
                        self.fixes.push((self.code.len(), version));
                        self.push(op, pc);
                        facts.assume(condition, falls_through_on, constants);
                        pc += 1;
                    }
                },
                OpFlow::Jump { to } => pc = to,
                OpFlow::End | OpFlow::Return | OpFlow::Table { .. } => {
                    self.push(op, pc);
                    return;
                }
                OpFlow::Next | OpFlow::Call | OpFlow::MayEnd => {
                    let result = op.value().map(|(d, _)| d);
                    let before = result.and_then(|d| facts.value(d, constants));
                    facts.transfer(op, constants);
                    let after = result.and_then(|d| Some((d, facts.value(d, constants)?)));
                    match after {
                        // The word has this value already.
                        Some((_, value)) if before == Some(value) => {}
                        Some((d, value)) => {
                            let op = match self.by_value.get(&value) {
                                Some(&a) => Op::Mov { d, a },
                                None => op,
                            };
                            self.push(op, pc);
                        }
                        None => self.push(op, pc),
                    }
                    pc += 1;
                }
            }
        }
    }

    /// Appends an instruction that replaces the original one at `pc`.
    fn push(&mut self, op: Op, pc: Pc) {
        self.code.push(op);
        self.origins.push(pc);
    }
}

#[cfg(test)]
mod tests;
