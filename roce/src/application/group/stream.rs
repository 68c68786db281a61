//! The group's queue pair: one stream of messages, sent by the present source to all other members.

use super::error::{GroupError, Result};
use super::message::MemberInfo;
use super::GroupOperation;
use crate::collective::announce_region;
use crate::rc::{
    Completion, MemorySlice, Payload, QpFailure, RecvRequest, SendOperation, SendRequest,
};
use crate::verbs::Verbs;
use crate::wire::QpNum;

/// `wr_id` of the posts of messages.
const MESSAGE: u64 = 0;
/// `wr_id` of the WRITEs that announce buffers to the switches.
const ANNOUNCEMENT: u64 = 1;

/// Posts and completions of the group's queue pair.
#[derive(Debug)]
pub(super) struct Stream {
    qpn: QpNum,
    is_connected: bool,
    failure: Option<GroupError>,
    /// Number of messages that are posted, and for whose completion the user has not waited yet.
    posted: u32,
    /// Number of these messages that have completed.
    completed: u32,
    /// Number of announcements of buffers that have not completed.
    pending_announcements: usize,
    /// Whether this member, as the source, has announced the other members' buffers to the switches.
    has_announced: bool,
}

impl Stream {
    pub(super) fn new(qpn: QpNum) -> Stream {
        Stream {
            qpn,
            is_connected: false,
            failure: None,
            posted: 0,
            completed: 0,
            pending_announcements: 0,
            has_announced: false,
        }
    }

    pub(super) fn qpn(&self) -> QpNum {
        self.qpn
    }

    // ---- Events ----

    pub(super) fn handle_connected(&mut self) {
        self.is_connected = true;
    }

    pub(super) fn handle_failure(&mut self, failure: QpFailure) {
        self.failure.get_or_insert(failure.into());
    }

    pub(super) fn handle_completion(&mut self, done: &Completion) {
        match done.outcome {
            Err(error) => {
                let text = format!("queue pair {}: {error}", done.qpn);
                self.failure.get_or_insert(GroupError::Verbs(text));
            }
            Ok(_) if done.wr_id == ANNOUNCEMENT => {
                self.pending_announcements = self.pending_announcements.saturating_sub(1);
            }
            Ok(_) => self.completed += 1,
        }
    }

    /// Whether the queue pair is connected. Fails if it has failed.
    pub(super) fn is_connected(&self) -> Result<bool> {
        self.check()?;
        Ok(self.is_connected)
    }

    /// Fails if the queue pair has failed.
    pub(super) fn check(&self) -> Result<()> {
        self.failure.clone().map_or(Ok(()), Err)
    }

    /// Whether messages are posted that have not completed.
    pub(super) fn has_outstanding(&self) -> bool {
        self.posted > self.completed
    }

    /// Number of posted messages for which the user has not waited.
    pub(super) fn posted(&self) -> u32 {
        self.posted
    }

    /// Removes the completion of the oldest message; returns false if the message has not completed. Fails if the queue
    /// pair has failed.
    pub(super) fn take_completion(&mut self) -> Result<bool> {
        if self.completed == 0 {
            self.check()?;
            return Ok(false);
        }
        self.completed -= 1;
        self.posted -= 1;
        Ok(true)
    }

    /// Removes completions until no posted message is left; returns false if one has not completed.
    pub(super) fn take_completions(&mut self) -> Result<bool> {
        while self.posted > 0 {
            if !self.take_completion()? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    // ---- Posts ----

    /// Posts the receive of a message. The data of a WRITE goes to its own address.
    pub(super) fn post_receive(
        &mut self,
        host: &mut dyn Verbs,
        part: MemorySlice,
        operation: GroupOperation,
    ) -> Result<()> {
        let buffer = match operation {
            GroupOperation::Send => part,
            GroupOperation::Write => MemorySlice { len: 0, ..part },
        };
        let wr_id = MESSAGE;
        host.post_recv(self.qpn, RecvRequest { wr_id, buffer })?;
        self.posted += 1;
        Ok(())
    }

    /// Posts a message of the source.
    pub(super) fn post_send(
        &mut self,
        host: &mut dyn Verbs,
        part: MemorySlice,
        operation: GroupOperation,
    ) -> Result<()> {
        let operation = match operation {
            GroupOperation::Send => SendOperation::Send { immediate: None },
            // In packets of a group, every buffer has address 0 and key 0.
            GroupOperation::Write => SendOperation::Write {
                remote_va: part.offset,
                rkey: 0,
                immediate: Some(part.len as u32),
            },
        };
        let request = SendRequest {
            wr_id: MESSAGE,
            operation,
            payload: Payload::Memory(part),
        };
        host.post_send(self.qpn, request)?;
        self.posted += 1;
        Ok(())
    }

    // ---- Buffers of the receivers ----

    /// Whether the switches have the buffers to which this member's WRITEs go.
    pub(super) fn has_announced(&self) -> bool {
        self.has_announced
    }

    /// Announces the buffer of each receiver to the switches, in band.
    pub(super) fn announce(
        &mut self,
        host: &mut dyn Verbs,
        receivers: impl Iterator<Item = MemberInfo>,
    ) -> Result<()> {
        self.has_announced = true;
        for MemberInfo { ip, memory, .. } in receivers {
            let region = (memory.va, memory.rkey);
            let request = announce_region(ANNOUNCEMENT, ip, (0, 0), region)
                .map_err(|error| GroupError::Verbs(error.to_string()))?;
            host.post_send(self.qpn, request)?;
            self.pending_announcements += 1;
        }
        Ok(())
    }

    /// Whether the switches have acknowledged all announcements. Fails if the queue pair has failed.
    pub(super) fn are_announcements_complete(&self) -> Result<bool> {
        if self.pending_announcements == 0 {
            return Ok(true);
        }
        self.check()?;
        Ok(false)
    }

    // ---- Changes of the source ----

    /// At the present source: prepares the queue pair for the next source.
    pub(super) fn expect_next_source(&mut self, host: &mut dyn Verbs) -> Result<()> {
        Ok(host.expect_next_source(self.qpn)?)
    }

    /// Makes this member the source.
    pub(super) fn take_over(&mut self, host: &mut dyn Verbs) -> Result<()> {
        host.take_over_sending(self.qpn)?;
        self.has_announced = false;
        Ok(())
    }
}
