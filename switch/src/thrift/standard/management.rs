//! Thrift requests about the switch as a whole: configuration, state, and parameters of hashes.

use std::sync::Arc;

use alfirk_thrift::standard::*;

use crate::thrift::{
    config,
    runtime::{Ports, Runtime},
    serialize,
};
use alfirk_bmv2::{CrcParams, ManageError};

impl<P: Ports> Runtime<'_, P> {
    /// Returns the JSON text of the program, from Thrift or P4Runtime.
    pub(in super::super) fn config_text(&self) -> Arc<str> {
        let from_p4runtime = self.server.device_config();
        let text = from_p4runtime.map(|text| Arc::from(&*text));
        text.or_else(|| self.config.clone())
            .unwrap_or_else(|| Arc::from(""))
    }

    pub(super) fn set_crc(
        &mut self,
        name: &str,
        params: CrcParams,
    ) -> Result<(), InvalidCrcOperation> {
        let result = self.switch_mut().set_crc(name, params);
        result.map_err(|error| {
            let code = match error {
                ManageError::NotCustom { .. } => CrcErrorCode::WrongTypeCalculation,
                _ => CrcErrorCode::InvalidCalculationName,
            };
            code.into()
        })
    }
}

impl<P: Ports> ManagementCalls for Runtime<'_, P> {
    fn bm_mgmt_get_info(&mut self) -> BmConfig {
        BmConfig {
            device_id: self.server.switch().options().device_id as i64,
            thrift_port: self.settings.address.port().into(),
            ..BmConfig::default()
        }
    }

    fn bm_set_crc16_custom_parameters(
        &mut self,
        _: i32,
        calculation: String,
        config: BmCrc16Config,
    ) -> Result<(), InvalidCrcOperation> {
        let word = |value: i16| u64::from(value as u16);
        let params = CrcParams {
            bits: 16,
            polynomial: word(config.polynomial),
            initial: word(config.initial_remainder),
            final_xor: word(config.final_xor_value),
            reflect_data: config.data_reflected,
            reflect_remainder: config.remainder_reflected,
        };
        self.set_crc(&calculation, params)
    }

    fn bm_set_crc32_custom_parameters(
        &mut self,
        _: i32,
        calculation: String,
        config: BmCrc32Config,
    ) -> Result<(), InvalidCrcOperation> {
        let word = |value: i32| u64::from(value as u32);
        let params = CrcParams {
            bits: 32,
            polynomial: word(config.polynomial),
            initial: word(config.initial_remainder),
            final_xor: word(config.final_xor_value),
            reflect_data: config.data_reflected,
            reflect_remainder: config.remainder_reflected,
        };
        self.set_crc(&calculation, params)
    }

    fn bm_set_toeplitz_hash_key(
        &mut self,
        _: i32,
        calculation: String,
        _key: Vec<u8>,
    ) -> Result<(), InvalidToeplitzHashOperation> {
        // No supported architecture has this hash, so no calculation has this type.
        Err(match self.switch().has_calculation(&calculation) {
            true => ToeplitzHashErrorCode::WrongTypeCalculation,
            false => ToeplitzHashErrorCode::InvalidCalculationName,
        }
        .into())
    }

    fn bm_reset_state(&mut self) {
        // Without a program there is nothing to reset.
        let _ = self.switch_mut().reset_state();
    }

    fn bm_get_config(&mut self) -> String {
        self.config_text().to_string()
    }

    fn bm_get_config_md5(&mut self) -> Vec<u8> {
        config::md5(&self.config_text())
    }

    fn bm_get_id_from_name(
        &mut self,
        _: i32,
        kind: BmResourceType,
        name: String,
    ) -> Result<i32, InvalidIdLookup> {
        config::id_of(&self.config_text(), kind, &name)
    }

    fn bm_serialize_state(&mut self) -> String {
        serialize::state(self)
    }
}
