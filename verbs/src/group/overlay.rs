//! Broadcasts of groups without multicast: every two members are connected, and pass the bytes along a chain or by
//! unicast.

use std::time::Instant;

use alfirk_roce::rc::{
    MemorySlice, Operation, Payload, RecvRequest, Remote, SendOperation, SendRequest,
};
use alfirk_roce::verbs::Verbs;

use super::link::{MeshEnd, Message};
use super::{over_error, Group, GroupError, Result, Transport, LEADER};

/// Number of bytes that a member of a chain forwards at a time.
const CHAIN_SLICE: u64 = 64 << 10;

impl Group {
    /// Connects every two members. The leader collects the queue pairs of all members and sends them to all.
    pub(super) fn make_mesh(&mut self, deadline: Instant) -> Result<()> {
        let what = "connecting the members";
        let rc = self.device.default_rc();
        let mut ends = Vec::new();
        for to in self.others() {
            let qpn = self.device.create_qp(rc)?;
            let view = self
                .device
                .view(qpn)
                .expect("the queue pair was just created");
            self.mesh.insert(to, qpn);
            ends.push(MeshEnd {
                from: self.rank,
                to,
                qpn,
                psn: view.sq_psn,
            });
        }
        if self.rank == LEADER {
            for rank in self.others() {
                let Message::Mesh { ends: theirs } = self.message_from(rank, deadline, what)?
                else {
                    let text = format!("unexpected message from member {rank}: expected `mesh`");
                    return Err(over_error(&text));
                };
                ends.extend(theirs);
            }
            for rank in self.others() {
                let all = Message::Mesh { ends: ends.clone() };
                self.send_message(rank, &all)?;
            }
        } else {
            self.send_message(LEADER, &Message::Mesh { ends })?;
            let Message::Mesh { ends: all } = self.message_from(LEADER, deadline, what)? else {
                return Err(over_error(
                    "unexpected message from the leader: expected `mesh`",
                ));
            };
            ends = all;
        }
        let own = self.rank;
        for end in ends.iter().filter(|end| end.to == own) {
            let (Some(qpn), Some(member)) = (
                self.mesh.get(&end.from).copied(),
                self.member_infos.get(end.from as usize),
            ) else {
                return Err(over_error(
                    "the leader's mesh has a connection to an unknown rank",
                ));
            };
            let remote = Remote {
                ip: member.ip,
                qpn: end.qpn,
            };
            let now = self.now();
            self.device.connect_qp(now, qpn, remote, end.psn)?;
            self.take_events();
            self.check_failures(qpn)?;
        }
        self.synchronize(deadline)
    }

    /// Executes this member's part in a broadcast along a chain or by unicast.
    pub(super) fn broadcast_overlay(
        &mut self,
        source: u32,
        whole: MemorySlice,
        deadline: Instant,
    ) -> Result<()> {
        // The members as a ring that starts with the source.
        let (before, from): (Vec<u32>, Vec<u32>) = self.alive.iter().partition(|r| **r < source);
        let order: Vec<u32> = from.into_iter().chain(before).collect();
        let own = order.iter().position(|rank| *rank == self.rank);
        let own = own.ok_or_else(|| over_error("this member was removed"))?;
        let (previous, next): (Option<u32>, Vec<u32>) = match (self.transport, own) {
            (Transport::Unicast, 0) => (None, order[1..].to_vec()),
            (Transport::Unicast, _) => (Some(source), Vec::new()),
            (_, 0) => (None, order[1..].iter().take(1).copied().collect()),
            (_, _) => (
                Some(order[own - 1]),
                order[own + 1..].iter().take(1).copied().collect(),
            ),
        };
        let slice = match self.transport {
            Transport::Unicast => whole.len.max(1),
            _ => CHAIN_SLICE,
        };
        let slices: Vec<MemorySlice> = (0..whole.len.div_ceil(slice).max(1))
            .map(|index| MemorySlice {
                key: whole.key,
                offset: whole.offset + index * slice,
                len: slice.min(whole.len - index * slice),
            })
            .collect();
        let to: Vec<_> = next
            .iter()
            .filter_map(|r| self.mesh.get(r))
            .copied()
            .collect();
        if let Some(from) = previous.and_then(|rank| self.mesh.get(&rank).copied()) {
            for buffer in slices.iter().copied() {
                self.device
                    .post_recv(from, RecvRequest { wr_id: 0, buffer })?;
            }
            for part in &slices {
                // The completion may also be that of a SEND on the same connection, for which the code below waits.
                let done = self.wait_for_completion(from, deadline, "a message")?;
                let bytes = done.outcome.map_or(0, |completed| completed.bytes);
                if done.operation != Operation::Receive || bytes != part.len {
                    let text = format!("received {bytes} bytes, expected {}", part.len);
                    return Err(GroupError::Verbs(text));
                }
                self.send_to(&to, *part)?;
            }
        } else {
            for part in &slices {
                self.send_to(&to, *part)?;
            }
        }
        for qpn in to {
            for _ in &slices {
                self.wait_for_completion(qpn, deadline, "a message")?;
            }
        }
        Ok(())
    }

    fn send_to(&mut self, to: &[alfirk_roce::wire::QpNum], part: MemorySlice) -> Result<()> {
        for qpn in to {
            let request = SendRequest {
                wr_id: 0,
                operation: SendOperation::Send { immediate: None },
                payload: Payload::Memory(part),
            };
            self.device.post_send(*qpn, request)?;
        }
        Ok(())
    }
}
