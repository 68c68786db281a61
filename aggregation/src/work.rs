//! Packet counters that show the cost of a [`Strategy`](super::Strategy), the way to find a group's minimum PSN.

use super::{Message, PacketIn, QueuedPacket, SentPacket};

/// Packet counters, as the pipeline exports them (`Work` in `p4src/shared/constants.p4`). They are computed from the
/// packets that a [`Group`](super::Group) queues.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Work {
    /// ACKs and NAKs received.
    pub feedback: u64,
    /// ACKs and NAKs forwarded to the source.
    pub forwarded: u64,
    /// Passes of packets through the recirculation port.
    pub recirculations: u64,
    /// Packets sent to the controller.
    pub punts: u64,
}

impl Work {
    /// Counts an ACK or NAK for which [`Group::feedback`](super::Group::feedback) has returned `queued`. If it is empty,
    /// the packet was dropped, which is not counted.
    pub fn count_feedback(&mut self, queued: &[QueuedPacket]) {
        self.feedback += u64::from(!queued.is_empty());
        self.count_queued(queued);
    }

    /// Counts packets that a group has queued for an ACK or NAK, or for a pass of a recirculated packet.
    pub fn count_queued(&mut self, queued: &[QueuedPacket]) {
        for queued in queued {
            match queued {
                QueuedPacket::Recirculate { .. } => self.recirculations += 1,
                QueuedPacket::Transmit(SentPacket::Feedback { .. }) => self.forwarded += 1,
                QueuedPacket::Punt { .. }
                | QueuedPacket::Transmit(SentPacket::ToController(PacketIn {
                    message: Message::Probe(_),
                    ..
                })) => self.punts += 1,
                QueuedPacket::Transmit(_)
                | QueuedPacket::Drop
                | QueuedPacket::UpdateFilter { .. }
                | QueuedPacket::Copy { .. } => {}
            }
        }
    }
}
