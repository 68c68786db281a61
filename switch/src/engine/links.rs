//! The gRPC service that lists and changes the emulated links of ports.

use std::{collections::BTreeMap, time::Duration};

use alfirk_p4runtime::{
    alfirk::links::v1::{
        self as proto, link, link_change, ChangeRequest, ChangeResponse, ListRequest, ListResponse,
    },
    Code, Status,
};
use alfirk_packet_io::link::{LinkOptions, Rate};
use tracing::info;

use super::{Engine, Port};

impl Engine {
    /// Returns the state of the ports that a request names, or of all ports if it names none.
    ///
    /// # Errors
    /// NOT_FOUND for a port that does not exist.
    pub(super) fn list_links(&self, request: &ListRequest) -> Result<ListResponse, Status> {
        let mut ports = BTreeMap::new();
        for &number in &request.ports {
            ports.insert(number, self.port(number)?.describe());
        }
        if request.ports.is_empty() {
            ports.extend(self.ports.iter().map(|(&n, port)| (n, port.describe())));
        }
        Ok(ListResponse {
            ports: ports.into_values().collect(),
        })
    }

    /// Changes the links of all ports that a request names, or, on an error, none of them.
    ///
    /// # Errors
    /// NOT_FOUND for a port that does not exist, INVALID_ARGUMENT for invalid link options.
    pub(super) fn change_links(
        &mut self,
        request: &ChangeRequest,
        now: u64,
    ) -> Result<ChangeResponse, Status> {
        let mut links = BTreeMap::new();
        for change in &request.changes {
            let number = change.port;
            let before = self.port(number)?.link.options();
            let link = links.entry(number).or_insert(before);
            let bad =
                |why: String| Status::new(Code::InvalidArgument, format!("port {number}: {why}"));
            *link = with_change(*link, change).map_err(|why| bad(why.into()))?;
        }
        for (number, link) in &links {
            link.check().map_err(|fault| {
                Status::new(Code::InvalidArgument, format!("port {number}: {fault}"))
            })?;
        }
        let mut ports = Vec::new();
        for (number, link) in links {
            let Some(port) = self.ports.get_mut(&number) else {
                continue;
            };
            let was_up = port.is_up();
            port.link.set(link, now);
            info!(port = number, ?link, "link changed");
            if port.is_up() != was_up {
                self.server.set_port(number, port.is_up());
            }
            ports.push(port.describe());
        }
        Ok(ChangeResponse { ports })
    }

    fn port(&self, number: u32) -> Result<&Port, Status> {
        self.ports.get(&number).ok_or_else(|| {
            let here: Vec<String> = self.ports.keys().map(u32::to_string).collect();
            let why = format!(
                "port {number} does not exist; ports are {}",
                here.join(", ")
            );
            Status::new(Code::NotFound, why)
        })
    }
}

impl Port {
    fn describe(&self) -> proto::Port {
        let counters = self.counters;
        proto::Port {
            number: self.number,
            interface: self.interface.clone(),
            interface_up: self.running,
            link: Some(link_message(self.link.options())),
            counters: Some(proto::Counters {
                received: counters.received,
                sent: counters.sent,
                lost: self.link.lost,
                queue_full: self.queues.dropped,
                not_sent: counters.unsent,
                malformed: counters.malformed,
                queued: self.queues.len() as u64,
                under_way: self.link.in_flight() as u64,
                not_received: counters.not_received,
            }),
        }
    }
}

fn link_message(link: LinkOptions) -> proto::Link {
    // Times set by clients are 64-bit nanoseconds; those of the command line may be longer.
    let nanos = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
    proto::Link {
        loss: link.loss,
        duplicate: link.duplicate,
        reorder: link.reorder,
        delay_ns: nanos(link.delay),
        jitter_ns: nanos(link.jitter),
        rate: link.rate.map(|rate| match rate {
            Rate::Bits(rate) => link::Rate::BitsPerSecond(rate),
            Rate::Packets(rate) => link::Rate::PacketsPerSecond(rate),
        }),
        down: link.down,
    }
}

/// Returns the link options with a change applied. Does not check whether the result is valid.
fn with_change(link: LinkOptions, change: &proto::LinkChange) -> Result<LinkOptions, &'static str> {
    let nanos = |time: Option<u64>, now| time.map_or(now, Duration::from_nanos);
    Ok(LinkOptions {
        loss: change.loss.unwrap_or(link.loss),
        duplicate: change.duplicate.unwrap_or(link.duplicate),
        reorder: change.reorder.unwrap_or(link.reorder),
        delay: nanos(change.delay_ns, link.delay),
        jitter: nanos(change.jitter_ns, link.jitter),
        rate: match change.rate {
            None => link.rate,
            Some(link_change::Rate::BitsPerSecond(rate)) => Some(Rate::Bits(rate)),
            Some(link_change::Rate::PacketsPerSecond(rate)) => Some(Rate::Packets(rate)),
            Some(link_change::Rate::Unlimited(true)) => None,
            Some(link_change::Rate::Unlimited(false)) => {
                return Err("unlimited: false is not allowed; set a rate instead");
            }
        },
        on_wire: link.on_wire,
        down: change.down.unwrap_or(link.down),
    })
}
