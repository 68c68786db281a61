//! A thread that executes a program's non-blocking operations in order. Each communicator that has such operations has
//! a thread, because programs may start operations on two communicators in different orders.

use std::sync::mpsc::{channel, Sender};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;

type Task = Box<dyn FnOnce() + Send>;

/// Thread that executes the non-blocking operations of one communicator, in order.
#[derive(Debug)]
pub(crate) struct Worker {
    tasks: Option<Sender<Task>>,
    pending: Arc<(Mutex<usize>, Condvar)>,
    thread: Option<JoinHandle<()>>,
}

impl Worker {
    pub(crate) fn start() -> std::io::Result<Worker> {
        let (tasks, queue) = channel::<Task>();
        let pending = Arc::new((Mutex::new(0), Condvar::new()));
        let left = Arc::clone(&pending);
        let thread = std::thread::Builder::new().name("alfirk-mpi".to_owned());
        let thread = thread.spawn(move || {
            for task in queue {
                task();
                let (count, changed) = &*left;
                *count.lock().unwrap_or_else(PoisonError::into_inner) -= 1;
                changed.notify_all();
            }
        })?;
        Ok(Worker {
            tasks: Some(tasks),
            pending,
            thread: Some(thread),
        })
    }

    /// Queues a task for the thread.
    pub(crate) fn run(&self, task: Task) {
        let mut count = self
            .pending
            .0
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        // The thread runs until this value is dropped.
        if self
            .tasks
            .as_ref()
            .is_some_and(|tasks| tasks.send(task).is_ok())
        {
            *count += 1;
        }
    }

    /// Waits until all tasks have completed.
    pub(crate) fn drain(&self) {
        let (count, changed) = &*self.pending;
        let count = count.lock().unwrap_or_else(PoisonError::into_inner);
        let done = changed.wait_while(count, |count| *count > 0);
        drop(done.unwrap_or_else(PoisonError::into_inner));
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.tasks = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tasks_are_done_in_order_before_a_drain_ends() {
        let worker = Worker::start().unwrap();
        let done = Arc::new(Mutex::new(Vec::new()));
        for number in 0..100 {
            let done = Arc::clone(&done);
            worker.run(Box::new(move || done.lock().unwrap().push(number)));
        }
        worker.drain();
        assert_eq!(*done.lock().unwrap(), (0..100).collect::<Vec<_>>());
    }
}
