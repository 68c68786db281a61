//! Links that cannot carry the combined demand of all streams, and the share of them that each stream has.

use std::collections::BTreeMap;

use alfirk_ctrl::topology::{HostIndex, Topology};
use alfirk_roce::collective::{Algorithm, Racks};

use super::scale::{LinkShare, Scale};
use super::streams::{own_bps, streams_of, Direction, Stream};
use super::{can_overflow, Network};
use crate::job::spec::Job;

/// Tolerance for rounding errors in sums of shares: a link is overloaded if the demand exceeds its rate times this
/// factor.
const OVERLOAD_TOLERANCE: f64 = 1.01;

/// Link directions that cannot carry the combined demand of the senders of one or several jobs, with the number of
/// streams on each.
#[derive(Debug, Default)]
pub(crate) struct Contention(BTreeMap<Direction, u64>);

impl Contention {
    /// Finds the overloaded links of jobs that run at the same time, each with its algorithm.
    pub(crate) fn of<'j>(
        network: &Network<'_>,
        jobs: impl Iterator<Item = (&'j Job, Algorithm, Racks)>,
    ) -> Contention {
        let mut streams = Vec::new();
        for (job, algorithm, racks) in jobs {
            if can_overflow(network.topology) && !algorithm.needs_datagrams() {
                let scale = Scale::new(job.mtu, network.processing);
                let of_job = streams_of(network, job, algorithm, &racks, 1, &scale);
                streams.extend(of_job.into_iter().flatten());
            }
        }
        Contention::of_streams(network.topology, streams.iter())
    }

    /// Adds up the rates of the streams on each link and direction. Returns the links on which the sum is more than the
    /// link's rate, with the number of streams on each.
    pub(super) fn of_streams<'s>(
        topology: &Topology,
        streams: impl Iterator<Item = &'s Stream> + Clone,
    ) -> Contention {
        let mut wanted: BTreeMap<HostIndex, f64> = BTreeMap::new();
        for stream in streams.clone() {
            *wanted.entry(stream.sender).or_default() += stream.path.rate_bps as f64;
        }
        // Demand in bits per second, and number of streams.
        let mut load: BTreeMap<Direction, (f64, f64)> = BTreeMap::new();
        for stream in streams {
            // The sender's own link limits the sum of its streams.
            let own = own_bps(topology, stream.sender) as f64;
            let divided = (own / wanted[&stream.sender].max(1.0)).min(1.0);
            let rate = stream.path.rate_bps as f64 * divided;
            for (direction, share) in &stream.links {
                let (bits, count) = load.entry(*direction).or_default();
                *bits += rate * share;
                *count += share;
            }
        }
        let too_much = load.into_iter().filter(|((link, _), (bits, _))| {
            *bits > OVERLOAD_TOLERANCE * topology.link(*link).attributes.rate_bps as f64
        });
        let counts =
            too_much.map(|(direction, (_, count))| (direction, count.ceil().max(2.0) as u64));
        Contention(counts.collect())
    }

    /// Returns the share that a stream has of the overloaded links on its path; `None` if its path has no overloaded
    /// link.
    pub(super) fn share(
        &self,
        topology: &Topology,
        scale: &Scale,
        stream: &Stream,
    ) -> Option<LinkShare> {
        let links = stream.links.iter();
        let shares = links.filter_map(|(direction, _)| {
            let count = *self.0.get(direction)?;
            let link = topology.link(direction.0).attributes;
            let room = scale.packets_in(stream.path.round_trip_ns, link.rate_bps)
                + link.queue_bytes / scale.packet;
            Some(LinkShare {
                packets: room / count,
                flows: count,
                rate_bps: (link.rate_bps / count).max(1),
            })
        });
        shares.reduce(LinkShare::combine)
    }

    /// Whether no link is overloaded.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}
