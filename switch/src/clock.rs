//! Wall-clock time in the local time zone.

use std::{fmt, mem::MaybeUninit, time::SystemTime};

use tracing_subscriber::fmt::{format::Writer, time::FormatTime};

/// Formats the time as BMv2 does: `13:15:44.123`.
pub struct LocalTime;

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
