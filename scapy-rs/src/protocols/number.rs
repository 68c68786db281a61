//! Numbers of `pnet_packet`'s accessors, which have types of their own, as plain numbers.

use std::net::{Ipv4Addr, Ipv6Addr};

use pnet_base::MacAddr;
use pnet_packet::arp::{ArpHardwareType, ArpOperation};
use pnet_packet::dhcp::{DhcpHardwareType, DhcpOperation};
use pnet_packet::ethernet::EtherType;
use pnet_packet::flowcontrol::FlowControlOpcode;
use pnet_packet::icmp::{IcmpCode, IcmpType};
use pnet_packet::icmpv6::{Icmpv6Code, Icmpv6Type};
use pnet_packet::ip::IpNextHeaderProtocol;
use pnet_packet::vlan::ClassOfService;

/// A type of an accessor of `pnet_packet`.
pub(super) trait Number {
    fn to_number(self) -> u128;
    /// The value of the low bits of `number`.
    fn of_number(number: u128) -> Self;
}

macro_rules! plain {
    ($($number:ty),*) => {
        $(impl Number for $number {
            fn to_number(self) -> u128 {
                self.into()
            }
            fn of_number(number: u128) -> $number {
                number as $number
            }
        })*
    };
}

macro_rules! wrapped {
    ($($name:ident($number:ty)),*) => {
        $(impl Number for $name {
            fn to_number(self) -> u128 {
                self.0.into()
            }
            fn of_number(number: u128) -> $name {
                $name(number as $number)
            }
        })*
    };
}

plain!(u8, u16, u32);
wrapped!(
    ArpHardwareType(u16),
    ArpOperation(u16),
    ClassOfService(u8),
    DhcpHardwareType(u8),
    DhcpOperation(u8),
    EtherType(u16),
    FlowControlOpcode(u16),
    IcmpCode(u8),
    IcmpType(u8),
    Icmpv6Code(u8),
    Icmpv6Type(u8),
    IpNextHeaderProtocol(u8)
);

impl Number for MacAddr {
    fn to_number(self) -> u128 {
        crate::value::big_endian(&self.octets())
    }
    fn of_number(number: u128) -> MacAddr {
        let [a, b, c, d, e, f] = [40, 32, 24, 16, 8, 0].map(|shift| (number >> shift) as u8);
        MacAddr(a, b, c, d, e, f)
    }
}

impl Number for Ipv4Addr {
    fn to_number(self) -> u128 {
        u32::from(self).into()
    }
    fn of_number(number: u128) -> Ipv4Addr {
        (number as u32).into()
    }
}

impl Number for Ipv6Addr {
    fn to_number(self) -> u128 {
        self.into()
    }
    fn of_number(number: u128) -> Ipv6Addr {
        number.into()
    }
}

/// Access to a field by `pnet_packet`: view, mutable view, getter, setter.
macro_rules! pnet {
    ($view:ident, $mutable:ident, $get:ident, $set:ident) => {
        $crate::field::Access::Library {
            get: |header| {
                let view = $view::new(header)?;
                Some($crate::protocols::number::Number::to_number(view.$get()))
            },
            set: |header, number| {
                if let Some(mut view) = $mutable::new(header) {
                    view.$set($crate::protocols::number::Number::of_number(number));
                }
            },
        }
    };
}
pub(super) use pnet;
