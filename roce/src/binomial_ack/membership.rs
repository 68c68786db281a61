//! Membership: versioned lists of members, and the manager that creates them (section 3.3.3 of the paper).

use std::net::Ipv4Addr;

use crate::wire::QpNum;

/// One member of a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Member {
    /// Communication number of the member. The manager assigns each number once.
    pub number: u32,
    /// IPv4 address of the member's host.
    pub ip: Ipv4Addr,
    /// Number of the member's datagram queue pair.
    pub qpn: QpNum,
}

/// List of a group's members at one time, with a version number.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Membership {
    /// Version of the list: one more than that of the previous list.
    pub version: u32,
    /// The members, ordered by number.
    pub members: Vec<Member>,
}

impl Membership {
    /// Index in the list of the member with number `number`; `None` if the list does not contain it.
    pub fn place(&self, number: u32) -> Option<u32> {
        let found = self.members.binary_search_by_key(&number, |m| m.number);
        found.ok().map(|place| place as u32)
    }

    /// Number of the member at index `place` of the list.
    pub fn number(&self, place: u32) -> u32 {
        self.members[place as usize].number
    }
}

/// Reason why a request to join or leave is rejected.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum MembershipError {
    /// A host with this address is a member already.
    #[error("{0} is a member already; it must leave before it joins again")]
    Joined(Ipv4Addr),
    /// No member has this number.
    #[error("the group has no member with number {0}")]
    NoSuchMember(u32),
    /// All 2^32 member numbers have been assigned.
    #[error("the manager has assigned all numbers; start a new manager")]
    NoNumber,
}

/// The manager: the fixed member that collects changes of the membership and announces them.
///
/// Every change creates a list with a new version, which the caller sends to all members reliably and in order.
#[derive(Debug, Clone, Default)]
pub struct Manager {
    version: u32,
    next_number: u32,
    members: Vec<Member>,
}

impl Manager {
    /// Creates a manager with an empty list of version 0.
    pub fn new() -> Manager {
        Manager::default()
    }

    /// The present list of members.
    pub fn membership(&self) -> Membership {
        Membership {
            version: self.version,
            members: self.members.clone(),
        }
    }

    /// Adds a host, given by its IP address and datagram queue pair. Returns its member number and the new list.
    pub fn join(&mut self, ip: Ipv4Addr, qpn: QpNum) -> Result<(u32, Membership), MembershipError> {
        if self.members.iter().any(|member| member.ip == ip) {
            return Err(MembershipError::Joined(ip));
        }
        let number = self.next_number;
        self.next_number = number.checked_add(1).ok_or(MembershipError::NoNumber)?;
        // Numbers only grow, so the list stays sorted.
        self.members.push(Member { number, ip, qpn });
        self.version += 1;
        Ok((number, self.membership()))
    }

    /// Removes a member, which leaves or has failed. Returns the new list.
    pub fn leave(&mut self, number: u32) -> Result<Membership, MembershipError> {
        let place = self.membership().place(number);
        let place = place.ok_or(MembershipError::NoSuchMember(number))?;
        self.members.remove(place as usize);
        self.version += 1;
        Ok(self.membership())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const QPN: QpNum = QpNum::new(0x11);

    fn ip(n: u8) -> Ipv4Addr {
        Ipv4Addr::new(10, 0, 0, n)
    }

    #[test]
    fn every_change_makes_a_version_and_numbers_are_unique() {
        let mut manager = Manager::new();
        let (a, one) = manager.join(ip(1), QPN).unwrap();
        let (b, two) = manager.join(ip(2), QPN).unwrap();
        assert_eq!((one.version, two.version), (1, 2));
        assert_eq!((two.place(a), two.place(b)), (Some(0), Some(1)));
        let three = manager.leave(a).unwrap();
        assert_eq!(
            (three.version, three.place(b), three.place(a)),
            (3, Some(0), None)
        );
        let (again, four) = manager.join(ip(1), QPN).unwrap();
        assert!(again > b);
        assert_eq!(four.place(again), Some(1));
        assert_eq!(
            manager.join(ip(2), QPN),
            Err(MembershipError::Joined(ip(2)))
        );
        assert_eq!(manager.leave(a), Err(MembershipError::NoSuchMember(a)));
        assert_eq!(manager.membership(), four);
    }
}
