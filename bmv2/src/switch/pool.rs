//! Pools of packet and frame buffers, which avoid allocations.

use alfirk_packet_io::frame::SplitFrame;

use crate::effects::Packet;
use crate::exec::run::Context;
use crate::frame::{Frame, SharedFrame};
use crate::jit::Compiled;
use crate::program::LoadedProgram;

/// Maximum number of packets in the pool.
const POOL: usize = 4096;

/// Maximum number of output buffers kept by [`Switch::ingress_owned`](crate::Switch::ingress_owned).
const SPARE: usize = 256;

/// Pool of buffers of packets that were sent or dropped, for reuse.
#[derive(Debug, Default)]
pub(crate) struct Pool {
    // Boxed, since packets are moved as boxes.
    #[allow(clippy::vec_box)]
    packets: Vec<Box<Packet>>,
    frames: Vec<SharedFrame>,
    /// Whether all words of packets have defined values, since the switch records their changes.
    pub is_recorded: bool,
    /// Words whose initial values are undefined, with the bits that are set in them.
    pub undefined: Vec<(u16, u64)>,
}

impl Pool {
    /// Returns a pool without buffers for a copy of the switch.
    pub fn fork(&self) -> Pool {
        Pool {
            is_recorded: self.is_recorded,
            undefined: self.undefined.clone(),
            ..Pool::default()
        }
    }

    /// Returns a packet whose words are the program's constants and zeros.
    pub fn packet(
        &mut self,
        (program, compiled): (&LoadedProgram, Option<&Compiled>),
        frame: SharedFrame,
    ) -> Box<Packet> {
        match self.packets.pop() {
            Some(mut packet) => {
                match self.is_recorded {
                    true => {
                        program.layout.clear(&mut packet.words);
                        self.fill_undefined(&mut packet.words);
                    }
                    false => program.layout.clear_live(compiled, &mut packet.words),
                }
                packet.frame = Some(frame);
                packet
            }
            None => {
                let mut words = program.layout.initial.clone().into_boxed_slice();
                self.fill_undefined(&mut words);
                Box::new(Packet {
                    words,
                    frame: Some(frame),
                    payload: 0,
                    ctx: Context::default(),
                })
            }
        }
    }

    /// Sets all bits of undefined values, if the switch is to show what depends on them.
    fn fill_undefined(&self, words: &mut [u64]) {
        for (slot, mask) in &self.undefined {
            words[usize::from(*slot)] |= mask;
        }
    }

    /// Copies a packet for egress, except for its action parameters and temporaries.
    pub(super) fn copy(&mut self, packet: &Packet, program: &LoadedProgram) -> Box<Packet> {
        match self.packets.pop() {
            Some(mut copy) => {
                match self.is_recorded {
                    true => program.layout.copy(&packet.words, &mut copy.words),
                    false => program.layout.copy_live(&packet.words, &mut copy.words),
                }
                copy.frame.clone_from(&packet.frame);
                copy.payload = packet.payload;
                copy.ctx.copy_from(&packet.ctx);
                copy
            }
            None => Box::new(packet.clone()),
        }
    }

    /// Copies what egress may change of a packet, except for the frame.
    pub(super) fn backup(
        &mut self,
        packet: &Packet,
        (program, compiled): (&LoadedProgram, Option<&Compiled>),
    ) -> Box<Packet> {
        match self.packets.pop() {
            Some(mut copy) => {
                let layout = &program.layout;
                layout.copy_restored(compiled, &packet.words, &mut copy.words);
                copy.ctx.copy_from(&packet.ctx);
                copy
            }
            None => Box::new(Packet {
                frame: None,
                ..packet.clone()
            }),
        }
    }

    /// Copies received bytes to a frame from the pool.
    pub fn frame(&mut self, bytes: &[u8]) -> SharedFrame {
        let mut frame = self.frames.pop().unwrap_or_default();
        match SharedFrame::get_mut(&mut frame) {
            Some(frame) => frame.fill(bytes),
            None => frame = SharedFrame::new(Frame::copy_of(bytes)),
        }
        frame
    }

    /// Creates a frame from a buffer without copying. A buffer freed by this is added to `spare`.
    pub(super) fn adopt(&mut self, bytes: SplitFrame, spare: &mut Vec<Vec<u8>>) -> SharedFrame {
        let mut frame = self.frames.pop().unwrap_or_default();
        match SharedFrame::get_mut(&mut frame) {
            Some(frame) => {
                let old = frame.adopt(bytes);
                if old.capacity() > 0 && spare.len() < SPARE {
                    spare.push(old);
                }
            }
            None => {
                let mut fresh = Frame::empty();
                fresh.adopt(bytes);
                frame = SharedFrame::new(fresh);
            }
        }
        frame
    }

    /// Returns the buffers of a packet to the pool.
    pub fn recycle(&mut self, mut packet: Box<Packet>) {
        if let Some(mut frame) = packet.frame.take() {
            // Most returned frames have no tail: they had none, or it was moved to the output.
            if frame.has_tail() {
                SharedFrame::get_mut(&mut frame).map(Frame::release_tail);
            }
            if frame.is_unique() && self.frames.len() < POOL {
                self.frames.push(frame);
            }
        }
        if self.packets.len() < POOL {
            self.packets.push(packet);
        }
    }
}
