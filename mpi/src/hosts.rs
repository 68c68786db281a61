//! Groups under MPI. One rank of each host, called its leader, is a member of the group. It passes data on to the other
//! ranks of the host.
//!
//! The module `active_group` transfers the bytes of a broadcast through a group. If that fails, the underlying MPI
//! carries this broadcast and everything after it.
//!
//! A barrier cannot fall back by agreement, because an agreement is itself a barrier. Only the source knows whether all
//! members have entered. It sends that to the others in a notice when the group fails.

use std::net::TcpListener;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use alfirk_roce::verbs::Verbs;
use alfirk_roce::wire::mrp::Refusal;
use alfirk_verbs::group::{Group, GroupConfig, GroupError};
use alfirk_verbs::{Device, DeviceConfig};

use crate::active_group::{agree, ActiveGroup};
use crate::addresses::Turns;
use crate::buffer::Buffer;
use crate::job::Job;
use crate::settings::{address_of, DEVICE};
use crate::sys::{Comm, Result};

/// Maximum number of addresses that are tried for a group.
const MAX_ATTEMPTS: u32 = 8;

/// Turns (selectors of group addresses) that this process uses for groups that it leads.
static TURNS: Mutex<Turns> = Mutex::new(Turns::new());

/// State of this rank in a communicator that uses a group.
pub(crate) struct Hosts {
    host: Comm,
    /// For each rank of the communicator: the number of its host, and its rank on that host.
    hosts_and_ranks: Vec<(u32, u32)>,
    own: (u32, u32),
    leader: Option<Leader>,
}

/// State of a host's leader: its group, and the communicator of all leaders.
struct Leader {
    leaders: Comm,
    host: u32,
    group: Option<ActiveGroup>,
    /// Number of barriers so far; [`GIVEN_UP`] once the group has ended at all leaders.
    barriers: u64,
}

/// Placement of a communicator's ranks on hosts.
pub(crate) struct Placement {
    pub(crate) host: Comm,
    /// For each rank of the communicator: the number of its host, and its rank on that host.
    pub(crate) hosts_and_ranks: Vec<(u32, u32)>,
}

impl Placement {
    /// Determines the placement of the ranks. All members must call it.
    pub(crate) fn find(comm: Comm, rank: u32) -> Result<Placement> {
        let host = comm.on_host(rank)?;
        let first = *host.gather(rank.into())?.first().unwrap_or(&0);
        let firsts = comm.gather(first)?;
        Ok(Placement {
            host,
            hosts_and_ranks: hosts_and_ranks(&firsts),
        })
    }
}

/// Returns, for each rank, the number of its host and its rank on that host. `firsts`: for each rank, the lowest rank
/// on the same host. Hosts are numbered in the order of their lowest ranks.
fn hosts_and_ranks(firsts: &[u64]) -> Vec<(u32, u32)> {
    let mut hosts: Vec<u64> = firsts.to_vec();
    hosts.sort_unstable();
    hosts.dedup();
    let mut seen = vec![0; hosts.len()];
    let of = firsts.iter().map(|first| {
        let host = hosts.partition_point(|h| h < first);
        let place = (host as u32, seen[host]);
        seen[host] += 1;
        place
    });
    of.collect()
}

impl Hosts {
    /// Creates the group. All members must call it. Without a group, all calls fall back to the underlying MPI.
    pub(crate) fn join(job: &Job, comm: Comm, rank: u32, places: Placement) -> Result<Hosts> {
        let own = places.hosts_and_ranks[rank as usize];
        let (host, leads) = own;
        let leader = match comm.subset(leads == 0, rank)? {
            None => None,
            Some(leaders) => {
                let group = join(job, leaders, host, places.hosts_and_ranks.len())?;
                Some(Leader {
                    leaders,
                    host,
                    barriers: if group.is_some() { 0 } else { GIVEN_UP },
                    group,
                })
            }
        };
        Ok(Hosts {
            host: places.host,
            hosts_and_ranks: places.hosts_and_ranks,
            own,
            leader,
        })
    }

    /// Broadcasts the bytes of the rank `root`.
    pub(crate) fn broadcast(&mut self, job: &Job, mut bytes: Buffer<'_>, root: u32) -> Result<()> {
        let (source_host, place) = self.hosts_and_ranks[root as usize];
        let is_source_host = source_host == self.own.0;
        if is_source_host {
            self.host.bcast(&mut bytes, place)?;
        }
        if let Some(leader) = &mut self.leader {
            leader.broadcast(job, &mut bytes, source_host)?;
        }
        if !is_source_host {
            self.host.bcast(&mut bytes, 0)?;
        }
        Ok(())
    }

    pub(crate) fn barrier(&mut self, job: &Job) -> Result<()> {
        self.host.barrier()?;
        if let Some(leader) = &mut self.leader {
            leader.barrier(job)?;
        }
        self.host.barrier()
    }

    /// Lets the group make progress while the program makes no calls.
    pub(crate) fn make_progress(&mut self) {
        let joined = self
            .leader
            .as_mut()
            .and_then(|leader| leader.group.as_mut());
        if let Some(joined) = joined {
            joined.group.make_progress();
        }
    }

    /// Address of the group as a number, by which all hosts sort the groups of a job in the same order; 0 without a
    /// group.
    pub(crate) fn sort_key(&self) -> u32 {
        let joined = self
            .leader
            .as_ref()
            .and_then(|leader| leader.group.as_ref());
        joined.map_or(0, |joined| joined.address)
    }

    /// Leaves the group. All members must call it.
    pub(crate) fn leave(&mut self, job: &Job) {
        let joined = self.leader.as_mut().and_then(|leader| leader.group.take());
        if let Some(ActiveGroup { group, turn, .. }) = joined {
            if let Err(error) = group.leave() {
                job.log_verbose(|| format!("the group was not left cleanly: {error}"));
            }
            release_turn(turn);
        }
    }

    pub(crate) fn free(self) {
        self.host.free();
        if let Some(leader) = self.leader {
            leader.leaders.free();
        }
    }
}

/// Makes the turn (selector of the group's address) available for another group.
fn release_turn(turn: Option<u32>) {
    if let Some(turn) = turn {
        TURNS
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .release(turn);
    }
}

/// Name of the RDMA device to use: the configured device, or the first device of this host by name.
fn device() -> std::result::Result<String, String> {
    if let Ok(name) = std::env::var(DEVICE) {
        return Ok(name);
    }
    let devices = std::fs::read_dir("/sys/class/infiniband")
        .into_iter()
        .flatten();
    let names = devices.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    names.min().ok_or(format!(
        "this host has no RDMA device in /sys/class/infiniband; add one, or set {DEVICE}"
    ))
}

/// Opens the RDMA device to use, and returns its name and IPv4 address.
fn open() -> std::result::Result<(String, u32), String> {
    let name = device()?;
    let device = Device::open(DeviceConfig::new(&name)).map_err(|error| error.to_string())?;
    Ok((name, device.ip().into()))
}

/// Creates the group with the leaders of all other hosts. `None` if it cannot be created, or if there is only one host.
fn join(job: &Job, leaders: Comm, host: u32, members: usize) -> Result<Option<ActiveGroup>> {
    let opened = open();
    let mut addresses = leaders.gather(opened.as_ref().map_or(0, |(_, ip)| (*ip).into()))?;
    let own = opened.as_ref().map(|_| ()).map_err(Clone::clone);
    if !agree(job, leaders, host, own)? {
        return Ok(None);
    }
    let (Ok((device, _)), Some(leader)) = (opened, address_of(addresses[0])) else {
        return Ok(None);
    };
    let hosts = addresses.len();
    if hosts == 1 {
        job.log_verbose(|| format!("{members} ranks on one host use the underlying MPI"));
        return Ok(None);
    }
    addresses.sort_unstable();
    addresses.dedup();
    let twice = match addresses.len() == hosts {
        true => Ok(()),
        false => Err("two hosts have the same RDMA address".to_owned()),
    };
    if !agree(job, leaders, host, twice)? {
        return Ok(None);
    }
    for attempt in 0..MAX_ATTEMPTS {
        // The first leader chooses address and port, and sends them to the other leaders.
        let mut chosen = [0u8; 6];
        let mut turn = None;
        let mut listener = Ok(None);
        if host == 0 {
            let taken = TURNS
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .allocate(attempt);
            turn = Some(taken);
            let address =
                job.settings
                    .groups
                    .address(job.address_offset, job.ranks, job.rank, taken);
            chosen[..4].copy_from_slice(&address.octets());
            listener = TcpListener::bind((leader, 0)).and_then(|listener| {
                let port = listener.local_addr()?.port();
                chosen[4..].copy_from_slice(&port.to_be_bytes());
                Ok(Some(listener))
            });
        }
        leaders.bcast(&mut Buffer::Target(&mut chosen), 0)?;
        let listens = listener.as_ref().map(|_| ());
        let listens =
            listens.map_err(|error| format!("cannot listen on a TCP port of {leader}: {error}"));
        if !agree(job, leaders, host, listens)? {
            release_turn(turn);
            return Ok(None);
        }
        let [a, b, c, d, high, low] = chosen;
        let config = GroupConfig {
            device: device.clone(),
            address: [a, b, c, d].into(),
            leader,
            port: u16::from_be_bytes([high, low]),
            members: hosts as u32,
            buffer: job.settings.buffer,
            timeout: Duration::from_millis(job.settings.timeout_ms),
            fallback: alfirk_verbs::group::Transport::Multicast,
        };
        let address = config.address;
        let joined = match listener {
            Ok(Some(listener)) => Group::lead_at(config, listener),
            _ => Group::join(config),
        };
        // Leaders other than the first get the error `Over`, without the reason.
        let again = match &joined {
            Err(GroupError::NotRegistered(why)) => *why == Refusal::Taken.to_string(),
            Ok(_) | Err(GroupError::Over(_)) => true,
            Err(_) => false,
        };
        let (verdict, again) = (
            leaders.min(joined.is_ok().into())?,
            leaders.min(again.into())?,
        );
        if let (1, Ok(group)) = (verdict, joined.as_ref().map_err(|_| ())) {
            let ranks = leaders.gather(group.rank().into())?;
            if host == 0 {
                job.log_verbose(|| format!("{members} ranks on {hosts} hosts use group {address}"));
            }
            return Ok(joined.ok().map(|group| ActiveGroup {
                group,
                ranks: ranks.into_iter().map(|rank| rank as u32).collect(),
                turn,
                address: address.into(),
            }));
        }
        release_turn(turn);
        if again == 0 || attempt + 1 == MAX_ATTEMPTS {
            let own = joined.map(|_| ()).map_err(|error| error.to_string());
            agree(job, leaders, host, own)?;
            return Ok(None);
        }
    }
    Ok(None)
}

impl Leader {
    fn broadcast(&mut self, job: &Job, bytes: &mut Buffer<'_>, source_host: u32) -> Result<()> {
        let Some(mut joined) = self.group.take() else {
            // Leaders that still have the group call `min` before each broadcast. This call matches it, once.
            if self.barriers != GIVEN_UP {
                self.leaders.min(0)?;
                self.barriers = GIVEN_UP;
            }
            return self.leaders.bcast(bytes, source_host);
        };
        if joined.transfer(job, self.leaders, self.host, bytes, source_host)? {
            self.group = Some(joined);
            return Ok(());
        }
        // Dropping the group ends the device's access to the bytes.
        self.give_up(joined);
        self.leaders.bcast(bytes, source_host)
    }

    /// Stops using the group after a failure.
    fn give_up(&mut self, joined: ActiveGroup) {
        release_turn(joined.turn);
        self.barriers = GIVEN_UP;
    }

    fn barrier(&mut self, job: &Job) -> Result<()> {
        let Some(mut joined) = self.group.take() else {
            return self.leaders.barrier();
        };
        self.barriers += 1;
        let source = joined.host_of(joined.group.source());
        let leaders = self.leaders;
        let mut begun = false;
        for _ in 0..2 {
            let is_receiver = source != self.host;
            // Checking for notices also lets the underlying MPI make progress: other ranks may need messages of this
            // rank before they enter the barrier.
            match joined.group.signal(|| leaders.has_notice() && is_receiver) {
                Ok(true) => begun = true,
                Ok(false) => return self.finish_after_notice(joined),
                Err(error) => {
                    let rank = job.rank;
                    job.warn_once(&format!(
                        "rank {rank}: {error}; broadcasts and barriers of its communicator fall back to the underlying MPI"
                    ));
                    if is_receiver {
                        return self.finish_after_notice(joined);
                    }
                    for host in (0..joined.ranks.len() as u32).filter(|host| *host != self.host) {
                        leaders.send_notice(host, encode_notice(self.barriers, begun))?;
                    }
                    release_turn(joined.turn);
                    return match begun {
                        true => Ok(()),
                        false => leaders.barrier(),
                    };
                }
            }
        }
        self.group = Some(joined);
        Ok(())
    }

    /// Completes a barrier after the source's notice that the group has failed.
    fn finish_after_notice(&mut self, joined: ActiveGroup) -> Result<()> {
        release_turn(joined.turn);
        match is_complete(self.leaders.receive_notice()?, self.barriers) {
            true => Ok(()),
            false => self.leaders.barrier(),
        }
    }
}

/// Value of [`Leader::barriers`] that marks the end: no leader uses the multicast group any more, and transfers go
/// through the underlying MPI.
const GIVEN_UP: u64 = u64::MAX;

/// Encodes the notice of a source whose group has failed: the number of the barrier in which it failed, and whether all
/// members had entered that barrier.
fn encode_notice(barrier: u64, begun: bool) -> u64 {
    2 * barrier + u64::from(begun)
}

/// Whether all members have entered barrier number `barrier`, according to the source's notice.
fn is_complete(notice: u64, barrier: u64) -> bool {
    notice / 2 > barrier || (notice / 2 == barrier && notice % 2 == 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_are_numbered_by_their_first_ranks() {
        assert_eq!(
            hosts_and_ranks(&[0, 1, 0, 3, 1]),
            [(0, 0), (1, 0), (0, 1), (2, 0), (1, 1)]
        );
    }

    #[test]
    fn a_barrier_completed_at_the_source_is_complete() {
        assert!(!is_complete(encode_notice(5, false), 5));
        assert!(is_complete(encode_notice(5, true), 5));
        assert!(is_complete(encode_notice(6, false), 5));
        assert!(!is_complete(encode_notice(4, true), 5));
    }
}
