//! Control flow of the code that is compiled as one region: a pipeline, an action, or code of a parser state.

use crate::exec::ops::{Effect, Flow, Op, Pc};
use crate::program::{LoadedProgram, Table};
use rustc_hash::FxHashMap;

/// Instructions of a region that begin a block, since control reaches them other than from the instruction before.
#[derive(Debug)]
pub(super) struct Region {
    /// Number of edges to each such instruction. It counts 2 for more.
    edges: FxHashMap<Pc, u8>,
    /// Number of instructions of the region.
    pub len: usize,
    /// Whether control can reach an instruction twice.
    pub is_cyclic: bool,
    /// Whether an instruction may drop the packet, other than by the limit of steps.
    pub may_drop: bool,
    /// Tables that the region applies.
    pub tables: Vec<u16>,
    /// Actions that the region calls without a table.
    pub calls: Vec<u16>,
}

impl Region {
    /// Analyses the code that is reachable from `start`.
    pub fn new(program: &LoadedProgram, start: Pc) -> Region {
        let mut region = Region {
            edges: FxHashMap::default(),
            len: 0,
            is_cyclic: false,
            may_drop: false,
            tables: Vec::new(),
            calls: Vec::new(),
        };
        // Depth first, with the state of each instruction: on the current path, or done.
        let mut on_path: FxHashMap<Pc, bool> = FxHashMap::default();
        let mut path: Vec<(Pc, Vec<Pc>)> = Vec::new();
        region.enter(program, start, &mut on_path, &mut path);
        while let Some((pc, left)) = path.last_mut() {
            let pc = *pc;
            match left.pop() {
                None => {
                    on_path.insert(pc, false);
                    path.pop();
                }
                Some(next) => match on_path.get(&next) {
                    Some(true) => region.is_cyclic = true,
                    Some(false) => {}
                    None => region.enter(program, next, &mut on_path, &mut path),
                },
            }
        }
        region
    }

    /// Adds an instruction, and counts the edges that leave it.
    fn enter(
        &mut self,
        program: &LoadedProgram,
        pc: Pc,
        on_path: &mut FxHashMap<Pc, bool>,
        path: &mut Vec<(Pc, Vec<Pc>)>,
    ) {
        self.len += 1;
        on_path.insert(pc, true);
        let op = op_at(program, pc);
        self.may_drop |= op.effects().contains(&Effect::Drop);
        // Only targets matter, so the word of the constant 0 does not.
        let mut next = Vec::new();
        let mut edge = |to: Pc, count: u8| {
            let edges = self.edges.entry(to).or_default();
            *edges = edges.saturating_add(count).min(2);
            next.push(to);
        };
        match op.flow(0) {
            Flow::Next | Flow::MayEnd => edge(pc + 1, 1),
            Flow::Jump { to } => edge(to, 1),
            Flow::Branch(branch) => {
                edge(branch.to, 1);
                edge(pc + 1, 1);
            }
            // The paths after different actions meet.
            Flow::Table { table } => {
                self.tables.push(table);
                let table = &program.tables[usize::from(table)];
                successors(table).into_iter().for_each(|to| edge(to, 2));
            }
            Flow::Call => {
                if let Op::Call { action } = op {
                    self.calls.push(action);
                }
                edge(pc + 1, 2);
            }
            Flow::Return | Flow::End => {}
        }
        path.push((pc, next));
    }

    /// Returns whether several edges lead to an instruction.
    pub fn is_join(&self, pc: Pc) -> bool {
        self.edges.get(&pc).is_some_and(|edges| *edges > 1)
    }
}

/// Returns an instruction; the code ends with `End`.
pub(super) fn op_at(program: &LoadedProgram, pc: Pc) -> Op {
    program.ops.get(pc as usize).copied().unwrap_or(Op::End)
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
