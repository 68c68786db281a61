//! Flags that select the source and the receivers.

use alfirk_ctrl::topology::{HostIndex, Topology};
use alfirk_roce::collective::{Algorithm, WriteMode};

use super::Args;
use crate::exit::Failure;

/// Largest value of `--switch-source`.
const MAX_SOURCE_CHANGES: u32 = 10_000;

#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Members")]
pub(super) struct MemberArgs {
    /// Number of hosts in the group, including the source [default: all]
    #[arg(long, value_name = "N")]
    pub(super) group: Option<usize>,

    /// The receivers, by names or addresses, in place of --group
    #[arg(long, value_name = "HOSTS", value_delimiter = ',', conflicts_with_all = ["group", "rotate"])]
    pub(super) to: Vec<String>,

    /// The source [default: the first host of the topology]
    #[arg(long, value_name = "HOST")]
    pub(super) source: Option<String>,

    /// Take the hosts of the group from the source on, and wrap around after the last host, as MPI numbers ranks for a root other than
    /// rank 0; otherwise the other hosts follow in the order of the topology
    #[arg(long)]
    pub(super) rotate: bool,

    /// Number of source changes: alfirk sends the message in N + 1 parts, each from the next member, on the same queue pairs and group;
    /// other algorithms send it whole from the first source [default: 0]
    #[arg(long, value_name = "N")]
    pub(super) switch_source: Option<u32>,

    /// Start the next source when all other members hold a part, even if the last source still waits for ACKs
    #[arg(long, requires = "switch_source")]
    pub(super) switch_early: bool,
}

impl MemberArgs {
    /// Selects the hosts of the group, the source first.
    pub(super) fn check(&self, topology: &Topology) -> Result<Vec<HostIndex>, Failure> {
        let source = self.source(topology)?;
        match self.to.is_empty() {
            true => self.by_number(topology, source),
            false => self.by_name(topology, source),
        }
    }

    /// Number of source changes (`--switch-source`), by default 0.
    pub(super) fn source_changes(&self) -> u32 {
        self.switch_source.unwrap_or(0)
    }

    fn source(&self, topology: &Topology) -> Result<HostIndex, Failure> {
        let Some(name) = self.source.as_deref() else {
            return Ok(HostIndex(0));
        };
        topology.host_named(name).ok_or_else(|| {
            Failure::bad_input(format_args!(
                "--source {name}: topology {} has no host of that name; its hosts are {}",
                topology.name(),
                first_host_names(topology)
            ))
        })
    }

    /// Selects the members by number (`--group`): the source, then other hosts in the order of the topology, from its
    /// beginning or with `--rotate` from the source on.
    fn by_number(&self, topology: &Topology, source: HostIndex) -> Result<Vec<HostIndex>, Failure> {
        let hosts = topology.hosts().len();
        let group = self.group.unwrap_or(hosts);
        if group < 2 {
            return Err(Failure::bad_input(format_args!(
                "--group {group}: a group needs the source and at least one receiver, so 2 or more"
            )));
        }
        if group > hosts {
            return Err(Failure::bad_input(format_args!(
                "--group {group}: topology {} has only {hosts} hosts",
                topology.name()
            )));
        }
        if self.rotate {
            let around = (0..group).map(|rank| HostIndex((source.0 + rank) % hosts));
            return Ok(around.collect());
        }
        let others = topology.host_indexes().filter(|&host| host != source);
        Ok(std::iter::once(source).chain(others).take(group).collect())
    }

    /// Selects the members by name: the source, then the hosts that `--to` names.
    fn by_name(&self, topology: &Topology, source: HostIndex) -> Result<Vec<HostIndex>, Failure> {
        let mut all = vec![source];
        for name in &self.to {
            let by_address = || topology.host_with_ip(name.parse().ok()?);
            let host = topology.host_named(name).or_else(by_address);
            let host = host.ok_or_else(|| {
                Failure::bad_input(format_args!(
                    "--to {name}: topology {} has no such host; its hosts are {}",
                    topology.name(),
                    first_host_names(topology)
                ))
            })?;
            if all.contains(&host) {
                return Err(Failure::bad_input(format_args!(
                    "--to {name}: it is the source or named twice; leave it out"
                )));
            }
            all.push(host);
        }
        Ok(all)
    }
}

impl Args {
    /// Rejects source changes that conflict with other flags.
    pub(super) fn check_source_changes(&self, algorithms: &[Algorithm]) -> Result<(), Failure> {
        let switches = self.members.source_changes();
        let refused = if switches == 0 {
            return Ok(());
        } else if switches > MAX_SOURCE_CHANGES {
            format!("--switch-source {switches}: at most {MAX_SOURCE_CHANGES} changes")
        } else if !algorithms.contains(&Algorithm::Alfirk) {
            "--switch-source: only alfirk changes the source; add alfirk to --algorithms"
                .to_string()
        } else if !self.faults.kill.is_empty() {
            "--switch-source: failures during source changes are not supported; leave --switch-source or --kill out".to_string()
        } else if self.members.switch_early && self.message.write == Some(WriteMode::PerRequest) {
            "--switch-early: a leaf switch stores one region per receiver, so with --write per-request a source \
         must wait for the acknowledgements of the one before"
                .to_string()
        } else {
            return Ok(());
        };
        Err(Failure::bad_input(refused))
    }
}

/// Names of the first hosts of the topology, for an error message.
pub(super) fn first_host_names(topology: &Topology) -> String {
    const SHOWN: usize = 8;
    let names: Vec<&str> = topology.hosts().iter().map(|h| h.name.as_str()).collect();
    match names.len() {
        0..=SHOWN => names.join(", "),
        all => format!("{}, ... ({all} in all)", names[..SHOWN].join(", ")),
    }
}
