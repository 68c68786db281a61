//! Pools of packet and frame buffers, which avoid allocations.

use std::mem;
use std::sync::Arc;

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

/// A program, and its machine code if it is used.
pub(super) type Code<'a> = (&'a LoadedProgram, Option<&'a Compiled>);

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

/// Memory of packets that are not in use, for switches with the same program: see
/// [`Switch::exchange_packets`](crate::Switch::exchange_packets).
#[derive(Debug, Default)]
pub struct SparePackets {
    /// The program whose constants the packets have; `None` before the first exchange.
    program: Option<Arc<LoadedProgram>>,
    #[allow(clippy::vec_box)]
    packets: Vec<Box<Packet>>,
    frames: Vec<SharedFrame>,
}

impl Pool {
    /// Exchanges the buffers with `spare`, if these are for the same program. `program`: that of the switch.
    pub fn exchange(&mut self, program: &Arc<LoadedProgram>, spare: &mut SparePackets) {
        match &spare.program {
            Some(of) if Arc::ptr_eq(of, program) => {}
            // Another switch uses its program.
            Some(of) if Arc::strong_count(of) > 1 => return,
            _ => {
                *spare = SparePackets {
                    program: Some(program.clone()),
                    ..SparePackets::default()
                }
            }
        }
        // Recorded packets have other initial values.
        if !self.is_recorded && self.undefined.is_empty() {
            mem::swap(&mut self.packets, &mut spare.packets);
            mem::swap(&mut self.frames, &mut spare.frames);
        }
    }

    /// Returns a pool without buffers for a copy of the switch.
    pub fn fork(&self) -> Pool {
        Pool {
            is_recorded: self.is_recorded,
            undefined: self.undefined.clone(),
            ..Pool::default()
        }
    }

    /// Returns a packet with this frame, whose words are the program's constants and zeros.
    pub fn packet(&mut self, code: Code, frame: SharedFrame) -> Box<Packet> {
        let mut packet = self.cleared(code);
        self.set_frame(&mut packet, frame);
        packet
    }

    /// Returns a packet whose words are the program's constants and zeros. It may have a frame of its own with any contents.
    pub fn cleared(&mut self, code: Code) -> Box<Packet> {
        let mut packet = self.uncleared(code.0);
        self.clear(code, &mut packet.words);
        packet
    }

    /// Sets the words of a packet to zeros, or to what shows undefined values.
    pub fn clear(&self, (program, compiled): Code, words: &mut [u64]) {
        match self.is_recorded {
            true => {
                program.layout.clear(words);
                self.fill_undefined(words);
            }
            false => program.layout.clear_live(compiled, words),
        }
    }

    /// Returns a packet whose words are the program's constants, and zeros or values of an earlier packet. It may have a frame
    /// of its own with any contents.
    #[inline]
    pub fn uncleared(&mut self, program: &LoadedProgram) -> Box<Packet> {
        match self.packets.pop() {
            Some(packet) => packet,
            None => Box::new(Packet {
                words: program.layout.initial.clone().into_boxed_slice(),
                frame: None,
                payload: 0,
                ctx: Context::default(),
            }),
        }
    }

    /// Returns the packet's frame, which no other packet shares and which has any contents.
    #[inline]
    fn own_frame<'a>(&mut self, packet: &'a mut Packet) -> &'a mut Frame {
        if !packet.frame.as_ref().is_some_and(SharedFrame::is_unique) {
            packet.frame = Some(self.frames.pop().unwrap_or_default());
        }
        let frame = packet.frame.get_or_insert_default();
        SharedFrame::get_mut(frame).expect("the pool's frames have one owner")
    }

    /// Copies received bytes to the frame of a packet.
    #[inline]
    pub fn fill(&mut self, packet: &mut Packet, bytes: &[u8]) {
        self.own_frame(packet).fill(bytes);
    }

    /// Moves a buffer to the frame of a packet. A buffer freed by this is added to `spare`.
    #[inline]
    pub fn adopt(&mut self, packet: &mut Packet, bytes: SplitFrame, spare: &mut Vec<Vec<u8>>) {
        let old = self.own_frame(packet).adopt(bytes);
        if old.capacity() > 0 && spare.len() < SPARE {
            spare.push(old);
        }
    }

    /// Sets the frame of a packet, and keeps the memory of the old one.
    fn set_frame(&mut self, packet: &mut Packet, frame: SharedFrame) {
        if let Some(old) = packet.frame.replace(frame) {
            if old.is_unique() && self.frames.len() < POOL {
                self.frames.push(old);
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
    pub(super) fn copy(&mut self, packet: &Packet, (program, compiled): Code) -> Box<Packet> {
        match self.packets.pop() {
            Some(mut copy) => {
                let layout = &program.layout;
                match self.is_recorded {
                    true => layout.copy(&packet.words, &mut copy.words),
                    false => layout.copy_live(compiled, &packet.words, &mut copy.words),
                }
                if let Some(frame) = packet.frame.clone() {
                    self.set_frame(&mut copy, frame);
                }
                copy.payload = packet.payload;
                copy.ctx.copy_from(&packet.ctx);
                copy
            }
            None => Box::new(packet.clone()),
        }
    }

    /// Copies what egress may change of a packet, except for the frame.
    pub(super) fn backup(&mut self, packet: &Packet, (program, compiled): Code) -> Box<Packet> {
        match self.packets.pop() {
            Some(mut copy) => {
                let layout = &program.layout;
                match cfg!(debug_assertions) {
                    // The other words are compared after each copy.
                    true => layout.copy_live(compiled, &packet.words, &mut copy.words),
                    false => layout.copy_restored(compiled, &packet.words, &mut copy.words),
                }
                copy.ctx.copy_from(&packet.ctx);
                copy
            }
            None => Box::new(Packet {
                frame: None,
                ..packet.clone()
            }),
        }
    }

    /// Copies bytes to a frame that several packets are to share.
    pub fn frame(&mut self, bytes: &[u8]) -> SharedFrame {
        let mut frame = self.frames.pop().unwrap_or_default();
        match SharedFrame::get_mut(&mut frame) {
            Some(frame) => frame.fill(bytes),
            None => frame = SharedFrame::new(Frame::copy_of(bytes)),
        }
        frame
    }

    /// Returns the buffers of a packet to the pool.
    pub fn recycle(&mut self, mut packet: Box<Packet>) {
        match packet.frame.as_mut().map(SharedFrame::get_mut) {
            // Most returned frames have no tail: they had none, or it was moved to the output.
            Some(Some(frame)) => frame.release_tail(),
            Some(None) => packet.frame = None,
            None => {}
        }
        if self.packets.len() < POOL {
            self.packets.push(packet);
        }
    }
}
