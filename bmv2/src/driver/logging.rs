//! BMv2's logging flags.

use std::{
    fs::OpenOptions,
    io::{self, IsTerminal},
    path::PathBuf,
    sync::Mutex,
};

use tracing_subscriber::{fmt, EnvFilter};

use super::{SwitchArgs, SwitchError};

impl SwitchArgs {
    /// Starts the log: to standard output with `--log-console`, to a file with `--log-file`, else to
    /// standard error. `default` is the filter when `--log-level` is not given; asking for a log on
    /// the console or in a file means at least level info.
    ///
    /// # Errors
    /// A filter or file that cannot be used. A process that logs already keeps its log.
    pub fn start_logging(&self, default: &str) -> Result<(), SwitchError> {
        let asked = self.log_console || self.log_file.is_some();
        let filter = match self.log_level {
            Some(level) => level.filter(),
            None if asked => "info",
            None => default,
        };
        let filter = EnvFilter::builder()
            .parse(filter)
            .map_err(|error| SwitchError::BadInput(format!("log filter {filter}: {error}")))?;
        let log = fmt().with_env_filter(filter);
        // A log that is set up already stays.
        let _ = match &self.log_file {
            Some(path) => {
                let mut path = path.clone().into_os_string();
                path.push(".txt");
                let path = PathBuf::from(path);
                let file = OpenOptions::new().create(true).append(true).open(&path);
                let file = file.map_err(|error| {
                    SwitchError::Failed(format!("--log-file: {}: {error}", path.display()))
                })?;
                log.with_ansi(false)
                    .with_writer(Mutex::new(file))
                    .try_init()
            }
            None if self.log_console => log
                .with_ansi(io::stdout().is_terminal())
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
