//! Recording of the passes of packets through switches, for a debugger.

use std::sync::{Arc, Mutex, PoisonError};

use alfirk_bmv2::trace::stops::Stops;
use alfirk_bmv2::trace::TraceLine;
use alfirk_bmv2::Switch;
use alfirk_p4rt::Server;

/// A pass of a packet through the ingress or the egress of a switch.
#[derive(Debug)]
pub struct Pass {
    /// Name of the switch.
    pub switch: String,
    /// Virtual time in nanoseconds.
    pub at: u64,
    /// The switch before the pass, with its state.
    pub before: Switch,
    /// The stops of the pass.
    pub stops: Stops,
    /// The trace of the pass.
    pub trace: Vec<TraceLine>,
}

/// The passes that the switches of a network have recorded and that its driver has not taken yet. Clones refer to the same
/// list.
#[derive(Clone, Debug, Default)]
pub(super) struct PassList(Arc<Mutex<Vec<Pass>>>);

impl PassList {
    /// Removes and returns the passes, in the order of their times.
    pub fn take(&self) -> Vec<Pass> {
        let mut list = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::take(&mut list)
    }

    fn push(&self, pass: Pass) {
        let mut list = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        list.push(pass);
    }
}

/// Records the passes of one switch, whose programs are loaded with notes.
#[derive(Debug)]
pub(super) struct PassRecorder {
    name: String,
    list: PassList,
}

impl PassRecorder {
    pub fn new(name: &str, list: PassList) -> PassRecorder {
        PassRecorder {
            name: name.to_owned(),
            list,
        }
    }

    /// Calls `pass`, which makes the server process a packet at the time `at`, and records what it does.
    pub fn record(&self, server: &mut Server, at: u64, pass: impl FnOnce(&mut Server)) {
        // A restarted switch does not trace yet.
        if !server.switch().is_tracing() {
            server.switch_mut().set_trace(true);
        }
        // Of packets that do not come from a port, such as those of the controller.
        drop(server.take_trace());
        let before = server.switch().fork();
        server.switch_mut().record_stops(Vec::new());
        pass(server);
        let stops = server.switch_mut().take_stops();
        let trace = server.take_trace();
        self.list.push(Pass {
            switch: self.name.clone(),
            at,
            before,
            stops,
            trace,
        });
    }
}
