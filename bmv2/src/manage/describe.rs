//! Descriptions of a program's objects: tables, actions and arrays, by name and by number.

use super::{
    ActionId, ActionInfo, CounterInfo, KeyInfo, MeterInfo, ParamInfo, ProfileId, RegisterInfo,
    TableId, TableInfo,
};
use crate::program::{self, LoadedProgram};

/// Returns the index of the object with this name; `None` if there is none.
fn index_of<T>(all: &[T], name: &str, name_of: impl Fn(&T) -> &str) -> Option<u16> {
    let at = all.iter().position(|one| name_of(one) == name)?;
    u16::try_from(at).ok()
}

impl LoadedProgram {
    /// Finds a table by its full name.
    pub fn table(&self, name: &str) -> Option<TableId> {
        index_of(&self.tables, name, |t| &t.name).map(TableId)
    }

    /// Finds an action by its full name.
    pub fn action(&self, name: &str) -> Option<ActionId> {
        index_of(&self.actions, name, |a| &a.name).map(ActionId)
    }

    /// Finds an action profile or selector by its full name.
    pub fn profile(&self, name: &str) -> Option<ProfileId> {
        index_of(&self.profiles, name, |p| &p.name).map(ProfileId)
    }

    /// Describes a table; `None` for a number of another program.
    pub fn table_info(&self, table: TableId) -> Option<TableInfo> {
        let t = self.tables.get(usize::from(table.0))?;
        let key = |k: &program::Key| KeyInfo {
            name: k.name.clone(),
            bits: k.bits,
            match_type: k.match_type,
        };
        let ranks = t.entries.iter().map(|initial| initial.entry.priority);
        Some(TableInfo {
            name: t.name.clone(),
            keys: t.keys.iter().map(key).collect(),
            actions: t.actions.iter().map(|(a, _)| ActionId(*a)).collect(),
            size: t.max_size,
            has_priorities: t.has_priorities(),
            const_entries: t.const_entries,
            greatest_rank: ranks.max().filter(|_| t.ranked),
            const_default: t.default.as_ref().is_some_and(|d| d.entry_const),
            kind: t.kind,
            profile: t.profile.map(ProfileId),
            direct_counter: t.with_counters,
            direct_meter: t.direct_meter.is_some(),
            direct_registers: t
                .direct_registers
                .iter()
                .map(|cells| self.register_info(cells.array))
                .collect(),
            idle_timeout: t.support_timeout,
        })
    }

    /// Describes an action; `None` for a number of another program.
    pub fn action_info(&self, action: ActionId) -> Option<ActionInfo> {
        let a = self.actions.get(usize::from(action.0))?;
        let param = |p: &program::Param| ParamInfo {
            name: p.name.clone(),
            bits: p.bits,
        };
        Some(ActionInfo {
            name: a.name.clone(),
            params: a.params.iter().map(param).collect(),
        })
    }

    /// Returns the field widths, in bits, of the first header that consists of fields with these names in this
    /// order and padding. `None` when the program has no such header, or one of the fields has variable length.
    pub fn header_widths(&self, names: &[&str]) -> Option<Vec<u32>> {
        let headers = self.layout.headers.iter().filter(|h| !h.metadata);
        let mut found = headers.filter(|header| {
            let mut fields = header.fields.iter();
            names.iter().all(|name| {
                let field = fields.next();
                field.is_some_and(|field| field.name == *name && !field.varbit)
            }) && fields.all(|field| field.name.starts_with("_padding"))
        });
        let fields = &found.next()?.fields[..names.len()];
        Some(fields.iter().map(|field| field.bits).collect())
    }

    /// Describes all register arrays.
    pub fn registers(&self) -> Vec<RegisterInfo> {
        (0..self.registers.len() as u16)
            .map(|number| self.register_info(number))
            .collect()
    }

    fn register_info(&self, number: u16) -> RegisterInfo {
        let r = &self.registers[usize::from(number)];
        RegisterInfo {
            name: r.name.clone(),
            size: r.size,
            bits: r.bits,
        }
    }

    /// Describes all counter arrays.
    pub fn counters(&self) -> Vec<CounterInfo> {
        let info = |c: &program::CounterArray| CounterInfo {
            name: c.name.clone(),
            size: c.size,
            table: c.table.map(TableId),
        };
        self.counters.iter().map(info).collect()
    }

    /// Describes all meter arrays.
    pub fn meters(&self) -> Vec<MeterInfo> {
        let info = |m: &program::MeterArray| MeterInfo {
            name: m.name.clone(),
            size: m.size,
            unit: m.kind,
            table: m.table.map(TableId),
        };
        self.meters.iter().map(info).collect()
    }

    /// Returns names, widths in bits and maximum sizes of all parser value sets.
    pub fn value_sets(&self) -> Vec<(String, u32, Option<u64>)> {
        self.vsets
            .iter()
            .map(|v| (v.name.clone(), v.bits, v.max_size))
            .collect()
    }
}
