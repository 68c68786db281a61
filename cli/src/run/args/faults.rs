//! What goes wrong while the message is under way: losses, deaths, and members that do harm.

use alfirk_ctrl::topology::{HostIndex, Node, Topology};
use alfirk_experiment::{Kill, Suspension, Victim};
use alfirk_roce::collective::Algorithm;
use alfirk_units::TIME;

use super::lose::Lost;
use super::loss::{find_link, Losses};
use super::quantity::span;
use super::Args;
use crate::exit::Failure;
use crate::run::config::Driver;

#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Faults")]
pub(super) struct FaultArgs {
    /// Lose frames by chance, feedback included: a link loses a frame with probability P, in each direction. P is for every
    /// link, core:P for those of the core's switches instead, NODE-NODE:P@FROM-TO for one of them from one time after the post to another
    /// (without -TO for good); on Mininet that P is 1. Compare --lose, which chooses packets [default: 0]
    #[arg(
        long,
        value_name = "P",
        value_delimiter = ',',
        allow_negative_numbers = true
    )]
    pub(super) loss: Vec<String>,

    /// Lose chosen packets, by kind and number, and no others, at the port of a host's switch: h2:from:ack:1 is the first ACK from h2,
    /// h2:to:data:3-5 the third to the fifth data packet to it (Mininet driver). Compare --loss, which loses by chance
    #[arg(
        long,
        value_name = "HOST:from|to:data|ack|nak|rnr:N[-M]",
        value_delimiter = ','
    )]
    pub(super) lose: Vec<String>,

    /// Break a host, a switch, or a link (NODE-NODE) so long after the post; alfirk heals, binomial-ack takes dead hosts out, and RDMC's
    /// groups close and go on without them
    #[arg(long, value_name = "NODE@TIME", value_delimiter = ',')]
    pub(super) kill: Vec<String>,

    /// Have a host's application do nothing from one time after the post to another, while its NIC goes on: what a scheduler does
    /// (virtual driver)
    #[arg(long, value_name = "HOST@FROM-TO", value_delimiter = ',')]
    pub(super) suspend: Vec<String>,

    /// How long what does not answer is waited for until the group goes on without it; longer where data needs longer through full queues
    /// [default: 20ms, and 3s with --scale off]
    #[arg(long, value_name = "TIME", value_parser = |text: &str| TIME.parse(text))]
    dead_after: Option<u64>,

    /// Have a member send what may harm the group, beside what its queue pair sends: every opcode and syndrome with PSNs around the
    /// window, odd headers, CNPs, registrations; as fast as its link takes them, and on Mininet, where links have no rate then, as
    /// many as it receives. Nobody waits for it, and a false acknowledgement fails the run
    #[arg(long, value_name = "HOST", value_delimiter = ',')]
    pub(super) hostile: Vec<String>,
}

impl FaultArgs {
    pub(super) fn losses(&self, topology: &Topology, driver: Driver) -> Result<Losses, Failure> {
        Losses::parse(&self.loss, topology, driver)
    }

    /// Packets that the switches of Mininet are to lose.
    pub(super) fn lost(&self, topology: &Topology, driver: Driver) -> Result<Vec<Lost>, Failure> {
        if !self.lose.is_empty() && driver != Driver::Mininet {
            return Err(Failure::bad_input(
                "--lose: only switches that run by themselves lose chosen packets; add --driver mininet, or use --loss",
            ));
        }
        let read = |text: &String| {
            Lost::read(topology, text)
                .map_err(|why| Failure::bad_input(format_args!("--lose {text}: {why}")))
        };
        self.lose.iter().map(read).collect()
    }

    /// Whose application does nothing for a while.
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
        let suspensions = self.suspend.iter().map(|text| suspension(topology, text));
        suspensions.collect()
    }

    /// Nanoseconds; `is_fast` if times are those of fast equipment.
    pub(super) fn dead_after(&self, is_fast: bool) -> u64 {
        self.dead_after.unwrap_or(match is_fast {
            true => 20_000_000,
            false => 3_000_000_000,
        })
    }

    /// The hosts that are hostile, in a group whose source changes so often.
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
                format!("{algorithm} has no group to be hostile to; use --algorithms alfirk"),
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
                    "it is the source, to which the others must listen".to_owned(),
                )),
                Some(rank) if rank <= switches as usize => Err(refuse(
                    name,
                    format!("it becomes a source by --switch-source {switches}, and the others must listen to it then"),
                )),
                Some(_) => Ok(host),
                None => Err(refuse(name, "it is no member of the group".to_owned())),
            }
        });
        named.collect()
    }
}

impl Args {
    /// What breaks, if the algorithms survive it.
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
                "--kill: {algorithm} does not survive a death; use alfirk, binomial-ack, or RDMC's schedules"
            )));
        }
        let kills = self.faults.kill.iter();
        let kills = kills.map(|text| kill(topology, source, text));
        let kills = kills.collect::<Result<Vec<Kill>, Failure>>()?;
        let is_host = |kill: &&Kill| matches!(kill.victim, Victim::Host(_));
        if let (Some(algorithm), Some(kill)) = (
            algorithms.iter().find(|a| !a.needs_group()),
            kills.iter().find(|kill| !is_host(kill)),
        ) {
            return Err(Failure::bad_input(format_args!(
                "--kill {}: {algorithm} goes on without hosts, but not around switches and links; use --algorithms alfirk",
                kill.name
            )));
        }
        if let (Driver::Mininet, [one, other, ..], [kill, ..]) =
            (self.driver.driver, algorithms, &kills[..])
        {
            return Err(Failure::bad_input(format_args!(
                "--kill {}: on Mininet the dead stay dead for what comes next; run {one} and {other} one by one",
                kill.name
            )));
        }
        Ok(kills)
    }
}

/// `h3@1ms-1.5ms`.
fn suspension(topology: &Topology, text: &str) -> Result<Suspension, Failure> {
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

/// `h3@20us`, `s1@1ms`, `s1-s2@50us`.
fn kill(topology: &Topology, source: HostIndex, text: &str) -> Result<Kill, Failure> {
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
            return Err(refuse(format!(
                "{name} is the source, without which nothing is left to do"
            )));
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
