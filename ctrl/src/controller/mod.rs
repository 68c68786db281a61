//! The controller as a state machine: events in, P4Runtime messages out.
//!
//! [`Controller::handle`] processes an event, [`Controller::poll`] returns the next effect, and
//! [`Controller::poll_timeout`] the time of the next [`Event::Timeout`]. The controller opens no socket and reads no clock:
//! `client` drives it over gRPC, the simulator in virtual time.
//!
//! The controller holds the desired state: routes from the topology, groups from requests. When a switch connects, the
//! controller reads its entries and writes the difference. Registers of groups that the switch has kept are not changed.

mod adoption;
mod boot;
mod bridge;
mod capacity;
mod change;
mod checkpoint;
mod command;
mod config;
mod coordinator;
mod counting;
mod creation;
mod datagrams;
mod duplicate;
mod error;
mod event;
mod group;
mod groups;
mod health;
mod journal;
mod lease;
mod links;
mod locate;
mod mrp;
mod network;
mod plan;
mod pool;
mod position;
mod procedure;
mod punt;
mod recovery;
mod registers;
mod registration;
mod removal;
mod resources;
mod saved;
mod session;
mod status;
mod switches;
mod timers;
mod underlay;
mod virtual_qpns;

#[cfg(test)]
pub(crate) mod tests;

pub use config::{ConfigError, ControllerConfig, GroupRange};
pub use error::{GroupError, SwitchError, SwitchRequest, UpdateKind};
pub use event::{
    ApiReply, ApiRequest, Effect, Event, GroupInfo, MemberSpec, MemoryRegion, RegisterGroup,
    Request, RequestId, Response, Tag,
};
pub use registers::RegisterControl;
pub use saved::RestoreError;
pub use status::{
    GroupOnSwitch, GroupState, GroupStatus, MrpStats, PuntStats, StatusReport, SwitchState,
    SwitchStatus,
};
pub use virtual_qpns::VirtualQpnError;

use adoption::Adoption;
use checkpoint::Checkpoints;
use counting::Counting;
use datagrams::Datagrams;
use groups::Groups;
use health::Health;
use lease::Leases;
use links::Markers;
use mrp::Mrp;
use network::Network;
use punt::Punts;
use recovery::Recoveries;

use crate::topology::Topology;

/// Controller of one network: the desired state of its switches and groups, and all pending work.
pub struct Controller {
    network: Network,
    groups: Groups,
    adoption: Adoption,
    was_ready: bool,
    mrp: Mrp,
    health: Health,
    leases: Leases,
    punts: Punts,
    recoveries: Recoveries,
    checkpoints: Checkpoints,
    markers: Markers,
    counting: Counting,
    datagrams: Datagrams,
}

/// All changes of routes up to a point of time; see [`Controller::have_routes_changed`].
#[derive(Clone, Copy, Debug)]
pub struct RouteChanges(session::TaskId);

impl Controller {
    /// Creates a controller of a network, before any switch is connected.
    ///
    /// # Errors
    ///
    /// The pipeline is not supported, or the pipeline or the group addresses do not fit the topology.
    pub fn new(topology: Topology, config: ControllerConfig) -> Result<Controller, ConfigError> {
        let network = Network::new(topology, config)?;
        Ok(Controller {
            groups: Groups::new(&network),
            adoption: Adoption::new(network.topology()),
            network,
            was_ready: false,
            mrp: Mrp::default(),
            health: Health::default(),
            leases: Leases::default(),
            punts: Punts::default(),
            recoveries: Recoveries::default(),
            checkpoints: Checkpoints::default(),
            markers: Markers::default(),
            counting: Counting::default(),
            datagrams: Datagrams::default(),
        })
    }

    /// The network that this controller manages.
    pub fn topology(&self) -> &Topology {
        self.network.topology()
    }

    /// Whether every switch has its pipeline, routes and groups.
    pub fn is_ready(&self) -> bool {
        self.network.switches().are_all_ready()
    }

    /// Returns what [`Controller::have_routes_changed`] takes to ask about all changes of routes up to now.
    pub fn route_changes(&self) -> RouteChanges {
        RouteChanges(self.network.switches().last_task())
    }

    /// Whether all switches that can be reached have confirmed these changes of their routes.
    pub fn have_routes_changed(&self, changes: RouteChanges) -> bool {
        !self.network.switches().is_detached_pending(changes.0)
    }

    /// Processes an event at time `now`: nanoseconds since any epoch, monotonic.
    pub fn handle(&mut self, now: u64, event: Event) {
        self.handle_all(now, [event]);
    }

    /// Processes events received by `now`. ACKs and NAKs that switches have passed to the controller are aggregated over
    /// all events before replies are sent.
    pub fn handle_all(&mut self, now: u64, events: impl IntoIterator<Item = Event>) {
        for event in events {
            self.process_event(now, event);
            self.process_notices(now);
        }
        self.punts
            .reply_to_frames(now, &mut self.network, &self.groups);
        self.process_notices(now);
    }

    /// Returns the next effect; `None` if there is none.
    pub fn poll(&mut self) -> Option<Effect> {
        self.network.switches_mut().poll_effect()
    }

    /// Time at which the driver must send [`Event::Timeout`], in nanoseconds; `None` if none is needed. Earlier or
    /// additional timeouts have no effect.
    pub fn poll_timeout(&self) -> Option<u64> {
        [
            self.network.switches().poll_timeout(),
            self.mrp.poll_timeout(),
            self.health.poll_timeout(),
            self.leases.poll_timeout(),
            self.recoveries.poll_timeout(),
            self.markers.poll_timeout(),
            self.checkpoints.poll_timeout(&self.network, &self.groups),
        ]
        .into_iter()
        .flatten()
        .min()
    }

    /// Reports the state of switches and groups.
    pub fn status(&self) -> StatusReport {
        let switches = self.network.topology().switch_indexes().map(|index| {
            let switches = &self.network.switches();
            SwitchStatus {
                name: self.network.name(index).to_owned(),
                state: switches.state(index),
                groups: self.groups.resources().capacity(index).groups(),
                round_trip_ns: switches.session(index).round_trip(),
            }
        });
        StatusReport {
            switches: switches.collect(),
            groups: self.groups.status(&self.network),
            avoided: self.health.avoided(self.network.topology()),
            registrations: self.mrp_stats(),
            punts: *self.punts.stats(),
        }
    }

    /// Counters of registration packets.
    pub fn mrp_stats(&self) -> MrpStats {
        self.mrp.stats()
    }

    /// Describes an effect in one line; `None` for reads and replies.
    pub fn describe_effect(&self, effect: &Effect) -> Option<String> {
        self.network.describe_effect(effect)
    }

    /// Describes an event in one line; `None` for events of normal operation.
    pub fn describe_event(&self, event: &Event) -> Option<String> {
        self.network.describe_event(event)
    }

    /// Serialises the groups in use as JSON; equal groups result in equal text.
    pub fn save(&self) -> String {
        self.groups.save(self.network.topology())
    }

    /// Restores the groups of an earlier controller. Must be called before the first event.
    ///
    /// Registers that switches have kept are not changed.
    ///
    /// # Errors
    ///
    /// The text is not a saved state, or a saved group does not fit the network.
    pub fn restore(&mut self, text: &str) -> Result<(), RestoreError> {
        let has_leases = self.network.config().lease_ns > 0;
        let (leases, mrp) = (&mut self.leases, &mut self.mrp);
        self.groups
            .restore(&mut self.network, text, |groups, mcst_id| {
                if has_leases {
                    leases.grant(mcst_id);
                }
                mrp.note_leader(groups, mcst_id);
            })
    }
}
