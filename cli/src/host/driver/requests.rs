//! Requests of the clients of `alfirk host`: each is one command to the application, and one reply.

use std::fs;
use std::sync::Arc;

use alfirk_packet_io::monotonic;
use alfirk_roce::application::{CommandError, TransferId};
use alfirk_roce::collective::{LegCommand, Transfer};
use alfirk_roce::hostile::Hostile;
use alfirk_roce::registration::LeaderTiming;

use super::Driver;
use crate::host::attack::Attack;
use crate::host::control::Incoming;
use crate::host::protocol::{EdgeStatus, Line, Reply, Request, Status};

/// An application's request to send its data (a post), on its way to the NIC. Times are in nanoseconds of the host's
/// clock.
pub(super) struct Post {
    transfer: TransferId,
    data: Arc<[u8]>,
    posted_at: u64,
    /// Time at which the post reaches the NIC.
    due: u64,
}

impl Post {
    /// Time at which the post reaches the NIC.
    pub(super) fn due(&self) -> u64 {
        self.due
    }
}

impl Driver {
    /// Executes a request of a client, and sends the reply.
    pub(super) fn reply(&mut self, incoming: Incoming) {
        let line = match incoming.request {
            Err(error) => Line::Error { id: 0, error },
            Ok(numbered) => {
                let id = numbered.id;
                match self.execute(numbered.request) {
                    Ok(reply) => Line::Reply { id, reply },
                    Err(error) => Line::Error { id, error },
                }
            }
        };
        self.control.send(incoming.client, &line);
    }

    /// Executes a request and returns the reply, or a message for the client.
    fn execute(&mut self, request: Request) -> Result<Reply, String> {
        let now = self.clock.now();
        self.station.advance_clock(now);
        match request {
            Request::Info => Ok(Reply::Info(self.station.info())),
            Request::Clock => Ok(Reply::Clock { at: now }),
            Request::Prepare { transfer, spec } => {
                let id = TransferId(transfer);
                let host = self.station.verbs_mut();
                let endpoints = self.application.prepare(host, id, *spec).map_err(text)?;
                let progress = self.application.progress(self.station.verbs(), id);
                self.progress
                    .extend(progress.map(|progress| (id, progress)));
                Ok(Reply::Prepared { endpoints })
            }
            Request::Connect { transfer, peers } => {
                let host = self.station.verbs_mut();
                self.application
                    .connect(host, now, TransferId(transfer), &peers)
                    .map_err(text)?;
                Ok(Reply::Accepted)
            }
            Request::Start { transfer, file } => {
                let transfer = TransferId(transfer);
                self.transfer(transfer)?;
                let data: Arc<[u8]> = fs::read(&file)
                    .map_err(|error| format!("cannot read {}: {error}", file.display()))?
                    .into();
                // The application starts only when the file has been read.
                let at = self.clock.now();
                match self.station.post_delay(data.len() as u64) {
                    0 => {
                        let host = self.station.verbs_mut();
                        self.application
                            .start(host, at, transfer, data)
                            .map_err(text)?;
                    }
                    posting => self.posts.push(Post {
                        transfer,
                        data,
                        posted_at: at,
                        due: at + posting,
                    }),
                }
                Ok(Reply::Started { at })
            }
            Request::Leg { transfer, verb } => {
                let id = TransferId(transfer);
                let leaves = verb == LegCommand::Leave;
                let host = self.station.verbs_mut();
                let answer = self.application.act(host, now, id, verb).map_err(text)?;
                if leaves {
                    // Process delivered data that is still queued as events.
                    self.dispatch_events();
                    let left = self.application.left(id);
                    self.report(id, left);
                }
                Ok(Reply::Acted { answer })
            }
            Request::Status { transfer } => {
                let machine = self.transfer(TransferId(transfer))?;
                Ok(Reply::Status(Status {
                    progress: machine.progress(self.station.verbs()),
                    held: machine.held(),
                    requests: machine.request_times().map(Box::new),
                    ready: machine.is_ready(),
                    finished: machine.is_finished(),
                    failed: machine.has_failed(),
                    edges: machine
                        .qp_stats(self.station.verbs())
                        .map(|(edge, stats)| EdgeStatus { edge, stats })
                        .collect(),
                    host: self.station.verbs().stats(),
                }))
            }
            Request::Save { transfer, file } => {
                let machine = self.transfer(TransferId(transfer))?;
                fs::write(&file, machine.data(self.station.verbs()))
                    .map_err(|error| format!("cannot write {}: {error}", file.display()))?;
                Ok(Reply::Accepted)
            }
            Request::Close { transfer } => {
                let id = TransferId(transfer);
                let host = self.station.verbs_mut();
                self.application.close(host, id).map_err(text)?;
                self.progress.remove(&id);
                self.attack.take_if(|(of, _)| *of == id);
                Ok(Reply::Accepted)
            }
            Request::TurnHostile {
                transfer,
                target,
                seed,
            } => {
                let transfer = TransferId(transfer);
                self.transfer(transfer)?;
                let info = self.station.info();
                let hostile = Hostile::new(info.ip, info.mac, target, seed);
                let interface = self.station.interface();
                let attack = Attack::open(interface, hostile, monotonic())
                    .map_err(|error| format!("interface {interface}: {error}"))?;
                self.attack = Some((transfer, attack));
                Ok(Reply::Accepted)
            }
            Request::Expect { qpn, group } => {
                let host = self.station.verbs_mut();
                self.application.expect(host, qpn, group);
                Ok(Reply::Accepted)
            }
            Request::Lead { group, nodes } => {
                let timing = LeaderTiming::default();
                self.application
                    .lead(self.station.verbs_mut(), now, group, timing, &nodes)
                    .map_err(text)?;
                Ok(Reply::Accepted)
            }
            Request::Dissolve => match self.application.deregister(self.station.verbs_mut(), now) {
                true => Ok(Reply::Accepted),
                false => Err(no_group()),
            },
            Request::Stalled { mcst_id } => {
                let verbs = self.station.verbs_mut();
                self.application.report_stall(verbs, now, mcst_id);
                Ok(Reply::Accepted)
            }
            Request::Stop => {
                self.stopping = true;
                Ok(Reply::Accepted)
            }
        }
    }

    /// Starts the transfers whose post has reached the NIC by `now`.
    pub(super) fn start_due_posts(&mut self, now: u64) {
        while let Some(index) = self.posts.iter().position(|post| post.due <= now) {
            let post = self.posts.remove(index);
            self.station.advance_clock(post.due);
            let host = self.station.verbs_mut();
            self.application
                .start_posted(host, post.posted_at, post.transfer, post.data);
        }
    }

    fn transfer(&self, id: TransferId) -> Result<&Transfer, String> {
        let transfer = self.application.transfer(id);
        transfer.ok_or_else(|| text(CommandError::NoTransfer(id)))
    }
}

fn no_group() -> String {
    "this host does not lead a group; send the request `lead` first".to_owned()
}

fn text(error: impl std::fmt::Display) -> String {
    error.to_string()
}
