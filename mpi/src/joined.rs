//! A group that is well, and how the bytes of a broadcast go through it.
//!
//! Leaders agree before the first byte, that all are there, well and ready to receive, so that a group's timeout means something and
//! nobody is sent what it has no receive for; and after the last one, that all have the bytes. When the source changes, they agree before
//! that, too.
//!
//! Short messages are copied into the group's buffer and out of it, since copying them takes less than registering their memory. Long ones
//! come from and go to the program's own memory, which the device may use for that one broadcast: all members agree whether theirs can
//! be registered, and copy if somebody's cannot. Then parts of a buffer's bytes follow each other, with an agreement between.

use alfirk_verbs::group::{Group, GroupError, Lent};

use crate::job::Job;
use crate::sys::{Comm, Result};

/// Receives that are posted at a time for one broadcast, at most: fewer than any device takes.
const PARTS: usize = 512;

/// A group that is well.
pub(crate) struct Joined {
    pub(crate) group: Group,
    /// Which rank each host's leader has in the group.
    pub(crate) ranks: Vec<u32>,
    /// The turn that the leader of the group has taken for its address.
    pub(crate) turn: Option<u32>,
    pub(crate) address: u32,
}

type Outcome = std::result::Result<(), GroupError>;

/// One broadcast, as one leader sees it.
struct Broadcast<'a> {
    job: &'a Job,
    leaders: Comm,
    /// This leader's host.
    host: u32,
    is_source: bool,
    /// The source's rank in the group.
    source: u32,
}

/// The agreement of all leaders; the first one of those that are not well says why.
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
        job.say(&format!(
            "rank {rank}: {why}; broadcasts and barriers of its communicator go by the MPI beneath"
        ));
    }
    Ok(first == i32::MAX)
}

impl Joined {
    /// The host of a rank of the group.
    pub(crate) fn host_of(&self, rank: u32) -> u32 {
        let host = self.ranks.iter().position(|of| *of == rank);
        host.expect("each member of the group is the leader of a host") as u32
    }

    /// Brings the bytes of the leader of host `home` to all other leaders; by all leaders. False if the group is of no more use: then nobody
    /// may take the bytes for what they are to be, and the group must end before they are used for anything else.
    pub(crate) fn carry(
        &mut self,
        job: &Job,
        leaders: Comm,
        host: u32,
        bytes: &mut [u8],
        home: u32,
    ) -> Result<bool> {
        let broadcast = Broadcast {
            job,
            leaders,
            host,
            is_source: home == host,
            source: self.ranks[home as usize],
        };
        let mut begun = Ok(());
        // Nobody changes the source before all are there.
        if broadcast.source != self.group.source() {
            if leaders.min(1)? == 0 {
                return Ok(false);
            }
            begun = self.group.change_source(broadcast.source);
        }
        if bytes.len() as u64 > job.settings.copy {
            if let Some(lent) = self.lend(&broadcast, bytes, begun.is_ok())? {
                return self.carry_lent(&broadcast, lent, bytes.len(), begun);
            }
        }
        self.carry_copies(&broadcast, bytes, begun)
    }

    /// Lets the device use the bytes, if all leaders can do that.
    fn lend(
        &mut self,
        broadcast: &Broadcast<'_>,
        bytes: &mut [u8],
        is_well: bool,
    ) -> Result<Option<Lent>> {
        let (start, len) = (bytes.as_mut_ptr(), bytes.len() as u64);
        // SAFETY: the program leaves the bytes alone while it broadcasts them, and we do not touch them before they are taken back or
        // the group is at its end.
        let own = unsafe { self.group.lend(start, len, !broadcast.is_source) };
        if let Err(error) = &own {
            let rank = broadcast.job.rank;
            broadcast.job.say(&format!(
                "rank {rank}: its memory cannot be registered, so long broadcasts are copied: {error}"
            ));
        }
        let all = broadcast.leaders.min((own.is_ok() && is_well).into())?;
        match (own, all) {
            (Ok(lent), 1) => Ok(Some(lent)),
            (Ok(lent), _) => {
                // Nothing was posted: what cannot be taken back is registered until the group ends, and not written to.
                let _ = self.group.take_back(lent);
                Ok(None)
            }
            (Err(_), _) => Ok(None),
        }
    }

    /// From memory to memory. All receives are there before the source sends.
    fn carry_lent(
        &mut self,
        broadcast: &Broadcast<'_>,
        lent: Lent,
        len: usize,
        begun: Outcome,
    ) -> Result<bool> {
        let part = len.div_ceil(PARTS).max(self.group.buffer().len()).min(len);
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

    /// Through the buffers. The receive of a part is there before the source sends that.
    fn carry_copies(
        &mut self,
        broadcast: &Broadcast<'_>,
        bytes: &mut [u8],
        begun: Outcome,
    ) -> Result<bool> {
        let room = self.group.buffer().len();
        let mut rest = bytes;
        let mut done = begun.and_then(|()| self.expect(broadcast, rest.len().min(room)));
        while !rest.is_empty() {
            if !broadcast.agree(done)? {
                return Ok(false);
            }
            let (part, behind) = rest.split_at_mut(rest.len().min(room));
            done = self.copy(broadcast, part);
            done = done.and_then(|()| self.expect(broadcast, behind.len().min(room)));
            rest = behind;
        }
        broadcast.agree(done)
    }

    /// Posts what receives so many bytes, at receivers.
    fn expect(&mut self, broadcast: &Broadcast<'_>, len: usize) -> Outcome {
        match broadcast.is_source || len == 0 {
            true => Ok(()),
            false => self.group.post_broadcast(broadcast.source, 0, len as u64),
        }
    }

    /// Brings one part from the source to where it is expected.
    fn copy(&mut self, broadcast: &Broadcast<'_>, part: &mut [u8]) -> Outcome {
        if broadcast.is_source {
            self.group.fill(0, part)?;
            return self.group.broadcast(broadcast.source, 0, part.len() as u64);
        }
        self.group.wait()?;
        part.copy_from_slice(&self.group.buffer()[..part.len()]);
        Ok(())
    }
}

impl Broadcast<'_> {
    /// Whether all leaders are well.
    fn agree(&self, own: Outcome) -> Result<bool> {
        let own = own.map_err(|error| error.to_string());
        agree(self.job, self.leaders, self.host, own)
    }
}
