//! Preparation of a pipeline for [`thread_jumps`]: its code and the effects of its tables.

use super::{thread_jumps, Flow, TableEffect, Threaded};
use crate::exec::ops::{Flow as OpFlow, Op, Pc, Slot};
use crate::load::facts::{self, Writes};
use crate::load::pipeline::Labels;
use crate::load::{LoadError, Loader, Names};
use crate::program::Action;
use alfirk_bmv2_json::{self as json, Pipeline};
use rustc_hash::FxHashSet;

impl<'a> Loader<'a> {
    /// Threads the jumps of the pipeline that was compiled last. Returns its first instruction.
    pub(in crate::load) fn thread_jumps(
        &mut self,
        start: Pc,
        labels: &mut Labels<'a>,
        pipeline: &'a Pipeline,
        table_names: &Names,
    ) -> Result<Pc, LoadError> {
        // With notes, the log must contain every condition, so none is removed.
        if self.options.notes || !self.options.thread_jumps {
            return Ok(start);
        }
        let base = labels.end;
        let zero = self.constant(0)?;
        let applied: FxHashSet<u16> = self.code[base as usize..]
            .iter()
            .filter_map(|op| match op.flow(zero) {
                OpFlow::Table { table } => Some(table),
                OpFlow::Next
                | OpFlow::Jump { .. }
                | OpFlow::Branch(_)
                | OpFlow::Call
                | OpFlow::MayEnd
                | OpFlow::Return
                | OpFlow::End => None,
            })
            .collect();
        let tables = pipeline
            .tables
            .iter()
            .map(|table| (table_names[&table.name], table))
            .filter(|(number, _)| applied.contains(number))
            .map(|(number, table)| (number, self.table_effect(table, labels, zero)));
        let flow = Flow {
            tables: tables.collect(),
            code: &self.code[base as usize..],
            base,
            start,
            constants: self.constants.iter().map(|(v, slot)| (*slot, *v)).collect(),
            zero,
        };
        let Some(Threaded { code, origins, at }) = thread_jumps(&flow) else {
            return Ok(start);
        };
        self.code.truncate(base as usize);
        self.code.extend(code);
        if let Some(listing) = &mut self.listing {
            listing.replace(base, &origins);
        }
        // Nodes without a new position are unreachable, so any position is valid.
        let start = at.get(&start).copied().unwrap_or(base);
        labels.end = at.get(&labels.end).copied().unwrap_or(base);
        for pc in labels.at.values_mut() {
            *pc = at.get(pc).copied().unwrap_or(base);
        }
        Ok(start)
    }

    /// Returns the effect that applying a table may have, for any entries.
    fn table_effect(&self, table: &json::Table, labels: &Labels, zero: Slot) -> TableEffect {
        let nexts = table.next_tables.iter().map(|(_, next)| next);
        let nexts = nexts.chain([&table.base_default_next]);
        let next = nexts.map(|next| match next {
            Some(name) => labels.at.get(name.as_str()).copied().unwrap_or(labels.end),
            None => labels.end,
        });
        let default = table
            .default_entry
            .as_ref()
            .map(|default| default.action_id);
        let ids = table.action_ids.iter().copied().chain(default);
        let actions: Vec<_> = ids
            .map(|id| self.actions.iter().find(|action| action.id == id))
            .collect();
        let mut writes = Writes::NONE;
        // Older files have only the actions' names.
        let unknown = table.action_ids.is_empty() || actions.iter().any(Option::is_none);
        if unknown || table.direct_meters.is_some() || !table.direct_registers.is_empty() {
            writes = Writes::All;
        }
        for action in actions.into_iter().flatten() {
            writes.add(self.action_writes(action, zero));
        }
        TableEffect {
            writes,
            next: next.collect(),
        }
    }

    /// Returns the words that an action may write, including its parameters.
    fn action_writes(&self, action: &Action, zero: Slot) -> Writes {
        let params = self.layout.params..self.layout.params + action.words as Slot;
        let mut writes = Writes::Words(params.collect());
        let (mut seen, mut waiting) = (FxHashSet::default(), vec![action.code]);
        while let Some(pc) = waiting.pop() {
            if !seen.insert(pc) {
                continue;
            }
            let op = self.code.get(pc as usize).copied().unwrap_or(Op::End);
            match op.flow(zero) {
                OpFlow::Return | OpFlow::End => {}
                OpFlow::Jump { to } => waiting.push(to),
                OpFlow::Branch(branch) => waiting.extend([pc + 1, branch.to]),
                OpFlow::Next | OpFlow::Table { .. } | OpFlow::Call | OpFlow::MayEnd => {
                    waiting.push(pc + 1);
                    writes.add(facts::writes(op));
                }
            }
        }
        writes
    }
}
