//! Addresses and attributes of a network interface, read from the kernel.

use std::io;
use std::path::Path;

use alfirk_roce::wire::MacAddr;

use super::Address;

/// Attributes of a network interface in the network namespace of this process.
pub(super) struct Interface {
    pub(super) mac: MacAddr,
    pub(super) mtu: u32,
    /// First IPv4 address of the interface; `None` if it has none.
    pub(super) address: Option<Address>,
}

/// Reads the attributes of the interface `name`. The message of an error is for users.
pub(super) fn read(name: &str) -> io::Result<Interface> {
    Ok(Interface {
        mac: attribute(name, "address")?,
        mtu: attribute(name, "mtu")?,
        address: address(name)?,
    })
}

fn attribute<T: std::str::FromStr>(interface: &str, attribute: &str) -> io::Result<T> {
    // A name with a slash would be a path outside the folder.
    let name = Path::new(interface).file_name().filter(|n| *n == interface);
    let none = || {
        io::Error::new(
            io::ErrorKind::NotFound,
            "no interface of that name in this network namespace",
        )
    };
    let path = Path::new("/sys/class/net")
        .join(name.ok_or_else(none)?)
        .join(attribute);
    let text = std::fs::read_to_string(path).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => none(),
        _ => error,
    })?;
    let odd = || {
        io::Error::other(format!(
            "its {attribute} is `{}`; an Ethernet interface is needed",
            text.trim()
        ))
    };
    text.trim().parse().map_err(|_| odd())
}

fn address(name: &str) -> io::Result<Option<Address>> {
    let addresses = nix::ifaddrs::getifaddrs()?;
    let mut of_interface = addresses.filter(|a| a.interface_name == name);
    Ok(of_interface.find_map(|found| {
        let ip = found.address?.as_sockaddr_in()?.ip();
        let mask = u32::from(found.netmask?.as_sockaddr_in()?.ip());
        let prefix_len = mask.leading_ones() as u8;
        Some(Address { ip, prefix_len })
    }))
}
