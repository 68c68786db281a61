//! The order of objects in a P4Info.

use std::collections::BTreeMap;

use alfirk_p4runtime::p4::config::v1::p4_ids::Prefix;

use crate::ir::{Meta, Objects, TableId};

/// Where names stand in a program's listing.
pub struct Listing<'p> {
    positions: BTreeMap<(u32, &'p str), usize>,
}

impl<'p> Listing<'p> {
    /// Of this program.
    pub fn of(program: &'p Objects) -> Listing<'p> {
        let mut positions = BTreeMap::new();
        for (position, (prefix, name)) in program.listing.iter().enumerate() {
            positions
                .entry((*prefix as u32, name.as_str()))
                .or_insert(position);
        }
        Listing { positions }
    }

    /// The position of an object; behind all others if it is not listed.
    pub fn position(&self, prefix: Prefix, meta: &Meta) -> usize {
        self.positions
            .get(&(prefix as u32, meta.name.as_str()))
            .copied()
            .unwrap_or(usize::MAX)
    }

    /// The position of a table.
    pub fn of_table(&self, program: &Objects, table: TableId) -> usize {
        self.position(Prefix::Table, &program.table(table).meta)
    }

    /// Objects of one kind in their order.
    pub fn sorted<'o, T>(
        &self,
        prefix: Prefix,
        objects: impl IntoIterator<Item = &'o T>,
        meta: impl Fn(&T) -> &Meta,
    ) -> Vec<&'o T> {
        let mut objects: Vec<&T> = objects.into_iter().collect();
        objects.sort_by_key(|object| self.position(prefix, meta(object)));
        objects
    }
}
