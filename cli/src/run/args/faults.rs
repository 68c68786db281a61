//! Flags of faults during the transfer: losses, failures, suspensions and hostile members.

use alfirk_ctrl::topology::{HostIndex, Node, Topology};
use alfirk_experiment::{Kill, Suspension, Victim};
use alfirk_roce::collective::Algorithm;
use alfirk_units::TIME;

use super::lose::LossRule;
use super::loss::{find_link, Losses};
use super::quantity::span;
use super::Args;
use crate::exit::Failure;
use crate::run::config::Driver;

#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Faults")]
pub(super) struct FaultArgs {
    /// Loss probability of frames in each direction: P for every link, core:P for those of core switches, NODE-NODE:P@FROM-TO for
    /// one link during a time after the post (without -TO until the end; on Mininet P is 1) [default: 0]
    #[arg(
        long,
        value_name = "P",
        value_delimiter = ',',
        allow_negative_numbers = true
    )]
    pub(super) loss: Vec<String>,

    /// Lose chosen packets at the port of a host's switch: h2:from:ack:1 is the first ACK from h2, h2:to:data:3-5 the third to fifth
    /// data packet to it (Mininet driver)
    #[arg(
        long,
        value_name = "HOST:from|to:data|ack|nak|rnr:N[-M]",
        value_delimiter = ','
    )]
    pub(super) lose: Vec<String>,

    /// Fail a host, a switch or a link (NODE-NODE) at a time after the post. alfirk reroutes, binomial-ack removes failed hosts, and
    /// RDMC's groups close and continue without them
    #[arg(long, value_name = "NODE@TIME", value_delimiter = ',')]
    pub(super) kill: Vec<String>,

    /// Suspend a host's application during a time after the post, as a scheduler does; its NIC continues (virtual driver)
    #[arg(long, value_name = "HOST@FROM-TO", value_delimiter = ',')]
    pub(super) suspend: Vec<String>,

    /// Time without a reply after which a host or switch counts as failed; longer while full queues delay data [default: 20ms, and 3s
    /// with --scale off]
    #[arg(long, value_name = "TIME", value_parser = |text: &str| TIME.parse(text))]
    dead_after: Option<u64>,

    /// Make a member hostile: it sends every opcode and syndrome with PSNs around the window, malformed headers, CNPs and
    /// registrations, at link rate (on Mininet one for each packet received). A false acknowledgement fails the run
    #[arg(long, value_name = "HOST", value_delimiter = ',')]
    pub(super) hostile: Vec<String>,
}

impl FaultArgs {
    /// Parses the values of `--loss`.
    pub(super) fn losses(&self, topology: &Topology, driver: Driver) -> Result<Losses, Failure> {
        Losses::parse(&self.loss, topology, driver)
    }

    /// Parses the values of `--lose`: rules by which Mininet's switches lose chosen packets.
    pub(super) fn loss_rules(
        &self,
        topology: &Topology,
        driver: Driver,
    ) -> Result<Vec<LossRule>, Failure> {
        if !self.lose.is_empty() && driver != Driver::Mininet {
            return Err(Failure::bad_input(
                "--lose: only the Mininet driver loses chosen packets; add --driver mininet, or use --loss",
            ));
        }
        let read = |text: &String| {
            LossRule::parse(topology, text)
                .map_err(|why| Failure::bad_input(format_args!("--lose {text}: {why}")))
        };
        self.lose.iter().map(read).collect()
    }

    /// Parses the values of `--suspend`: hosts whose application is suspended, and when.
    pub(super) fn suspensions(
        &self,
        topology: &Topology,
        driver: Driver,
    ) -> Result<Vec<Suspension>, Failure> {
        if !self.suspend.is_empty() && driver == Driver::Mininet {
            return Err(Failure::bad_input(
                "--suspend: on Mininet a host and its NIC are one process; leave --driver mininet out",
            ));
        }
        let suspensions = self
            .suspend
            .iter()
            .map(|text| parse_suspension(topology, text));
        suspensions.collect()
    }

    /// Time without a reply after which a host or switch counts as failed, in nanoseconds. `is_fast`: whether times on
    /// the network's clock are those of fast hardware.
    pub(super) fn dead_after(&self, is_fast: bool) -> u64 {
        self.dead_after.unwrap_or(match is_fast {
            true => 20_000_000,
            false => 3_000_000_000,
        })
    }

    /// Parses the values of `--hostile`. They must be receivers that stay receivers, in a group whose source changes
    /// `switches` times.
    pub(super) fn hostiles(
        &self,
        topology: &Topology,
        algorithms: &[Algorithm],
        members: &[HostIndex],
        switches: u32,
    ) -> Result<Vec<HostIndex>, Failure> {
        let Some(first) = self.hostile.first() else {
            return Ok(Vec::new());
        };
        let refuse =
            |name: &str, why: String| Failure::bad_input(format_args!("--hostile {name}: {why}"));
        if let Some(algorithm) = algorithms.iter().find(|a| !a.needs_group()) {
            return Err(refuse(
                first,
                format!("{algorithm} has no group in the fabric; use --algorithms alfirk"),
            ));
        }
        let named = self.hostile.iter().map(|name| {
            let host = match topology.node_named(name) {
                Some(Node::Host(host)) => host,
                _ => return Err(refuse(name, "the topology has no such host".to_owned())),
            };
            match members.iter().position(|&member| member == host) {
                Some(0) => Err(refuse(
                    name,
                    "it is the source; name a receiver".to_owned(),
                )),
                Some(rank) if rank <= switches as usize => Err(refuse(
                    name,
                    format!("it becomes the source by --switch-source {switches}; name another receiver"),
                )),
                Some(_) => Ok(host),
                None => Err(refuse(name, "it is not a member of the group".to_owned())),
            }
        });
        named.collect()
    }
}

impl Args {
    /// Parses the values of `--kill`. Rejects failures that one of the algorithms does not survive.
    pub(super) fn kills(
        &self,
        topology: &Topology,
        algorithms: &[Algorithm],
        source: HostIndex,
    ) -> Result<Vec<Kill>, Failure> {
        if self.faults.kill.is_empty() {
            return Ok(Vec::new());
        }
        let survives = |a: &&Algorithm| {
            a.needs_group() || a.needs_datagrams() || matches!(a, Algorithm::Rdmc(_))
        };
        if let Some(algorithm) = algorithms.iter().find(|a| !survives(a)) {
            return Err(Failure::bad_input(format_args!(
                "--kill: {algorithm} does not survive failures; use alfirk, binomial-ack, or RDMC's schedules"
            )));
        }
        let kills = self.faults.kill.iter();
        let kills = kills.map(|text| parse_kill(topology, source, text));
        let kills = kills.collect::<Result<Vec<Kill>, Failure>>()?;
        let is_host = |kill: &&Kill| matches!(kill.victim, Victim::Host(_));
        if let (Some(algorithm), Some(kill)) = (
            algorithms.iter().find(|a| !a.needs_group()),
            kills.iter().find(|kill| !is_host(kill)),
        ) {
            return Err(Failure::bad_input(format_args!(
                "--kill {}: {algorithm} survives failures of hosts only, not of switches and links; use --algorithms alfirk",
                kill.name
            )));
        }
        if let (Driver::Mininet, [one, other, ..], [kill, ..]) =
            (self.driver.driver, algorithms, &kills[..])
        {
            return Err(Failure::bad_input(format_args!(
                "--kill {}: on Mininet a failure lasts for all later algorithms; run {one} and {other} one by one",
                kill.name
            )));
        }
        Ok(kills)
    }
}

/// Parses a suspension, such as `h3@1ms-1.5ms`.
fn parse_suspension(topology: &Topology, text: &str) -> Result<Suspension, Failure> {
    let refuse = |why: &str| Failure::bad_input(format_args!("--suspend {text}: {why}"));
    let incomplete = || refuse("write it as HOST@FROM-TO, as h3@1ms-1.5ms");
    let (name, time) = text.split_once('@').ok_or_else(incomplete)?;
    let Some(Node::Host(host)) = topology.node_named(name) else {
        return Err(refuse(&format!("the topology has no host {name}")));
    };
    let (from, until) = span("--suspend", time, refuse)?;
    let until = until.ok_or_else(incomplete)?;
    Ok(Suspension { host, from, until })
}

/// Parses a failure, such as `h3@20us`, `s1@1ms` or `s1-s2@50us`.
fn parse_kill(topology: &Topology, source: HostIndex, text: &str) -> Result<Kill, Failure> {
    let refuse = |why: String| Failure::bad_input(format_args!("--kill {text}: {why}"));
    let Some((name, time)) = text.rsplit_once('@') else {
        return Err(refuse(
            "write it as NODE@TIME, as h3@20us, or NODE-NODE@TIME for a link".to_owned(),
        ));
    };
    let after = TIME
        .parse(time)
        .map_err(|error| refuse(error.to_string()))?;
    let victim = match (topology.node_named(name), name.split_once('-')) {
        (Some(Node::Host(host)), _) if host == source => {
            return Err(refuse(format!("{name} is the source; name another host")));
        }
        (Some(Node::Host(host)), _) => Victim::Host(host),
        (Some(Node::Switch(switch)), _) => Victim::Switch(switch),
        (None, Some((a, b))) => match find_link(topology, a, b) {
            Some(link) => Victim::Link(link),
            None => {
                return Err(refuse(format!(
                    "the topology has no link between {a} and {b}"
                )))
            }
        },
        (None, None) => return Err(refuse(format!("the topology has no host or switch {name}"))),
    };
    let name = name.to_owned();
    Ok(Kill {
        victim,
        name,
        after,
    })
}
