//! Thrift requests for register arrays.

use alfirk_thrift::standard::*;

use crate::thrift::{
    codes,
    runtime::{Ports, Runtime},
};

/// Converts the value of a register cell to 64 bits with sign. A larger value saturates, as in BMv2.
pub(in super::super) fn register_value(bytes: &[u8]) -> i64 {
    let mut value: u64 = 0;
    for &byte in bytes {
        if value >> 56 != 0 {
            return i64::MAX;
        }
        value = value << 8 | u64::from(byte);
    }
    i64::try_from(value).unwrap_or(i64::MAX)
}

impl<P: Ports> RegisterCalls for Runtime<'_, P> {
    fn bm_register_read(
        &mut self,
        _: i32,
        register: String,
        index: i32,
    ) -> Result<i64, InvalidRegisterOperation> {
        let value = self.switch().read_register(&register, index as u64);
        let value = value.map_err(codes::register)?;
        Ok(register_value(&value))
    }

    fn bm_register_read_all(
        &mut self,
        _: i32,
        register: String,
    ) -> Result<Vec<i64>, InvalidRegisterOperation> {
        let switch = self.switch();
        let size = switch.register_size(&register).map_err(codes::register)?;
        let cells = (0..size as u64).map(|index| {
            let value = switch.read_register(&register, index);
            value.map(|value| register_value(&value))
        });
        cells.collect::<Result<_, _>>().map_err(codes::register)
    }

    fn bm_register_write(
        &mut self,
        _: i32,
        register: String,
        index: i32,
        value: i64,
    ) -> Result<(), InvalidRegisterOperation> {
        let index = index as u64;
        let range = index..index.saturating_add(1);
        let filled = self.switch_mut().fill_register(&register, range, value);
        filled.map_err(codes::register)
    }

    fn bm_register_write_range(
        &mut self,
        _: i32,
        register: String,
        start: i32,
        end: i32,
        value: i64,
    ) -> Result<(), InvalidRegisterOperation> {
        let range = start as u64..end as u64;
        let filled = self.switch_mut().fill_register(&register, range, value);
        filled.map_err(codes::register)
    }

    fn bm_register_reset(
        &mut self,
        _: i32,
        register: String,
    ) -> Result<(), InvalidRegisterOperation> {
        let cleared = self.switch_mut().clear_register(&register);
        cleared.map_err(codes::register)
    }
}
