//! Who is in a group, version by version, and the manager that says so (section 3.3.3 of the paper).

use std::net::Ipv4Addr;

use crate::wire::QpNum;

/// One member.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Member {
    /// Its communication number; the manager gives each number once.
    pub number: u32,
    pub ip: Ipv4Addr,
    /// Its datagram queue pair.
    pub qpn: QpNum,
}

/// The members at one time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Membership {
    /// One more than that of the list before.
    pub version: u32,
    /// In the order of their numbers.
    pub members: Vec<Member>,
}

impl Membership {
    /// A member's place in the list.
    pub fn place(&self, number: u32) -> Option<u32> {
        let found = self.members.binary_search_by_key(&number, |m| m.number);
        found.ok().map(|place| place as u32)
    }

    /// The number of the member at a place.
    pub fn number(&self, place: u32) -> u32 {
        self.members[place as usize].number
    }
}

/// Why somebody is not let in or out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum MembershipError {
    #[error("{0} is a member already; it must leave before it joins again")]
    Joined(Ipv4Addr),
    #[error("no member has the number {0}")]
    NoSuchMember(u32),
    #[error("the manager has no more numbers to give; start another one")]
    NoNumber,
}

/// The fixed node that all others know, and that collects and announces who is in the group.
///
/// Every change makes a list of a new version, which the caller sends to all members, reliably and in order.
#[derive(Debug, Clone, Default)]
pub struct Manager {
    version: u32,
    next_number: u32,
    members: Vec<Member>,
}

impl Manager {
    pub fn new() -> Manager {
        Manager::default()
    }

    /// The list as it is.
    pub fn membership(&self) -> Membership {
        Membership {
            version: self.version,
            members: self.members.clone(),
        }
    }

    /// Lets a node in by its address and datagram queue pair, and returns its number.
    pub fn join(&mut self, ip: Ipv4Addr, qpn: QpNum) -> Result<(u32, Membership), MembershipError> {
        if self.members.iter().any(|member| member.ip == ip) {
            return Err(MembershipError::Joined(ip));
        }
        let number = self.next_number;
        self.next_number = number.checked_add(1).ok_or(MembershipError::NoNumber)?;
        // Numbers only grow, so the list stays in order.
        self.members.push(Member { number, ip, qpn });
        self.version += 1;
        Ok((number, self.membership()))
    }

    /// Lets a node go, or takes one out that is dead.
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
    fn every_change_is_a_version_and_no_number_comes_twice() {
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
