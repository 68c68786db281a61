//! Debugging of packets: frames that a debugger records, and packets that are held while an editor looks at them.

use std::{collections::BTreeMap, sync::Arc};

use alfirk_bmv2::{LoadedProgram, QueueState};
use alfirk_p4rt::Event;
use alfirk_p4runtime::{alfirk::debug::v1::Message, Code, Status};
use tokio::sync::oneshot;
use tracing::info;

use super::Engine;
use crate::debug::{CreateDebugger, DebuggedFrame, EditorSender, PacketDebugger, ReleasedPacket};

/// Maximum number of events of a recorded frame, in case a program makes copies endlessly. Further packets are dropped.
const MAX_EVENTS: usize = 10_000;

/// Debugging in the event loop.
#[derive(Default)]
pub(super) struct Debugging {
    /// Creates debuggers; `None` if the switch cannot be debugged.
    create: Option<CreateDebugger>,
    session: Option<Session>,
    /// Number of sessions so far, by which messages of earlier ones are recognised.
    sessions: u64,
    /// Number of recorded frames so far.
    frames: u64,
}

/// The session of an editor.
struct Session {
    id: u64,
    /// Address of the editor.
    peer: String,
    editor: EditorSender,
    debugger: Box<dyn PacketDebugger>,
    /// The program that the switch ran when the debugger was attached.
    running: Arc<LoadedProgram>,
    held: BTreeMap<u64, HeldPacket>,
}

/// What a packet sends, which is held.
struct HeldPacket {
    events: Vec<Event>,
    /// Time at which it is sent in any case, in nanoseconds.
    until: u64,
}

impl Session {
    fn send(&self, messages: Vec<String>) {
        for json in messages {
            // A closed stream is followed by the end of the session.
            let _ = self.editor.send(Ok(Message { json }));
        }
    }
}

impl Engine {
    /// Sets how debuggers are created.
    pub fn allow_debuggers(&mut self, create: Option<CreateDebugger>) {
        self.debugging.create = create;
    }

    /// Attaches a debugger, or refuses it. Sends the number of the session.
    pub(super) fn attach_debugger(
        &mut self,
        editor: EditorSender,
        peer: String,
        attached: oneshot::Sender<Result<u64, Status>>,
    ) {
        let created = self.new_session(editor, peer);
        if attached.send(created).is_err() {
            self.detach_debugger(self.debugging.sessions);
        }
    }

    fn new_session(&mut self, editor: EditorSender, peer: String) -> Result<u64, Status> {
        if let Some(first) = &self.debugging.session {
            let why = format!(
                "a debugger at {} is attached already; a switch has one at a time",
                first.peer
            );
            return Err(Status::new(Code::ResourceExhausted, why));
        }
        let create = self
            .debugging
            .create
            .ok_or_else(|| Status::new(Code::Unimplemented, "this switch cannot be debugged"))?;
        let (Some(json), Some(running)) = (self.program_json(), self.program().cloned()) else {
            let why = "the switch has no program to debug; set a pipeline first";
            return Err(Status::new(Code::FailedPrecondition, why));
        };
        self.debugging.sessions += 1;
        let id = self.debugging.sessions;
        info!(editor = peer, "debugger attached");
        self.debugging.session = Some(Session {
            id,
            peer,
            editor,
            debugger: create(&json),
            running,
            held: BTreeMap::new(),
        });
        Ok(id)
    }

    /// Handles a message of an editor.
    pub(super) fn debug_message(&mut self, id: u64, json: &str, now: u64) {
        let session = self.debugging.session.as_mut();
        let Some(session) = session.filter(|session| session.id == id) else {
            return;
        };
        match session.debugger.handle(json) {
            Ok(messages) => session.send(messages),
            Err(why) => {
                let status = Status::new(Code::InvalidArgument, why);
                let _ = session.editor.send(Err(status));
                return self.detach_debugger(id);
            }
        }
        let is_done = session.debugger.is_done();
        self.send_released(now);
        if is_done {
            self.detach_debugger(id);
        }
    }

    /// Ends the session with this number: held packets are sent, and nothing is recorded any more.
    pub(super) fn detach_debugger(&mut self, id: u64) {
        let is_it = |session: &Session| session.id == id;
        if !self.debugging.session.as_ref().is_some_and(is_it) {
            return;
        }
        if let Some(session) = self.debugging.session.take() {
            info!(editor = session.peer, "debugger detached");
            let now = self.now();
            for held in session.held.into_values() {
                self.send_events(held.events, now);
            }
        }
    }

    /// Ends the session if the switch runs another program than at its beginning.
    pub(super) fn check_debugged_program(&mut self) {
        let program = self.program().cloned();
        let Some(session) = &mut self.debugging.session else {
            return;
        };
        if program.is_some_and(|program| Arc::ptr_eq(&program, &session.running)) {
            return;
        }
        let messages = session
            .debugger
            .end("the switch has loaded another program; attach again to debug it");
        session.send(messages);
        let id = session.id;
        self.detach_debugger(id);
    }

    /// Whether a debugger records the next frame.
    #[inline]
    pub(super) fn is_debugged(&self) -> bool {
        self.debugging.session.is_some()
    }

    /// Processes a frame while a debugger is attached. Returns false if the debugger does not record it.
    pub(super) fn record_frame(&mut self, port: u32, frame: &[u8], now: u64) -> bool {
        let Some(session) = &mut self.debugging.session else {
            return false;
        };
        // Events of earlier frames, of a program that copies endlessly, are not those of this one.
        if !session.debugger.wants(frame) || self.server.pending().len() > 0 {
            return false;
        }
        let program = session.debugger.program();
        let copy = program.and_then(|program| self.server.switch().recording_copy(program));
        let Some(before) = copy else {
            return false;
        };
        self.server.frame_in(port, frame, now);
        let mut events = Vec::new();
        for _ in 0..MAX_EVENTS {
            match self.server.poll() {
                // A recorded packet does not wait in queues.
                Some(Event::Enqueue(packet)) => {
                    let state = QueueState {
                        enq_timestamp: now,
                        ..QueueState::default()
                    };
                    self.server.dequeue(packet, now, state);
                }
                Some(event) => events.push(event),
                None => break,
            }
        }
        // Packets beyond the limit are dropped.
        while let Some(event) = self.server.poll() {
            if !matches!(event, Event::Enqueue(_)) {
                events.push(event);
            }
        }
        self.debugging.frames += 1;
        let id = self.debugging.frames;
        let debugged = DebuggedFrame {
            port,
            bytes: frame.to_vec(),
            at: now,
            before,
        };
        let (is_held, messages) = session.debugger.packet(id, debugged);
        session.send(messages);
        if is_held {
            let time = session.debugger.hold_time().as_nanos();
            let until = now.saturating_add(u64::try_from(time).unwrap_or(u64::MAX));
            session.held.insert(id, HeldPacket { events, until });
        } else {
            self.send_events(events, now);
        }
        true
    }

    /// Time at which the next held packet is sent in any case, in nanoseconds; `None` if none is held.
    pub(super) fn held_until(&self) -> Option<u64> {
        let session = self.debugging.session.as_ref()?;
        session.held.values().map(|held| held.until).min()
    }

    /// Sends held packets whose time is over.
    pub(super) fn send_expired(&mut self, now: u64) {
        while self.held_until().is_some_and(|until| until <= now) {
            let Some(session) = &mut self.debugging.session else {
                return;
            };
            let mut all = session.held.iter();
            let Some((&id, _)) = all.find(|(_, held)| held.until <= now) else {
                return;
            };
            let held = session.held.remove(&id);
            let messages = session.debugger.expired(id);
            session.send(messages);
            self.send_events(held.map_or_else(Vec::new, |held| held.events), now);
        }
    }

    /// Sends the packets that the debugger has released.
    fn send_released(&mut self, now: u64) {
        let Some(session) = &mut self.debugging.session else {
            return;
        };
        for ReleasedPacket { id, frames } in session.debugger.take_released() {
            let session = self.debugging.session.as_mut();
            let held = session.and_then(|session| session.held.remove(&id));
            match (held, frames) {
                (Some(_), Some(frames)) => {
                    self.server.send_frames(frames, now);
                    self.drain(now);
                }
                (Some(held), None) => self.send_events(held.events, now),
                (None, _) => {}
            }
        }
    }

    /// Executes the events of a packet.
    fn send_events(&mut self, events: Vec<Event>, now: u64) {
        for event in events {
            self.execute(event, now);
        }
        self.drain(now);
    }
}
