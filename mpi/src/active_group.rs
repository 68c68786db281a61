//! A group that is in use by a communicator, and the transfer of a broadcast's bytes through it.
//!
//! Before the first byte, the leaders of hosts agree that all are present, without error and ready to receive. So the
//! group's time limit covers only the transfer, and every message finds a receive. After the last byte they agree that
//! all have the bytes. They also agree before a change of the source.
//!
//! Short messages are copied through the group's buffer, because copying is faster than registering their memory. Long
//! messages are sent from and received into the program's own memory, which is registered for that one broadcast. If it
//! cannot be registered at some member, all members copy. Copies use parts of the buffer's length, with an agreement
//! after each part.

use alfirk_verbs::group::{Group, GroupError, LentMemory};

use crate::buffer::Buffer;
use crate::job::Job;
use crate::sys::{Comm, Result};

/// Maximum number of receives posted at a time for one broadcast; every device supports that many.
const MAX_RECEIVES: usize = 512;

/// A group that is in use by a communicator.
pub(crate) struct ActiveGroup {
    pub(crate) group: Group,
    /// Rank in the group of the leader of each host, by host number.
    pub(crate) ranks: Vec<u32>,
    /// At the group's leader: number that selects one of the leader's addresses as that of the group (see
    /// [`Turns`](crate::addresses::Turns)). `None` at other members.
    pub(crate) turn: Option<u32>,
    pub(crate) address: u32,
}

type Outcome = std::result::Result<(), GroupError>;

/// One broadcast, as the leader of a host sees it.
struct Broadcast<'a> {
    job: &'a Job,
    leaders: Comm,
    /// Number of this leader's host.
    host: u32,
    is_source: bool,
    /// Rank in the group of the source.
    source: u32,
}

/// Agrees with the leaders of all hosts whether all of them are without error. The first leader with an error prints
/// it. Returns true if no leader has an error.
pub(crate) fn agree(
    job: &Job,
    leaders: Comm,
    host: u32,
    own: std::result::Result<(), String>,
) -> Result<bool> {
    let first = leaders.min(match own {
        Ok(()) => i32::MAX,
        Err(_) => host as i32,
    })?;
    if let (Err(why), true) = (own, first == host as i32) {
        let rank = job.rank;
        job.warn_once(&format!(
            "rank {rank}: {why}; broadcasts and barriers of its communicator fall back to the underlying MPI"
        ));
    }
    Ok(first == i32::MAX)
}

impl ActiveGroup {
    /// Number of the host whose leader has rank `rank` in the group.
    pub(crate) fn host_of(&self, rank: u32) -> u32 {
        let host = self.ranks.iter().position(|of| *of == rank);
        host.expect("each member of the group is the leader of a host") as u32
    }

    /// Transfers the bytes from the leader of host `source_host` to the leaders of all other hosts; called by all
    /// leaders. Returns false if the group has failed. The bytes are then undefined, and the group must be dropped
    /// before they are used again.
    pub(crate) fn transfer(
        &mut self,
        job: &Job,
        leaders: Comm,
        host: u32,
        bytes: &mut Buffer<'_>,
        source_host: u32,
    ) -> Result<bool> {
        let broadcast = Broadcast {
            job,
            leaders,
            host,
            is_source: source_host == host,
            source: self.ranks[source_host as usize],
        };
        let mut begun = Ok(());
        // The source is changed only when all leaders are present.
        if broadcast.source != self.group.source() {
            if leaders.min(1)? == 0 {
                return Ok(false);
            }
            begun = self.group.change_source(broadcast.source);
        }
        if bytes.len() as u64 > job.settings.max_copied {
            if let Some(lent) = self.register_bytes(&broadcast, bytes, begun.is_ok())? {
                return self.transfer_registered(&broadcast, lent, bytes.len(), begun);
            }
        }
        self.transfer_copied(&broadcast, bytes, begun)
    }

    /// Registers the program's bytes with the device. Returns `None` if any leader cannot register its bytes, or has an
    /// error (`is_well` is false).
    fn register_bytes(
        &mut self,
        broadcast: &Broadcast<'_>,
        bytes: &mut Buffer<'_>,
        is_well: bool,
    ) -> Result<Option<LentMemory>> {
        let (start, len) = (bytes.as_mut_ptr(), bytes.len() as u64);
        // SAFETY: the program does not access the bytes while it broadcasts them. Nor does this library, before they
        // are taken back or the group ends.
        let own = unsafe { self.group.lend(start, len, !broadcast.is_source) };
        if let Err(error) = &own {
            let rank = broadcast.job.rank;
            broadcast.job.warn_once(&format!(
                "rank {rank}: its memory cannot be registered, so long broadcasts are copied: {error}"
            ));
        }
        let all = broadcast.leaders.min((own.is_ok() && is_well).into())?;
        match (own, all) {
            (Ok(lent), 1) => Ok(Some(lent)),
            (Ok(lent), _) => {
                // Nothing was posted. Memory that cannot be taken back stays registered until the group ends, and is
                // not written to.
                let _ = self.group.take_back(lent);
                Ok(None)
            }
            (Err(_), _) => Ok(None),
        }
    }

    /// Transfers the bytes directly between the memories of the programs. All receives are posted before the source
    /// sends.
    fn transfer_registered(
        &mut self,
        broadcast: &Broadcast<'_>,
        lent: LentMemory,
        len: usize,
        begun: Outcome,
    ) -> Result<bool> {
        let part = len
            .div_ceil(MAX_RECEIVES)
            .max(self.group.buffer().len())
            .min(len);
        let post = |group: &mut Group| {
            (0..len).step_by(part).try_for_each(|offset| {
                let part = part.min(len - offset);
                group.post_lent(broadcast.source, &lent, offset as u64, part as u64)
            })
        };
        let begun = begun.and_then(|()| match broadcast.is_source {
            true => Ok(()),
            false => post(&mut self.group),
        });
        if !broadcast.agree(begun)? {
            return Ok(false);
        }
        let posted = match broadcast.is_source {
            true => post(&mut self.group),
            false => Ok(()),
        };
        let mut parts = 0..len.div_ceil(part);
        let done = posted.and_then(|()| parts.try_for_each(|_| self.group.wait_for_one()));
        let done = done.and_then(|()| self.group.take_back(lent));
        broadcast.agree(done)
    }

    /// Transfers the bytes through the buffers of the group, in parts. The receive of a part is posted before the
    /// source sends the part.
    fn transfer_copied(
        &mut self,
        broadcast: &Broadcast<'_>,
        bytes: &mut Buffer<'_>,
        begun: Outcome,
    ) -> Result<bool> {
        let (len, room) = (bytes.len(), self.group.buffer().len());
        let mut done = begun.and_then(|()| self.post_receive(broadcast, len.min(room)));
        let mut offset = 0;
        while offset < len {
            if !broadcast.agree(done)? {
                return Ok(false);
            }
            let part = room.min(len - offset);
            done = self.copy(broadcast, bytes.part(offset, part));
            offset += part;
            let next = room.min(len - offset);
            done = done.and_then(|()| self.post_receive(broadcast, next));
        }
        broadcast.agree(done)
    }

    /// At receivers: posts a receive of `len` bytes; at the source: does nothing.
    fn post_receive(&mut self, broadcast: &Broadcast<'_>, len: usize) -> Outcome {
        match broadcast.is_source || len == 0 {
            true => Ok(()),
            false => self.group.post_broadcast(broadcast.source, 0, len as u64),
        }
    }

    /// Transfers one part through the buffers of the group. Its receive was posted.
    fn copy(&mut self, broadcast: &Broadcast<'_>, mut part: Buffer<'_>) -> Outcome {
        if broadcast.is_source {
            self.group.fill(0, part.as_slice())?;
            return self.group.broadcast(broadcast.source, 0, part.len() as u64);
        }
        self.group.wait()?;
        part.receive(&self.group.buffer()[..part.len()]);
        Ok(())
    }
}

impl Broadcast<'_> {
    /// Agrees with the leaders of all hosts whether all of them are without error. Returns true if no leader has an
    /// error.
    fn agree(&self, own: Outcome) -> Result<bool> {
        let own = own.map_err(|error| error.to_string());
        agree(self.job, self.leaders, self.host, own)
    }
}
