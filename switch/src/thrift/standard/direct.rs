//! Thrift requests for direct counters and meters.

use alfirk_thrift::standard::*;

use super::{
    counters::{counter, counter_value},
    find_table, handle,
    meters::{meter_config, meter_rates},
    TableResult,
};
use crate::thrift::{
    codes,
    runtime::{Ports, Runtime},
};

impl<P: Ports> DirectResourceCalls for Runtime<'_, P> {
    fn bm_mt_read_counter(
        &mut self,
        _: i32,
        table: String,
        entry: i32,
    ) -> TableResult<BmCounterValue> {
        let table = find_table(self.switch(), &table)?;
        if !table.info.direct_counter {
            return Err(TableOperationErrorCode::CountersDisabled.into());
        }
        let entry = self.switch().entry(table.id, handle(entry));
        let counter = entry.map_err(codes::table)?.counter;
        Ok(counter_value(counter.unwrap_or_default()))
    }

    fn bm_mt_reset_counters(&mut self, _: i32, table: String) -> TableResult<()> {
        let table = find_table(self.switch(), &table)?;
        let cleared = self.switch_mut().clear_direct_counters(table.id);
        cleared.map_err(codes::table)
    }

    fn bm_mt_write_counter(
        &mut self,
        _: i32,
        table: String,
        entry: i32,
        value: BmCounterValue,
    ) -> TableResult<()> {
        let table = find_table(self.switch(), &table)?;
        let mut switch = self.switch_mut();
        let set = switch.set_direct_counter(table.id, handle(entry), counter(&value));
        set.map_err(codes::table)
    }

    fn bm_mt_set_meter_rates(
        &mut self,
        _: i32,
        table: String,
        entry: i32,
        rates: Vec<BmMeterRateConfig>,
    ) -> TableResult<()> {
        let now = self.now;
        let table = find_table(self.switch(), &table)?;
        if !table.info.direct_meter {
            return Err(TableOperationErrorCode::MetersDisabled.into());
        }
        let config = meter_config(&rates).map_err(|_| TableOperationErrorCode::Error)?;
        let mut switch = self.switch_mut();
        let set = switch.set_direct_meter(table.id, handle(entry), Some(config), now);
        set.map_err(codes::table)
    }

    fn bm_mt_get_meter_rates(
        &mut self,
        _: i32,
        table: String,
        entry: i32,
    ) -> TableResult<Vec<BmMeterRateConfig>> {
        let table = find_table(self.switch(), &table)?;
        if !table.info.direct_meter {
            return Err(TableOperationErrorCode::MetersDisabled.into());
        }
        let entry = self.switch().entry(table.id, handle(entry));
        Ok(meter_rates(entry.map_err(codes::table)?.meter))
    }
}
