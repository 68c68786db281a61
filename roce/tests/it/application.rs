//! Applications of hosts, driven by commands and events alone.

use std::sync::Arc;

use alfirk_roce::application::{Application, CommandError, MemberEvent, TransferId};
use alfirk_roce::collective::{Algorithm, Digest, LegCommand, TransferError, TransferSpec};
use alfirk_roce::rc::{PathMtu, RcConfig, Retries};

use crate::net::{ip, segment, Net, Segment};

const BYTES: &[u8] = b"the data of the root";
/// Time after which the test gives up, in nanoseconds.
const DEADLINE: u64 = 1_000_000_000_000;

/// The specification of a broadcast from rank 0 along a chain.
fn spec(rank: u32, members: u32) -> TransferSpec {
    let members = (0..members as usize).map(ip).collect();
    let rc = RcConfig {
        retries: Retries::Limited(3),
        ..RcConfig::new(PathMtu::B1024)
    };
    TransferSpec {
        rc: Some(rc),
        ..TransferSpec::new(Algorithm::Chain, rank, members, BYTES.len() as u64)
    }
}

/// Hosts on one segment, each with an application, that are connected in one transfer.
struct Members {
    net: Net<Segment>,
    applications: Vec<Application>,
    events: Vec<(usize, TransferId, MemberEvent)>,
}

impl Members {
    fn connected(id: TransferId, members: u32) -> Members {
        let mut all = Members {
            net: segment(members as usize, 1500, 1),
            applications: (0..members).map(|_| Application::default()).collect(),
            events: Vec::new(),
        };
        let mut endpoints = Vec::new();
        for (rank, application) in all.applications.iter_mut().enumerate() {
            let host = &mut all.net.hosts[rank];
            let own = application.prepare(host, id, spec(rank as u32, members));
            endpoints.extend(own.unwrap());
        }
        for (rank, application) in all.applications.iter_mut().enumerate() {
            let host = &mut all.net.hosts[rank];
            application.connect(host, 0, id, &endpoints).unwrap();
        }
        all
    }

    /// Runs until no host has anything to do.
    fn run(&mut self) {
        loop {
            let is_running = self.net.step();
            let mut events = self.net.take_events();
            let had_events = !events.is_empty();
            for (rank, event) in events.drain(..) {
                let (host, now) = (&mut self.net.hosts[rank], self.net.now);
                self.applications[rank].handle_event(host, now, now, &event);
            }
            for (rank, application) in self.applications.iter_mut().enumerate() {
                while let Some((id, event)) = application.poll() {
                    self.events.push((rank, id, event));
                }
            }
            if !is_running && !had_events {
                return;
            }
            assert!(self.net.now < DEADLINE, "{:?}", self.events);
        }
    }

    /// Events of one host, in order.
    fn events_of(&self, rank: usize) -> Vec<&MemberEvent> {
        let own = self.events.iter().filter(|(of, ..)| *of == rank);
        own.map(|(_, _, event)| event).collect()
    }
}

#[test]
fn members_report_ready_then_done_then_finished() {
    let id = TransferId(3);
    let mut members = Members::connected(id, 3);
    members.run();
    assert_eq!(members.events.len(), 3, "{:?}", members.events);
    let now = members.net.now;
    let host = &mut members.net.hosts[0];
    let data = Arc::from(BYTES);
    members.applications[0].start(host, now, id, data).unwrap();
    members.run();
    for rank in 0..3 {
        let events = members.events_of(rank);
        let [MemberEvent::Ready, MemberEvent::Done { sha256, bytes, .. }, MemberEvent::Finished] =
            events[..]
        else {
            panic!("{events:?}");
        };
        assert_eq!((*sha256, *bytes), (Digest::of(BYTES), BYTES.len() as u64));
        assert!(!members.applications[rank].is_active(id));
    }
    assert!(members.events.iter().all(|(_, of, _)| *of == id));
}

#[test]
fn a_failed_connection_fails_the_transfer() {
    let id = TransferId(1);
    let mut members = Members::connected(id, 2);
    members.run();
    // The receiver destroys its queue pairs without notice.
    let host = &mut members.net.hosts[1];
    members.applications[1].close(host, id).unwrap();
    let now = members.net.now;
    let host = &mut members.net.hosts[0];
    let data = Arc::from(BYTES);
    members.applications[0].start(host, now, id, data).unwrap();
    members.run();
    let events = members.events_of(0);
    assert!(
        matches!(events[..], [MemberEvent::Ready, MemberEvent::Failed { .. }]),
        "{events:?}"
    );
    assert!(!members.applications[0].is_active(id));
}

#[test]
fn a_member_that_leaves_reports_the_slices_that_it_holds() {
    let id = TransferId::MAIN;
    let mut members = Members::connected(id, 2);
    members.run();
    let now = members.net.now;
    for rank in 0..2 {
        let host = &mut members.net.hosts[rank];
        let application = &mut members.applications[rank];
        application.act(host, now, id, LegCommand::Leave).unwrap();
        let left = MemberEvent::Left {
            held: 0,
            beyond: Vec::new(),
        };
        assert_eq!(application.left(id), left);
    }
}

#[test]
fn commands_for_unknown_and_open_transfers_are_rejected() {
    let id = TransferId(5);
    let mut members = Members::connected(id, 2);
    let (host, application) = (&mut members.net.hosts[0], &mut members.applications[0]);
    let prepared = application.prepare(host, id, spec(0, 2));
    assert_eq!(prepared, Err(CommandError::DuplicateTransfer(id)));
    let unknown = TransferId(6);
    let started = application.start(host, 0, unknown, Arc::from(BYTES));
    assert_eq!(started, Err(CommandError::NoTransfer(unknown)));
    assert_eq!(
        started.unwrap_err().to_string(),
        "there is no transfer 6; prepare it first"
    );
    let closed = application.close(host, unknown);
    assert_eq!(closed, Err(CommandError::NoTransfer(unknown)));
    let refused = application.start(host, 0, id, Arc::from(BYTES));
    let pending = TransferError::NotReady(1);
    assert_eq!(refused, Err(CommandError::Transfer(pending)));
    assert!(!application.deregister(host, 0), "the host leads no group");
}
