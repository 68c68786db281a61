//! Broadcasts and barriers along an overlay of the ranks, by messages of the underlying MPI.

use alfirk_roce::collective::{
    equal_slice, Algorithm, Collective, Due, EdgeId, Execution, Racks, Sending, Shape, Transport,
};

use crate::buffer::Buffer;
use crate::sys::{Comm, ErrorClass, Requests, Result};

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
        bytes: Buffer<'_>,
        root: u32,
    ) -> Result<()> {
        let members = self.hosts.len() as u32;
        let slices = algorithm.default_slices(bytes.len() as u64, members);
        self.run(algorithm, Collective::Broadcast, slices, bytes, root)
    }

    pub(crate) fn barrier(&self, algorithm: Algorithm) -> Result<()> {
        let signals = algorithm.slices_for(Collective::Barrier, 0, self.hosts.len() as u32);
        self.run(
            algorithm,
            Collective::Barrier,
            signals,
            Buffer::Source(&[]),
            0,
        )
    }

    fn run(
        &self,
        algorithm: Algorithm,
        collective: Collective,
        slices: u32,
        mut bytes: Buffer<'_>,
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
        let mut execution = Execution::new(plan, slices, 0..slices);
        if own == 0 && collective == Collective::Broadcast {
            (0..slices).for_each(|slice| execution.hold(slice));
        }
        let mut messages = Messages {
            comm: self.comm,
            members,
            root,
            start: bytes.as_mut_ptr(),
            size: bytes.len() as u64,
            slices,
            sends: Requests::default(),
            receives: Requests::default(),
        };
        let exchanged = messages.exchange(&mut execution);
        if exchanged.is_err() {
            // After an error the program may reuse its memory, so no receive may stay pending.
            messages.receives.cancel();
        }
        exchanged
    }
}

/// The messages of one collective at one rank.
struct Messages {
    comm: Comm,
    members: u32,
    /// Rank of the root, which has rank 0 in plans.
    root: u32,
    /// First byte of the data. It is written to only by receives, of which the root has none.
    start: *mut u8,
    /// Length of the data in bytes.
    size: u64,
    /// Number of slices into which the data is cut.
    slices: u32,
    sends: Requests,
    receives: Requests,
}

impl Messages {
    /// Sends and receives slices as the plan requires. After an error, receives may still be pending.
    fn exchange(&mut self, execution: &mut Execution) -> Result<()> {
        let mut awaited = Vec::new();
        for (flow, incoming) in execution.plan().incoming.iter().enumerate() {
            for slice in &incoming.slices {
                let EdgeId::Pair { from, .. } = incoming.edge else {
                    return Err(ErrorClass::internal());
                };
                let (to, len) = self.place(*slice);
                let from = self.rank_of(from);
                // SAFETY: the slice is inside the data, and all requests are completed or cancelled.
                unsafe { self.comm.irecv(from, to, len, &mut self.receives)? };
                awaited.push((flow, *slice));
            }
        }
        loop {
            execution.advance(self)?;
            let Some(which) = self.receives.wait_any()? else {
                return self.sends.wait_all();
            };
            let (flow, slice) = awaited[which];
            execution.receive(flow, slice);
        }
    }

    /// Rank in the communicator of a rank in plans.
    fn rank_of(&self, planned: u32) -> u32 {
        (planned + self.root) % self.members
    }

    /// Address and length of a slice.
    fn place(&self, slice: u32) -> (*mut u8, usize) {
        let (offset, len) = equal_slice(self.size, self.slices, slice);
        (self.start.wrapping_add(offset as usize), len as usize)
    }
}

impl Transport for Messages {
    type Error = ErrorClass;

    fn send(&mut self, due: Due) -> Result<Sending> {
        let EdgeId::Pair { to, .. } = due.edge else {
            return Err(ErrorClass::internal());
        };
        let (from, len) = self.place(due.slice);
        let to = self.rank_of(to);
        // SAFETY: the slice is inside the data; a slice that is sent has been received, and is not received again.
        unsafe {
            let part = std::slice::from_raw_parts(from.cast_const(), len);
            self.comm.isend(to, part, &mut self.sends)?;
        }
        // The underlying MPI limits the messages in flight itself.
        Ok(Sending::Complete)
    }

    fn slice_len(&self, slice: u32) -> u64 {
        self.place(slice).1 as u64
    }
}
