//! Text trace: one line per frame sent, received or lost, and per note of a node.
//!
//! ```text
//!          12345 h1:0     tx   4154 10.0.0.1 > 10.255.0.1 SendFirst qp 1 psn 7 4096 B
//!          13180 s1:1     rx   4154 10.0.0.1 > 10.255.0.1 SendFirst qp 1 psn 7 4096 B
//!          14000 s1:2     loss 4154 10.255.0.1 > 10.0.0.2 SendFirst qp 19 psn 7 4096 B
//!          14100 h1       post 4096 B
//! ```
//!
//! The columns are time in nanoseconds, node and port, event, length of the frame in bytes, and its headers.

use std::cell::RefCell;
use std::io::{self, Write};
use std::rc::Rc;

use super::{Record, Sink};
use crate::engine::{Observation, Observer};
use crate::frame::Frame;

/// Writes a text trace of a whole run.
pub struct TextTrace<W> {
    sink: Rc<RefCell<Sink<W>>>,
}

impl<W: Write + 'static> TextTrace<W> {
    /// Creates a trace that is written to `writer`.
    pub fn new(writer: W) -> (TextTrace<W>, Record) {
        let (sink, record) = Sink::new(writer, W::flush);
        (TextTrace { sink }, record)
    }
}

impl<W: Write + 'static> Observer for TextTrace<W> {
    fn observe(&mut self, now: u64, name: &str, observation: Observation<'_>) {
        self.sink
            .borrow_mut()
            .write(|writer| write_line(writer, now, name, observation));
    }

    fn wants_notes(&self) -> bool {
        true
    }
}

fn write_line(
    writer: &mut impl Write,
    now: u64,
    name: &str,
    observation: Observation<'_>,
) -> io::Result<()> {
    let (port, what, len, frame) = match observation {
        Observation::Transmit { port, frame } => (port, "tx", frame.len(), Some(frame)),
        Observation::Receive { port, frame } => (port, "rx", frame.len(), Some(frame)),
        Observation::Drop {
            port,
            len,
            frame,
            reason,
        } => (port, reason.as_str(), len, frame),
        Observation::Note(text) => return writeln!(writer, "{now:>15} {name:<8} {text}"),
        Observation::Group { .. } => return Ok(()),
    };
    let place = format!("{name}:{port}");
    write!(writer, "{now:>15} {place:<8} {what:<4} {len:>4}")?;
    match frame {
        Some(frame) => writeln!(writer, " {}", Frame::read(frame)),
        None => writeln!(writer),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::capture::testing::Shared;
    use crate::engine::DropReason;

    #[test]
    fn lines_have_time_port_event_and_headers() {
        let file = Shared::default();
        let (mut trace, record) = TextTrace::new(file.clone());
        let frame: &[u8] = &[0; 60];
        trace.observe(1, "h1", Observation::Transmit { port: 0, frame });
        let reason = DropReason::Fault;
        let lost = Observation::Drop {
            port: 12,
            len: 60,
            frame: Some(frame),
            reason,
        };
        trace.observe(2, "s1", lost);
        trace.observe(3, "h1", Observation::Note("post 60 B"));
        record.finish().unwrap();
        let text = String::from_utf8(file.bytes()).unwrap();
        assert_eq!(
            text,
            "              1 h1:0     tx     60 other\n\
             \x20             2 s1:12    loss   60 other\n\
             \x20             3 h1       post 60 B\n"
        );
    }
}
