//! A host that sends, beside what its honest queue pairs send, whatever it likes.
//!
//! Links between processes have no rate that a sender could fill, only processors that all share.  So the host sends as many
//! packets as come in by its interface: its link is as busy one way as the other.

use std::io;
use std::path::{Path, PathBuf};

use alfirk_packet_io::{interface_index, Outlet, BATCH};
use alfirk_roce::hostile::Hostile;

/// Nanoseconds between two looks at what has come in.
const INTERVAL: u64 = 1_000_000;
/// The most packets after one look.
const MOST: u64 = 16 * BATCH as u64;

/// Sends the packets of one [`Hostile`].
pub(super) struct Attack {
    hostile: Hostile,
    outlet: Outlet,
    /// Where the kernel counts the packets that have come in.
    counter: PathBuf,
    received: u64,
    next: u64,
}

impl Attack {
    /// Begins at `now`.
    ///
    /// # Errors
    /// Without CAP_NET_RAW, or such an interface.
    pub(super) fn open(interface: &str, hostile: Hostile, now: u64) -> io::Result<Attack> {
        let outlet = Outlet::open(interface_index(interface)?)?;
        outlet.set_bypass(true)?;
        let folder = Path::new("/sys/class/net").join(interface);
        let counter = folder.join("statistics/rx_packets");
        Ok(Attack {
            hostile,
            outlet,
            received: read(&counter)?,
            counter,
            next: now,
        })
    }

    /// When to call [`Attack::send`].
    pub(super) fn next(&self) -> u64 {
        self.next
    }

    /// Sends what is due at `now`: one packet for each that has come in, and at least one.
    pub(super) fn send(&mut self, now: u64) -> io::Result<()> {
        if now < self.next {
            return Ok(());
        }
        self.next = now + INTERVAL;
        let received = read(&self.counter)?;
        let news = received.wrapping_sub(self.received);
        self.received = received;
        let mut left = news.clamp(1, MOST) as usize;
        while left > 0 {
            let count = left.min(BATCH);
            let frames: Vec<Vec<u8>> = (0..count).map(|_| self.hostile.frame()).collect();
            // What the interface does not take is lost.
            if self.outlet.send(&frames).is_err() {
                return Ok(());
            }
            left -= count;
        }
        Ok(())
    }
}

fn read(counter: &Path) -> io::Result<u64> {
    let text = std::fs::read_to_string(counter)?;
    text.trim().parse().map_err(io::Error::other)
}
