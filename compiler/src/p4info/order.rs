//! The order of objects in a P4Info.

use std::collections::BTreeMap;

use crate::ir::{Meta, ObjectKind, Objects, TableId};

/// Positions of objects in the order in which P4Info lists them.
pub struct Listing<'p> {
    positions: BTreeMap<(ObjectKind, &'p str), usize>,
}

impl<'p> Listing<'p> {
    /// Determines the positions of a program's objects.
    pub fn of(program: &'p Objects) -> Listing<'p> {
        let mut positions = BTreeMap::new();
        for (position, (kind, name)) in program.listing.iter().enumerate() {
            positions.entry((*kind, name.as_str())).or_insert(position);
        }
        Listing { positions }
    }

    /// The position of an object; after all others if it is not listed.
    pub fn position(&self, kind: ObjectKind, meta: &Meta) -> usize {
        self.positions
            .get(&(kind, meta.name.as_str()))
            .copied()
            .unwrap_or(usize::MAX)
    }

    /// The position of a table.
    pub fn of_table(&self, program: &Objects, table: TableId) -> usize {
        self.position(ObjectKind::Table, &program.table(table).meta)
    }

    /// Objects of one kind, sorted by position.
    pub fn sorted<'o, T>(
        &self,
        kind: ObjectKind,
        objects: impl IntoIterator<Item = &'o T>,
        meta: impl Fn(&T) -> &Meta,
    ) -> Vec<&'o T> {
        let mut objects: Vec<&T> = objects.into_iter().collect();
        objects.sort_by_key(|object| self.position(kind, meta(object)));
        objects
    }
}
