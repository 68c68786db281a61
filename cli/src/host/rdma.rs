//! A host that uses an RDMA device, through libibverbs.

use std::os::fd::{AsFd, BorrowedFd};

use alfirk_roce::rc::AckTimeout;
use alfirk_roce::verbs::Verbs;
use alfirk_verbs::{Device, DeviceConfig};

use super::interface::{self, Interface};
use super::protocol::Info;
use super::station::Station;
use crate::exit::{Failure, Outcome};

/// An RDMA device as a host.
pub(super) struct RdmaStation {
    device: Device,
    name: String,
    /// Attributes of the device's network interface, read at the start.
    interface: Interface,
    interface_name: String,
}

impl RdmaStation {
    /// Opens the RDMA device `device`.
    pub(super) fn open(
        device: &str,
        name: Option<&str>,
        ack_timeout: AckTimeout,
    ) -> Result<RdmaStation, Failure> {
        let config = DeviceConfig {
            ack_timeout,
            ..DeviceConfig::new(device)
        };
        let opened = Device::open(config).map_err(Failure::failed)?;
        let (interface, interface_name) = opened
            .interface()
            .and_then(|name| Ok((interface::read(&name)?, name)))
            .map_err(|error| {
                Failure::failed(format_args!(
                    "RDMA device {device}: its network interface: {error}"
                ))
            })?;
        Ok(RdmaStation {
            device: opened,
            name: name.unwrap_or(device).to_owned(),
            interface,
            interface_name,
        })
    }
}

impl Station for RdmaStation {
    fn verbs(&self) -> &dyn Verbs {
        &self.device
    }

    fn verbs_mut(&mut self) -> &mut dyn Verbs {
        &mut self.device
    }

    fn as_fd(&self) -> BorrowedFd<'_> {
        self.device.as_fd()
    }

    fn receive(&mut self) -> Outcome {
        self.device.handle_ready();
        Ok(())
    }

    fn interface(&self) -> &str {
        &self.interface_name
    }

    fn info(&self) -> Info {
        Info {
            name: self.name.clone(),
            mac: self.interface.mac,
            ip: self.device.ip(),
            prefix_len: self.interface.address.map_or(32, |a| a.prefix_len),
            mtu: self.interface.mtu,
            path_mtu: self.device.default_rc().mtu.into(),
            stats: self.device.stats(),
        }
    }
}
