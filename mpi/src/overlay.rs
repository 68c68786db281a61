//! Plans of overlays, by messages of the MPI beneath.

use alfirk_roce::collective::{equal_slice, Algorithm, Collective, Racks, Shape};

use crate::schedule::Schedule;
use crate::sys::{Comm, Requests, Result};

/// One member of a communicator whose members send to each other.
#[derive(Debug)]
pub(crate) struct Overlay {
    pub(crate) comm: Comm,
    pub(crate) rank: u32,
    /// On which host each rank is: the racks of algorithms that know such.
    pub(crate) hosts: Vec<u32>,
}

impl Overlay {
    /// Brings the root's bytes to all others.
    pub(crate) fn broadcast(
        &self,
        algorithm: Algorithm,
        bytes: &mut [u8],
        root: u32,
    ) -> Result<()> {
        let members = self.hosts.len() as u32;
        let slices = algorithm.default_slices(bytes.len() as u64, members);
        self.run(algorithm, Collective::Broadcast, slices, bytes, root)
    }

    pub(crate) fn barrier(&self, algorithm: Algorithm) -> Result<()> {
        let signs = algorithm.slices_for(Collective::Barrier, 0, self.hosts.len() as u32);
        self.run(algorithm, Collective::Barrier, signs, &mut [], 0)
    }

    fn run(
        &self,
        algorithm: Algorithm,
        collective: Collective,
        slices: u32,
        bytes: &mut [u8],
        root: u32,
    ) -> Result<()> {
        let members = self.hosts.len() as u32;
        // In plans the root is rank 0.
        let own = (self.rank + members - root) % members;
        let rank_of = |planned: u32| (planned + root) % members;
        let racks: Racks = (0..members)
            .map(|r| self.hosts[rank_of(r) as usize])
            .collect();
        let shape = Shape {
            members,
            slices,
            racks: &racks,
        };
        let plan = algorithm.plan_for(collective, shape, own);
        let mut schedule = Schedule::new(plan, slices, own == 0);
        let mut receives = Requests::default();
        let exchanged = self.exchange(&mut schedule, slices, bytes, root, &mut receives);
        if exchanged.is_err() {
            // The program may use its memory for something else now.
            receives.cancel();
        }
        exchanged
    }

    /// Sends and receives what the schedule says; receives may be left when it fails.
    fn exchange(
        &self,
        schedule: &mut Schedule,
        slices: u32,
        bytes: &mut [u8],
        root: u32,
        receives: &mut Requests,
    ) -> Result<()> {
        let members = self.hosts.len() as u32;
        let rank_of = |planned: u32| (planned + root) % members;
        let awaited = schedule.receives();
        let mut sends = Requests::default();
        let (start, size) = (bytes.as_mut_ptr(), bytes.len() as u64);
        for (_, from, slice) in &awaited {
            let (offset, len) = equal_slice(size, slices, *slice);
            let to = start.wrapping_add(offset as usize);
            // SAFETY: the slice is inside `bytes`, and all is waited for or cancelled.
            unsafe {
                self.comm
                    .irecv(rank_of(*from), to, len as usize, receives)?
            };
        }
        loop {
            while let Some((to, slice)) = schedule.next_send() {
                let (offset, len) = equal_slice(size, slices, slice);
                let from = start.wrapping_add(offset as usize);
                // SAFETY: as above; a slice that is sent has come before, and does not come again.
                unsafe {
                    let part = std::slice::from_raw_parts(from, len as usize);
                    self.comm.isend(rank_of(to), part, &mut sends)?;
                }
            }
            let Some(which) = receives.wait_any()? else {
                return sends.wait_all();
            };
            let (flow, _, slice) = awaited[which];
            schedule.receive(flow, slice);
        }
    }
}
