//! A switch that loses its registers, and the controller that writes them anew.

use alfirk_aggregation::{Group, Point, Port};

use crate::fabric::{ModelFabric, World, FIRST_PSN, SPACE};

/// What a switch begins with after a restart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Restart {
    /// The group's first PSN, without a source, wherever the group was.
    FirstPsn,
    /// What all members have, as they acknowledge it when the controller sends them duplicates.
    Position,
}

/// What else the controller knows of a switch that restarts: the other switches of the tree, if there are any, know the source.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Knowledge {
    Nothing,
    Source,
}

impl ModelFabric {
    pub fn knowledge(&self) -> &'static [Knowledge] {
        match self.restart {
            Restart::FirstPsn => &[Knowledge::Nothing],
            Restart::Position => &[Knowledge::Nothing, Knowledge::Source],
        }
    }

    /// The registers of a switch are lost. What goes round in it is, too.
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
        world.rounds[switch].clear();
    }

    /// The newest PSN that all members acknowledge. A member that will never receive the last packets, because it sends them, acknowledges
    /// them all the same: its responder expects what follows.
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
