//! Connections to the services of a running switch: P4Runtime's address, with or without TLS.

#[cfg(feature = "tls")]
mod tls;

use std::fmt::Display;
use std::path::PathBuf;
use std::time::Duration;

use alfirk_ctrl::client::root_cause;
use tonic::transport::{Channel, Endpoint};
use tonic::Status;

use crate::exit::Failure;

/// Time limit for the connection to a switch.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// Flags of a connection to a switch.
#[derive(Clone, Debug, clap::Args)]
pub struct SwitchArgs {
    /// The switch's P4Runtime server: ADDRESS:PORT or unix:PATH.
    #[arg(
        long,
        global = true,
        value_name = "ADDR",
        default_value = "127.0.0.1:9559"
    )]
    switch: String,

    #[command(flatten)]
    tls: TlsArgs,
}

/// Flags of TLS.
#[derive(Clone, Debug, clap::Args)]
pub struct TlsArgs {
    /// Use TLS, and trust the certificate authority of this PEM file.
    #[arg(long, global = true, value_name = "FILE", help_heading = "TLS")]
    cacert: Option<PathBuf>,

    /// The client's certificate, a PEM file.
    #[arg(
        long,
        global = true,
        value_name = "FILE",
        help_heading = "TLS",
        requires_all = ["cacert", "key"]
    )]
    cert: Option<PathBuf>,

    /// The private key of --cert, a PEM file.
    #[arg(
        long,
        global = true,
        value_name = "FILE",
        help_heading = "TLS",
        requires = "cert"
    )]
    key: Option<PathBuf>,
}

impl SwitchArgs {
    /// Returns the address of the switch.
    pub fn address(&self) -> &str {
        &self.switch
    }

    /// Returns the endpoint for connections to the switch.
    pub fn endpoint(&self) -> Result<Endpoint, Failure> {
        let named = |why: &dyn Display| format!("--switch {}: {why}", self.switch);
        self.tls.endpoint(&self.switch, named)
    }

    /// Connects to the switch.
    pub async fn connect(&self, endpoint: &Endpoint) -> Result<Channel, Failure> {
        endpoint.connect().await.map_err(|error| {
            let why = root_cause(&error);
            Failure::failed(format_args!(
                "no reply from a switch at {}: {why}",
                self.switch
            ))
        })
    }

    /// Converts an error of the switch that is not the user's.
    pub fn failure(&self, status: &Status) -> Failure {
        let hint = match self.tls.cacert {
            None => "; if it uses TLS, give --cacert FILE",
            Some(_) => "",
        };
        Failure::failed(format_args!(
            "{}: {}{hint}",
            self.switch,
            root_cause(status)
        ))
    }
}

impl TlsArgs {
    /// Returns the endpoint for connections to a switch: `HOST:PORT` or `unix:PATH`. `named`: returns the message for an address
    /// that is not valid.
    ///
    /// # Errors
    /// The address, or a file of TLS, is not usable.
    pub fn endpoint(
        &self,
        address: &str,
        named: impl Fn(&dyn Display) -> String,
    ) -> Result<Endpoint, Failure> {
        let url = match (address.starts_with("unix:"), &self.cacert) {
            (true, None) => address.to_owned(),
            (true, Some(_)) => {
                return Err(Failure::bad_input(
                    "--cacert: a Unix socket has no TLS; leave it out",
                ))
            }
            (false, None) => format!("http://{address}"),
            (false, Some(_)) => format!("https://{address}"),
        };
        let endpoint = Endpoint::from_shared(url).map_err(|_| {
            Failure::bad_input(named(&"not an address with a port, such as 127.0.0.1:9559"))
        })?;
        let endpoint = endpoint.connect_timeout(CONNECT_TIMEOUT);
        match &self.cacert {
            #[cfg(feature = "tls")]
            Some(authority) => tls::secure(endpoint, self, authority),
            #[cfg(not(feature = "tls"))]
            Some(_) => Err(Failure::failed(alfirk_switch::NO_TLS)),
            None => Ok(endpoint),
        }
    }
}
