//! Virtual queue pair numbers of groups.
//!
//! Packets of members carry the group's virtual queue pair number, and every switch of the tree drops packets with another
//! one. A group that reuses the address of an earlier group gets a different number. So queue pairs of the earlier group that
//! still exist can neither send to the new group nor acknowledge its data.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;

use alfirk_roce::wire::QpNum;

/// Allocator of virtual queue pair numbers, which stores the last one of each address.
#[derive(Clone, Debug)]
pub(super) struct VirtualQpns {
    next: QpNum,
    last: BTreeMap<Ipv4Addr, QpNum>,
}

/// Error: a virtual queue pair number is not usable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum VirtualQpnError {
    /// The number is reserved.
    #[error("queue pair number {0} is reserved; use one from 2 to 16777214, or let the controller choose it")]
    Special(QpNum),
    /// The last group with this address had the same number, and its queue pairs may still exist.
    #[error("queue pair number {virtual_qpn} was that of the last group with address {mcst_id}, whose queue pairs may still exist; use another one, or let the controller choose it")]
    Stale {
        /// IPv4 address of the group.
        mcst_id: Ipv4Addr,
        /// The requested virtual queue pair number.
        virtual_qpn: QpNum,
    },
}

impl VirtualQpns {
    /// Creates an allocator that starts at a number derived from `seed`.
    pub(super) fn new(seed: u32) -> VirtualQpns {
        VirtualQpns {
            next: QpNum::ordinary(seed),
            last: BTreeMap::new(),
        }
    }

    /// Chooses the number of a new group at an address: the requested one, or the next one.
    pub(super) fn choose(
        &mut self,
        mcst_id: Ipv4Addr,
        wanted: Option<QpNum>,
    ) -> Result<QpNum, VirtualQpnError> {
        let last = self.last.get(&mcst_id).copied();
        match wanted {
            Some(virtual_qpn) if !virtual_qpn.is_ordinary() => {
                Err(VirtualQpnError::Special(virtual_qpn))
            }
            Some(virtual_qpn) if last == Some(virtual_qpn) => Err(VirtualQpnError::Stale {
                mcst_id,
                virtual_qpn,
            }),
            Some(virtual_qpn) => Ok(virtual_qpn),
            None => {
                let number = self.take();
                Ok(match last == Some(number) {
                    true => self.take(),
                    false => number,
                })
            }
        }
    }

    fn take(&mut self) -> QpNum {
        let number = self.next;
        self.next = QpNum::ordinary(number.get() - 1);
        number
    }

    /// Records that a group with this address has used this number, so that the next group with the address gets another.
    pub(super) fn record(&mut self, mcst_id: Ipv4Addr, virtual_qpn: QpNum) {
        self.last.insert(mcst_id, virtual_qpn);
    }

    /// Last number of each address that was ever in use.
    pub(super) fn last_numbers(&self) -> impl Iterator<Item = (Ipv4Addr, QpNum)> + '_ {
        self.last.iter().map(|(mcst_id, qpn)| (*mcst_id, *qpn))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ADDRESS: Ipv4Addr = Ipv4Addr::new(10, 255, 0, 1);

    #[test]
    fn numbers_are_consecutive_and_skip_reserved_ones() {
        let mut qpns = VirtualQpns::new(u32::MAX);
        let first = qpns.next;
        let number: Vec<u32> = (0..3)
            .map(|_| qpns.choose(ADDRESS, None).unwrap().get())
            .collect();
        assert_eq!(number, [first.get(), first.get() + 1, first.get() + 2]);
        let mut qpns = VirtualQpns::new(0xff_fffc);
        assert_eq!(qpns.choose(ADDRESS, None), Ok(QpNum::new(0xff_fffe)));
        assert_eq!(qpns.choose(ADDRESS, None), Ok(QpNum::new(2)));
    }

    #[test]
    fn an_address_does_not_get_its_last_queue_pair_number_again() {
        let mut qpns = VirtualQpns::new(40);
        let first = qpns.next;
        qpns.record(ADDRESS, first);
        assert_ne!(qpns.choose(ADDRESS, None), Ok(first));
        assert_eq!(
            qpns.choose(ADDRESS, Some(first)),
            Err(VirtualQpnError::Stale {
                mcst_id: ADDRESS,
                virtual_qpn: first
            })
        );
        let elsewhere = Ipv4Addr::new(10, 255, 0, 2);
        assert_eq!(qpns.choose(elsewhere, Some(first)), Ok(first));
        for special in [0, 1, 0xff_ffff].map(QpNum::new) {
            let refused = Err(VirtualQpnError::Special(special));
            assert_eq!(qpns.choose(ADDRESS, Some(special)), refused);
        }
    }
}
