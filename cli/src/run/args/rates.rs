//! Flag `--rate`: rates of single links, in place of the topology's.

use alfirk_ctrl::topology::Topology;
use alfirk_units::RATE;

use super::loss::find_link;
use super::quantity::quantity;
use crate::exit::Failure;

/// Rates of single links on the command line.
#[derive(Debug, clap::Args)]
pub(super) struct RateArgs {
    /// Rate of one link in both directions, in place of the topology's: NODE-NODE:RATE, as h3-p1e2:50Gbps
    #[arg(long, value_name = "NODE-NODE:RATE", help_heading = "Network")]
    rate: Vec<String>,
}

impl RateArgs {
    /// Returns the topology with the rates of `--rate` in place of its own.
    pub(super) fn apply(&self, mut topology: Topology) -> Result<Topology, Failure> {
        for text in &self.rate {
            let refuse = |why: String| Failure::bad_input(format_args!("--rate {text}: {why}"));
            let parts = text
                .split_once(':')
                .and_then(|(link, rate)| Some((link.split_once('-')?, rate)));
            let Some(((a, b), rate)) = parts else {
                return Err(refuse(
                    "write it as NODE-NODE:RATE, as h1-s1:50Gbps".to_owned(),
                ));
            };
            let link = find_link(&topology, a, b)
                .ok_or_else(|| refuse(format!("the topology has no link between {a} and {b}")))?;
            let rate = quantity("--rate", rate, &RATE)?;
            if rate == 0 {
                return Err(refuse(
                    "0bps carries nothing; to cut the link use --loss NODE-NODE:1".to_owned(),
                ));
            }
            topology = topology.with_rate(link, rate);
        }
        Ok(topology)
    }

    /// Returns the values of `--rate` as given on the command line, for the report.
    pub(super) fn names(self) -> Vec<String> {
        self.rate
    }
}

#[cfg(test)]
mod tests {
    use alfirk_ctrl::topology::testbed;

    use super::*;

    fn apply(text: &str) -> Result<Topology, Failure> {
        let rate = vec![text.to_owned()];
        RateArgs { rate }.apply(testbed())
    }

    #[test]
    fn a_link_can_have_another_rate() {
        for text in ["h3-s1:50Gbps", "s1-h3:50Gbps"] {
            let topology = apply(text).unwrap();
            let rates = topology.links().iter();
            let rates: Vec<u64> = rates
                .map(|link| link.attributes.rate_bps / 1_000_000_000)
                .collect();
            assert_eq!(rates, [100, 100, 50, 100]);
        }
    }

    #[test]
    fn malformed_rates_are_rejected() {
        for text in [
            "50Gbps",
            "h3:50Gbps",
            "h1-h2:50Gbps",
            "h1-s1:fast",
            "h1-s1:0bps",
        ] {
            assert!(apply(text).is_err(), "{text}");
        }
    }
}
