//! Entries of switches, one file per table family.
//!
//! Each family has a key type and an action type, and converts them to P4Runtime entities. Ids are looked up in P4Info by
//! name, once, in [`Program::resolve`].

mod arp_targets;
mod clone_sessions;
mod constraints;
mod counters;
mod datagram_groups;
mod ecn_marking;
mod group_registers;
mod groups;
mod members;
mod mft;
mod mirrors;
pub(crate) mod multicast_groups;
mod next_hops;
mod packet_io;
mod punt_rates;
mod receivers;
mod routes;
mod schema;
mod snapshot;
mod source_guard;
mod target;

use alfirk_p4runtime::p4::config::v1::P4Info;
use alfirk_p4runtime::p4::v1::{entity, update, Entity, TableEntry, Update};
use alfirk_roce::wire::MacAddr;

use crate::strategy::{OptionalStrategy, Strategies};

pub use arp_targets::{ArpTarget, ArpTargets};
pub use clone_sessions::CloneSession;
pub use constraints::{AnnotationError, ConstraintError, Constraints};
pub use counters::{Counters, Counts, Work};
pub use datagram_groups::{DatagramGroupKey, DatagramGroups};
pub use ecn_marking::{EcnMarking, Marking, MarkingPort};
pub use group_registers::GroupRegisters;
pub use groups::{GroupEntry, GroupKey, Groups};
pub use members::{Member, MemberKey, Members};
pub use mft::{absent_children, Mft, MftKey, PathEntry};
pub use mirrors::Mirrors;
pub use multicast_groups::{MulticastGroup, Replica};
pub use next_hops::{NextHop, NextHopKey, NextHops};
pub use packet_io::{PacketInHeader, PacketIo, PacketOutHeader};
pub use punt_rates::{PuntKey, PuntRate, PuntRates};
pub use receivers::{ReceiverKey, ReceiverRewrite, Receivers};
pub use routes::{Route, RouteKey, Routes};
use schema::optional;
pub use schema::ProgramError;
pub use snapshot::Snapshot;
pub use source_guard::{HostPort, SourceGuard};
pub use target::{GroupName, Target};

/// A table family: one P4 table with its key and action types.
pub trait Table {
    /// Match fields of an entry.
    type Key;
    /// Action of an entry, with its parameters.
    type Action;

    /// Creates the entry that matches `key` and executes `action`.
    fn entry(&self, key: &Self::Key, action: &Self::Action) -> TableEntry;

    /// Creates the entry of `key` without an action, as deletions and reads require.
    fn pattern(&self, key: &Self::Key) -> TableEntry;

    /// P4Info id of the table.
    fn id(&self) -> u32;

    /// Parses an entry; `None` if it is of another table or form.
    fn parse(&self, entry: &TableEntry) -> Option<(Self::Key, Self::Action)>;

    /// Update that inserts an entry; the switch rejects it if the key exists.
    fn insert(&self, key: &Self::Key, action: &Self::Action) -> Update {
        table_update(update::Type::Insert, self.entry(key, action))
    }

    /// Update that replaces the action of an entry; the switch rejects it if the key does not exist.
    fn modify(&self, key: &Self::Key, action: &Self::Action) -> Update {
        table_update(update::Type::Modify, self.entry(key, action))
    }

    /// Update that deletes an entry; the switch rejects it if the key does not exist.
    fn delete(&self, key: &Self::Key) -> Update {
        table_update(update::Type::Delete, self.pattern(key))
    }
}

/// Whether two updates concern the same table entry: equal table, match fields and priority.
pub fn same_key(one: &Update, other: &Update) -> bool {
    let entry = |update: &Update| match update.entity.as_ref()?.entity.as_ref()? {
        entity::Entity::TableEntry(entry) => {
            Some((entry.table_id, entry.r#match.clone(), entry.priority))
        }
        _ => None,
    };
    entry(one).is_some_and(|key| entry(other) == Some(key))
}

/// Converts an Ethernet address to a number; the first byte on the wire is the most significant.
fn mac_bits(mac: MacAddr) -> u64 {
    mac.0
        .iter()
        .fold(0, |bits, byte| bits << 8 | u64::from(*byte))
}

fn mac_from_bits(bits: u64) -> MacAddr {
    let [_, _, mac @ ..] = bits.to_be_bytes();
    MacAddr(mac)
}

fn table_update(kind: update::Type, entry: TableEntry) -> Update {
    entity_update(kind, entity::Entity::TableEntry(entry))
}

fn entity_update(kind: update::Type, entity: entity::Entity) -> Update {
    Update {
        r#type: kind.into(),
        entity: Some(Entity {
            entity: Some(entity),
        }),
    }
}

/// All tables of the pipeline with ids from P4Info, and the sizes with which it was compiled.
#[derive(Clone, Debug)]
pub struct Program {
    /// Table `ingress.arp_responder.arp_targets`: addresses for which switches answer ARP requests.
    pub arp_targets: ArpTargets,
    /// Table `ingress.ipv4_routing.routes`: unicast routes.
    pub routes: Routes,
    /// Table `ingress.ipv4_routing.next_hops`: ports of equal-cost groups.
    pub next_hops: NextHops,
    /// Table `ingress.datagram_multicast.groups`: multicast groups of unreliable datagrams; `None` in the core profile.
    pub datagram_groups: Option<DatagramGroups>,
    /// Table `ingress.group_lookup.groups`: group addresses, with the groups' parameters.
    pub groups: Groups,
    /// Table `ingress.group_lookup.mft`: index of the path of a group that leads through a port, by group and port.
    pub mft: Mft,
    /// Table `ingress.bridge_entry.members`: rewrites of packets from members.
    pub members: Members,
    /// Table `egress.bridge_exit.receivers`: rewrites of packets to members.
    pub receivers: Receivers,
    /// Table `ingress.source_guard.hosts`: the address that each host port may send from.
    pub source_guard: SourceGuard,
    /// Table `egress.ecn_marking.profiles`: ECN thresholds of ports; `None` in the core profile.
    pub ecn_marking: Option<EcnMarking>,
    /// Table `ingress.mirrors`: mirror sessions of ports; `None` on v1model, which does not have it.
    pub mirrors: Option<Mirrors>,
    /// Meters `punt_limit.rates`: rate limits of packets to the controller.
    pub punt_rates: PuntRates,
    /// Counter arrays of the pipeline.
    pub counters: Counters,
    /// Registers that are read by P4Runtime; `None` if the pipeline replies to register control packets.
    pub group_registers: Option<GroupRegisters>,
    /// Headers of PacketIn and PacketOut.
    pub packet_io: PacketIo,
    /// Table and register sizes with which the pipeline was compiled.
    pub sizes: Sizes,
    /// Target for which the pipeline was compiled.
    pub target: Target,
    names: schema::TableNames,
    constraints: Constraints,
}

/// Table and register sizes of the pipeline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sizes {
    /// Maximum number of groups on a switch: the size of the table `groups`.
    pub groups: u32,
    /// Maximum number of paths of a group on a switch, derived from the size of the registers with one cell per path.
    pub paths: u32,
    /// Maximum number of entries of the table `datagram_groups`. The ids of their PRE groups follow those of the groups
    /// in `groups`.
    pub datagram_groups: u32,
    /// Maximum number of entries of the table `mft`: paths of all groups on a switch.
    pub mft: u32,
    /// Maximum number of entries of the table `members`.
    pub members: u32,
    /// Maximum number of entries of the table `receivers` that have a cell in the registers of memory regions.
    pub receivers: u32,
    /// Maximum number of entries of the table `routes`.
    pub routes: u32,
    /// Maximum number of entries of the table `next_hops`.
    pub next_hops: u32,
}

/// Error: the P4 program of the switches does not support an option of a group.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the P4 program of the switches supports {} `{}` only, not `{}`; {remedy}", .option.option, .option.only, .option.wanted)]
pub struct UnsupportedStrategy {
    /// The option and its value.
    pub option: OptionalStrategy,
    /// What provides the requested value.
    pub remedy: &'static str,
}

impl Program {
    /// Whether the program has the optional parts of v1model's data plane (`p4src/v1model/features.p4`).
    pub fn has_optional_parts(&self) -> bool {
        self.groups.has_strategies()
    }

    /// Checks that the program supports the strategies of a group.
    ///
    /// # Errors
    ///
    /// The program is for Tofino, or is the core profile of v1model, which have one strategy each for the minimum and for ICRCs, and
    /// no selective NAKs.
    pub fn check_strategies(&self, wanted: &Strategies) -> Result<(), UnsupportedStrategy> {
        let remedy = match self.target {
            Target::Tofino => "the data plane for v1model has all (`--target v1model`)",
            Target::V1model if self.groups.has_strategies() => return Ok(()),
            Target::V1model => "compile p4src/v1model without ALFIRK_PROFILE=PROFILE_CORE",
        };
        match wanted.optional_strategy() {
            None => Ok(()),
            Some(option) => Err(UnsupportedStrategy { option, remedy }),
        }
    }

    /// Constraints of the program on its table entries.
    pub fn constraints(&self) -> &Constraints {
        &self.constraints
    }

    /// Looks up all tables, actions, registers and headers in P4Info.
    ///
    /// # Errors
    ///
    /// One of them is missing, or has a different form.
    pub fn resolve(p4info: &P4Info) -> Result<Program, ProgramError> {
        let schema = schema::Schema::new(p4info);
        let groups = Groups::resolve(&schema)?;
        let target = Target::of(p4info);
        let routes = Routes::resolve(&schema, target)?;
        let next_hops = NextHops::resolve(&schema)?;
        let group_count = schema.table(Groups::NAME)?.size()?;
        let datagram_groups = optional(DatagramGroups::resolve(&schema))?;
        let path_cells = schema.register_size("egress.retransmission_filter.acked")?;
        // The core profile has no memory regions.
        let region_cells = optional(schema.register_size("egress.memory_regions.rkey"))?;
        let receivers = schema.table(Receivers::NAME)?.size()?;
        let sizes = Sizes {
            groups: group_count,
            paths: path_cells / group_count,
            datagram_groups: match datagram_groups {
                Some(_) => schema.table(DatagramGroups::NAME)?.size()?,
                None => 0,
            },
            mft: schema.table(Mft::NAME)?.size()?,
            members: schema.table(Members::NAME)?.size()?,
            receivers: receivers.min(region_cells.map_or(receivers, |cells| cells.max(1))),
            routes: schema.table(Routes::NAME)?.size()?,
            next_hops: schema.table(NextHops::NAME)?.size()?,
        };
        if !(1..=128).contains(&sizes.paths) || sizes.groups > 1 << 15 {
            return Err(ProgramError::Sizes {
                groups: sizes.groups,
                paths: sizes.paths,
            });
        }
        Ok(Program {
            arp_targets: ArpTargets::resolve(&schema)?,
            routes,
            next_hops,
            datagram_groups,
            groups,
            mft: Mft::resolve(&schema, target, sizes.paths)?,
            members: Members::resolve(&schema, target)?,
            receivers: Receivers::resolve(&schema)?,
            source_guard: SourceGuard::resolve(&schema)?,
            ecn_marking: optional(EcnMarking::resolve(&schema, target))?,
            mirrors: match target {
                Target::V1model => None,
                Target::Tofino => Some(Mirrors::resolve(&schema)?),
            },
            punt_rates: PuntRates::resolve(&schema)?,
            counters: Counters::resolve(&schema)?,
            group_registers: match target {
                Target::V1model => None,
                Target::Tofino => Some(GroupRegisters::resolve(&schema, sizes.paths)?),
            },
            packet_io: PacketIo::resolve(&schema)?,
            sizes,
            target,
            names: schema.names(),
            constraints: Constraints::of(p4info)?,
        })
    }

    /// P4Info ids of all tables that the controller writes.
    pub fn table_ids(&self) -> Vec<u32> {
        let tables = [
            self.arp_targets.id(),
            self.routes.id(),
            self.next_hops.id(),
            self.groups.id(),
            self.mft.id(),
            self.members.id(),
            self.receivers.id(),
            self.source_guard.id(),
        ];
        let others = [
            self.datagram_groups.as_ref().map(Table::id),
            self.ecn_marking.as_ref().and_then(EcnMarking::id),
            self.mirrors.as_ref().map(Mirrors::id),
        ];
        tables
            .into_iter()
            .chain(others.into_iter().flatten())
            .collect()
    }

    /// Group to which an entity belongs; `None` for entities that do not depend on groups.
    pub fn group_of(&self, entity: &entity::Entity) -> Option<GroupName> {
        match entity {
            entity::Entity::TableEntry(entry) => {
                let index = |index| GroupName::Index(index);
                let groups = self
                    .groups
                    .parse(entry)
                    .map(|(_, group)| index(group.group_index));
                let mft = || self.mft.parse(entry).map(|(key, _)| key.group);
                let members = || self.members.parse(entry).map(|(key, _)| key.group);
                let receivers = || Some(index(self.receivers.parse(entry)?.0.group_index));
                groups.or_else(mft).or_else(members).or_else(receivers)
            }
            entity::Entity::PacketReplicationEngineEntry(entry) => {
                multicast_groups::group_index(entry).map(GroupName::Index)
            }
            _ => None,
        }
    }

    /// Whether the key of an update contains the group's address instead of its index. Two parts of one group cannot both have
    /// such an entry on a switch.
    pub fn is_by_address(&self, update: &Update) -> bool {
        let entity = update.entity.as_ref().and_then(|e| e.entity.as_ref());
        match (self.target, entity) {
            (Target::Tofino, Some(entity::Entity::TableEntry(entry))) => {
                [self.mft.id(), self.members.id()].contains(&entry.table_id)
            }
            _ => false,
        }
    }

    /// Whether an update concerns the packet replication engine.
    pub fn is_replication(&self, update: &Update) -> bool {
        let entity = update.entity.as_ref().and_then(|e| e.entity.as_ref());
        matches!(
            entity,
            Some(entity::Entity::PacketReplicationEngineEntry(_))
        )
    }

    /// Name of an update's entity for messages, such as `table ingress.group_lookup.groups`.
    pub fn describe(&self, update: &Update) -> String {
        match update.entity.as_ref().and_then(|e| e.entity.as_ref()) {
            Some(entity::Entity::TableEntry(entry)) => match self.names.table(entry.table_id) {
                Some(name) => format!("table {name}"),
                None => format!("table {:#x}", entry.table_id),
            },
            Some(entity::Entity::PacketReplicationEngineEntry(entry)) => {
                multicast_groups::describe(entry)
            }
            Some(entity::Entity::MeterEntry(entry)) => {
                let index = entry.index.as_ref().map_or(0, |index| index.index);
                format!("meter punt_limit.rates[{index}]")
            }
            _ => "entity".to_owned(),
        }
    }
}
