//! The Thrift service "standard": tables, action profiles, counters, meters, registers, ports and programs.

mod counters;
mod direct;
mod entries;
mod indirect;
mod learning;
mod management;
mod meters;
mod ports;
mod profiles;
mod registers;
mod swap;
mod tables;
mod value_sets;

use alfirk_bmv2_json::TableType;
use alfirk_thrift::standard::{InvalidTableOperation, TableOperationErrorCode};

pub(super) use self::{entries::entry_to_wire, registers::register_value};
use super::codes;
use alfirk_bmv2::{EntryHandle, Switch, TableId, TableInfo};

type TableResult<T> = Result<T, InvalidTableOperation>;

/// Id of a table, with the table's description.
pub struct TableRef {
    pub(super) id: TableId,
    pub(super) info: TableInfo,
}

pub(super) fn find_table(switch: &Switch, table: &str) -> TableResult<TableRef> {
    let id = switch.table(table).map_err(codes::table)?;
    let info = switch.table_info(id).map_err(codes::table)?;
    Ok(TableRef { id, info })
}

/// Finds a table by name; fails if its type is not one of `kinds`.
fn of_kind(switch: &Switch, table: &str, kinds: &[TableType]) -> TableResult<TableRef> {
    let table = find_table(switch, table)?;
    match kinds.contains(&table.info.kind) {
        true => Ok(table),
        false => Err(TableOperationErrorCode::WrongTableType.into()),
    }
}

const DIRECT: &[TableType] = &[TableType::Simple];
const INDIRECT: &[TableType] = &[TableType::Indirect, TableType::IndirectWs];
const WITH_SELECTOR: &[TableType] = &[TableType::IndirectWs];

fn handle(entry: i32) -> EntryHandle {
    EntryHandle(entry as u32)
}

/// Converts an id, which is a signed number in Thrift.
fn id(number: i32) -> u32 {
    number as u32
}
