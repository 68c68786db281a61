//! Rates and burst sizes of meters.

use alfirk_bf_rt_json::{ids, Table};
use alfirk_bmv2::MeterConfig;
use alfirk_p4runtime::bfrt_proto::DataField;

use crate::device::Generation;
use crate::values::{self, Values};

/// Bytes per second of a kilobit per second, and bytes of a kilobit.
const BYTES_PER_KILOBIT: u64 = 125;
/// A rate or burst size that no traffic reaches, in bytes or packets; clients write and read it as 2^64 - 1.
const UNLIMITED: u64 = 1 << 50;

/// Rates and bursts of a meter in the units of bytes, with the factor to bytes, and in packets.
const RATES: [[(u32, u64); 2]; 4] = [
    [
        (ids::METER_CIR_KBPS, BYTES_PER_KILOBIT),
        (ids::METER_CIR_PPS, 1),
    ],
    [
        (ids::METER_PIR_KBPS, BYTES_PER_KILOBIT),
        (ids::METER_PIR_PPS, 1),
    ],
    [
        (ids::METER_CBS_KBITS, BYTES_PER_KILOBIT),
        (ids::METER_CBS_PKTS, 1),
    ],
    [
        (ids::METER_PBS_KBITS, BYTES_PER_KILOBIT),
        (ids::METER_PBS_PKTS, 1),
    ],
];

/// Whether a request sets a rate or a burst of a meter.
pub(crate) fn has_rates(values: &Values) -> bool {
    RATES.iter().flatten().any(|(id, _)| values.has(*id))
}

/// The configuration of a meter: the old one with the values of the request. Without a rate, all packets are green.
pub(crate) fn meter_config(values: &Values, old: Option<MeterConfig>) -> Option<MeterConfig> {
    let set = RATES.map(|units| {
        let mut given = units.iter().filter_map(|(id, factor)| {
            let value = values.number(*id)?;
            Some(value.saturating_mul(*factor).min(UNLIMITED))
        });
        given.next()
    });
    let [cir, pir, cburst, pburst] = set;
    let old = old.unwrap_or(MeterConfig {
        cir: UNLIMITED,
        cburst: UNLIMITED,
        pir: UNLIMITED,
        pburst: UNLIMITED,
    });
    let new = MeterConfig {
        cir: cir.unwrap_or(old.cir),
        pir: pir.unwrap_or(old.pir),
        cburst: cburst.unwrap_or(old.cburst),
        pburst: pburst.unwrap_or(old.pburst),
    };
    (new.cir != UNLIMITED || new.pir != UNLIMITED).then_some(new)
}

/// Rate in kbit/s and burst size in kbit of a meter of the chip without a configuration: the greatest that it can represent. It depends on
/// the chip's clock.
fn greatest_rate(chip: Generation) -> (u64, u64) {
    let rate = match chip {
        Generation::One => 5_195_848_221,
        Generation::Two => 4_087_999_890,
    };
    (rate, 4_380_866_642)
}

/// The data fields of a meter, in the units of the table.
pub(crate) fn meter_fields(
    table: &Table,
    config: Option<MeterConfig>,
    chip: Generation,
) -> Vec<DataField> {
    let values = config.map(|config| [config.cir, config.pir, config.cburst, config.pburst]);
    let values = values.unwrap_or([UNLIMITED; 4]);
    let (rate, burst) = greatest_rate(chip);
    let mut fields = Vec::new();
    for ((units, value), greatest) in RATES.iter().zip(values).zip([rate, rate, burst, burst]) {
        for (id, factor) in units {
            if table.has_data_field(*id) {
                let value = match value {
                    UNLIMITED.. if *factor == BYTES_PER_KILOBIT => greatest,
                    UNLIMITED.. => u64::MAX,
                    value => value / factor,
                };
                fields.push(values::number_field(*id, value, 64));
            }
        }
    }
    fields
}
