//! BMv2's logging options and log format.

use std::{
    fmt,
    fs::{self, File, OpenOptions},
    io::{self, IsTerminal, Write},
    mem::MaybeUninit,
    path::PathBuf,
    sync::Mutex,
    time::SystemTime,
};

use tracing::{debug, enabled, error, info, trace, warn, Event, Level, Subscriber};
use tracing_subscriber::{
    fmt::{
        format::Writer, time::FormatTime, FmtContext, FormatEvent, FormatFields, SubscriberBuilder,
    },
    registry::LookupSpan,
    EnvFilter,
};

use super::{LogLevel, SwitchArgs, SwitchError};
use alfirk_bmv2::steps::{self, LogLine};

/// Target of log lines about packets.
pub const PACKET_LOG_TARGET: &str = "bmv2";

/// Returns whether the log contains the steps of packets.
pub fn logs_packets() -> bool {
    enabled!(target: PACKET_LOG_TARGET, Level::DEBUG)
}

/// Writes the steps of packets to the log.
pub fn log_packets(lines: &[LogLine]) {
    for line in lines {
        match line.step.level() {
            steps::Level::Trace => trace!(target: PACKET_LOG_TARGET, "{line}"),
            steps::Level::Debug => debug!(target: PACKET_LOG_TARGET, "{line}"),
            steps::Level::Info => info!(target: PACKET_LOG_TARGET, "{line}"),
            steps::Level::Warn => warn!(target: PACKET_LOG_TARGET, "{line}"),
            steps::Level::Error => error!(target: PACKET_LOG_TARGET, "{line}"),
        }
    }
}

/// Logs the first bytes of each frame, up to this number.
#[derive(Clone, Copy, Debug, Default)]
pub struct Dump(pub usize);

impl Dump {
    #[inline]
    pub fn received(self, port: u32, frame: &[u8]) {
        if self.0 > 0 {
            let (len, hex) = (frame.len(), self.hex(frame));
            info!(target: PACKET_LOG_TARGET, "Received packet of length {len} on port {port}: {hex}");
        }
    }

    #[inline]
    pub fn sending(self, port: u32, frame: &[u8]) {
        if self.0 > 0 {
            let (len, hex) = (frame.len(), self.hex(frame));
            info!(target: PACKET_LOG_TARGET, "Sending packet of length {len} on port {port}: {hex}");
        }
    }

    fn hex(self, frame: &[u8]) -> String {
        let bytes = frame.iter().take(self.0);
        bytes.map(|byte| format!("{byte:02x}")).collect()
    }
}

/// BMv2's format of a log line: `[13:15:44.123] [bmv2] [D] [thread 1234] text`.
struct Bmv2Format;

impl<S, N> FormatEvent<S, N> for Bmv2Format
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(
        &self,
        context: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        writer.write_char('[')?;
        LocalTime.format_time(&mut writer)?;
        let level = event.metadata().level().as_str();
        let letter = level.get(..1).unwrap_or("?");
        // SAFETY: gettid has no arguments and always succeeds.
        let thread = unsafe { libc::gettid() };
        write!(writer, "] [bmv2] [{letter}] [thread {thread}] ")?;
        context.format_fields(writer.by_ref(), event)?;
        writeln!(writer)
    }
}

/// Formats the time as BMv2 does: `13:15:44.123`.
struct LocalTime;

impl FormatTime for LocalTime {
    fn format_time(&self, writer: &mut Writer<'_>) -> fmt::Result {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        let now = now.unwrap_or_default();
        let seconds = now.as_secs() as libc::time_t;
        let mut local = MaybeUninit::uninit();
        // SAFETY: both pointers are valid for the call, which fills the second or returns null.
        let local = unsafe { libc::localtime_r(&seconds, local.as_mut_ptr()).as_ref() };
        let (hour, minute, second) = local.map_or((0, 0, 0), |t| (t.tm_hour, t.tm_min, t.tm_sec));
        let millis = now.subsec_millis();
        write!(writer, "{hour:02}:{minute:02}:{second:02}.{millis:03}")
    }
}

/// A log file with rotation: `NAME.txt`, then `NAME.1.txt` and so on, as in BMv2.
struct RotatingFile {
    base: PathBuf,
    max_size: u64,
    max_files: u32,
    file: File,
    size: u64,
}

impl RotatingFile {
    fn open(
        base: PathBuf,
        max_size: u64,
        max_files: u32,
    ) -> Result<RotatingFile, (PathBuf, io::Error)> {
        let path = numbered(&base, 0);
        let opened = OpenOptions::new().create(true).append(true).open(&path);
        let sized = opened.and_then(|file| Ok((file.metadata()?.len(), file)));
        match sized {
            Ok((size, file)) => Ok(RotatingFile {
                base,
                max_size,
                max_files,
                file,
                size,
            }),
            Err(error) => Err((path, error)),
        }
    }

    fn rotate(&mut self) -> io::Result<()> {
        for older in (0..self.max_files).rev() {
            // Files that do not exist yet cannot be renamed.
            let _ = fs::rename(numbered(&self.base, older), numbered(&self.base, older + 1));
        }
        self.file = File::create(numbered(&self.base, 0))?;
        self.size = 0;
        Ok(())
    }
}

/// Returns the name of a log file by its age: 0 for the current file, 1 for the one before it, and so on.
fn numbered(base: &std::path::Path, age: u32) -> PathBuf {
    let mut name = base.as_os_str().to_owned();
    name.push(match age {
        0 => ".txt".to_owned(),
        age => format!(".{age}.txt"),
    });
    name.into()
}

impl Write for RotatingFile {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        if self.size > 0 && self.size + line.len() as u64 > self.max_size {
            self.rotate()?;
        }
        let written = self.file.write(line)?;
        self.size += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

impl SwitchArgs {
    /// Starts the log. With `--log-console` it goes to standard output, with `--log-file` to a file, both in BMv2's
    /// format and at level trace unless `--log-level` is given. Otherwise it goes to standard error, with the filter
    /// `default` unless `--log-level` is given.
    ///
    /// # Errors
    /// An invalid filter or file. A process that logs already keeps its log.
    pub fn start_logging(&self, default: &str) -> Result<(), SwitchError> {
        let asked = self.log_console || self.log_file.is_some();
        let filter = match self.log_level {
            Some(level) => filter_for(level),
            None if asked => filter_for(LogLevel::Trace),
            None => default.to_owned(),
        };
        let filter = EnvFilter::builder()
            .parse(&filter)
            .map_err(|error| SwitchError::BadInput(format!("log filter {filter}: {error}")))?;
        let log = SubscriberBuilder::default().with_env_filter(filter);
        // This fails if a log is set up already, which is kept.
        let _ = match &self.log_file {
            Some(base) => {
                let (size, files) = (self.log_file_max_size, self.log_file_max_files);
                let file =
                    RotatingFile::open(base.clone(), size, files).map_err(|(path, error)| {
                        SwitchError::Failed(format!("--log-file: {}: {error}", path.display()))
                    })?;
                log.with_ansi(false)
                    .event_format(Bmv2Format)
                    .with_writer(Mutex::new(file))
                    .try_init()
            }
            None if self.log_console => log
                .with_ansi(false)
                .event_format(Bmv2Format)
                .with_writer(io::stdout)
                .try_init(),
            None => log
                .with_ansi(io::stderr().is_terminal())
                .with_writer(io::stderr)
                .try_init(),
        };
        Ok(())
    }
}

/// Returns the log filter for a level of the switch; libraries log only errors.
fn filter_for(level: LogLevel) -> String {
    let level = level.filter();
    match level {
        "off" => "off".to_owned(),
        _ => format!("error,alfirk={level},p4={level},{PACKET_LOG_TARGET}={level}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn full_log_files_are_rotated_and_the_oldest_is_removed() {
        let dir = std::env::temp_dir().join(format!("alfirk-log-{}", std::process::id()));
        fs::create_dir_all(&dir).unwrap();
        let Ok(mut log) = RotatingFile::open(dir.join("log"), 10, 2) else {
            panic!("the file can be made")
        };
        for line in ["aaaa\n", "bbbb\n", "cccc\n", "dddddddddddd\n", "e\n"] {
            log.write_all(line.as_bytes()).unwrap();
        }
        let read = |name| fs::read_to_string(dir.join(name)).unwrap();
        assert_eq!(read("log.txt"), "e\n");
        assert_eq!(read("log.1.txt"), "dddddddddddd\n");
        assert_eq!(read("log.2.txt"), "cccc\n");
        assert!(!dir.join("log.3.txt").exists());
        fs::remove_dir_all(&dir).unwrap();
    }
}
