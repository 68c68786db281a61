//! Thrift requests for meter arrays.

use alfirk_thrift::standard::*;

use crate::thrift::{
    codes,
    runtime::{Ports, Runtime},
};
use alfirk_bmv2::MeterConfig;

/// Converts the committed rate and the peak rate of a request to a meter configuration. The error's code identifies the
/// invalid part.
pub(super) fn meter_config(
    rates: &[BmMeterRateConfig],
) -> Result<MeterConfig, MeterOperationErrorCode> {
    let [committed, peak] = rates else {
        return Err(MeterOperationErrorCode::BadRatesList);
    };
    // The switch's rates are whole numbers per second.
    let per_second = |rate: &BmMeterRateConfig| {
        let rate = rate.units_per_micros * 1e6;
        (rate >= 0.0 && rate.is_finite()).then(|| rate.round() as u64)
    };
    let burst = |rate: &BmMeterRateConfig| u64::try_from(rate.burst_size).ok();
    let (Some(cir), Some(pir)) = (per_second(committed), per_second(peak)) else {
        return Err(MeterOperationErrorCode::InvalidInfoRateValue);
    };
    let (Some(cburst), Some(pburst)) = (burst(committed), burst(peak)) else {
        return Err(MeterOperationErrorCode::InvalidBurstSizeValue);
    };
    Ok(MeterConfig {
        cir,
        cburst,
        pir,
        pburst,
    })
}

/// Converts the rates of a meter to Thrift's form, which is an empty list for a meter without rates, as in BMv2.
pub(super) fn meter_rates(config: Option<MeterConfig>) -> Vec<BmMeterRateConfig> {
    let rate = |per_second: u64, burst: u64| BmMeterRateConfig {
        units_per_micros: per_second as f64 / 1e6,
        burst_size: i32::try_from(burst).unwrap_or(i32::MAX),
    };
    let rates = config.map(|c| [rate(c.cir, c.cburst), rate(c.pir, c.pburst)]);
    rates.into_iter().flatten().collect()
}

impl<P: Ports> Runtime<'_, P> {
    /// Converts the rates of a request for a meter array. First checks that the array exists.
    pub(super) fn array_rates(
        &self,
        meter: &str,
        rates: &[BmMeterRateConfig],
    ) -> Result<MeterConfig, InvalidMeterOperation> {
        let known = self.switch().meters().iter().any(|m| m.name == meter);
        if !known {
            return Err(MeterOperationErrorCode::InvalidMeterName.into());
        }
        meter_config(rates).map_err(Into::into)
    }
}

impl<P: Ports> MeterCalls for Runtime<'_, P> {
    fn bm_meter_array_set_rates(
        &mut self,
        _: i32,
        meter: String,
        rates: Vec<BmMeterRateConfig>,
    ) -> Result<(), InvalidMeterOperation> {
        let now = self.now;
        let config = self.array_rates(&meter, &rates)?;
        let filled = self.switch_mut().fill_meter(&meter, Some(config), now);
        filled.map_err(codes::meter)
    }

    fn bm_meter_set_rates(
        &mut self,
        _: i32,
        meter: String,
        index: i32,
        rates: Vec<BmMeterRateConfig>,
    ) -> Result<(), InvalidMeterOperation> {
        let now = self.now;
        let config = self.array_rates(&meter, &rates)?;
        let mut switch = self.switch_mut();
        let written = switch.write_meter(&meter, index as u64, Some(config), now);
        written.map_err(codes::meter)
    }

    fn bm_meter_get_rates(
        &mut self,
        _: i32,
        meter: String,
        index: i32,
    ) -> Result<Vec<BmMeterRateConfig>, InvalidMeterOperation> {
        let config = self.switch().read_meter(&meter, index as u64);
        config.map(meter_rates).map_err(codes::meter)
    }
}
