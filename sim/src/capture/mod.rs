//! Records of a run: packet captures, timelines and text traces, as [`crate::engine::Observer`]s.
//!
//! All write to a given writer. A write error ends the record; `finish` returns the error.

pub mod pcap;
pub mod pcapng;
pub mod timeline;
pub mod trace;
pub mod watch;

pub use pcap::PortCapture;
pub use pcapng::PcapngCapture;
pub use timeline::Timeline;
pub use trace::TextTrace;
pub use watch::Watch;

use std::cell::RefCell;
use std::io;
use std::rc::Rc;

/// A writer shared by the observer inside the engine and the caller that closes it at the end.
struct Sink<W> {
    writer: W,
    failed: Option<io::Error>,
}

/// The outer end of a record: says at the end whether all of it could be written.
#[must_use = "a record is complete only after finish"]
pub struct Record {
    end: Box<dyn FnOnce() -> io::Result<()>>,
}

impl Record {
    /// Flushes the record.
    ///
    /// # Errors
    ///
    /// The first error that any write met.
    pub fn finish(self) -> io::Result<()> {
        (self.end)()
    }
}

impl<W: 'static> Sink<W> {
    /// A sink for the observer and the record that ends it with `flush`.
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

    fn write(&mut self, act: impl FnOnce(&mut W) -> io::Result<()>) {
        if self.failed.is_none() {
            self.failed = act(&mut self.writer).err();
        }
    }
}

#[cfg(test)]
mod testing {
    use super::*;

    /// A writer whose bytes can be looked at from outside.
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
