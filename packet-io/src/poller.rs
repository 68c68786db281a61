//! Waits for file descriptors and deadlines (epoll and a timerfd) without busy-waiting.

use std::{
    io,
    mem::MaybeUninit,
    os::fd::{AsFd, OwnedFd},
};

use rustix::{
    event::epoll::{self, CreateFlags, Event, EventData, EventFlags},
    io::{read, Errno},
    time::{
        timerfd_create, timerfd_settime, Itimerspec, TimerfdClockId, TimerfdFlags,
        TimerfdTimerFlags, Timespec,
    },
};

/// Maximum number of descriptors reported by one wait.
const EVENTS: usize = 64;
/// Token of the timer.
const TIMER: u64 = u64::MAX;

/// A set of file descriptors and one timer.
#[derive(Debug)]
pub struct Poller {
    epoll: OwnedFd,
    timer: OwnedFd,
    /// Expiry time of the timer, in nanoseconds of the monotonic clock; `None` if it is not set.
    armed: Option<u64>,
}

impl Poller {
    /// Creates a set without descriptors.
    pub fn new() -> io::Result<Poller> {
        let flags = TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC;
        let poller = Poller {
            epoll: epoll::create(CreateFlags::CLOEXEC)?,
            timer: timerfd_create(TimerfdClockId::Monotonic, flags)?,
            armed: None,
        };
        poller.add(&poller.timer, TIMER)?;
        Ok(poller)
    }

    /// Adds a descriptor; `token` is reported when it is readable. Closing a descriptor removes it.
    pub fn add(&self, fd: impl AsFd, token: u64) -> io::Result<()> {
        epoll::add(&self.epoll, fd, EventData::new_u64(token), EventFlags::IN)?;
        Ok(())
    }

    /// Adds a descriptor; `token` is reported when it is writable.
    pub fn add_writer(&self, fd: impl AsFd, token: u64) -> io::Result<()> {
        epoll::add(&self.epoll, fd, EventData::new_u64(token), EventFlags::OUT)?;
        Ok(())
    }

    /// Removes a descriptor.
    pub fn remove(&self, fd: impl AsFd) -> io::Result<()> {
        epoll::delete(&self.epoll, fd)?;
        Ok(())
    }

    /// Waits until a descriptor is ready, or the monotonic clock reaches `deadline` in nanoseconds (`None`: no deadline).
    /// Replaces the contents of `ready` by the tokens of the ready descriptors.
    pub fn wait(&mut self, deadline: Option<u64>, ready: &mut Vec<u64>) -> io::Result<()> {
        ready.clear();
        if deadline != self.armed {
            self.arm(deadline)?;
        }
        let mut events = [const { MaybeUninit::<Event>::uninit() }; EVENTS];
        let events = match epoll::wait(&self.epoll, &mut events, None) {
            Ok((events, _)) => events,
            Err(Errno::INTR) => return Ok(()),
            Err(error) => return Err(error.into()),
        };
        for event in events {
            match event.data.u64() {
                TIMER => {
                    // The number of expirations is not used; an error means that there was none.
                    let _ = read(&self.timer, &mut [0u8; 8]);
                    self.armed = None;
                }
                token => ready.push(token),
            }
        }
        Ok(())
    }

    fn arm(&mut self, deadline: Option<u64>) -> io::Result<()> {
        // A time of zero would disarm; one nanosecond is in the past and fires at once.
        let at = deadline.map_or(0, |at| at.max(1));
        let setting = Itimerspec {
            it_interval: timespec(0),
            it_value: timespec(at),
        };
        timerfd_settime(&self.timer, TimerfdTimerFlags::ABSTIME, &setting)?;
        self.armed = deadline;
        Ok(())
    }
}

fn timespec(nanoseconds: u64) -> Timespec {
    Timespec {
        tv_sec: (nanoseconds / 1_000_000_000) as _,
        tv_nsec: (nanoseconds % 1_000_000_000) as _,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::monotonic;

    #[test]
    fn deadlines_end_the_wait() {
        let mut poller = Poller::new().unwrap();
        let mut ready = vec![1];
        poller.wait(Some(0), &mut ready).unwrap();
        assert!(ready.is_empty());
        let deadline = monotonic() + 2_000_000;
        poller.wait(Some(deadline), &mut ready).unwrap();
        assert!(monotonic() >= deadline);
    }
}
