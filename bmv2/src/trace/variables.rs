//! The variables of a program: where a packet's words hold its fields and locals.

use super::Source;
use crate::exec::words::words_of;
use crate::program::{source, LoadedProgram, Note, SCALARS, USER_METADATA};
use std::ops::Range;

/// A field of a header or of metadata, a local variable, or a parameter of an action.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Variable {
    /// Name of the header, of the metadata structure, or of the action; empty for local variables.
    pub owner: String,
    /// Name of the field, variable or parameter.
    pub name: String,
    /// Kind of the variable.
    pub kind: VariableKind,
    /// Index of the first of the packet's words that hold the value; the words are ordered from the least significant on.
    pub slot: u16,
    /// Width in bits. The maximum width for a varbit.
    pub bits: u32,
    /// Whether the value is signed, in two's complement.
    pub signed: bool,
}

/// Kind of a variable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VariableKind {
    /// The validity bit of a header. Its fields follow.
    Validity,
    /// A field of a header.
    Field,
    /// A field of the user-defined metadata.
    Metadata,
    /// A field of metadata that the architecture defines.
    Intrinsic,
    /// A local variable.
    Local,
    /// A parameter of the action with this index.
    Parameter(u16),
}

impl Variable {
    /// Returns the indices of the packet's words that hold the value.
    pub fn words(&self) -> Range<usize> {
        let start = usize::from(self.slot);
        start..start + words_of(self.bits)
    }
}

impl LoadedProgram {
    /// Returns all variables of the program: headers with their fields, metadata, locals and parameters of actions. The names
    /// are those of traces.
    pub fn variables(&self) -> Vec<Variable> {
        let mut all = Vec::new();
        for header in &self.layout.headers {
            if !header.metadata {
                all.push(Variable {
                    owner: header.name.clone(),
                    name: alfirk_bmv2_json::FieldRef::VALID.to_owned(),
                    kind: VariableKind::Validity,
                    slot: header.valid,
                    bits: 1,
                    signed: false,
                });
            }
            for field in &header.fields {
                let full = self.source_name(&header.name, &field.name);
                let is_scalar = header.name == SCALARS;
                let kind = match (header.metadata, is_scalar) {
                    (false, _) => VariableKind::Field,
                    (true, true) if field.name.starts_with(USER_METADATA) => VariableKind::Metadata,
                    (true, true) => VariableKind::Local,
                    (true, false) => VariableKind::Intrinsic,
                };
                let (owner, name) = match kind {
                    VariableKind::Metadata => full.split_once('.').unwrap_or(("", &full)),
                    VariableKind::Local => ("", &*full),
                    _ => (&*header.name, &*field.name),
                };
                all.push(Variable {
                    owner: owner.to_owned(),
                    name: name.to_owned(),
                    kind,
                    slot: field.slot,
                    bits: field.bits,
                    signed: field.signed,
                });
            }
        }
        for (index, action) in (0..).zip(&self.actions) {
            for param in &action.params {
                all.push(Variable {
                    owner: action.name.clone(),
                    name: param.name.clone(),
                    kind: VariableKind::Parameter(index),
                    slot: self.layout.params + param.offset as u16,
                    bits: param.bits,
                    signed: false,
                });
            }
        }
        all
    }

    /// Returns the number of words of a packet.
    pub fn word_count(&self) -> usize {
        self.layout.initial.len()
    }

    /// Returns the name of the action with this index; `None` if there is none.
    pub fn action_name(&self, action: u16) -> Option<&str> {
        let action = self.actions.get(usize::from(action))?;
        Some(&action.name)
    }

    /// Returns the name of the table with this index; `None` if there is none.
    pub fn table_name(&self, table: u16) -> Option<&str> {
        let table = self.tables.get(usize::from(table))?;
        Some(&table.name)
    }

    /// Returns the declaration of the table with this index in the P4 source; `None` if the program does not name it.
    pub fn table_source(&self, table: u16) -> Option<&Source> {
        self.tables.get(usize::from(table))?.source.as_ref()
    }

    /// Returns the positions of the statements and conditions in the P4 source, in no particular order. A program that was
    /// not loaded with notes ([`LoadedProgram::with_notes`]) has none.
    pub fn statement_positions(&self) -> Vec<Source> {
        let of_note = |note: &Note| match note {
            Note::Primitive(info) | Note::Part(info) | Note::Test(info) => {
                info.as_ref().map(source)
            }
            _ => None,
        };
        self.notes.iter().filter_map(of_note).collect()
    }
}
