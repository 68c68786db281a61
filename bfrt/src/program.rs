//! A loaded program with its schema.

use std::collections::BTreeMap;
use std::ops::Deref;
use std::sync::Arc;

use alfirk_bf_rt_json::{Schema, Table, TableType};

use crate::error::{not_found, Outcome};

/// A schema whose tables are found by their ids.
#[derive(Debug)]
pub(crate) struct IndexedSchema {
    schema: Schema,
    /// Positions of the tables by their ids.
    positions: BTreeMap<u32, usize>,
}

impl IndexedSchema {
    pub fn new(schema: Schema) -> IndexedSchema {
        let tables = schema.tables.iter().zip(0..);
        IndexedSchema {
            positions: tables.map(|(table, at)| (table.id, at)).collect(),
            schema,
        }
    }

    pub fn table(&self, id: u32) -> Option<&Table> {
        self.schema.tables.get(*self.positions.get(&id)?)
    }
}

impl Deref for IndexedSchema {
    type Target = Schema;

    fn deref(&self) -> &Schema {
        &self.schema
    }
}

/// The table with this id, of the program or of the device.
pub(crate) fn table_of<'s>(
    program: &'s Program,
    device: &'s IndexedSchema,
    id: u32,
) -> Outcome<&'s Table> {
    let table = program.table(id).or_else(|| device.table(id));
    table.ok_or_else(|| not_found(format!("no table has the id {id}")))
}

/// A program, its schema, and the names by which the switch identifies its objects.
#[derive(Debug)]
pub struct Program {
    /// Name by which clients bind to the program.
    pub name: String,
    /// Text of the schema, which clients request.
    pub(crate) text: Vec<u8>,
    /// The program as BMv2 JSON, if it is known.
    pub(crate) binary: Vec<u8>,
    pub(crate) schema: IndexedSchema,
}

impl Program {
    /// Creates a program from its schema (`bf-rt.json`). `binary` is its BMv2 JSON.
    ///
    /// # Errors
    /// The text is not a schema; holds the message.
    pub fn new(name: String, text: Vec<u8>, binary: Vec<u8>) -> Result<Arc<Program>, String> {
        let schema = Schema::parse(&text).map_err(|error| error.to_string())?;
        Ok(Arc::new(Program {
            name,
            text,
            binary,
            schema: IndexedSchema::new(schema),
        }))
    }

    pub(crate) fn table(&self, id: u32) -> Option<&Table> {
        self.schema.table(id)
    }

    /// Name of the action profile of the switch that holds the members of `table`, a profile or a selector.
    ///
    /// The switch has a profile and its selector as one object, with the name of the selector.
    pub(crate) fn profile_name<'p>(&'p self, table: &'p Table) -> &'p str {
        let selector = match table.table_type {
            TableType::Selector => Some(table),
            _ => self.schema.tables.iter().find(|other| {
                other.table_type == TableType::Selector && other.depends_on.contains(&table.id)
            }),
        };
        let Some(selector) = selector else {
            return own_name(&table.name);
        };
        // A selector that is declared without a profile has a suffix.
        let profile = selector.depends_on.iter().find_map(|id| self.table(*id));
        match profile {
            Some(profile) if format!("{}_sel", profile.name) == selector.name => {
                own_name(&profile.name)
            }
            _ => own_name(&selector.name),
        }
    }
}

/// Name of an object of the program without the name of its pipe, as the switch has it.
pub(crate) fn own_name(name: &str) -> &str {
    name.split_once('.').map_or(name, |(_, own)| own)
}
