//! The Thrift service "simple_switch": clone (mirroring) sessions, egress queues and timestamps.

use alfirk_thrift::simple_switch::*;

use super::runtime::{Ports, Runtime};
use alfirk_bmv2::{CloneSession, Replica, MAX_SESSION};

/// Return value of the deprecated methods for success.
const OK: i32 = 0;

impl<P: Ports> Runtime<'_, P> {
    fn set_session(&mut self, session: i32, config: &MirroringSessionConfig) -> bool {
        let replicas = config.port.iter().map(|&port| Replica {
            port: port as u32,
            rid: 0,
        });
        let new = CloneSession {
            replicas: replicas.collect(),
            group: config.mgid.map(|group| group as u32),
            ..CloneSession::default()
        };
        let mut switch = self.switch_mut();
        let pre = switch.pre_mut();
        pre.is_ok_and(|pre| pre.set_session(session as u32, new).is_ok())
    }

    fn delete_session(&mut self, session: i32) -> bool {
        let mut switch = self.switch_mut();
        let pre = switch.pre_mut();
        pre.is_ok_and(|pre| pre.delete_session(session as u32).is_ok())
    }

    /// Returns a clone session in Thrift's form, which has one port. Of a session with several ports, which only
    /// P4Runtime can create, the first port is returned. `None` if there is no such session.
    fn session(&self, session: i32) -> Option<MirroringSessionConfig> {
        let session = self.switch().pre().ok()?.session(session as u32)?;
        Some(MirroringSessionConfig {
            port: session.replicas.first().map(|replica| replica.port as i32),
            mgid: session.group.map(|group| group as i32),
        })
    }
}

/// Converts a port or priority of a request; `None` if the number is negative or too large.
fn port_or_priority<T: TryFrom<i32>>(number: i32) -> Option<T> {
    T::try_from(number).ok()
}

/// Converts a queue depth as BMv2 does: a negative number is a very large one.
fn depth(packets: i32) -> usize {
    packets as u32 as usize
}

impl<P: Ports> Handler for Runtime<'_, P> {
    /// Returns 1 for success, as BMv2 does, whose C++ code converts an enum to a number. BMv2 accepts sessions
    /// beyond the last one without an effect.
    fn mirroring_mapping_add(&mut self, session: i32, port: i32) -> i32 {
        let config = MirroringSessionConfig {
            port: Some(port),
            mgid: None,
        };
        self.set_session(session, &config).into()
    }

    fn mirroring_mapping_delete(&mut self, session: i32) -> i32 {
        self.delete_session(session).into()
    }

    fn mirroring_mapping_get_egress_port(&mut self, session: i32) -> i32 {
        let session = self.session(session);
        session.and_then(|session| session.port).unwrap_or(-1)
    }

    fn mirroring_session_add(
        &mut self,
        session: i32,
        config: MirroringSessionConfig,
    ) -> Result<(), InvalidMirroringOperation> {
        if !self.set_session(session, &config) {
            // BMv2 ignores this error, and has no such session either.
            tracing::error!("mirroring_session_add: {session} is not from 0 to {MAX_SESSION}, or no program is loaded");
        }
        Ok(())
    }

    fn mirroring_session_delete(&mut self, session: i32) -> Result<(), InvalidMirroringOperation> {
        match self.delete_session(session) {
            true => Ok(()),
            false => Err(MirroringOperationErrorCode::SessionNotFound.into()),
        }
    }

    fn mirroring_session_get(
        &mut self,
        session: i32,
    ) -> Result<MirroringSessionConfig, InvalidMirroringOperation> {
        let session = self.session(session);
        session.ok_or_else(|| MirroringOperationErrorCode::SessionNotFound.into())
    }

    fn set_egress_priority_queue_depth(&mut self, port: i32, priority: i32, packets: i32) -> i32 {
        if let (Some(port), Some(priority)) = (port_or_priority(port), port_or_priority(priority)) {
            self.ports
                .set_depth(Some(port), Some(priority), depth(packets));
        }
        OK
    }

    fn set_egress_queue_depth(&mut self, port: i32, packets: i32) -> i32 {
        if let Some(port) = port_or_priority(port) {
            self.ports.set_depth(Some(port), None, depth(packets));
        }
        OK
    }

    fn set_all_egress_queue_depths(&mut self, packets: i32) -> i32 {
        self.ports.set_depth(None, None, depth(packets));
        OK
    }

    fn set_egress_priority_queue_rate(&mut self, port: i32, priority: i32, rate: i64) -> i32 {
        if let (Some(port), Some(priority)) = (port_or_priority(port), port_or_priority(priority)) {
            self.ports.set_rate(Some(port), Some(priority), rate as u64);
        }
        OK
    }

    fn set_egress_queue_rate(&mut self, port: i32, rate: i64) -> i32 {
        if let Some(port) = port_or_priority(port) {
            self.ports.set_rate(Some(port), None, rate as u64);
        }
        OK
    }

    fn set_all_egress_queue_rates(&mut self, rate: i64) -> i32 {
        self.ports.set_rate(None, None, rate as u64);
        OK
    }

    fn get_time_elapsed_us(&mut self) -> i64 {
        micros(self.now)
    }

    fn get_time_since_epoch_us(&mut self) -> i64 {
        micros(self.wall_clock)
    }
}

fn micros(nanoseconds: u64) -> i64 {
    i64::try_from(nanoseconds / 1000).unwrap_or(i64::MAX)
}
