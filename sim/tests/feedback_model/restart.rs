//! A switch that loses its registers, and the controller that writes them again.

use alfirk_aggregation::{Group, Point, Port};

use crate::fabric::{End, ModelFabric, World, FIRST_PSN, SPACE};

/// State with which a switch restarts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Restart {
    /// The group's first PSN, without a source, whatever the position of the group was.
    FirstPsn,
    /// The newest PSN that all members have. They acknowledge it when the controller sends them duplicates.
    Position,
}

/// What else the controller has for a switch that restarts: another switch of the tree has the source, unless that may be
/// at the switch itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Knowledge {
    Nothing,
    Source,
}

impl ModelFabric {
    pub fn knowledge(&self, world: &World, switch: usize) -> &'static [Knowledge] {
        match self.restart {
            Restart::FirstPsn => &[Knowledge::Nothing],
            Restart::Position if self.has_source_elsewhere(world, switch) => &[Knowledge::Source],
            Restart::Position => &[Knowledge::Nothing, Knowledge::Source],
        }
    }

    /// Whether another switch has a source that is not behind this switch.
    fn has_source_elsewhere(&self, world: &World, switch: usize) -> bool {
        let mut others = (0..self.switches).filter(|other| *other != switch);
        others.any(|other| {
            let source = world.sender(other).source;
            let far = source.and_then(|port| self.far_end(other, port));
            far.is_some_and(|far| !matches!(far, End::Switch(at, _) if at == switch))
        })
    }

    /// The switch loses its registers, and the packets that recirculate in it.
    pub fn restart(&self, world: &mut World, switch: usize, knowledge: Knowledge) {
        let position = match self.restart {
            Restart::FirstPsn => SPACE.previous(FIRST_PSN),
            Restart::Position => self.all_have(world),
        };
        let old = world.v1model(switch);
        let ports: Vec<Port> = old.ports().to_vec();
        let at = Point {
            psn: position,
            msn: 0,
        };
        let mut new = Group::new(self.config(), &ports, SPACE.next(at.psn), at.msn);
        if knowledge == Knowledge::Source {
            new.sender.source = old.sender.source;
        }
        *old = new;
        world.recirculating[switch].clear();
    }

    /// Newest PSN that all members acknowledge. A member that sends the last packets never receives them, but
    /// acknowledges them too: its responder expects the PSN after them.
    fn all_have(&self, world: &World) -> u32 {
        let acknowledged = world.hosts.iter().enumerate().map(|(at, host)| {
            let expected = match host.expected == self.last_expected(at) {
                true => self.end(),
                false => host.expected,
            };
            SPACE.previous(expected)
        });
        let older = |a, b| if SPACE.lt(b, a) { b } else { a };
        acknowledged
            .reduce(older)
            .unwrap_or(SPACE.previous(FIRST_PSN))
    }
}
