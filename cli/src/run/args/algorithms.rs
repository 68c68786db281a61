//! Flags that select the algorithms to compare, and their conflicts with other flags.

use std::collections::BTreeSet;
use std::ffi::OsStr;

use alfirk_ctrl::topology::{HostIndex, Topology};
use alfirk_experiment::{Congestion, Registration};
use alfirk_roce::collective::{Algorithm, Collective, Schedule, TransferOp};
use clap::builder::{PossibleValue, StringValueParser, TypedValueParser};

use super::Args;
use crate::exit::Failure;

/// Value of `--algorithms` that selects all algorithms.
const ALL: &str = "all";

#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Algorithms")]
pub(in crate::run) struct AlgorithmArgs {
    /// Algorithms to compare, in this order, or all; --list-algorithms describes them [default: alfirk,chain,binomial,unicast;
    /// with --queue-depth alfirk,unicast; with --kill or --switch-source alfirk]
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = AlgorithmName, hide_possible_values = true)]
    algorithms: Vec<String>,

    /// List the algorithms with descriptions and sources, and exit
    #[arg(long)]
    pub(in crate::run) list_algorithms: bool,

    /// Collective operation: broadcast, scatter or allgather of the message, or a barrier, which has no message
    #[arg(long, value_enum, default_value_t)]
    collective: Collective,
}

/// Accepts any text, which is parsed later with the other flags, and offers the names of algorithms for completion.
#[derive(Clone)]
struct AlgorithmName;

impl TypedValueParser for AlgorithmName {
    type Value = String;

    fn parse_ref(
        &self,
        command: &clap::Command,
        argument: Option<&clap::Arg>,
        value: &OsStr,
    ) -> Result<String, clap::Error> {
        StringValueParser::new().parse_ref(command, argument, value)
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        let names = Algorithm::ALL.into_iter().map(|algorithm| match algorithm {
            Algorithm::Kary(_) => "kary:4",
            other => other.base_name(),
        });
        let names = names.chain([ALL]);
        Some(Box::new(names.map(PossibleValue::new)))
    }
}

impl Args {
    /// Returns the collective operation, after a check against the other flags.
    pub(super) fn collective(&self) -> Result<Collective, Failure> {
        let collective = self.algorithms.collective;
        if collective == Collective::Broadcast {
            return Ok(collective);
        }
        let message = &self.message;
        let refused = [
            (self.members.switch_source.is_some(), "--switch-source"),
            (self.fallback.fallback_below.is_some(), "--fallback-below"),
            (!self.faults.kill.is_empty(), "--kill"),
            (!self.faults.hostile.is_empty(), "--hostile"),
            (message.slices.is_some(), "--slices"),
            (message.block.is_some(), "--block"),
            (message.messages.is_some(), "--messages"),
            (message.receives.is_some(), "--receives"),
            (message.queue_depth.is_some(), "--queue-depth"),
            (message.ready.is_some(), "--ready"),
            (message.store_and_forward, "--store-and-forward"),
        ];
        if let Some((_, flag)) = refused.into_iter().find(|(given, _)| *given) {
            return Err(Failure::bad_input(format_args!(
                "--collective {collective}: {flag} is for broadcasts; leave it out"
            )));
        }
        if collective == Collective::Barrier && message.is_given() {
            return Err(Failure::bad_input(
                "--collective barrier: a barrier has no message; leave --size, --input and --op out",
            ));
        }
        Ok(collective)
    }

    /// Returns the algorithms to compare: those named by `--algorithms`, or defaults that suit the other flags.
    pub(super) fn wanted_algorithms(
        &self,
        collective: Collective,
    ) -> Result<Vec<Algorithm>, Failure> {
        let names = &self.algorithms.algorithms;
        if !names.is_empty() {
            return parse_names(names, collective);
        }
        let only_for_groups = !self.faults.kill.is_empty()
            || !self.faults.hostile.is_empty()
            || self.members.source_changes() > 0;
        Ok(match collective {
            _ if only_for_groups => vec![Algorithm::Alfirk],
            Collective::Broadcast if self.counts_requests() => {
                vec![Algorithm::Alfirk, Algorithm::Unicast]
            }
            Collective::Broadcast => Algorithm::DEFAULTS.to_vec(),
            _ => collective.algorithms().collect(),
        })
    }

    /// Selects the algorithms that can run among the members. With `all`, those that cannot are left out; a named one
    /// that cannot is an error.
    pub(super) fn fitting_algorithms(
        &self,
        mut wanted: Vec<Algorithm>,
        topology: &Topology,
        members: &[HostIndex],
    ) -> Result<Vec<Algorithm>, Failure> {
        if self
            .algorithms
            .algorithms
            .iter()
            .any(|name| name.trim() == ALL)
        {
            wanted.retain(|a| self.conflict(*a, topology, members).is_none());
            return Ok(wanted);
        }
        let misfit = wanted
            .iter()
            .find_map(|a| self.conflict(*a, topology, members));
        match misfit {
            Some(why) => Err(Failure::bad_input(why)),
            None => Ok(wanted),
        }
    }

    /// Whether the source counts its messages as requests, so that it must itself detect when one completes.
    fn counts_requests(&self) -> bool {
        self.message.queue_depth.is_some() || self.workload.counts_requests()
    }

    /// Error message if an algorithm cannot run with the other flags, with what to use instead; `None` if it can run.
    fn conflict(
        &self,
        algorithm: Algorithm,
        topology: &Topology,
        members: &[HostIndex],
    ) -> Option<String> {
        let racks = members.iter().map(|host| topology.attachment(*host).0);
        if algorithm.needs_racks() && racks.collect::<BTreeSet<_>>().len() < 2 {
            return Some(format!(
                "--algorithms {algorithm}: all members are at one leaf switch, that is in one rack; use \
                 {}, or a topology with more",
                Algorithm::Rdmc(Schedule::BinomialPipeline)
            ));
        }
        if self.message.store_and_forward && algorithm.relays() && !algorithm.is_one_tree() {
            return Some(format!(
                "--store-and-forward: {algorithm} relays parts of the data on several paths, so no member can wait until \
         it holds all of them; leave one of the two out"
            ));
        }
        let counts = !algorithm.relays() && !algorithm.needs_datagrams();
        if self.counts_requests() && !counts {
            return Some(format!(
                "--algorithms {algorithm}: its members relay data or acknowledge it among themselves, so the source cannot detect \
         when a request completes; use alfirk and unicast"
            ));
        }
        if self.workload.is_given() && algorithm.needs_datagrams() {
            return Some(format!(
                "--workload: {algorithm} has one multicast group for all members; leave {algorithm} out of --algorithms"
            ));
        }
        self.datagram_conflict(algorithm)
    }

    /// Error message if an algorithm that multicasts UD datagrams cannot run with the other flags, with what to change;
    /// `None` if it can run.
    fn datagram_conflict(&self, algorithm: Algorithm) -> Option<String> {
        if !algorithm.needs_datagrams() {
            return None;
        }
        let refused = [
            (
                self.message.op != TransferOp::Send,
                "--op",
                "sends UD datagrams, which have no WRITE; use --op send",
            ),
            (
                self.message.receives.is_some(),
                "--receives",
                "posts one receive for each datagram that a root may have outstanding; leave one of the two out",
            ),
            (
                self.message.ready.is_some(),
                "--ready",
                "multicasts datagrams without waiting for ready notices; leave one of the two out",
            ),
            (
                self.group.congestion() == Congestion::Dcqcn,
                "--congestion",
                "sends UD datagrams, which have no congestion control; leave one of the two out",
            ),
            (
                self.group.registration == Registration::Mrp,
                "--registration",
                "sends to a group that hosts join through the control service; use --registration api",
            ),
        ];
        let (_, flag, why) = refused.into_iter().find(|(given, _, _)| *given)?;
        Some(format!("{flag}: {algorithm} {why}"))
    }
}

/// Parses the values of `--algorithms`: names, or `all`.
fn parse_names(names: &[String], collective: Collective) -> Result<Vec<Algorithm>, Failure> {
    if names.iter().any(|name| name.trim() == ALL) {
        return match names {
            [_] => Ok(collective.algorithms().collect()),
            _ => Err(Failure::bad_input(
                "--algorithms: `all` cannot be combined with names; leave the other names out",
            )),
        };
    }
    let mut algorithms = Vec::new();
    for name in names {
        let algorithm: Algorithm = name
            .trim()
            .parse()
            .map_err(|error| Failure::bad_input(format_args!("--algorithms: {error}")))?;
        if !algorithm.supports(collective) {
            let others: Vec<String> = collective.algorithms().map(|a| a.to_string()).collect();
            return Err(Failure::bad_input(format_args!(
                "--algorithms {algorithm}: it cannot run a {collective}; use {}",
                others.join(", ")
            )));
        }
        if algorithms.contains(&algorithm) {
            return Err(Failure::bad_input(format_args!(
                "--algorithms: {algorithm} is named twice"
            )));
        }
        algorithms.push(algorithm);
    }
    Ok(algorithms)
}
