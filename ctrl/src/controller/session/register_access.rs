//! Register accesses of a switch: packets to its pipeline, retransmitted until the reply. On targets whose pipeline does not
//! reply ([`GroupRegisters`](crate::tables::GroupRegisters)), reads use P4Runtime.

use alfirk_p4runtime::p4::v1::{PacketIn, StreamMessageRequest};
use alfirk_p4runtime::Status;

use super::{packet_message, Context, Notice, Output, Session, TaskId};
use crate::constants::{PACKET_OUT_REGISTERS, REGISTER_OP_READ};
use crate::controller::error::{SwitchError, SwitchRequest};
use crate::controller::event::{RequestId, Response};
use crate::controller::registers::{self, status_error, RegisterControl};
use crate::tables::PacketOutHeader;

/// Maximum number of pending register accesses: enough to keep a switch busy, few enough for replies within the timeout.
const WINDOW: usize = 64;

/// A pending register access.
#[derive(Debug)]
pub(super) struct RegisterTask {
    pub(super) task: TaskId,
    pub(super) header: RegisterControl,
    pub(super) sent: u32,
    pub(super) replies: u32,
    /// Value in the last reply.
    pub(super) value: u64,
    /// Time of the first transmission.
    pub(super) since: u64,
    /// Time of the retransmission, or of failure after the last attempt.
    pub(super) deadline: u64,
}

impl Session {
    pub(super) fn register_reply(&mut self, now: u64, packet: &PacketIn) {
        let Some(reply) = registers::parse(&packet.payload) else {
            tracing::warn!(
                switch = self.name,
                "a reply to a register access has {} bytes, not {}",
                packet.payload.len(),
                RegisterControl::LEN
            );
            return;
        };
        // Otherwise the reply belongs to an earlier connection.
        if let Some(task) = self.registers.get_mut(&reply.cookie) {
            task.replies += 1;
            if task.sent == 1 {
                self.round_trip.measured(now.saturating_sub(task.since));
            }
            if let Some(reason) = status_error(reply.status) {
                let error = SwitchError::Registers {
                    switch: self.name.clone(),
                    reason: reason.to_owned(),
                };
                self.finish_register(reply.cookie, Err(error));
            } else if task.replies == task.sent || task.header.op == REGISTER_OP_READ {
                // A delayed copy of a read has no effect.
                self.finish_register(reply.cookie, Ok(reply.value));
            } else {
                task.value = reply.value;
            }
        }
    }

    /// Processes the reply to a Read of register cells by P4Runtime.
    pub(super) fn register_read(
        &mut self,
        context: &Context,
        request: RequestId,
        result: Result<Response, Status>,
    ) {
        let Some((task, access, _)) = self.register_reads.remove(&request) else {
            return;
        };
        let failed = |status| SwitchError::Call {
            switch: self.name.clone(),
            call: SwitchRequest::Read,
            status,
        };
        let value = result.map_err(failed).map(|response| {
            let Response::Read(messages) = &response else {
                return None;
            };
            let entities = messages.iter().flat_map(|message| &message.entities);
            let arrays = context.program.group_registers.as_ref();
            arrays.and_then(|arrays| arrays.value(&access, entities))
        });
        let value = value.and_then(|value| {
            value.ok_or_else(|| SwitchError::Registers {
                switch: self.name.clone(),
                reason: format!(
                    "the reply to a Read lacks cells of register {} of group index {}; load the P4Info of the running pipeline",
                    access.reg, access.group
                ),
            })
        });
        self.notices.push_back(Notice::Done(task, value));
    }

    fn finish_register(&mut self, cookie: u32, result: Result<u64, SwitchError>) {
        if let Some(task) = self.registers.remove(&cookie) {
            self.notices.push_back(Notice::Done(task.task, result));
        }
    }

    /// Retransmits register accesses that are due, and sends new ones within the window.
    ///
    /// An access that was sent twice is done when both copies have replies, or one has and the other has timed out: a
    /// delayed copy must not change the registers of a group in use.
    pub(super) fn send_registers(&mut self, now: u64, context: &Context) {
        let mut finished = Vec::new();
        for (cookie, task) in &mut self.registers {
            if task.deadline > now {
                continue;
            }
            if task.replies > 0 || task.sent >= context.config.register_attempts {
                finished.push((*cookie, (task.replies > 0).then_some(task.value)));
                continue;
            }
            task.sent += 1;
            task.deadline = now + context.config.register_retry_ns;
            let packet = register_packet(context, &task.header);
            self.outputs.push_back(Output::Stream(packet));
        }
        for (cookie, value) in finished {
            let result = match value {
                Some(value) => Ok(value),
                None => Err(self.timeout_error(context, SwitchRequest::RegisterAccess)),
            };
            self.finish_register(cookie, result);
        }
        self.start_registers(now, context);
    }

    pub(super) fn start_registers(&mut self, now: u64, context: &Context) {
        while self.registers.len() < WINDOW {
            let Some((task, access)) = self.waiting_registers.pop_front() else {
                return;
            };
            self.next_cookie = self.next_cookie.wrapping_add(1);
            let cookie = self.next_cookie;
            let header = RegisterControl { cookie, ..access };
            let packet = register_packet(context, &header);
            self.outputs.push_back(Output::Stream(packet));
            let task = RegisterTask {
                task,
                header,
                sent: 1,
                replies: 0,
                value: 0,
                since: now,
                deadline: now + context.config.register_retry_ns,
            };
            self.registers.insert(cookie, task);
        }
    }
}

fn register_packet(context: &Context, access: &RegisterControl) -> StreamMessageRequest {
    let header = PacketOutHeader {
        kind: PACKET_OUT_REGISTERS,
        egress_port: 0,
    };
    let packet_io = &context.program.packet_io;
    packet_message(packet_io.packet_out(header, access.to_bytes().to_vec()))
}
