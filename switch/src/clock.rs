//! The time of day where the switch runs.

use std::{fmt, mem::MaybeUninit, time::SystemTime};

use tracing_subscriber::fmt::{format::Writer, time::FormatTime};

/// `13:15:44.123`, as BMv2 writes it.
pub struct LocalTime;

impl FormatTime for LocalTime {
    fn format_time(&self, writer: &mut Writer<'_>) -> fmt::Result {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        let now = now.unwrap_or_default();
        let seconds = now.as_secs() as libc::time_t;
        let mut local = MaybeUninit::uninit();
        // SAFETY: both pointers are good for the call, which fills the second or gives null.
        let local = unsafe { libc::localtime_r(&seconds, local.as_mut_ptr()).as_ref() };
        let (hour, minute, second) = local.map_or((0, 0, 0), |t| (t.tm_hour, t.tm_min, t.tm_sec));
        let millis = now.subsec_millis();
        write!(writer, "{hour:02}:{minute:02}:{second:02}.{millis:03}")
    }
}
