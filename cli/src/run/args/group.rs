//! Flags of the multicast group: registration, functions in switches, and queue pairs.

use std::num::NonZeroU64;

use alfirk_ctrl::ecn::{EcnProfile, EcnThresholds};
use alfirk_ctrl::strategy::{IcrcMode, MinPsn, Strategies};
use alfirk_ctrl::topology::Topology;
use alfirk_ctrl::tree::{Planner, Policy};
use alfirk_experiment::{Congestion, Pace, Registration, SenderSettings};
use alfirk_roce::rc::{AckTimeout, PathMtu, Recovery, Retries};
use alfirk_units::{RATE, TIME};

use super::Args;
use crate::exit::Failure;
use crate::program::Target;

#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Group")]
pub(super) struct GroupArgs {
    /// How the group is registered with the controller
    #[arg(long, value_enum, default_value_t)]
    pub(super) registration: Registration,

    /// Method by which switches find the minimum PSN of the group's feedback
    #[arg(long, value_enum, value_name = "HOW", default_value_t)]
    pub(super) min_psn: MinPsn,

    /// Method that keeps the ICRC of the group's data valid; that of feedback is always recomputed
    #[arg(long, value_enum, value_name = "HOW", default_value_t)]
    pub(super) icrc: IcrcMode,

    /// Choice of the group's tree among ports of equal cost: reuse-least-loaded, cyclic (on m-port n-trees) or spanning
    #[arg(long, value_name = "POLICY", default_value_t)]
    pub(super) tree_policy: Policy,

    /// First PSN of the group's data [default: drawn from the seed]
    #[arg(long, value_name = "PSN", help_heading = "Queue pairs", value_parser = clap::value_parser!(u32).range(..1 << 24))]
    pub(super) initial_psn: Option<u32>,

    /// Loss recovery of queue pairs, of the group and of overlays
    #[arg(
        long,
        value_enum,
        value_name = "HOW",
        help_heading = "Queue pairs",
        default_value_t
    )]
    pub(super) recovery: Recovery,

    /// Rate limit of a queue pair's requests: path (the slowest link to any of its receivers; off with DCQCN), off (the sender's link),
    /// or a rate on the wire
    #[arg(long, value_name = "path|off|RATE", help_heading = "Queue pairs", default_value = "path", value_parser = pace)]
    pace: Pace,

    /// Packets that a queue pair may have outstanding [default: the bandwidth-delay product of its paths, and what is sent between two
    /// acknowledgements; 128 with --scale off]
    #[arg(long, value_name = "PACKETS", help_heading = "Queue pairs", value_parser = clap::value_parser!(u32).range(1..=1 << 22))]
    window: Option<u32>,

    /// Local ACK timeout, rounded up to 4.096 us times a power of two [default: twice what the paths need, at least 262us; 134ms with
    /// --scale off]
    #[arg(long, value_name = "TIME", help_heading = "Queue pairs", value_parser = |text: &str| TIME.parse(text))]
    ack_timeout: Option<u64>,

    /// ACK timeouts in a row that a queue pair survives, 0 to 7; 7 means no limit
    #[arg(long, value_name = "N", help_heading = "Queue pairs", value_parser = clap::value_parser!(u8).range(..=7))]
    retry_count: Option<u8>,

    /// Congestion control of queue pairs [default: dcqcn with --ecn, else none]
    #[arg(long, value_enum, value_name = "HOW", help_heading = "Queue pairs")]
    congestion: Option<Congestion>,

    /// ECN marking by queue length: none up to KMIN, all from KMAX on, and with a probability that rises to PMAX in between. Lengths in
    /// packets (16,64,0.1) or bytes (20KiB,200KiB,0.01); a single length marks all from there on [default: with --congestion dcqcn
    /// 16,64,0.1; less where a queue is shorter than 256 packets of the MTU]
    #[arg(long, value_name = "KMIN,KMAX,PMAX", help_heading = "Queue pairs")]
    ecn: Option<EcnThresholds>,
}

fn pace(text: &str) -> Result<Pace, String> {
    match text {
        "path" => Ok(Pace::Path),
        "off" => Ok(Pace::Off),
        rate => {
            let rate = RATE
                .parse(rate)
                .map_err(|why| format!("{why}; or path, or off"))?;
            let rate = NonZeroU64::new(rate);
            rate.map(Pace::At).ok_or_else(|| {
                "0bps lets a sender never send; use 1bps or more, path or off".to_owned()
            })
        }
    }
}

impl GroupArgs {
    /// Returns the group's methods for the minimum PSN and the ICRC, and its loss recovery.
    pub(super) fn strategies(&self) -> Strategies {
        Strategies {
            min_psn: self.min_psn,
            icrc: self.icrc,
            recovery: self.recovery,
            ..Strategies::default()
        }
    }

    /// Returns the settings of senders; those that are given replace the ones that are derived from the topology.
    pub(super) fn sender(&self) -> SenderSettings {
        SenderSettings {
            window: self.window,
            ack_timeout: self.ack_timeout.map(AckTimeout::at_least),
            retries: self.retry_count.map(Retries::from_attribute),
            pace: self.pace,
        }
    }

    /// Returns the congestion control: by default DCQCN if `--ecn` is given, else none.
    pub(super) fn congestion(&self) -> Congestion {
        self.congestion.unwrap_or(match self.ecn {
            Some(_) => Congestion::Dcqcn,
            None => Congestion::None,
        })
    }

    /// Returns the thresholds at which switches set ECN marks; `None` if they set none. `mtu`: payload of a packet in
    /// bytes.
    pub(super) fn ecn(
        &self,
        topology: &Topology,
        mtu: PathMtu,
    ) -> Result<Option<EcnProfile>, Failure> {
        let given = self.ecn.as_ref().map(|ecn| ecn.profile(mtu)).transpose();
        let given = given.map_err(|error| Failure::bad_input(format_args!("--ecn {error}")))?;
        Ok(match self.congestion() {
            Congestion::Dcqcn => {
                Some(given.unwrap_or_else(|| EcnProfile::of_queues(topology, mtu)))
            }
            Congestion::None => given,
        })
    }

    /// Rejects a tree policy that the topology does not support.
    pub(super) fn check_tree(&self, topology: &Topology) -> Result<(), Failure> {
        Planner::new(self.tree_policy, topology)
            .map(|_| ())
            .map_err(|why| Failure::bad_input(format_args!("--tree-policy: {why}")))
    }
}

impl Args {
    /// Rejects flags and topologies that the data plane for Tofino does not support.
    pub(super) fn check_target(&self, topology: &Topology) -> Result<(), Failure> {
        let name = match self.target {
            Target::V1model => return Ok(()),
            Target::Tna => "tna",
            Target::T2na => "t2na",
        };
        let reserved = self.target.recirculation_ports();
        for index in topology.switch_indexes() {
            let mut neighbours = topology.neighbours(index).iter();
            if let Some(there) = neighbours.find(|there| reserved.contains(&there.port)) {
                return Err(Failure::bad_input(format_args!(
                    "--target {name}: switch {} has a link at port {}, and ports {} to {} of this chip recirculate; give the link another port",
                    topology.switch(index).name,
                    there.port,
                    reserved.start,
                    reserved.end - 1,
                )));
            }
        }
        match self.group.strategies().optional_strategy() {
            None => Ok(()),
            Some(refused) => Err(Failure::bad_input(format_args!(
                "--{}: the data plane for Tofino (--target {name}) supports {} only",
                refused.option, refused.only
            ))),
        }
    }
}
