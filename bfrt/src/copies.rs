//! The driver's copies of counters and register cells.
//!
//! Packets change counters and registers in the memory of the chip. A read that is not "from hardware" returns the
//! driver's copy, which is as old as the last write or synchronisation.

use std::collections::BTreeMap;

use alfirk_bf_rt_json::{ids, Table};
use alfirk_p4runtime::bfrt_proto::{DataField, TableData};

/// Copies of the cells of tables, by table id, and handle of the entry or index of the cell.
#[derive(Clone, Debug, Default)]
pub(crate) struct Copies(BTreeMap<u32, BTreeMap<u64, Vec<DataField>>>);

/// Whether packets change the field.
fn is_volatile(table: &Table, id: u32) -> bool {
    let is_cell = |field: &alfirk_bf_rt_json::DataField| {
        let mut notes = field.annotations.iter();
        notes.any(|note| note.name == "$bfrt_field_class")
    };
    let is_counter = id == ids::COUNTER_BYTES || id == ids::COUNTER_PKTS;
    is_counter
        || table
            .data_fields()
            .any(|(_, field)| field.id == id && is_cell(field))
}

/// Whether packets change data of the table.
pub(crate) fn has_volatile_fields(table: &Table) -> bool {
    let mut fields = table.data_fields();
    fields.any(|(_, field)| is_volatile(table, field.id))
}

/// Whether data of a request has a field that packets change.
pub(crate) fn has_volatile(table: &Table, data: &TableData) -> bool {
    let mut fields = data.fields.iter();
    fields.any(|field| is_volatile(table, field.field_id))
}

impl Copies {
    /// Copies a cell.
    pub fn update(&mut self, table: &Table, cell: u64, data: &TableData) {
        let fields = data.fields.iter();
        let fields = fields.filter(|field| is_volatile(table, field.field_id));
        let fields: Vec<DataField> = fields.cloned().collect();
        if !fields.is_empty() {
            let cells = self.0.entry(table.id).or_default();
            cells.insert(cell, fields);
        }
    }

    /// Removes the copy of a cell, which has its initial value then.
    pub fn remove(&mut self, table: u32, cell: u64) {
        if let Some(cells) = self.0.get_mut(&table) {
            cells.remove(&cell);
        }
    }

    /// Removes the copies of all cells of a table.
    pub fn clear(&mut self, table: u32) {
        self.0.remove(&table);
    }

    /// Replaces what packets change in the data of a cell by the copy. `initial`: the fields of a cell that was neither
    /// written nor copied.
    pub fn apply(&self, table: &Table, cell: u64, data: &mut TableData, initial: &[DataField]) {
        let copied = self.0.get(&table.id).and_then(|cells| cells.get(&cell));
        let copied = copied.map_or(initial, |fields| fields);
        for field in &mut data.fields {
            let id = field.field_id;
            if let Some(copy) = copied.iter().find(|copy| copy.field_id == id) {
                if is_volatile(table, id) {
                    field.clone_from(copy);
                }
            }
        }
    }
}
