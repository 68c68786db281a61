//! Thrift requests for parser value sets.

use alfirk_thrift::standard::*;

use crate::thrift::{
    codes,
    runtime::{Ports, Runtime},
};

impl<P: Ports> Runtime<'_, P> {
    /// Changes the members of a value set by calling `change`. Rejects values that are wider than the set's key; BMv2
    /// accepts them, but they never match.
    pub(super) fn change_value_set(
        &mut self,
        set: &str,
        change: impl FnOnce(&mut Vec<Vec<u8>>),
    ) -> Result<(), InvalidParseVSetOperation> {
        let mut switch = self.switch_mut();
        let mut members = switch.value_set(set).map_err(codes::value_set)?;
        change(&mut members);
        let changed = switch.set_value_set(set, &members);
        changed.map_err(codes::value_set)?;
        Ok(())
    }
}

impl<P: Ports> ValueSetCalls for Runtime<'_, P> {
    fn bm_parse_vset_add(
        &mut self,
        _: i32,
        set: String,
        value: Vec<u8>,
    ) -> Result<(), InvalidParseVSetOperation> {
        self.change_value_set(&set, |members| {
            if !members.contains(&value) {
                members.push(value);
            }
        })
    }

    fn bm_parse_vset_remove(
        &mut self,
        _: i32,
        set: String,
        value: Vec<u8>,
    ) -> Result<(), InvalidParseVSetOperation> {
        self.change_value_set(&set, |members| members.retain(|member| *member != value))
    }

    fn bm_parse_vset_get(
        &mut self,
        _: i32,
        set: String,
    ) -> Result<Vec<Vec<u8>>, InvalidParseVSetOperation> {
        self.switch().value_set(&set).map_err(codes::value_set)
    }

    fn bm_parse_vset_clear(
        &mut self,
        _: i32,
        set: String,
    ) -> Result<(), InvalidParseVSetOperation> {
        self.change_value_set(&set, Vec::clear)
    }
}
