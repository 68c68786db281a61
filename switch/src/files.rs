//! Ports that read and write pcap files instead of interfaces, as with `--use-files` of `simple_switch`.
//!
//! Port X@NAME reads NAME_in.pcap and writes NAME_out.pcap. Frames are processed in the order of their timestamps;
//! those with equal timestamps in the order of port numbers. The intervals between timestamps are ignored. A file
//! may be a named pipe. Its frames are processed when they arrive, without waiting for the order.

use std::{
    fs::{File, OpenOptions},
    io::{self, BufWriter, Read},
    os::{
        fd::{AsRawFd, RawFd},
        unix::fs::OpenOptionsExt,
    },
    path::{Path, PathBuf},
    thread,
    time::Duration,
};

use alfirk_packet_io::{
    pcap::{PcapFrame, PcapReader, PcapWriter},
    PcapFile,
};
use tracing::{error, info, warn};

use super::command::{Command, CommandSender};

/// Number of bytes that one read requests.
const READ_SIZE: usize = 64 << 10;

/// Input file of a port, a capture or a named pipe.
pub struct Input {
    port: u32,
    path: PathBuf,
    file: File,
    reader: PcapReader,
    next: Option<PcapFrame>,
    /// Whether the named pipe has data or was closed. Before that, a read would report the end of the file.
    is_ready: bool,
    is_pipe: bool,
    is_at_end: bool,
}

impl Input {
    /// Opens the input file NAME_in.pcap of a port.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub fn open(port: u32, name: &str) -> io::Result<Input> {
        let path = PathBuf::from(format!("{name}_in.pcap"));
        // Opening a pipe without a writer must not block.
        let flags = libc::O_NONBLOCK | libc::O_CLOEXEC;
        let file = OpenOptions::new()
            .read(true)
            .custom_flags(flags)
            .open(&path)
            .map_err(|error| with_path(&path, &error))?;
        let is_pipe = !file.metadata()?.is_file();
        Ok(Input {
            port,
            path,
            file,
            reader: PcapReader::default(),
            next: None,
            is_ready: !is_pipe,
            is_pipe,
            is_at_end: false,
        })
    }

    /// Reads until the next frame is available, or until the file has no more data.
    fn read_next_frame(&mut self, chunk: &mut [u8]) {
        while self.next.is_none() && !self.is_at_end {
            match self.reader.next_frame() {
                Ok(Some(frame)) if frame.bytes.len() == frame.length => self.next = Some(frame),
                Ok(Some(_)) => {
                    self.stop_reading("the capture has truncated a frame; capture whole frames")
                }
                Ok(None) if !self.is_ready => return,
                Ok(None) => match self.file.read(chunk) {
                    Ok(0) => self.is_at_end = true,
                    Ok(count) => self.reader.feed(&chunk[..count]),
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                        self.is_ready = false;
                    }
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                    Err(error) => self.stop_reading(&error.to_string()),
                },
                Err(fault) => self.stop_reading(&fault.to_string()),
            }
        }
    }

    fn stop_reading(&mut self, why: &str) {
        error!("{}: {why}; no more frames are read", self.path.display());
        self.is_at_end = true;
    }
}

/// Creates the output file NAME_out.pcap of a port. Timestamps are in microseconds, which all readers support.
///
/// # Errors
/// When the file cannot be written.
pub fn output(name: &str) -> io::Result<PcapFile> {
    let path = PathBuf::from(format!("{name}_out.pcap"));
    let file = File::create(&path).map_err(|error| with_path(&path, &error))?;
    PcapWriter::in_microseconds(BufWriter::new(file))
}

fn with_path(path: &Path, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{}: {error}", path.display()))
}

/// Starts a thread that reads all input files, and passes their frames to the switch.
///
/// # Errors
/// When the thread cannot be started.
pub fn read(inputs: Vec<Input>, wait: Duration, commands: CommandSender) -> io::Result<()> {
    let run = move || {
        thread::sleep(wait);
        replay(inputs, |port, frame| {
            commands.send_blocking(Command::Frame(port, frame))
        });
    };
    let thread = thread::Builder::new().name("pcap files".into());
    thread.spawn(run).map(|_| ())
}

/// Passes the frames of all input files to `take`, in order of time. Ends when `take` returns false.
fn replay(mut inputs: Vec<Input>, mut take: impl FnMut(u32, Vec<u8>) -> bool) {
    inputs.sort_by_key(|input| input.port);
    let mut chunk = vec![0; READ_SIZE];
    loop {
        for input in &mut inputs {
            input.read_next_frame(&mut chunk);
        }
        let with_frame = inputs.iter_mut().filter(|input| input.next.is_some());
        let first = with_frame.min_by_key(|input| input.next.as_ref().map(|frame| frame.at));
        if let Some(input) = first {
            let port = input.port;
            if let Some(frame) = input.next.take() {
                if !take(port, frame.bytes) {
                    return;
                }
            }
            continue;
        }
        if inputs.iter().all(|input| input.is_at_end) {
            return info!("all input files are at their end");
        }
        if let Err(error) = wait(&mut inputs) {
            return warn!("cannot wait for input files: {error}");
        }
    }
}

/// Waits until one of the named pipes has data or is closed.
fn wait(inputs: &mut [Input]) -> io::Result<()> {
    let mut waiting: Vec<&mut Input> = inputs
        .iter_mut()
        .filter(|input| input.is_pipe && !input.is_at_end)
        .collect();
    let poll = |fd: RawFd| libc::pollfd {
        fd,
        events: libc::POLLIN,
        revents: 0,
    };
    let mut fds: Vec<_> = waiting
        .iter()
        .map(|input| poll(input.file.as_raw_fd()))
        .collect();
    // SAFETY: the list has the given length, and outlives the call.
    let count = unsafe { libc::poll(fds.as_mut_ptr(), fds.len() as libc::nfds_t, -1) };
    if count < 0 {
        let error = io::Error::last_os_error();
        return match error.kind() {
            io::ErrorKind::Interrupted => Ok(()),
            _ => Err(error),
        };
    }
    for (input, fd) in waiting.iter_mut().zip(&fds) {
        input.is_ready |= fd.revents != 0;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    fn name(dir: &tempfile::TempDir, name: &str) -> String {
        dir.path().join(name).to_string_lossy().into_owned()
    }

    fn capture(frames: &[(u64, u8)]) -> Vec<u8> {
        let mut bytes = Vec::new();
        let mut pcap = PcapWriter::in_microseconds(&mut bytes).unwrap();
        for (at, byte) in frames {
            pcap.write(at * 1000, &[*byte]).unwrap();
        }
        bytes
    }

    fn replayed(inputs: Vec<Input>) -> Vec<(u32, u8)> {
        let mut frames = Vec::new();
        replay(inputs, |port, frame| {
            frames.push((port, frame[0]));
            true
        });
        frames
    }

    #[test]
    fn frames_of_all_files_are_ordered_by_timestamp() {
        let dir = tempfile::tempdir().unwrap();
        let (a, b) = (name(&dir, "a"), name(&dir, "b"));
        std::fs::write(format!("{a}_in.pcap"), capture(&[(1, 1), (5, 2)])).unwrap();
        std::fs::write(format!("{b}_in.pcap"), capture(&[(1, 3), (4, 4), (9, 5)])).unwrap();
        let inputs = vec![Input::open(7, &a).unwrap(), Input::open(2, &b).unwrap()];
        assert_eq!(replayed(inputs), [(2, 3), (7, 1), (2, 4), (7, 2), (2, 5)]);
    }

    #[test]
    fn pipes_are_read_until_they_are_closed() {
        let dir = tempfile::tempdir().unwrap();
        let (a, b) = (name(&dir, "a"), name(&dir, "b"));
        for pipe in [&a, &b] {
            let path = std::ffi::CString::new(format!("{pipe}_in.pcap")).unwrap();
            // SAFETY: the path ends with a zero byte.
            assert_eq!(unsafe { libc::mkfifo(path.as_ptr(), 0o600) }, 0);
        }
        let inputs = vec![Input::open(1, &a).unwrap(), Input::open(2, &b).unwrap()];
        let writer = thread::spawn(move || {
            let open = |name| {
                OpenOptions::new()
                    .write(true)
                    .open(format!("{name}_in.pcap"))
            };
            let (mut a, mut b) = (open(a).unwrap(), open(b).unwrap());
            // The second pipe receives its frame first, in two parts.
            let bytes = capture(&[(9, 3)]);
            b.write_all(&bytes[..30]).unwrap();
            b.write_all(&bytes[30..]).unwrap();
            drop(b);
            a.write_all(&capture(&[(1, 4)])).unwrap();
        });
        let mut frames = replayed(inputs);
        writer.join().unwrap();
        frames.sort_unstable();
        assert_eq!(frames, [(1, 4), (2, 3)]);
    }

    #[test]
    fn an_invalid_capture_ends_only_its_port() {
        let dir = tempfile::tempdir().unwrap();
        let (a, b) = (name(&dir, "a"), name(&dir, "b"));
        std::fs::write(format!("{a}_in.pcap"), b"not a capture").unwrap();
        std::fs::write(format!("{b}_in.pcap"), capture(&[(1, 3)])).unwrap();
        let inputs = vec![Input::open(1, &a).unwrap(), Input::open(2, &b).unwrap()];
        assert_eq!(replayed(inputs), [(2, 3)]);
        let missing = Input::open(3, &name(&dir, "c")).err().unwrap();
        assert!(missing.to_string().contains("c_in.pcap"));
    }
}
