//! `$PORT_METADATA`: what the ingress parser reads for each port (`port_metadata_unpack`).

use alfirk_bf_rt_json::{FieldContent, Table};
use alfirk_bmv2::Switch;
use alfirk_p4runtime::bfrt_proto::{TableData, TableKey};

use crate::error::{core, exists, invalid, not_found, Outcome};
use crate::pre::Entry;
use crate::values::{self, bits_of, bytes_of, exact_key, joined_values, Values};

/// Bits of the metadata of Tofino's ports. Fields of fewer bits are in the most significant ones.
const BITS: u32 = 64;

/// The table, and the id and width in bits of each of its data fields.
pub(crate) struct PortMetadata<'p> {
    table: &'p Table,
    fields: Vec<(u32, u32)>,
}

impl<'p> PortMetadata<'p> {
    pub fn new(table: &'p Table) -> PortMetadata<'p> {
        let fields = table
            .data_fields()
            .filter_map(|(_, field)| match &field.content {
                FieldContent::Type(ty) => Some((field.id, ty.bits()?)),
                FieldContent::Container(_) => None,
            });
        PortMetadata {
            fields: fields.collect(),
            table,
        }
    }

    fn port(&self, key: &TableKey) -> Outcome<u32> {
        let field = self.table.key.first().map_or(1, |field| field.id);
        let port = values::key_number(self.table, key, field)?;
        u32::try_from(port).map_err(|_| invalid("the port number is too large"))
    }

    fn absent(&self, port: u32) -> alfirk_p4runtime::Status {
        let name = &self.table.name;
        not_found(format!("table {name}: port {port} has no entry"))
    }

    /// Sets the metadata of a port. Fields that the request does not have keep their values.
    pub fn write(
        &self,
        switch: &mut Switch,
        key: &TableKey,
        data: &TableData,
        is_insert: bool,
    ) -> Outcome {
        let port = self.port(key)?;
        let values = Values::new(self.table, &[], data)?;
        let old = switch.port_metadata().map_err(core)?.get(&port);
        let mut parts = match (old, is_insert) {
            (Some(_), true) => {
                let name = &self.table.name;
                return Err(exists(format!("table {name}: port {port} has an entry")));
            }
            (None, false) => return Err(self.absent(port)),
            (Some(old), false) => self.parts(old),
            (None, true) => self.parts(&[]),
        };
        for ((id, _), part) in self.fields.iter().zip(&mut parts) {
            if let Some(bytes) = values.bytes(*id) {
                part.1 = bytes.to_vec();
            }
        }
        let used: u32 = parts.iter().map(|(bits, _)| bits).sum();
        let padding = BITS.max(used.next_multiple_of(8)) - used;
        parts.push((padding, Vec::new()));
        switch
            .set_port_metadata(port, Some(joined_values(&parts)))
            .map_err(core)
    }

    /// Removes the metadata of a port, which is zero then; `None`: of all ports.
    pub fn delete(&self, switch: &mut Switch, key: Option<&TableKey>) -> Outcome {
        let known = switch.port_metadata().map_err(core)?;
        let ports = match key {
            Some(key) => {
                let port = self.port(key)?;
                if !known.contains_key(&port) {
                    return Err(self.absent(port));
                }
                vec![port]
            }
            None => known.keys().copied().collect(),
        };
        for port in ports {
            switch.set_port_metadata(port, None).map_err(core)?;
        }
        Ok(())
    }

    /// The entry of a port; `None`: those of all ports, in the order of their numbers.
    pub fn read(&self, switch: &Switch, key: Option<&TableKey>) -> Outcome<Vec<Entry>> {
        let known = switch.port_metadata().map_err(core)?;
        let wanted = key.map(|key| self.port(key)).transpose()?;
        if let Some(port) = wanted.filter(|port| !known.contains_key(port)) {
            return Err(self.absent(port));
        }
        let entries = known.iter();
        let entries = entries.filter(|(port, _)| wanted.is_none_or(|wanted| wanted == **port));
        Ok(entries
            .map(|(port, bytes)| self.entry(*port, bytes))
            .collect())
    }

    fn entry(&self, port: u32, bytes: &[u8]) -> Entry {
        let field = self.table.key.first();
        let (id, bits) = field.map_or((1, 9), |field| (field.id, field.ty.bits().unwrap_or(9)));
        let parts = self.fields.iter().zip(self.parts(bytes));
        let fields = parts.map(|((id, _), (_, part))| values::stream(*id, part));
        let data = TableData {
            action_id: 0,
            fields: fields.collect(),
        };
        (exact_key(id, bytes_of(u64::from(port), bits)), data)
    }

    /// The width in bits and the value of each field in the metadata of a port.
    fn parts(&self, bytes: &[u8]) -> Vec<(u32, Vec<u8>)> {
        let mut end = bytes.len() as u32 * 8;
        let fields = self.fields.iter().map(|(_, bits)| {
            end = end.saturating_sub(*bits);
            (*bits, bits_of(bytes, end, *bits))
        });
        fields.collect()
    }
}
