//! Liveness analysis of a packet's words: which of them a packet must have cleared when it is received, and which a copy
//! must have when it enters egress. The others are written before they are read, or never read.
//!
//! The analysis goes backward through the instructions of pipelines and actions. Parser, checksums and deparser count as
//! reading all words that they might. The fields of a *guarded* header are read only while it is valid, and every
//! instruction that makes a header valid writes all of its fields, so they need not be cleared. Headers with a field of
//! variable length are always live; [`Layout::clear_live`](crate::program::Layout::clear_live) skips what they do not use.

use crate::exec::node::{BigDest, Kind, Node};
use crate::exec::ops::{Effect, Flow, Op, Operand, Pc, Slot};
use crate::exec::words::words_of;
use crate::program::{
    Blocks, Calculation, Header, Input, KeyPart, LiveWords, LoadedProgram, Note, ParserStep,
    RestoredWords, Table, Varbit,
};
use rustc_hash::{FxHashMap, FxHashSet};
use smallvec::SmallVec;

/// A set of words of the packet's state.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct WordSet(Vec<u64>);

impl WordSet {
    fn new(words: usize) -> WordSet {
        WordSet(vec![0; words.div_ceil(64)])
    }

    fn contains(&self, slot: Slot) -> bool {
        let word = self.0.get(usize::from(slot) / 64).copied().unwrap_or(0);
        word >> (slot % 64) & 1 == 1
    }

    /// Adds a word; one beyond the packet's state is left out.
    fn insert(&mut self, slot: Slot) {
        if let Some(word) = self.0.get_mut(usize::from(slot) / 64) {
            *word |= 1 << (slot % 64);
        }
    }

    fn remove(&mut self, slot: Slot) {
        if let Some(word) = self.0.get_mut(usize::from(slot) / 64) {
            *word &= !(1 << (slot % 64));
        }
    }

    /// Adds the `bits` bits of a field.
    fn insert_field(&mut self, slot: Slot, bits: u32) {
        (0..words_of(bits)).for_each(|i| self.insert(slot + i as Slot));
    }

    fn add(&mut self, other: &WordSet) {
        for (word, more) in self.0.iter_mut().zip(&other.0) {
            *word |= more;
        }
    }

    fn retain(&mut self, other: &WordSet) {
        for (word, kept) in self.0.iter_mut().zip(&other.0) {
            *word &= kept;
        }
    }

    /// Returns blocks of the first `end` words that cover the set.
    fn blocks(&self, end: usize) -> Option<Blocks> {
        Blocks::cover((0..end).filter(|at| self.contains(*at as Slot)), end)
    }
}

/// Analyses a program with these instructions. Returns `None` for programs that the analysis does not support: those for
/// Tofino, and those with header stacks or unions.
pub(super) fn live_words(program: &LoadedProgram, code: &[Op]) -> Option<LiveWords> {
    let layout = &program.layout;
    let has_stacks = !layout.stacks.is_empty() || !layout.union_stacks.is_empty();
    if program.tofino.is_some() || has_stacks || !layout.unions.is_empty() {
        return None;
    }
    let mut analysis = Analysis::new(program, code);
    let mut egress = analysis.at_start(program.egress);
    analysis.end.add(&egress);
    let mut cleared = analysis.at_start(program.ingress);
    cleared.add(&egress);
    cleared.add(&analysis.parser);
    for header in analysis.guarded.iter().map(|at| &layout.headers[*at]) {
        (header.start..header.end).for_each(|slot| cleared.remove(slot));
    }
    for live in [&mut cleared, &mut egress] {
        for header in &layout.headers {
            if let Some(varbit) = header.varbit {
                live.insert(header.valid);
                live.insert(varbit.length);
                (header.start..header.end).for_each(|slot| live.insert(slot));
            }
        }
        let words = layout.varbits.iter().flat_map(|varbit| varbit.words());
        words.for_each(|slot| live.remove(slot as Slot));
    }
    let restored = analysis.written_by_egress().and_then(|mut written| {
        let written_varbit = |varbit: &&Varbit| written.contains(varbit.length);
        let varbits = layout.varbits.iter().filter(written_varbit);
        let varbits = varbits.copied().collect();
        written.retain(&egress);
        let words = written.blocks(layout.state_end)?;
        Some(RestoredWords { words, varbits })
    });
    Some(LiveWords {
        cleared: cleared.blocks(layout.state_end)?,
        copied: egress.blocks(layout.state_end)?,
        restored,
    })
}

struct Analysis<'a> {
    program: &'a LoadedProgram,
    code: &'a [Op],
    /// Words that are live at the end of a pipeline.
    end: WordSet,
    /// Words that the parser and the verification of checksums may read.
    parser: WordSet,
    /// Instructions after each action, by its first instruction.
    after: FxHashMap<Pc, Vec<Pc>>,
    guarded: FxHashSet<usize>,
}

impl<'a> Analysis<'a> {
    fn new(program: &'a LoadedProgram, code: &'a [Op]) -> Analysis<'a> {
        let none = WordSet::new(program.layout.state_end);
        let mut analysis = Analysis {
            program,
            code,
            end: none.clone(),
            parser: none,
            after: FxHashMap::default(),
            guarded: FxHashSet::default(),
        };
        analysis.find_returns();
        analysis.end = analysis.words_at_end();
        analysis.parser = analysis.words_of_parser();
        analysis.find_guarded();
        analysis
    }

    fn op(&self, pc: Pc) -> Op {
        self.code.get(pc as usize).copied().unwrap_or(Op::End)
    }

    fn header(&self, header: u16) -> &'a Header {
        &self.program.layout.headers[usize::from(header)]
    }

    /// Finds the instructions that may follow each action.
    fn find_returns(&mut self) {
        let actions = &self.program.actions;
        for (pc, op) in self.code.iter().enumerate() {
            match *op {
                Op::Apply { table } => {
                    let table = &self.program.tables[usize::from(table)];
                    for start in self.actions_of(table) {
                        let after = self.after.entry(start).or_default();
                        after.extend(successors(table));
                    }
                }
                Op::Call { action } => {
                    let start = actions[usize::from(action)].code;
                    self.after.entry(start).or_default().push(pc as Pc + 1);
                }
                _ => {}
            }
        }
        for after in self.after.values_mut() {
            after.sort_unstable();
            after.dedup();
        }
    }

    /// Returns the first instructions of the actions that a table may run.
    fn actions_of(&self, table: &Table) -> Vec<Pc> {
        let is_shared = |other: &&Table| other.profile.is_some() && other.profile == table.profile;
        let others = self.program.tables.iter().filter(is_shared);
        let mut starts = Vec::new();
        for table in std::iter::once(table).chain(others) {
            let default = table.default.iter().map(|default| default.action);
            let all = table.actions.iter().map(|(action, _)| *action);
            let all = all.chain(default);
            starts.extend(all.map(|action| self.program.actions[usize::from(action)].code));
        }
        starts
    }

    /// Returns the words that are live at the start of the code at `start`.
    fn at_start(&self, start: Pc) -> WordSet {
        let edges = self.edges(start);
        let mut pcs: Vec<Pc> = edges.keys().copied().collect();
        pcs.sort_unstable();
        let mut number = vec![0usize; pcs.last().map_or(0, |last| *last as usize + 1)];
        for (at, pc) in pcs.iter().enumerate() {
            number[*pc as usize] = at;
        }
        let mut next: Vec<SmallVec<[usize; 2]>> = Vec::with_capacity(pcs.len());
        let mut sources: Vec<SmallVec<[usize; 2]>> = vec![SmallVec::new(); pcs.len()];
        for (at, pc) in pcs.iter().enumerate() {
            let after = edges[pc].iter().map(|to| number[*to as usize]);
            next.push(after.collect());
            next[at].iter().for_each(|to| sources[*to].push(at));
        }
        let first = number[start as usize];
        // A block is a straight line: each instruction but the first follows only the one before it. The words that are live
        // before an assignment of a header depend on single words after it, so it is a block of its own.
        let is_assignment = |at: usize| matches!(self.op(pcs[at]), Op::AssignHeader { .. });
        let ends_block = |at: usize| {
            matches!(self.op(pcs[at]), Op::End | Op::EndIfExit | Op::Return)
                || is_assignment(at)
                || is_assignment(at + 1)
                || next[at][..] != [at + 1]
                || sources[at + 1].len() > 1
                || at + 1 == first
        };
        let mut block_of = Vec::with_capacity(pcs.len());
        let mut blocks: Vec<std::ops::Range<usize>> = Vec::new();
        for at in 0..pcs.len() {
            match blocks.last_mut() {
                Some(block) if !ends_block(at - 1) => block.end = at + 1,
                _ => blocks.push(at..at + 1),
            }
            block_of.push(blocks.len() - 1);
        }
        let through = |block: &std::ops::Range<usize>, words: &mut WordSet| {
            for at in block.clone().rev() {
                self.transfer(self.op(pcs[at]), words);
            }
        };
        let size = self.end.0.len();
        // For each block the words that are live before it if none is after it, and if all are.
        let mut if_none = vec![0; blocks.len() * size];
        let mut if_all = vec![u64::MAX; blocks.len() * size];
        let mut words = WordSet(vec![0; size]);
        for (number, block) in blocks.iter().enumerate() {
            if !is_assignment(block.start) {
                for effect in [&mut if_none, &mut if_all] {
                    let effect = &mut effect[number * size..][..size];
                    words.0.copy_from_slice(effect);
                    through(block, &mut words);
                    effect.copy_from_slice(&words.0);
                }
            }
        }
        // The live words before each block, one set after the other.
        let mut live = vec![0u64; blocks.len() * size];
        let mut is_waiting = vec![true; blocks.len()];
        while is_waiting.contains(&true) {
            // Most instructions precede those that may follow them.
            for (number, block) in blocks.iter().enumerate().rev() {
                if !std::mem::take(&mut is_waiting[number]) {
                    continue;
                }
                let last = block.end - 1;
                match self.op(pcs[last]) {
                    // An action returns to its caller, or after `exit` ends the pipeline.
                    Op::End | Op::EndIfExit | Op::Return => words.0.copy_from_slice(&self.end.0),
                    _ => words.0.fill(0),
                }
                for to in &next[last] {
                    let more = &live[block_of[*to] * size..][..size];
                    let pairs = words.0.iter_mut().zip(more);
                    pairs.for_each(|(word, more)| *word |= more);
                }
                if is_assignment(block.start) {
                    through(block, &mut words);
                } else {
                    let [if_none, if_all] =
                        [&if_none, &if_all].map(|effect| &effect[number * size..][..size]);
                    let effects = if_none.iter().zip(if_all);
                    let pairs = words.0.iter_mut().zip(effects);
                    pairs.for_each(|(word, (none, all))| *word = none | *word & all);
                }
                let before = &mut live[number * size..][..size];
                if before != &words.0[..] {
                    before.copy_from_slice(&words.0);
                    for source in &sources[block.start] {
                        is_waiting[block_of[*source]] = true;
                    }
                }
            }
        }
        WordSet(live[block_of[first] * size..][..size].to_vec())
    }

    /// Returns the reachable instructions with those that may follow each. An action returns to all of its callers.
    fn edges(&self, start: Pc) -> FxHashMap<Pc, SmallVec<[Pc; 2]>> {
        let zero = Slot::MAX;
        let mut edges: FxHashMap<Pc, SmallVec<[Pc; 2]>> = FxHashMap::default();
        // An instruction, and the action that it is part of.
        let mut waiting = vec![(start, None)];
        let mut seen = FxHashSet::default();
        while let Some((pc, action)) = waiting.pop() {
            if !seen.insert((pc, action)) {
                continue;
            }
            let op = self.op(pc);
            let mut next: SmallVec<[(Pc, Option<Pc>); 2]> = SmallVec::new();
            match op.flow(zero) {
                Flow::Next | Flow::MayEnd => next.push((pc + 1, action)),
                Flow::Jump { to } => next.push((to, action)),
                Flow::Branch(branch) => next.extend([(branch.to, action), (pc + 1, action)]),
                Flow::Table { table } => {
                    let table = &self.program.tables[usize::from(table)];
                    let actions = self.actions_of(table).into_iter();
                    next.extend(actions.map(|start| (start, Some(start))));
                    next.extend(successors(table).into_iter().map(|to| (to, action)));
                }
                Flow::Call => {
                    next.push((pc + 1, action));
                    if let Op::Call { action } = op {
                        let start = self.program.actions[usize::from(action)].code;
                        next.push((start, Some(start)));
                    }
                }
                Flow::Return => {
                    let after = action.and_then(|start| self.after.get(&start));
                    let after = after.into_iter().flatten();
                    next.extend(after.map(|to| (*to, None)));
                }
                Flow::End => {}
            }
            let all = edges.entry(pc).or_default();
            all.extend(next.iter().map(|(to, _)| *to));
            all.sort_unstable();
            all.dedup();
            waiting.extend(next);
        }
        edges
    }

    /// Changes the words that are live after an instruction to those that are live before it.
    fn transfer(&self, op: Op, live: &mut WordSet) {
        let (mut first, mut count) = (None, 0);
        op.operands(|operand| match operand {
            Operand::Result(d) | Operand::Def(d) => live.remove(d),
            Operand::OptionalDef(d) => d.into_iter().for_each(|d| live.remove(d)),
            Operand::DefWords(d) => first = Some(d),
            Operand::Count(n) => count = n,
            _ => {}
        });
        if let Some(first) = first {
            (first..first + count).for_each(|slot| live.remove(slot));
        }
        match op {
            Op::AssignHeader { d, s } if d != s => {
                let (to, from) = (self.header(d), self.header(s));
                if to.metadata {
                    self.read_header(s, live);
                } else {
                    live.remove(to.valid);
                }
                let is_guarded = self.guarded.contains(&usize::from(d));
                for (d, s) in (to.start..to.end).zip(from.start..from.end) {
                    if live.contains(d) {
                        live.insert(s);
                    }
                    if is_guarded {
                        live.remove(d);
                    }
                }
                if !from.metadata {
                    live.insert(from.valid);
                }
            }
            Op::Big { index } => match &self.program.bigs[index as usize].dest {
                BigDest::Word(slot) => live.remove(*slot),
                BigDest::Field { slot, bits, .. } => {
                    (0..words_of(*bits)).for_each(|i| live.remove(slot + i as Slot));
                }
                BigDest::Element { .. } | BigDest::Register { .. } => {}
            },
            _ => {}
        }
        self.read(op, live);
    }

    /// Adds the words that an instruction may read, except those that [`Op::AssignHeader`] copies.
    fn read(&self, op: Op, words: &mut WordSet) {
        let program = self.program;
        let (mut first, mut count) = (None, 0);
        op.operands(|operand| match operand {
            Operand::Word(a) => words.insert(a),
            Operand::Words(a) => first = Some(a),
            Operand::Count(n) => count = n,
            Operand::Calculation(at) => {
                self.read_calculation(&program.calculations[usize::from(at)], words);
            }
            Operand::Table(at) => self.read_table(&program.tables[usize::from(at)], words),
            Operand::Big(at) => {
                let big = &program.bigs[at as usize];
                self.read_node(&big.node, words);
                if let BigDest::Element { index, .. } | BigDest::Register { index, .. } = &big.dest
                {
                    self.read_node(index, words);
                }
            }
            Operand::LogMessage(at) => {
                let args = &program.logs[usize::from(at)].args;
                args.iter().for_each(|arg| self.read_node(arg, words));
            }
            Operand::Note(at) => match program.notes[usize::from(at)] {
                Note::Action(_)
                | Note::Primitive(_)
                | Note::Part(_)
                | Note::Outcome { .. }
                | Note::Test(_)
                | Note::Condition { .. } => {}
                Note::RegisterRead { i, .. }
                | Note::RegisterWrite { i, .. }
                | Note::Count { i, .. }
                | Note::Meter { i, .. } => words.insert(i),
                Note::Hash { base, max, value } => {
                    [base, max, value]
                        .into_iter()
                        .for_each(|slot| words.insert(slot));
                }
                Note::Random { low, high, value } => {
                    [low, high, value]
                        .into_iter()
                        .for_each(|slot| words.insert(slot));
                }
            },
            // Programs with stacks or unions are not analysed, and headers with varbits are always live.
            _ => {}
        });
        if let Some(first) = first {
            (first..first + count).for_each(|slot| words.insert(slot));
        }
        match op {
            Op::AddHeader { h } | Op::RemoveHeader { h } => {
                let header = self.header(h);
                if !header.metadata {
                    words.insert(header.valid);
                }
            }
            Op::HeaderEq { a, b, .. } => {
                self.read_header(a, words);
                self.read_header(b, words);
            }
            _ => {}
        }
    }

    fn read_header(&self, header: u16, words: &mut WordSet) {
        let header = self.header(header);
        if !header.metadata {
            words.insert(header.valid);
        }
        (header.start..header.end).for_each(|slot| words.insert(slot));
    }

    fn read_calculation(&self, calculation: &Calculation, words: &mut WordSet) {
        for input in &calculation.inputs {
            match input {
                Input::Field { slot, bits, valid } => {
                    words.insert_field(*slot, *bits);
                    valid.iter().for_each(|valid| words.insert(*valid));
                }
                Input::Header(header) => self.read_header(*header, words),
                Input::Const { .. } | Input::Varbit { .. } => {}
            }
        }
    }

    fn read_table(&self, table: &Table, words: &mut WordSet) {
        for key in &table.keys {
            words.insert_field(key.slot, key.bits.max(1));
        }
        let precolor = table.direct_meter.and_then(|meter| meter.precolor);
        precolor.iter().for_each(|slot| words.insert(*slot));
        let profile = table
            .profile
            .map(|at| &self.program.profiles[usize::from(at)]);
        if let Some(selector) = profile.and_then(|profile| profile.selector.as_ref()) {
            self.read_calculation(selector, words);
        }
    }

    fn read_node(&self, node: &Node, words: &mut WordSet) {
        match &node.kind {
            Kind::Const(_) | Kind::Element { .. } | Kind::Last { .. } => {}
            Kind::UnionEq(..) | Kind::UnionValid(_) => {}
            Kind::Field { slot, bits, .. } => words.insert_field(*slot, *bits),
            Kind::Register { index, .. } => self.read_node(index, words),
            Kind::Unary(_, a) | Kind::Cast(_, _, a) => self.read_node(a, words),
            Kind::Binary(_, a, b) => {
                self.read_node(a, words);
                self.read_node(b, words);
            }
            Kind::Ternary(a, b, c) => {
                self.read_node(a, words);
                self.read_node(b, words);
                self.read_node(c, words);
            }
            Kind::HeaderEq(a, b) => {
                self.read_header(*a, words);
                self.read_header(*b, words);
            }
        }
    }

    /// Adds the words that code outside of pipelines may read, in any order.
    fn read_code(&self, start: Pc, words: &mut WordSet) {
        for pc in self.edges(start).keys() {
            let op = self.op(*pc);
            self.read(op, words);
            if let Op::AssignHeader { s, .. } = op {
                self.read_header(s, words);
            }
        }
    }

    /// Returns the words that the switch and the deparser may read after a pipeline.
    fn words_at_end(&self) -> WordSet {
        let program = self.program;
        let mut words = WordSet::new(program.layout.state_end);
        self.read_intrinsic(&mut words);
        self.read_lists(&mut words);
        for checksum in &program.update {
            self.read_checksum(checksum, &mut words);
        }
        program
            .deparser
            .code
            .iter()
            .for_each(|code| self.read_code(*code, &mut words));
        for (valid, header) in &program.deparser.order {
            words.insert(*valid);
            self.read_header(*header, &mut words);
        }
        words
    }

    fn read_intrinsic(&self, words: &mut WordSet) {
        let all = &self.program.intrinsic;
        let fields = [
            all.ingress_port,
            all.packet_length,
            all.instance_type,
            all.egress_spec,
            all.egress_port,
            all.parser_error,
            all.checksum_error,
            all.ingress_global_timestamp,
            all.egress_global_timestamp,
            all.mcast_grp,
            all.egress_rid,
            all.priority,
            all.qid,
        ];
        let fields = fields.into_iter().flatten();
        fields.for_each(|field| words.insert(field.slot));
        if let Some(queueing) = &all.queueing {
            words.insert(queueing.enq_timestamp.slot);
            words.insert(queueing.enq_qdepth.slot);
            words.insert(queueing.deq_timedelta.slot);
            words.insert(queueing.deq_qdepth.slot);
        }
    }

    /// Adds the words of digests, and those that clones, resubmitted and recirculated packets keep.
    fn read_lists(&self, words: &mut WordSet) {
        for item in self.program.field_lists.values().flatten() {
            (item.slot..item.slot + item.words).for_each(|slot| words.insert(slot));
        }
        let learned = self.program.learn_lists.values();
        let items = learned.flat_map(|list| &list.items);
        items.for_each(|item| self.read_node(item, words));
    }

    fn read_checksum(&self, checksum: &crate::program::Checksum, words: &mut WordSet) {
        let calculation = &self.program.calculations[usize::from(checksum.calculation)];
        self.read_calculation(calculation, words);
        words.insert(checksum.slot);
        let header = self.header(checksum.header);
        if !header.metadata {
            words.insert(header.valid);
        }
        if let Some((code, slot)) = checksum.condition {
            words.insert(slot);
            code.iter().for_each(|code| self.read_code(*code, words));
        }
    }

    fn words_of_parser(&self) -> WordSet {
        let program = self.program;
        let mut words = WordSet::new(program.layout.state_end);
        for state in &program.parser.states {
            for step in &state.steps {
                match *step {
                    ParserStep::Code { code } => self.read_code(code, &mut words),
                    ParserStep::Verify { code, cond, error } => {
                        self.read_code(code, &mut words);
                        words.insert(cond);
                        words.insert(error);
                    }
                    ParserStep::Advance { code, bits } => {
                        self.read_code(code, &mut words);
                        words.insert(bits);
                    }
                    ParserStep::ExtractVl { code, bits, .. }
                    | ParserStep::ExtractOwnVl { code, bits, .. } => {
                        self.read_code(code, &mut words);
                        words.insert(bits);
                    }
                    // The other statements read only stacks and unions.
                    _ => {}
                }
            }
            for part in &state.key {
                if let KeyPart::Field { slot, bits } = *part {
                    words.insert_field(slot, bits);
                }
            }
        }
        for checksum in &program.verify {
            self.read_checksum(checksum, &mut words);
        }
        words
    }

    /// Returns the words that the switch, egress, the update of checksums and the deparser may write for a copy, except large
    /// fields of variable length. Returns `None` if an instruction writes words that are not known before it is executed.
    fn written_by_egress(&self) -> Option<WordSet> {
        let program = self.program;
        let mut words = WordSet::new(program.layout.state_end);
        let conditions = program
            .update
            .iter()
            .filter_map(|checksum| checksum.condition);
        let starts = conditions.filter_map(|(code, _)| code);
        let starts = starts.chain(program.deparser.code).chain([program.egress]);
        for pc in starts.flat_map(|start| self.edges(start).into_keys()) {
            self.write(self.op(pc), &mut words)?;
        }
        for checksum in &program.update {
            words.insert(checksum.slot);
        }
        self.read_intrinsic(&mut words);
        // The words of the fields themselves are copied by these lengths.
        for header in &program.layout.headers {
            let mut all = (header.start..header.end).chain([header.valid]);
            let is_written = all.any(|slot| words.contains(slot));
            if let Some(varbit) = header.varbit.filter(|_| is_written) {
                words.insert(varbit.length);
            }
        }
        Some(words)
    }

    /// Adds the words that an instruction may write. Returns `None` as [`Analysis::written_by_egress`] does.
    fn write(&self, op: Op, words: &mut WordSet) -> Option<()> {
        self.write_operands(op, words);
        match op {
            Op::Big { index } => match &self.program.bigs[index as usize].dest {
                BigDest::Element { .. } => return None,
                BigDest::Word(_) | BigDest::Field { .. } | BigDest::Register { .. } => {}
            },
            Op::AddHeader { h } | Op::RemoveHeader { h } | Op::AssignHeader { d: h, .. } => {
                self.read_header(h, words);
            }
            Op::Apply { table } => {
                let table = &self.program.tables[usize::from(table)];
                let meter = table.direct_meter.iter().map(|meter| meter.slot);
                let registers = table.direct_registers.iter().map(|cells| cells.slot);
                meter.chain(registers).for_each(|slot| words.insert(slot));
            }
            Op::Call { .. } => {}
            op => {
                let writes_any = |effect: &Effect| {
                    matches!(effect, Effect::Headers | Effect::Words | Effect::Tables)
                };
                if op.effects().iter().any(writes_any) {
                    return None;
                }
            }
        }
        Some(())
    }

    /// Adds the words that an instruction may write as its operands say: not those of headers and tables.
    fn write_operands(&self, op: Op, words: &mut WordSet) {
        let (mut first, mut count) = (None, 0);
        op.operands(|operand| match operand {
            Operand::Result(d) | Operand::Def(d) | Operand::MayDef(d) => words.insert(d),
            Operand::OptionalDef(d) => d.iter().for_each(|d| words.insert(*d)),
            Operand::DefWords(d) => first = Some(d),
            Operand::Count(n) => count = n,
            _ => {}
        });
        if let Some(first) = first {
            (first..first + count).for_each(|slot| words.insert(slot));
        }
        if let Op::Big { index } = op {
            match &self.program.bigs[index as usize].dest {
                BigDest::Word(slot) => words.insert(*slot),
                BigDest::Field { slot, bits, .. } => words.insert_field(*slot, *bits),
                BigDest::Element { .. } | BigDest::Register { .. } => {}
            }
        }
    }

    /// Finds the guarded headers: no instruction, key or list reads or writes one of their fields, and none writes their
    /// validity other than by an operation on the header.
    fn find_guarded(&mut self) {
        let none = WordSet::new(self.program.layout.state_end);
        let (mut read, mut written) = (none.clone(), none);
        for op in self.code {
            // A calculation and a comparison of headers read the fields of valid headers only.
            if !matches!(op, Op::Hash { .. } | Op::HeaderEq { .. }) {
                self.read(*op, &mut read);
            }
            op.operands(|operand| {
                if let Operand::Word(a) = operand {
                    read.insert(a);
                }
            });
            self.write_operands(*op, &mut written);
        }
        self.read_lists(&mut read);
        self.read_intrinsic(&mut written);
        for state in &self.program.parser.states {
            for part in &state.key {
                if let KeyPart::Field { slot, bits } = *part {
                    read.insert_field(slot, bits);
                }
            }
            for step in &state.steps {
                match *step {
                    ParserStep::Lookahead {
                        slot, field_bits, ..
                    } => written.insert_field(slot, field_bits),
                    ParserStep::Verify { cond, error, .. } => {
                        read.insert(cond);
                        read.insert(error);
                    }
                    ParserStep::Advance { bits, .. } => read.insert(bits),
                    _ => {}
                }
            }
        }
        for checksum in self.program.verify.iter().chain(&self.program.update) {
            written.insert(checksum.slot);
            let conditions = checksum.condition.iter();
            conditions.for_each(|(_, slot)| read.insert(*slot));
        }
        let is_guarded = |header: &Header| {
            let mut fields = header.start..header.end;
            let is_accessed = |slot: Slot| read.contains(slot) || written.contains(slot);
            let is_fixed = !header.metadata && header.varbit.is_none();
            is_fixed && !written.contains(header.valid) && !fields.any(is_accessed)
        };
        let headers = self.program.layout.headers.iter().enumerate();
        let guarded = headers.filter(|(_, header)| is_guarded(header));
        self.guarded = guarded.map(|(at, _)| at).collect();
    }
}

/// Returns the instructions that may follow a table.
fn successors(table: &Table) -> Vec<Pc> {
    let actions = table.actions.iter().map(|(_, next)| *next);
    let fixed = [Some(table.after_miss), table.on_hit, table.on_miss];
    let mut all: Vec<Pc> = actions.chain(fixed.into_iter().flatten()).collect();
    all.sort_unstable();
    all.dedup();
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use alfirk_compiler::driver::{compile, CompileOptions};
    use std::path::Path;

    fn program(source: &str) -> LoadedProgram {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let mut options = CompileOptions::new(root.join(source));
        options
            .preprocessor
            .include_dirs
            .push(root.join("p4include"));
        let compiled = compile(&options).unwrap_or_else(|e| panic!("{e}"));
        LoadedProgram::from_typed(&compiled.json).expect("the compiler writes BMv2 JSON")
    }

    #[test]
    fn fields_of_a_program_without_variables_are_live() {
        let program = program("bmv2/test_data/routing.p4");
        let live = program.layout.live.as_ref().expect("it has no stacks");
        for header in program.layout.headers.iter().filter(|h| !h.metadata) {
            assert!(live.cleared.contains(header.valid), "{}", header.name);
            // The deparser may emit the header, and egress writes none of its fields.
            let mut words = header.start..header.end;
            assert!(words.all(|slot| live.copied.contains(slot)));
        }
        // The TTL is compared before the program knows that the header is valid, the identification is only copied.
        let ipv4 = program.layout.headers.iter().find(|h| h.name == "ipv4");
        let ipv4 = ipv4.expect("the program has the header");
        let slot = |name: &str| {
            let field = ipv4.fields.iter().find(|field| field.name == name);
            field.expect("the header has the field").slot
        };
        assert!(live.cleared.contains(slot("ttl")));
    }

    #[test]
    fn most_words_of_the_multicast_program_are_not_live() {
        let program = program("p4src/v1model/main.p4");
        let live = program.layout.live.as_ref().expect("it has no stacks");
        let varbits = program
            .layout
            .varbits
            .iter()
            .map(|varbit| varbit.words().len());
        let all = program.layout.state_end - varbits.sum::<usize>();
        let (cleared, copied) = (live.cleared.len(), live.copied.len());
        assert!(
            cleared < all * 2 / 3,
            "{cleared} of {all} words are cleared"
        );
        assert!(copied < all / 2, "{copied} of {all} words are copied");
        let restored = live
            .restored
            .as_ref()
            .expect("egress has no variable headers");
        let restored = restored.words.len();
        assert!(
            restored < copied * 3 / 4,
            "{restored} of {copied} words are restored"
        );
    }
}
