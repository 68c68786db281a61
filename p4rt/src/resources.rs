//! Counter values and meter rates, converted between messages and the switch core (P4Runtime § 9.3, § 9.4).

use alfirk_p4runtime::p4::{
    config::v1::meter_spec,
    v1::{CounterData, MeterConfig as MeterMessage, MeterCounterData},
};

use super::error::{invalid, unimplemented, UpdateResult};
use alfirk_bmv2::{Counter, MeterConfig};

pub fn show_counter(counter: Counter) -> CounterData {
    CounterData {
        byte_count: i64::try_from(counter.bytes).unwrap_or(i64::MAX),
        packet_count: i64::try_from(counter.packets).unwrap_or(i64::MAX),
    }
}

pub fn parse_counter(what: &str, data: &CounterData) -> UpdateResult<Counter> {
    let count = |value: i64| {
        u64::try_from(value).map_err(|_| invalid(format!("{what}: a count is negative")))
    };
    Ok(Counter {
        packets: count(data.packet_count)?,
        bytes: count(data.byte_count)?,
    })
}

pub fn show_meter(config: MeterConfig) -> MeterMessage {
    let number = |value: u64| i64::try_from(value).unwrap_or(i64::MAX);
    MeterMessage {
        cir: number(config.cir),
        cburst: number(config.cburst),
        pir: number(config.pir),
        pburst: number(config.pburst),
        eburst: 0,
    }
}

/// Checks a meter's rates and burst sizes for its type (§ 9.4), and converts them to the switch core's form.
pub fn parse_meter(
    what: &str,
    kind: meter_spec::Type,
    config: &MeterMessage,
) -> UpdateResult<MeterConfig> {
    let reject = |why: &str| Err(invalid(format!("{what}: {why}")));
    let number = |value: i64| {
        u64::try_from(value).map_err(|_| invalid(format!("{what}: a rate or burst is negative")))
    };
    match kind {
        meter_spec::Type::TwoRateThreeColor => {
            if config.eburst != 0 {
                return reject("a two-rate meter has no excess burst");
            }
            if config.cir > config.pir {
                return reject("the committed rate is above the peak rate");
            }
        }
        meter_spec::Type::SingleRateThreeColor | meter_spec::Type::SingleRateTwoColor => {
            if config.pir != config.cir || config.pburst != config.cburst {
                return reject(
                    "peak rate and burst of a single-rate meter must equal the committed ones",
                );
            }
            if config.eburst != 0 {
                if kind == meter_spec::Type::SingleRateTwoColor {
                    return reject("a two-colour meter has no excess burst");
                }
                return Err(unimplemented(format!(
                    "{what}: excess bursts are not supported"
                )));
            }
        }
    }
    Ok(MeterConfig {
        cir: number(config.cir)?,
        cburst: number(config.cburst)?,
        pir: number(config.pir)?,
        pburst: number(config.pburst)?,
    })
}

/// Rejects counters per colour, which this target does not have (§ 9.4.3).
pub fn reject_meter_counters(what: &str, data: Option<&MeterCounterData>) -> UpdateResult {
    match data {
        Some(_) => Err(unimplemented(format!(
            "{what}: meters have no counters per colour on this target"
        ))),
        None => Ok(()),
    }
}
