//! A host that sends, beside what its honest queue pairs send, whatever may harm its group.
//!
//! Links between processes have no rate that a sender could fill, only processors that all share. So the host sends as many
//! packets as arrive at its interface: its link is as busy one way as the other. From those it takes the group's position.

use std::io;

use alfirk_packet_io::{interface_index, PacketSocket, ReceiveBatch, BATCH};
use alfirk_roce::hostile::Hostile;

/// Nanoseconds between two looks at what has come in.
const INTERVAL: u64 = 1_000_000;
/// The most packets after one look.
const MOST: usize = 16 * BATCH;

/// Sends the packets of one [`Hostile`].
pub(super) struct Attack {
    hostile: Hostile,
    socket: PacketSocket,
    batch: ReceiveBatch,
    next: u64,
}

impl Attack {
    /// Begins at `now`.
    ///
    /// # Errors
    /// Without CAP_NET_RAW, or such an interface.
    pub(super) fn open(interface: &str, hostile: Hostile, now: u64) -> io::Result<Attack> {
        Ok(Attack {
            hostile,
            socket: PacketSocket::open(interface_index(interface)?)?,
            batch: ReceiveBatch::default(),
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
        let hostile = &mut self.hostile;
        let mut received = 0;
        while received < MOST {
            let taken = self
                .socket
                .take(&mut self.batch, |frame| hostile.observe_frame(frame))?;
            if !taken.is_frame() {
                break;
            }
            received += 1;
        }
        let mut left = received.max(1);
        while left > 0 {
            let count = left.min(BATCH);
            let frames: Vec<Vec<u8>> = (0..count).map(|_| self.hostile.frame()).collect();
            // What the interface does not take is lost.
            if self.socket.send(&frames).is_err() {
                return Ok(());
            }
            left -= count;
        }
        Ok(())
    }
}
