//! Records of a simulation run: packet captures, timelines and text traces. Each is written by an observer
//! ([`crate::engine::Observer`]).
//!
//! Each observer writes to a given writer. A write error ends the record; [`Record::finish`] returns the error.

pub mod page_trace;
pub mod pcap;
pub mod pcapng;
pub mod timeline;
pub mod trace;

pub use page_trace::PageTrace;
pub use pcap::PortCapture;
pub use pcapng::PcapngCapture;
pub use timeline::Timeline;
pub use trace::TextTrace;

use std::cell::RefCell;
use std::io;
use std::rc::Rc;

/// A writer that the observer in the engine and the caller's [`Record`] share. After a write error it writes nothing
/// more.
struct Sink<W> {
    writer: W,
    failed: Option<io::Error>,
}

/// The caller's handle of a capture, timeline or trace: flushes its writer and returns the first write error.
#[must_use = "a record is complete only after finish"]
pub struct Record {
    end: Box<dyn FnOnce() -> io::Result<()>>,
}

impl Record {
    /// Flushes the capture, timeline or trace.
    ///
    /// # Errors
    ///
    /// The first error of any write.
    pub fn finish(self) -> io::Result<()> {
        (self.end)()
    }
}

impl<W: 'static> Sink<W> {
    /// Creates the shared writer for an observer, and the record whose [`Record::finish`] calls `flush`.
    fn new(
        writer: W,
        flush: impl FnOnce(&mut W) -> io::Result<()> + 'static,
    ) -> (Rc<RefCell<Sink<W>>>, Record) {
        let sink = Rc::new(RefCell::new(Sink {
            writer,
            failed: None,
        }));
        let ended = Rc::clone(&sink);
        let end = move || {
            let mut sink = ended.borrow_mut();
            match sink.failed.take() {
                Some(error) => Err(error),
                None => flush(&mut sink.writer),
            }
        };
        let end = Box::new(end);
        (sink, Record { end })
    }

    /// Calls `act` on the writer, and keeps the error of the first call that fails.
    fn write(&mut self, act: impl FnOnce(&mut W) -> io::Result<()>) {
        if self.failed.is_none() {
            self.failed = act(&mut self.writer).err();
        }
    }
}

#[cfg(test)]
mod testing {
    use super::*;

    /// A writer whose bytes the test can read.
    #[derive(Clone, Default)]
    pub(super) struct Shared(Rc<RefCell<Vec<u8>>>);

    impl Shared {
        pub(super) fn bytes(&self) -> Vec<u8> {
            self.0.borrow().clone()
        }
    }

    impl io::Write for Shared {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.borrow_mut().write(bytes)
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
}
