//! Waits for file descriptors and deadlines (epoll and a timerfd) without busy-waiting.

use std::{
    io, mem,
    os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd},
    ptr,
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
        // SAFETY: neither call takes pointers; the descriptors are owned from here on.
        let (epoll, timer) = unsafe {
            let epoll = owned(libc::epoll_create1(libc::EPOLL_CLOEXEC))?;
            let flags = libc::TFD_NONBLOCK | libc::TFD_CLOEXEC;
            (
                epoll,
                owned(libc::timerfd_create(libc::CLOCK_MONOTONIC, flags))?,
            )
        };
        let poller = Poller {
            epoll,
            timer,
            armed: None,
        };
        poller.add(poller.timer.as_raw_fd(), TIMER)?;
        Ok(poller)
    }

    /// Adds a descriptor; `token` is reported when it is readable. Closing a descriptor removes it.
    pub fn add(&self, fd: RawFd, token: u64) -> io::Result<()> {
        self.control(libc::EPOLL_CTL_ADD, fd, libc::EPOLLIN, token)
    }

    /// Adds a descriptor; `token` is reported when it is writable.
    pub fn add_writer(&self, fd: RawFd, token: u64) -> io::Result<()> {
        self.control(libc::EPOLL_CTL_ADD, fd, libc::EPOLLOUT, token)
    }

    /// Removes a descriptor.
    pub fn remove(&self, fd: RawFd) -> io::Result<()> {
        self.control(libc::EPOLL_CTL_DEL, fd, 0, 0)
    }

    fn control(
        &self,
        operation: libc::c_int,
        fd: RawFd,
        events: libc::c_int,
        token: u64,
    ) -> io::Result<()> {
        let mut event = libc::epoll_event {
            events: events as u32,
            u64: token,
        };
        // SAFETY: the event is alive for the call.
        let result = unsafe { libc::epoll_ctl(self.epoll.as_raw_fd(), operation, fd, &mut event) };
        if result < 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(())
    }

    /// Waits until a descriptor is ready, or the monotonic clock reaches `deadline` in nanoseconds (`None`: no deadline).
    /// Replaces the contents of `ready` by the tokens of the ready descriptors.
    pub fn wait(&mut self, deadline: Option<u64>, ready: &mut Vec<u64>) -> io::Result<()> {
        ready.clear();
        if deadline != self.armed {
            self.arm(deadline)?;
        }
        // SAFETY: epoll_event is plain data, and zero is valid.
        let mut events: [libc::epoll_event; EVENTS] = unsafe { mem::zeroed() };
        // SAFETY: the array has the given length.
        let count = unsafe {
            libc::epoll_wait(
                self.epoll.as_raw_fd(),
                events.as_mut_ptr(),
                EVENTS as i32,
                -1,
            )
        };
        let Ok(count) = usize::try_from(count) else {
            let error = io::Error::last_os_error();
            return match error.kind() {
                io::ErrorKind::Interrupted => Ok(()),
                _ => Err(error),
            };
        };
        for event in &events[..count] {
            if event.u64 == TIMER {
                let mut expirations = [0u8; mem::size_of::<u64>()];
                // SAFETY: the buffer has the given length.
                unsafe {
                    libc::read(
                        self.timer.as_raw_fd(),
                        expirations.as_mut_ptr().cast(),
                        expirations.len(),
                    )
                };
                self.armed = None;
            } else {
                ready.push(event.u64);
            }
        }
        Ok(())
    }

    fn arm(&mut self, deadline: Option<u64>) -> io::Result<()> {
        // A time of zero would disarm; one nanosecond is in the past and fires at once.
        let at = deadline.map_or(0, |at| at.max(1));
        let setting = libc::itimerspec {
            it_interval: timespec(0),
            it_value: timespec(at),
        };
        // SAFETY: the setting is alive for the call, and the old one is not requested.
        let result = unsafe {
            libc::timerfd_settime(
                self.timer.as_raw_fd(),
                libc::TFD_TIMER_ABSTIME,
                &setting,
                ptr::null_mut(),
            )
        };
        if result < 0 {
            return Err(io::Error::last_os_error());
        }
        self.armed = deadline;
        Ok(())
    }
}

fn timespec(nanoseconds: u64) -> libc::timespec {
    libc::timespec {
        tv_sec: (nanoseconds / 1_000_000_000) as libc::time_t,
        tv_nsec: (nanoseconds % 1_000_000_000) as libc::c_long,
    }
}

fn owned(fd: RawFd) -> io::Result<OwnedFd> {
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the descriptor was just created and has no other owner.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
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
