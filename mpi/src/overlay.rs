//! Broadcasts and barriers along an overlay of the ranks, by messages of the underlying MPI.

use alfirk_roce::collective::{equal_slice, Algorithm, Collective, Racks, Shape};

use crate::schedule::Schedule;
use crate::sys::{Comm, Requests, Result};

/// State of this rank in a communicator that uses an overlay.
#[derive(Debug)]
pub(crate) struct Overlay {
    pub(crate) comm: Comm,
    pub(crate) rank: u32,
    /// Number of the host of each rank. Algorithms with racks treat a host as a rack.
    pub(crate) hosts: Vec<u32>,
}

impl Overlay {
    /// Broadcasts the bytes of the rank `root`.
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
        let signals = algorithm.slices_for(Collective::Barrier, 0, self.hosts.len() as u32);
        self.run(algorithm, Collective::Barrier, signals, &mut [], 0)
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
        // In plans, the root has rank 0.
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
            // After an error the program may reuse its memory, so no receive may stay pending.
            receives.cancel();
        }
        exchanged
    }

    /// Sends and receives slices as the schedule requires. After an error, receives may still be pending.
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
            // SAFETY: the slice is inside `bytes`, and all requests are completed or cancelled.
            unsafe {
                self.comm
                    .irecv(rank_of(*from), to, len as usize, receives)?
            };
        }
        loop {
            while let Some((to, slice)) = schedule.next_send() {
                let (offset, len) = equal_slice(size, slices, slice);
                let from = start.wrapping_add(offset as usize);
                // SAFETY: as above; a slice that is sent has been received, and is not received again.
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
