//! State that this library attaches to a communicator of the program, and the transport of its broadcasts and barriers.

use std::sync::{Arc, Mutex, PoisonError};

use alfirk_roce::collective::Algorithm;

use crate::buffer::Buffer;
use crate::hosts::{Hosts, Placement};
use crate::job::Job;
use crate::overlay::Overlay;
use crate::sys::{Comm, Elements, ErrorClass, GeneralizedRequest, Result};
use crate::worker::Worker;

/// Tag for the creation of this library's communicators, different from the tags of communicators that the program
/// creates.
const COMMUNICATOR_TAG: i32 = 0x0a1f;

/// State attached to a communicator of the program.
pub(crate) struct Communicator {
    job: &'static Job,
    comm: Comm,
    rank: u32,
    size: u32,
    /// Whether the library supports the communicator: it has at least two members, and all of them belong to this job.
    is_supported: bool,
    route: Mutex<Option<Route>>,
    worker: Mutex<Option<Worker>>,
}

/// Transport of a communicator's collectives, chosen at the first call.
struct Route {
    /// A communicator with the same members, for this library's messages.
    duplicate: Comm,
    transport: Transport,
}

/// Transport of collectives: messages of the underlying MPI along an overlay, or a group of hosts.
enum Transport {
    Overlay(Overlay),
    Hosts(Box<Hosts>),
}

/// A collective to execute.
#[derive(Clone, Copy)]
enum Task {
    Broadcast(Elements, u32),
    Barrier,
}

impl Communicator {
    pub(crate) fn new(job: &'static Job, comm: Comm) -> Result<Communicator> {
        let (rank, size) = (comm.rank()?, comm.size()?);
        Ok(Communicator {
            job,
            comm,
            rank,
            size,
            is_supported: size > 1 && comm.world_ranks()?.is_some(),
            route: Mutex::default(),
            worker: Mutex::default(),
        })
    }

    /// Broadcasts the root's elements; `None` if the library does not support this broadcast.
    pub(crate) fn broadcast(&self, elements: Elements, root: i32) -> Option<Result<()>> {
        let (algorithm, root) = self.supported_broadcast(elements, root)?;
        self.drain();
        Some(self.run(algorithm, Task::Broadcast(elements, root)))
    }

    pub(crate) fn barrier(&self) -> Option<Result<()>> {
        let algorithm = self
            .job
            .settings
            .for_barrier()
            .filter(|_| self.is_supported)?;
        self.drain();
        Some(self.run(algorithm, Task::Barrier))
    }

    /// Starts a broadcast; `None` if the library does not support this broadcast.
    pub(crate) fn begin_broadcast(
        self: &Arc<Self>,
        elements: Elements,
        root: i32,
    ) -> Option<Result<GeneralizedRequest>> {
        let (algorithm, root) = self.supported_broadcast(elements, root)?;
        if !self.job.allows_threads {
            if self.job.rank == 0 {
                self.job.warn_once("this MPI allows no calls from other threads (MPI_THREAD_MULTIPLE), so MPI_Ibcast falls back to the underlying MPI");
            }
            return None;
        }
        Some(self.begin(algorithm, elements, root))
    }

    /// Starts a broadcast on the communicator's worker thread.
    fn begin(
        self: &Arc<Self>,
        algorithm: Algorithm,
        elements: Elements,
        root: u32,
    ) -> Result<GeneralizedRequest> {
        let mut worker = self.worker.lock().unwrap_or_else(PoisonError::into_inner);
        let worker = match &mut *worker {
            Some(worker) => worker,
            none => none.insert(Worker::start().map_err(|_| ErrorClass::internal())?),
        };
        let elements = elements.with_duplicate_type()?;
        let promise = GeneralizedRequest::new()?;
        let communicator = Arc::clone(self);
        worker.run(Box::new(move || {
            let task = Task::Broadcast(elements, root);
            if communicator.run(algorithm, task).is_err() {
                // A generalized request cannot report an error.
                eprintln!("alfirk: MPI_Ibcast failed in the underlying MPI");
                std::process::abort();
            }
            elements.free();
            promise.complete();
        }));
        Ok(promise)
    }

    /// Returns the algorithm and the root's rank for a broadcast; `None` if the library does not support this
    /// broadcast.
    fn supported_broadcast(&self, elements: Elements, root: i32) -> Option<(Algorithm, u32)> {
        let root = u32::try_from(root).ok().filter(|root| *root < self.size)?;
        let algorithm = self.job.settings.for_broadcast(elements.bytes);
        Some((algorithm.filter(|_| self.is_supported)?, root))
    }

    /// Waits until all non-blocking operations have completed, so that all members execute collectives in the same
    /// order.
    fn drain(&self) {
        let worker = self.worker.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(worker) = &*worker {
            worker.drain();
        }
    }

    /// Executes a collective on this thread.
    fn run(&self, algorithm: Algorithm, task: Task) -> Result<()> {
        if matches!(task, Task::Broadcast(Elements { bytes: 0, .. }, _)) {
            return Ok(());
        }
        let mut route = self.route.lock().unwrap_or_else(PoisonError::into_inner);
        let route = match &mut *route {
            Some(route) => route,
            none => none.insert(self.find_route(algorithm)?),
        };
        match task {
            Task::Barrier => match &mut route.transport {
                Transport::Overlay(overlay) => overlay.barrier(algorithm),
                Transport::Hosts(hosts) => hosts.barrier(self.job),
            },
            Task::Broadcast(elements, root) => {
                let is_root = root == self.rank;
                let mut packed = match (elements.is_contiguous, is_root) {
                    (true, _) => Vec::new(),
                    (false, true) => elements.pack(route.duplicate)?,
                    (false, false) => vec![0; elements.bytes as usize],
                };
                let (start, len) = (elements.start.cast::<u8>(), elements.bytes as usize);
                let bytes = match (elements.is_contiguous, is_root) {
                    // SAFETY: the program guarantees valid elements of that many bytes, and does not write to them
                    // during the call.
                    (true, true) => {
                        Buffer::Source(unsafe { std::slice::from_raw_parts(start, len) })
                    }
                    // SAFETY: as above; nor does the program read them at ranks other than the root.
                    (true, false) => {
                        Buffer::Target(unsafe { std::slice::from_raw_parts_mut(start, len) })
                    }
                    (false, true) => Buffer::Source(&packed),
                    (false, false) => Buffer::Target(&mut packed),
                };
                match &mut route.transport {
                    Transport::Overlay(overlay) => overlay.broadcast(algorithm, bytes, root)?,
                    Transport::Hosts(hosts) => hosts.broadcast(self.job, bytes, root)?,
                }
                if !elements.is_contiguous && !is_root {
                    elements.unpack(&packed, route.duplicate)?;
                }
                Ok(())
            }
        }
    }

    /// Chooses the transport at the first collective. All members must call it.
    fn find_route(&self, algorithm: Algorithm) -> Result<Route> {
        let (job, rank) = (self.job, self.rank);
        let duplicate = self.comm.duplicate(COMMUNICATOR_TAG)?;
        let places = Placement::find(duplicate, rank)?;
        let transport = if !algorithm.needs_group() {
            if rank == 0 {
                job.log_verbose(|| format!("{} ranks use {algorithm}", self.size));
            }
            places.host.free();
            let hosts = places
                .hosts_and_ranks
                .into_iter()
                .map(|(host, _)| host)
                .collect();
            let comm = duplicate;
            Transport::Overlay(Overlay { comm, rank, hosts })
        } else {
            Transport::Hosts(Box::new(Hosts::join(job, duplicate, rank, places)?))
        };
        Ok(Route {
            duplicate,
            transport,
        })
    }

    /// Lets the group make progress, unless another thread uses the transport now.
    pub(crate) fn make_progress(&self) {
        if let Ok(mut route) = self.route.try_lock() {
            if let Some(Route {
                transport: Transport::Hosts(hosts),
                ..
            }) = &mut *route
            {
                hosts.make_progress();
            }
        }
    }

    /// Number by which the communicators of a job are sorted before their groups are ended; the same at all ranks.
    pub(crate) fn sort_key(&self) -> u32 {
        let route = self.route.lock().unwrap_or_else(PoisonError::into_inner);
        match route.as_ref().map(|route| &route.transport) {
            Some(Transport::Hosts(hosts)) => hosts.sort_key(),
            _ => 0,
        }
    }

    /// Frees the library's resources of the communicator. All members must call it.
    pub(crate) fn end(&self) {
        self.drain();
        drop(
            self.worker
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .take(),
        );
        let route = self
            .route
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        if let Some(Route {
            duplicate,
            transport,
        }) = route
        {
            if let Transport::Hosts(mut hosts) = transport {
                hosts.leave(self.job);
                hosts.free();
            }
            duplicate.free();
        }
    }
}
