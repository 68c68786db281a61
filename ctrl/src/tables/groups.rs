//! `ingress.group_lookup.groups`: McstIDs (IPv4 addresses) of the groups of this switch.
//!
//! An entry publishes a group: packets of the group are processed from then on. It is written last and deleted first.

use std::net::Ipv4Addr;

use alfirk_p4runtime::p4::config::v1::match_field::MatchType;
use alfirk_p4runtime::p4::v1::TableEntry;
use alfirk_roce::rc::Recovery;
use alfirk_roce::wire::QpNum;

use super::schema::{ActionIds, KeyIds, ProgramError, Schema};
use super::Table;
use crate::strategy::{IcrcMode, MinPsn, Strategies, Window};

/// Key: the group's address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct GroupKey {
    /// The McstID: the IPv4 address to which members send.
    pub mcst_id: Ipv4Addr,
}

/// Parameters of a group on a switch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GroupEntry {
    /// Index of the group on this switch, from 0. The id of its PRE multicast group is one more.
    pub group_index: u16,
    /// Number of paths of the group on this switch (ports of its tree), 1 to 128.
    pub paths: u8,
    /// Virtual queue pair number, which members put into their packets to the group.
    pub virtual_qpn: QpNum,
    /// How the switch aggregates ACKs and NAKs, keeps ICRCs valid, and limits the source's window.
    pub strategies: Strategies,
}

/// The table that maps a group's address to its index and parameters on this switch.
#[derive(Clone, Debug)]
pub struct Groups {
    key: KeyIds<1>,
    set_group: SetGroup,
}

/// The action of the table, which differs between pipelines.
#[derive(Clone, Debug)]
enum SetGroup {
    /// Action with parameters for the window of the source and for selective NAKs (v1model).
    WithLimits(ActionIds<7>),
    /// Action of the core profile, without strategies: the minimum is found by the tree, the ICRC kept by constants, and selective
    /// NAKs are not supported.
    WithWindow(ActionIds<4>),
}

impl Groups {
    pub(super) const NAME: &'static str = "ingress.group_lookup.groups";

    pub(super) fn resolve(schema: &Schema) -> Result<Groups, ProgramError> {
        Ok(Groups {
            key: schema
                .table(Self::NAME)?
                .key([("mcst_id", MatchType::Exact, 32)])?,
            set_group: Self::resolve_action(schema)?,
        })
    }

    /// Whether entries of the table have a parameter for each strategy.
    pub(super) fn has_strategies(&self) -> bool {
        matches!(self.set_group, SetGroup::WithLimits(_))
    }

    fn resolve_action(schema: &Schema) -> Result<SetGroup, ProgramError> {
        let [index, paths, min_psn, icrc, qpn] = [
            ("group_index", 16),
            ("paths", 8),
            ("min_psn", 2),
            ("icrc", 2),
            ("virtual_qpn", 24),
        ];
        let limits = [("window", 24), ("is_selective", 1)];
        let with_limits = schema.action(
            "ingress.group_lookup.set_group_with_limits",
            [index, paths, min_psn, icrc, qpn, limits[0], limits[1]],
        );
        match with_limits {
            Err(ProgramError::Missing { .. }) => {
                let name = "ingress.group_lookup.set_group_with_window";
                let with_window = schema.action(name, [index, paths, qpn, limits[0]])?;
                Ok(SetGroup::WithWindow(with_window))
            }
            with_limits => with_limits.map(SetGroup::WithLimits),
        }
    }
}

impl Table for Groups {
    type Key = GroupKey;
    type Action = GroupEntry;

    fn entry(&self, key: &GroupKey, group: &GroupEntry) -> TableEntry {
        let strategies = &group.strategies;
        let [index, paths, min_psn, icrc, qpn] = [
            u64::from(group.group_index),
            u64::from(group.paths),
            u64::from(strategies.min_psn.number()),
            u64::from(strategies.icrc.number()),
            u64::from(group.virtual_qpn.get()),
        ];
        let window = u64::from(strategies.window.get());
        let action = match &self.set_group {
            SetGroup::WithLimits(action) => {
                let is_selective = u64::from(strategies.recovery == Recovery::SelectiveRepeat);
                action.call([index, paths, min_psn, icrc, qpn, window, is_selective])
            }
            SetGroup::WithWindow(action) => action.call([index, paths, qpn, window]),
        };
        TableEntry {
            action: Some(action),
            ..self.pattern(key)
        }
    }

    fn pattern(&self, key: &GroupKey) -> TableEntry {
        self.key.exact([u64::from(u32::from(key.mcst_id))])
    }

    fn id(&self) -> u32 {
        self.key.table()
    }

    fn parse(&self, entry: &TableEntry) -> Option<(GroupKey, GroupEntry)> {
        let [mcst_id] = self.key.values(entry)?;
        let [index, paths, min_psn, icrc, virtual_qpn, window, is_selective] = match &self.set_group
        {
            SetGroup::WithLimits(action) => action.arguments(entry)?,
            SetGroup::WithWindow(action) => {
                let [index, paths, qpn, window] = action.arguments(entry)?;
                [index, paths, 0, 0, qpn, window, 0]
            }
        };
        let mcst_id = Ipv4Addr::from(u32::try_from(mcst_id).ok()?);
        let group = GroupEntry {
            group_index: u16::try_from(index).ok()?,
            paths: u8::try_from(paths).ok()?,
            virtual_qpn: QpNum::try_from(u32::try_from(virtual_qpn).ok()?).ok()?,
            strategies: Strategies {
                min_psn: MinPsn::from_number(min_psn)?,
                icrc: IcrcMode::from_number(icrc)?,
                recovery: match is_selective {
                    0 => Recovery::GoBackN,
                    _ => Recovery::SelectiveRepeat,
                },
                window: Window::new(u32::try_from(window).ok()?)?,
            },
        };
        Some((GroupKey { mcst_id }, group))
    }
}
