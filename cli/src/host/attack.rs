//! A hostile host: besides the packets of its queue pairs, it sends harmful packets to its multicast group.
//!
//! Links between processes have no rate limit; all processes share the processors. The host therefore sends as many
//! packets as its interface receives, which loads the link equally in both directions. It learns the group's newest PSN
//! from the received packets.

use std::io;

use alfirk_packet_io::{interface_index, PacketSocket, ReceiveBatch, BATCH};
use alfirk_roce::hostile::Hostile;

/// Nanoseconds between two polls of the interface.
const POLL_INTERVAL: u64 = 1_000_000;
/// Maximum number of packets sent after one poll.
const MAX_BURST: usize = 16 * BATCH;

/// Sends the harmful packets that a [`Hostile`] generates, through an interface.
pub(super) struct Attack {
    hostile: Hostile,
    socket: PacketSocket,
    batch: ReceiveBatch,
    next_send_at: u64,
}

impl Attack {
    /// Opens the interface; the first packet is due at `now`, in nanoseconds.
    ///
    /// # Errors
    /// CAP_NET_RAW is missing, or there is no such interface.
    pub(super) fn open(interface: &str, hostile: Hostile, now: u64) -> io::Result<Attack> {
        Ok(Attack {
            hostile,
            socket: PacketSocket::open(interface_index(interface)?)?,
            batch: ReceiveBatch::default(),
            next_send_at: now,
        })
    }

    /// Time at which [`Attack::send`] must be called next, in nanoseconds.
    pub(super) fn next_send_at(&self) -> u64 {
        self.next_send_at
    }

    /// Sends one harmful packet for each packet that the interface received since the last call, and at least one.
    pub(super) fn send(&mut self, now: u64) -> io::Result<()> {
        if now < self.next_send_at {
            return Ok(());
        }
        self.next_send_at = now + POLL_INTERVAL;
        let hostile = &mut self.hostile;
        let mut received = 0;
        while received < MAX_BURST {
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
            // Packets that the interface does not accept are lost.
            if self.socket.send(&frames).is_err() {
                return Ok(());
            }
            left -= count;
        }
        Ok(())
    }
}
