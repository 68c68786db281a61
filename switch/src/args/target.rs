//! Target options of `alfirk switch`, which follow a `--`.

use std::path::PathBuf;

use alfirk_bmv2::PreLimits;
use clap::Parser;

use super::bad;
use crate::tls::TlsFiles;
use crate::SwitchError;

/// Target options of alfirk switch, after its `--`
#[derive(Clone, Debug, Parser)]
#[command(
    name = "alfirk switch ... --",
    no_binary_name = true,
    disable_version_flag = true
)]
pub(super) struct TargetArgs {
    /// P4Runtime server: ADDRESS:PORT or unix:PATH
    #[arg(long, default_value = "127.0.0.1:9559")]
    pub grpc_server_addr: String,

    /// Port number for packet-in and packet-out; must not be 0 or the port of an interface
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..))]
    pub cpu_port: Option<u32>,

    /// Port number of the drop port
    #[arg(long, default_value_t = 511)]
    pub drop_port: u32,

    /// Number of queues per port
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=256))]
    pub priority_queues: u32,

    /// Reject new programs at run time
    #[arg(long)]
    pub disable_swap: bool,

    /// Allow Thrift clients to replace the program (simple_switch)
    #[arg(long, hide = true)]
    pub enable_swap: bool,

    /// Maximum number of multicast groups
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=i64::from(i32::MAX)))]
    pub max_mc_groups: Option<u32>,

    /// Maximum number of nodes of multicast groups
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=i64::from(i32::MAX)))]
    pub max_l1_entries: Option<u32>,

    /// Maximum number of port lists; each node has one
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=i64::from(i32::MAX)))]
    pub max_l2_entries: Option<u32>,

    /// Not supported: there is nothing to load into
    #[arg(long, value_name = "FILES", hide = true)]
    pub load_modules: Option<String>,

    /// Not supported: set egress_spec in the program
    #[arg(long, hide = true)]
    pub egress_spec_init_to_drop: bool,

    /// Use TLS, with --grpc-server-cert and --grpc-server-key
    #[arg(long)]
    pub grpc_server_ssl: bool,

    /// Server certificate, a PEM file
    #[arg(long, value_name = "FILE")]
    pub grpc_server_cert: Option<PathBuf>,

    /// Private key of the server, a PEM file
    #[arg(long, value_name = "FILE")]
    pub grpc_server_key: Option<PathBuf>,

    /// The certificate authority of clients, a PEM file
    #[arg(long, value_name = "FILE")]
    pub grpc_server_cacert: Option<PathBuf>,

    /// Reject clients without a certificate of that authority
    #[arg(long)]
    pub grpc_server_with_client_auth: bool,

    /// Not supported: attach interfaces instead
    #[arg(long, hide = true)]
    pub dp_grpc_server_addr: Option<String>,
}

impl TargetArgs {
    /// Returns the limits of multicast groups.
    pub fn pre_limits(&self) -> PreLimits {
        let limit = |n: Option<u32>| n.map_or(usize::MAX, |n| n as usize);
        PreLimits {
            groups: limit(self.max_mc_groups),
            nodes: limit(self.max_l1_entries).min(limit(self.max_l2_entries)),
        }
    }

    /// Returns the TLS files of the options, if the options request TLS.
    pub fn tls(&self) -> Result<Option<TlsFiles>, SwitchError> {
        let (cert, key) = (&self.grpc_server_cert, &self.grpc_server_key);
        let authority = &self.grpc_server_cacert;
        if !self.grpc_server_ssl {
            let files = [cert, key, authority].iter().any(|file| file.is_some());
            return match files || self.grpc_server_with_client_auth {
                true => bad("--grpc-server-cert, --grpc-server-key, --grpc-server-cacert and --grpc-server-with-client-auth need --grpc-server-ssl"),
                false => Ok(None),
            };
        }
        let (Some(cert), Some(key)) = (cert, key) else {
            return bad(
                "--grpc-server-ssl: needs --grpc-server-cert FILE and --grpc-server-key FILE",
            );
        };
        let with_client_auth = self.grpc_server_with_client_auth;
        if with_client_auth && authority.is_none() {
            return bad(
                "--grpc-server-with-client-auth: needs --grpc-server-cacert FILE, the authority of \
                 client certificates",
            );
        }
        Ok(Some(TlsFiles {
            cert: cert.clone(),
            key: key.clone(),
            // As in simple_switch_grpc, client certificates are not requested by default.
            clients: authority.clone().filter(|_| with_client_auth),
        }))
    }
}
