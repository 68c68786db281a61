//! Records of a run: packet captures and text traces, as [`crate::engine::Observer`]s.
//!
//! Both write to what they are given. A writer that fails ends its record; the failure is kept and
//! told by `finish`.

pub mod pcap;
pub mod trace;

pub use pcap::PortCapture;
pub use trace::TextTrace;

use std::cell::RefCell;
use std::io;
use std::rc::Rc;

/// A writer shared by the observer inside the engine and whoever closes it at the end.
struct Sink<W> {
    writer: W,
    failed: Option<io::Error>,
}

/// The outer end of a record: says at the end whether all of it could be written.
#[must_use = "a record is complete only after finish"]
pub struct Record<W>(Rc<RefCell<Sink<W>>>);

impl<W: io::Write> Record<W> {
    fn new(writer: W) -> (Record<W>, Rc<RefCell<Sink<W>>>) {
        let sink = Rc::new(RefCell::new(Sink {
            writer,
            failed: None,
        }));
        (Record(Rc::clone(&sink)), sink)
    }

    /// Flushes the record.
    ///
    /// # Errors
    ///
    /// The first error that any write met.
    pub fn finish(self) -> io::Result<()> {
        let mut sink = self.0.borrow_mut();
        match sink.failed.take() {
            Some(error) => Err(error),
            None => sink.writer.flush(),
        }
    }
}

impl<W: io::Write> Sink<W> {
    fn write(&mut self, act: impl FnOnce(&mut W) -> io::Result<()>) {
        if self.failed.is_none() {
            self.failed = act(&mut self.writer).err();
        }
    }
}
