//! Thrift requests for counter arrays.

use alfirk_thrift::standard::*;

use crate::thrift::{
    codes,
    runtime::{Ports, Runtime},
};
use alfirk_bmv2::Counter;

pub(super) fn counter_value(counter: Counter) -> BmCounterValue {
    BmCounterValue {
        bytes: counter.bytes as i64,
        packets: counter.packets as i64,
    }
}

pub(super) fn counter(value: &BmCounterValue) -> Counter {
    Counter {
        bytes: value.bytes as u64,
        packets: value.packets as u64,
    }
}

impl<P: Ports> CounterCalls for Runtime<'_, P> {
    fn bm_counter_read(
        &mut self,
        _: i32,
        counter: String,
        index: i32,
    ) -> Result<BmCounterValue, InvalidCounterOperation> {
        let value = self.switch().read_counter(&counter, index as u64);
        value.map(counter_value).map_err(codes::counter)
    }

    fn bm_counter_reset_all(
        &mut self,
        _: i32,
        counter: String,
    ) -> Result<(), InvalidCounterOperation> {
        let cleared = self.switch_mut().clear_counter(&counter);
        cleared.map_err(codes::counter)
    }

    fn bm_counter_write(
        &mut self,
        _: i32,
        name: String,
        index: i32,
        value: BmCounterValue,
    ) -> Result<(), InvalidCounterOperation> {
        let mut switch = self.switch_mut();
        let written = switch.write_counter(&name, index as u64, counter(&value));
        written.map_err(codes::counter)
    }
}
