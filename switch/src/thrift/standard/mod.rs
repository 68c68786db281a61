//! The service "standard".

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

pub(super) use self::{entries::shown, registers::register_value};
use super::codes;
use alfirk_bmv2::{EntryHandle, Switch, TableId, TableInfo};

type TableResult<T> = Result<T, InvalidTableOperation>;

/// A table that a request names.
pub struct Named {
    pub(super) id: TableId,
    pub(super) info: TableInfo,
}

pub(super) fn named(switch: &Switch, table: &str) -> TableResult<Named> {
    let id = switch.table(table).map_err(codes::table)?;
    let info = switch.table_info(id).map_err(codes::table)?;
    Ok(Named { id, info })
}

/// The same, when entries are to be what `kinds` says.
fn of_kind(switch: &Switch, table: &str, kinds: &[TableType]) -> TableResult<Named> {
    let table = named(switch, table)?;
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

/// A number that clients have as a signed one.
fn id(number: i32) -> u32 {
    number as u32
}
