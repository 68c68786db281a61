//! A packet that machine code of a program for v1model processes, from the parser to the deparser.

use super::machine::{Machine, IN_OUTPUT, IN_PLACE};
use super::{Compiled, Function, Functions};
use crate::effects::Packet;
use crate::exec::deparse::Deparsed;
use crate::exec::join::SLACK;
use crate::exec::verdict::{Part, Verdict};
use crate::frame::{Frame, Rest, SharedFrame};
use crate::program::{EgressValues, LoadedProgram};
use crate::state::State;
use alfirk_packet_io::frame::SplitFrame;
use std::slice;

/// The functions of a program for v1model.
#[derive(Clone, Copy)]
pub(crate) struct V1model {
    ingress: Function,
    egress: Function,
}

/// A packet, and the machine on which the code processes it.
pub(crate) struct Run<'a> {
    machine: Machine<'a>,
    code: V1model,
    program: &'a LoadedProgram,
    frame: &'a Frame,
    /// Address of the frame's bytes, if no other packet shares the frame.
    own: Option<*mut u8>,
}

impl Compiled {
    /// Returns the functions of a program for v1model; `None` for one for Tofino.
    #[inline]
    pub fn v1model(&self) -> Option<V1model> {
        match self.code {
            Functions::V1model { ingress, egress } => Some(V1model { ingress, egress }),
            Functions::Tofino { .. } => None,
        }
    }
}

impl V1model {
    /// Prepares to process a packet. The program is that of the functions.
    #[inline(always)]
    pub fn start<'a>(
        self,
        (program, state, drop_port): (&'a LoadedProgram, &'a mut State, u32),
        packet: &'a mut Packet,
    ) -> Run<'a> {
        let Packet {
            words,
            frame,
            payload,
            ctx,
        } = packet;
        let frame = frame.get_or_insert_default();
        let own = SharedFrame::get_mut(frame).map(|frame| frame.address());
        let rest = Rest::new(frame, *payload);
        Run {
            machine: Machine::new(program, state, drop_port, words, rest, ctx),
            code: self,
            program,
            frame,
            own,
        }
    }
}

impl Run<'_> {
    /// Runs a part of parser, verification of checksums and ingress. Returns what ingress has decided; `None` if it may have
    /// requested more than that.
    #[inline(always)]
    pub fn ingress(&mut self, part: &Part) -> Option<Verdict> {
        let machine = &mut self.machine;
        // Parsers have no drop port. Ingress sets it.
        machine.drop_port = 0;
        machine.rest = Rest::NONE;
        match part {
            Part::Received(metadata) => {
                machine.is_received = 1;
                machine.metadata[..metadata.len()].copy_from_slice(metadata);
            }
            Part::Parser => machine.is_part = 1,
            Part::Whole => {}
        }
        machine.set_frame(self.frame, &self.program.parser);
        // SAFETY: the function was compiled for this program, and the machine is complete for parsers and pipelines.
        unsafe { (self.code.ingress)(machine) };
        machine.is_part = 0;
        // SAFETY: the machine has the packet's context, to which there is no reference.
        unsafe { (*machine.ctx).exit = false };
        machine.verdict()
    }

    /// Returns the offset of the payload in the frame, in bytes, after the parser.
    #[inline]
    pub fn payload(&self) -> usize {
        self.machine.cursor as usize
    }

    /// Returns the current length of the packet in bytes.
    #[inline]
    pub fn length(&self) -> u64 {
        // SAFETY: the machine has the packet's context, to which there is no reference.
        unsafe { (*self.machine.ctx).length as u64 }
    }

    /// Returns the packet's words.
    #[inline]
    pub fn words(&mut self) -> &mut [u64] {
        // SAFETY: the machine has the packet's words, to which there is no other reference.
        unsafe { slice::from_raw_parts_mut(self.machine.words, self.machine.word_count) }
    }

    /// Returns whether egress may have requested more than to send the packet.
    #[inline]
    pub fn has_requests(&self) -> bool {
        self.machine.requests != 0
    }

    /// Prepares for another copy of the packet of `length` bytes, which is sent without requests.
    #[inline]
    pub fn restart(&mut self, length: i64) {
        // SAFETY: as for `length`.
        let ctx = unsafe { &mut *self.machine.ctx };
        (ctx.length, ctx.exit) = (length, false);
    }

    /// Returns a frame with the deparsed headers in place of the parsed ones, in the buffer `out`.
    #[inline(always)]
    pub fn copy(&self, headers: Deparsed, out: Vec<u8>) -> SplitFrame {
        let parsed = self.machine.rest.at();
        match headers {
            Deparsed::Output => self.frame.copy_after(parsed, out),
            Deparsed::InPlace => self.frame.copy_with_headers(0, &[], out),
            Deparsed::Buffer(length) => {
                // SAFETY: the machine has the state, to which there is no reference.
                let state = unsafe { &*self.machine.state };
                let headers = &state.headers[..length];
                self.frame.copy_with_headers(parsed, headers, out)
            }
        }
    }

    /// Sets these metadata, and runs egress and the deparser. Returns where the headers are; `None` if the deparser did not run,
    /// since the packet is dropped, or has requested what is done before.
    ///
    /// Headers that are as long as the parsed ones are written over them if `is_last` (no other copy is made of this packet)
    /// and no other packet shares the frame; else to `out`. If one has a variable-length field, or if those of the last copy
    /// are longer or shorter than the parsed ones, they are written to the state's buffer.
    #[inline(always)]
    pub fn egress(
        &mut self,
        metadata: &EgressValues,
        is_last: bool,
        out: &mut Vec<u8>,
    ) -> Option<Deparsed> {
        let machine = &mut self.machine;
        machine.metadata = *metadata;
        machine.drop_port = machine.switch_drop_port;
        machine.requests = 0;
        machine.result = 0;
        let parsed = machine.rest.at();
        let own = self.own.filter(|_| is_last && self.frame.has_head(parsed));
        let Some(bytes) = own else {
            out.clear();
            out.reserve(self.program.deparser.max_fixed_bytes + SLACK);
            machine.output = out.as_mut_ptr();
            machine.in_place = std::ptr::null_mut();
            // SAFETY: the function was compiled for this program, the machine is complete for pipelines and deparsers, and there
            // is space for all headers that are written to `out`.
            unsafe { (self.code.egress)(machine) };
            let length = machine.emitted as usize;
            return match machine.result {
                0 => None,
                IN_OUTPUT => {
                    // SAFETY: the deparser has written these bytes.
                    unsafe { out.set_len(length) };
                    Some(Deparsed::Output)
                }
                _ => Some(Deparsed::Buffer(length)),
            };
        };
        machine.in_place = bytes;
        machine.output = std::ptr::null_mut();
        // The last header is written in words of eight bytes, which may change what is behind it.
        // SAFETY: the frame has eight bytes after the parsed ones.
        let behind = unsafe { bytes.add(parsed).cast::<[u8; SLACK]>() };
        // SAFETY: as above.
        let kept = unsafe { *behind };
        // SAFETY: as for the other call; there is space for as many bytes as were parsed in the frame.
        unsafe { (self.code.egress)(machine) };
        match machine.result {
            0 => None,
            IN_PLACE => {
                // SAFETY: as above.
                unsafe { *behind = kept };
                Some(Deparsed::InPlace)
            }
            _ => Some(Deparsed::Buffer(machine.emitted as usize)),
        }
    }
}
