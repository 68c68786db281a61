//! Jumps lead past conditions whose answers are known.
//!
//! Controls ask the same thing again and again: each step of a pipeline that only some packets take begins with what
//! kind of packet it is, and variables that one branch sets are tested by the next statement. Input: the code of a
//! pipeline. Output: code that does the same, where what comes after a branch exists once for each thing that is known
//! there, so that nothing is asked twice on one way through it.

mod flow;

use super::facts::{branch, computes, Branch, Condition, Constants, Facts, Writes};
use super::target;
use crate::exec::ops::{Op, Pc, Slot};
use rustc_hash::FxHashMap;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Copies of one place, for different facts. The next ones share the copy that needs none.
const MAX_COPIES: usize = 24;

/// So many of them for all that is known; the others only for words that the pipeline asks for often.
const MAX_EXACT: usize = 4;

/// How often that is.
const OFTEN: usize = 10;

/// Copies of all places where jumps lead, for each such place: how many times as long the code may become.
const MAX_GROWTH: usize = 8;

/// Longer pipelines stay as they are, so that loading them takes no time.
const MAX_LENGTH: usize = 1 << 13;

/// What the application of a table may do.
pub(super) struct Applied {
    pub writes: Writes,
    /// Where it may lead.
    pub next: Vec<Pc>,
}

/// A pipeline before its jumps are threaded.
pub(super) struct Flow<'a> {
    pub code: &'a [Op],
    /// The number of its first instruction.
    pub base: Pc,
    pub start: Pc,
    /// By number.
    pub tables: BTreeMap<u16, Applied>,
    pub constants: Constants,
    pub zero: Slot,
}

/// The new code, and where the start and the places that tables lead to are in it. None where it would be too long.
pub(super) fn thread(flow: &Flow) -> Option<(Vec<Op>, FxHashMap<Pc, Pc>)> {
    if flow.code.len() > MAX_LENGTH {
        return None;
    }
    let matters = Matters::of(flow);
    let everywhere = everywhere(flow, &matters);
    let mut threading = Threading {
        flow,
        matters: &matters,
        everywhere: &everywhere,
        leaders: flow.leaders(),
        code: Vec::new(),
        copies: FxHashMap::default(),
        made: 0,
        fixes: Vec::new(),
        waiting: VecDeque::new(),
        by_value: flow.constants.iter().map(|(s, v)| (*v, *s)).collect(),
        asked: flow.asked(),
    };
    let entries = flow.entries();
    for &entry in &entries {
        let facts = everywhere.get(&entry).cloned().unwrap_or_default();
        threading.copy_for(entry, facts);
    }
    threading.run();
    let at = entries
        .iter()
        .map(|entry| (*entry, threading.copies[entry][0].at.unwrap_or_default()));
    let at = at.collect();
    Some((threading.code, at))
}

impl Flow<'_> {
    fn op(&self, pc: Pc) -> Op {
        let at = (pc - self.base) as usize;
        self.code.get(at).copied().unwrap_or(Op::End)
    }

    /// Where the code is entered from outside.
    fn entries(&self) -> BTreeSet<Pc> {
        let nexts = self.tables.values().flat_map(|table| &table.next);
        nexts.copied().chain([self.start]).collect()
    }

    /// Entries, and where jumps lead.
    fn leaders(&self) -> BTreeSet<Pc> {
        let jumps = self.code.iter().filter_map(|op| match *op {
            Op::Jump { to } => Some(to),
            op => branch(op, self.zero).map(|b| b.to),
        });
        jumps.chain(self.entries()).collect()
    }

    fn asked(&self) -> FxHashMap<Slot, usize> {
        let mut asked = FxHashMap::default();
        let conditions = self.code.iter().filter_map(|op| branch(*op, self.zero));
        for slot in conditions.flat_map(|b| b.condition.words()) {
            *asked.entry(slot).or_default() += 1;
        }
        asked
    }

    fn is_constant(&self, slot: Slot) -> bool {
        self.constants.contains_key(&slot)
    }

    /// What a table leaves known.
    fn forget_for(&self, table: u16, facts: &mut Facts) -> &[Pc] {
        match self.tables.get(&table) {
            Some(applied) => {
                facts.forget(&applied.writes);
                &applied.next
            }
            None => &[],
        }
    }
}

/// Which words' values, and which answers, the code from each instruction on may ask for.
struct Matters {
    base: Pc,
    /// The bit of each word and condition.
    words: FxHashMap<Slot, usize>,
    conditions: FxHashMap<Condition, usize>,
    /// The bits that a write to a word clears.
    of_word: FxHashMap<Slot, Vec<usize>>,
    bits: Vec<Vec<u64>>,
}

impl Matters {
    fn of(flow: &Flow) -> Matters {
        let (mut words, mut conditions) = (FxHashMap::default(), FxHashMap::default());
        let mut of_word: FxHashMap<Slot, Vec<usize>> = FxHashMap::default();
        let mut next = 0;
        for op in flow.code {
            let condition = branch(*op, flow.zero).map(|b| b.condition);
            let computed = computes(*op).map(|(_, from)| from.to_vec());
            let asked = condition.map(|c| c.words().to_vec()).or(computed);
            for slot in asked.unwrap_or_default() {
                if !flow.is_constant(slot) && !words.contains_key(&slot) {
                    words.insert(slot, next);
                    of_word.entry(slot).or_default().push(next);
                    next += 1;
                }
            }
            if let Some(condition) = condition.filter(|c| !conditions.contains_key(c)) {
                conditions.insert(condition, next);
                for slot in condition.words() {
                    of_word.entry(slot).or_default().push(next);
                }
                next += 1;
            }
        }
        let mut matters = Matters {
            base: flow.base,
            words,
            conditions,
            of_word,
            bits: vec![vec![0; next.div_ceil(64)]; flow.code.len()],
        };
        let mut changes = true;
        while changes {
            changes = false;
            for at in (0..flow.code.len()).rev() {
                let bits = matters.before(flow, flow.base + at as Pc);
                if bits != matters.bits[at] {
                    matters.bits[at] = bits;
                    changes = true;
                }
            }
        }
        matters
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

    /// True when the word's value mattered.
    fn remove(&self, bits: &mut [u64], slot: Slot) -> bool {
        let matters = self.words.get(&slot).is_some_and(|bit| has(bits, *bit));
        for bit in self.of_word.get(&slot).into_iter().flatten() {
            bits[bit / 64] &= !(1 << (bit % 64));
        }
        matters
    }

    fn before(&self, flow: &Flow, pc: Pc) -> Vec<u64> {
        let op = flow.op(pc);
        let merge = |words: &mut Vec<u64>, more: &[u64]| {
            words.iter_mut().zip(more).for_each(|(a, b)| *a |= b);
        };
        if let Some(Branch { condition, to, .. }) = branch(op, flow.zero) {
            let mut words = self.at(pc + 1);
            merge(&mut words, &self.at(to));
            for slot in condition.words() {
                Matters::add(&mut words, self.words.get(&slot));
            }
            Matters::add(&mut words, self.conditions.get(&condition));
            return words;
        }
        let mut words = self.at(pc + 1);
        if let Some((d, from)) = computes(op) {
            if self.remove(&mut words, d) {
                for slot in from {
                    Matters::add(&mut words, self.words.get(&slot));
                }
            }
            return words;
        }
        let forget = |words: &mut Vec<u64>, writes: &Writes| match writes {
            Writes::All => words.fill(0),
            Writes::Words(slots) => slots.iter().for_each(|slot| {
                self.remove(words, *slot);
            }),
        };
        match op {
            Op::Jump { to } => return self.at(to),
            Op::End | Op::Return | Op::Call { .. } => words.fill(0),
            Op::Apply { table } => {
                words.fill(0);
                if let Some(applied) = flow.tables.get(&table) {
                    for next in &applied.next {
                        merge(&mut words, &self.at(*next));
                    }
                    forget(&mut words, &applied.writes);
                }
            }
            op => forget(&mut words, &super::facts::writes(op)),
        }
        words
    }

    /// Leaves of facts what matters from an instruction on.
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

/// What is known at leaders, whichever way a packet came.
fn everywhere(flow: &Flow, matters: &Matters) -> FxHashMap<Pc, Facts> {
    let leaders = flow.leaders();
    let mut known: FxHashMap<Pc, Facts> = FxHashMap::default();
    known.insert(flow.start, Facts::default());
    let mut waiting = VecDeque::from([flow.start]);
    while let Some(leader) = waiting.pop_front() {
        let mut facts = known[&leader].clone();
        let mut reach = |to: Pc, mut facts: Facts| {
            matters.restrict(&mut facts, to);
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
            if let Some(Branch {
                condition,
                goes_on,
                to,
            }) = branch(op, flow.zero)
            {
                match facts.answer(condition, &flow.constants) {
                    Some(answer) if answer == goes_on => {}
                    Some(_) => {
                        reach(to, facts);
                        break;
                    }
                    None => {
                        let mut jumped = facts.clone();
                        jumped.assume(condition, !goes_on, &flow.constants);
                        reach(to, jumped);
                        facts.assume(condition, goes_on, &flow.constants);
                    }
                }
                pc += 1;
                continue;
            }
            match op {
                Op::Jump { to } => {
                    reach(to, facts);
                    break;
                }
                Op::End | Op::Return => break,
                Op::Apply { table } => {
                    for next in flow.forget_for(table, &mut facts) {
                        reach(*next, facts.clone());
                    }
                    break;
                }
                op => facts.pass(op, &flow.constants),
            }
            pc += 1;
        }
    }
    known
}

/// A place of the old code, for packets of which so much is known.
struct Copied {
    facts: Facts,
    at: Option<Pc>,
}

struct Threading<'a> {
    flow: &'a Flow<'a>,
    matters: &'a Matters,
    everywhere: &'a FxHashMap<Pc, Facts>,
    leaders: BTreeSet<Pc>,
    code: Vec<Op>,
    copies: FxHashMap<Pc, Vec<Copied>>,
    /// How many.
    made: usize,
    /// New jumps, and the copies they lead to.
    fixes: Vec<(usize, (Pc, usize))>,
    waiting: VecDeque<(Pc, usize)>,
    by_value: FxHashMap<u64, Slot>,
    /// How many conditions ask for a word.
    asked: FxHashMap<Slot, usize>,
}

impl Threading<'_> {
    fn run(&mut self) {
        while let Some(copy) = self.waiting.pop_front() {
            self.place(copy);
        }
        for (jump, (pc, number)) in std::mem::take(&mut self.fixes) {
            *target(&mut self.code[jump]) = self.copies[&pc][number].at.unwrap_or_default();
        }
        // A jump to a jump leads where that leads; cycles of jumps stay.
        for at in 0..self.code.len() {
            let op = self.code[at];
            let is_jump = matches!(op, Op::Jump { .. }) || branch(op, self.flow.zero).is_some();
            if is_jump {
                let mut to = *target(&mut self.code[at]);
                for _ in 0..self.code.len() {
                    match self.code[(to - self.flow.base) as usize] {
                        Op::Jump { to: further } => to = further,
                        _ => break,
                    }
                }
                *target(&mut self.code[at]) = to;
                if let (Op::Jump { .. }, Op::End) = (op, self.code[(to - self.flow.base) as usize])
                {
                    self.code[at] = Op::End;
                }
            }
        }
    }

    fn here(&self) -> Pc {
        self.flow.base + self.code.len() as Pc
    }

    /// The copy of a place for what is known, which waits for its turn if it is new.
    fn copy_for(&mut self, pc: Pc, mut facts: Facts) -> (Pc, usize) {
        self.matters.restrict(&mut facts, pc);
        let least = self.everywhere.get(&pc).cloned().unwrap_or_default();
        let full = self.made >= MAX_GROWTH * self.leaders.len();
        let copies = self.copies.entry(pc).or_default();
        if let Some(known) = copies.iter().position(|copy| copy.facts == facts) {
            return (pc, known);
        }
        if copies.len() >= MAX_EXACT {
            let often = |slot: &Slot| self.asked.get(slot).is_some_and(|n| *n >= OFTEN);
            facts.restrict(often, |_| false);
            if let Some(known) = copies.iter().position(|copy| copy.facts == facts) {
                return (pc, known);
            }
        }
        if full || copies.len() + 1 >= MAX_COPIES {
            let fits = (0..copies.len()).filter(|at| copies[*at].facts.follow_from(&facts));
            if let Some(best) = fits.max_by_key(|at| copies[*at].facts.len()) {
                return (pc, best);
            }
            if let Some(known) = copies.iter().position(|copy| copy.facts == least) {
                return (pc, known);
            }
            facts = least;
        }
        self.made += 1;
        copies.push(Copied { facts, at: None });
        let copy = (pc, copies.len() - 1);
        self.waiting.push_back(copy);
        copy
    }

    /// Writes the code of a copy, and of all that follow without a choice.
    fn place(&mut self, copy: (Pc, usize)) {
        let here = self.here();
        let first = self.copies.get_mut(&copy.0).map(|all| &mut all[copy.1]);
        let Some(first) = first.filter(|first| first.at.is_none()) else {
            return;
        };
        first.at = Some(here);
        let (mut facts, mut pc) = (first.facts.clone(), copy.0);
        let mut entered = true;
        let constants = &self.flow.constants;
        loop {
            if !entered && self.leaders.contains(&pc) {
                let copy = self.copy_for(pc, facts);
                let here = self.here();
                let next = &mut self.copies.get_mut(&pc).expect("it was just made")[copy.1];
                if next.at.is_some() {
                    self.fixes.push((self.code.len(), copy));
                    self.code.push(Op::Jump { to: 0 });
                    return;
                }
                next.at = Some(here);
                facts = next.facts.clone();
            }
            entered = false;
            let op = self.flow.op(pc);
            if let Some(Branch {
                condition,
                goes_on,
                to,
            }) = branch(op, self.flow.zero)
            {
                match facts.answer(condition, constants) {
                    Some(answer) => pc = if answer == goes_on { pc + 1 } else { to },
                    None => {
                        let mut jumped = facts.clone();
                        jumped.assume(condition, !goes_on, constants);
                        let copy = self.copy_for(to, jumped);
                        self.fixes.push((self.code.len(), copy));
                        self.code.push(op);
                        facts.assume(condition, goes_on, constants);
                        pc += 1;
                    }
                }
                continue;
            }
            match op {
                Op::Jump { to } => {
                    pc = to;
                    continue;
                }
                Op::End | Op::Return | Op::Apply { .. } => {
                    self.code.push(op);
                    return;
                }
                _ => {}
            }
            let before = computes(op).and_then(|(d, _)| facts.value(d, constants));
            facts.pass(op, constants);
            let after = computes(op).and_then(|(d, _)| Some((d, facts.value(d, constants)?)));
            match after {
                // It has the value.
                Some((_, value)) if before == Some(value) => {}
                Some((d, value)) => self.code.push(match self.by_value.get(&value) {
                    Some(&a) => Op::Mov { d, a },
                    None => op,
                }),
                None => self.code.push(op),
            }
            pc += 1;
        }
    }
}

#[cfg(test)]
mod tests;
