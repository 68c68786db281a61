//! Rates of the meter commands.

use super::number::number;
use super::words::Words;

/// Rates of a two-rate three-colour meter (RFC 2698), each with its burst size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MeterRates {
    /// Committed information rate in packets or bytes per second. The text of a test gives it per microsecond.
    pub cir: u64,
    /// Committed burst size in packets or bytes.
    pub cburst: u64,
    /// Peak information rate in packets or bytes per second.
    pub pir: u64,
    /// Peak burst size in packets or bytes.
    pub pburst: u64,
}

/// Parses `RATE:BURST RATE:BURST`, the committed rate first. Rates are in packets or bytes per microsecond.
pub(super) fn rates(words: &mut Words) -> Result<MeterRates, String> {
    let mut pair = |which: &str| {
        let text = words.word(&format!("{which} RATE:BURST"))?;
        let wrong = || format!("`{text}` is not a {which} RATE:BURST");
        let (rate, burst) = text.split_once(':').ok_or_else(wrong)?;
        let per_microsecond: f64 = rate.parse().map_err(|_| wrong())?;
        let rate = (per_microsecond * 1e6).round();
        if !(0.0..=1e18).contains(&rate) {
            return Err(wrong());
        }
        Ok((rate as u64, number(burst, "burst")?))
    };
    let ((cir, cburst), (pir, pburst)) = (pair("committed")?, pair("peak")?);
    Ok(MeterRates {
        cir,
        cburst,
        pir,
        pburst,
    })
}

#[cfg(test)]
mod tests {
    use super::super::tests::command_of;
    use super::super::{parse, Command};
    use super::*;

    #[test]
    fn rates_are_given_per_microsecond() {
        assert_eq!(
            command_of("meter_set_rates c.m 2 0.000005:4 0.00002:5"),
            Command::MeterSetRates {
                name: "c.m".to_owned(),
                index: 2,
                rates: MeterRates {
                    cir: 5,
                    cburst: 4,
                    pir: 20,
                    pburst: 5
                }
            }
        );
        let error = parse("meter_array_set_rates c.m 1:1").expect_err("the peak is missing");
        assert_eq!(error.to_string(), "line 1: the peak RATE:BURST is missing");
    }
}
