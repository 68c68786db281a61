//! Flags of the fallback: the algorithm that replaces a group that cannot be registered or is too slow.

use alfirk_ctrl::strategy::{IcrcMode, MinPsn};
use alfirk_ctrl::topology::Topology;
use alfirk_experiment::SafeguardConfig;
use alfirk_roce::collective::{Algorithm, WriteMode};
use alfirk_roce::rc::PathMtu;
use alfirk_units::{RATE, TIME};

use super::quantity::share;
use super::Args;
use crate::exit::Failure;
use crate::run::config::Driver;

#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Fallback")]
pub(super) struct FallbackArgs {
    /// Algorithm when a switch has no space for the group: chain, binomial, unicast, kary:K, a ring, or none to fail
    #[arg(long, value_name = "ALGORITHM", default_value = "binomial")]
    fallback: String,

    /// Also fall back when the group's goodput is below this share of --normal-goodput, and try the group again later; 50% without
    /// a SHARE [default: never]
    #[arg(long, value_name = "SHARE", num_args = 0..=1, default_missing_value = "50%", value_parser = share)]
    pub(super) fallback_below: Option<f64>,

    /// Measuring interval of goodput; two intervals in a row below the share trigger the fallback [default: 250us, and 500ms with
    /// --scale off]
    #[arg(long, value_name = "TIME", requires = "fallback_below", value_parser = |text: &str| TIME.parse(text))]
    fallback_window: Option<u64>,

    /// Delay until the group is tried again; doubles with each failure, up to 64 times [default: 8 windows]
    #[arg(long, value_name = "TIME", requires = "fallback_below", value_parser = |text: &str| TIME.parse(text))]
    fallback_retry: Option<u64>,

    /// Normal goodput of the group, to which the share of --fallback-below refers [default: that of the slowest link;
    /// on Mininet, and with punt or per-request, that of the best window]
    #[arg(long, value_name = "RATE", requires = "fallback_below", value_parser = |text: &str| RATE.parse(text))]
    normal_goodput: Option<u64>,
}

impl FallbackArgs {
    /// Returns the fallback algorithm; `None` for `--fallback none`.
    pub(super) fn algorithm(&self) -> Result<Option<Algorithm>, Failure> {
        if self.fallback == "none" {
            return Ok(None);
        }
        let algorithm: Algorithm = self
            .fallback
            .parse()
            .map_err(|error| Failure::bad_input(format_args!("--fallback: {error}")))?;
        let why = match (algorithm.needs_group(), algorithm.keeps_order()) {
            (true, _) => "it needs a multicast group itself",
            (_, false) => {
                "its slices arrive out of order, so it cannot resume where the group stopped"
            }
            (false, true) => return Ok(Some(algorithm)),
        };
        Err(Failure::bad_input(format_args!(
            "--fallback {algorithm}: {why}; use chain, binomial, unicast, kary:K, a ring or none"
        )))
    }
}

impl Args {
    /// Returns the configuration of the monitor that replaces a slow group; `None` without `--fallback-below`.
    /// `is_fast`: whether times on the network's clock are those of fast hardware.
    pub(super) fn goodput_monitor(
        &self,
        topology: &Topology,
        algorithms: &[Algorithm],
        fallback: Option<Algorithm>,
        mtu: PathMtu,
        is_fast: bool,
    ) -> Result<Option<SafeguardConfig>, Failure> {
        let flags = &self.fallback;
        let Some(below) = flags.fallback_below else {
            return Ok(None);
        };
        let why = if fallback.is_none() {
            "--fallback none leaves no algorithm to fall back to"
        } else if !algorithms.contains(&Algorithm::Alfirk) {
            "only alfirk falls back; add alfirk to --algorithms"
        } else if self.members.source_changes() > 0 {
            "the fallback has one source; leave --switch-source out"
        } else if !self.faults.kill.is_empty() {
            "the fallback does not survive failures; leave --kill out"
        } else {
            ""
        };
        if !why.is_empty() {
            return Err(Failure::bad_input(format_args!("--fallback-below: {why}")));
        }
        let window = flags.fallback_window.unwrap_or(match is_fast {
            true => 250_000,
            false => 500_000_000,
        });
        if window == 0 {
            return Err(Failure::bad_input(
                "--fallback-window 0: give a time above 0",
            ));
        }
        let config = SafeguardConfig::new(window);
        Ok(Some(SafeguardConfig {
            threshold: below,
            retry: flags.fallback_retry.unwrap_or(config.retry),
            expected_bps: match flags.normal_goodput {
                Some(rate) => Some(rate as f64),
                None => self.goodput_of_links(topology, mtu),
            },
            ..config
        }))
    }

    /// Goodput of the slowest link in bits per second; `None` if links are not the bottleneck.
    fn goodput_of_links(&self, topology: &Topology, mtu: PathMtu) -> Option<f64> {
        let one_by_one = self.group.min_psn != MinPsn::Tree
            || self.group.icrc != IcrcMode::Neutral
            || self.message.write == Some(WriteMode::PerRequest);
        if one_by_one || self.driver.driver == Driver::Mininet {
            return None;
        }
        let rates = topology.links().iter().map(|l| l.attributes.rate_bps);
        // Headers, preamble and gap add about 90 bytes to each packet.
        let payload = mtu.bytes() as f64;
        let slowest = rates.min().unwrap_or(0) as f64;
        Some(slowest * payload / (payload + 90.0))
    }
}
