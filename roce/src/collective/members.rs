//! The members of a collective by address, in one list that is shared.

use std::net::Ipv4Addr;
use std::ops::Deref;
use std::sync::{Arc, OnceLock};

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Addresses of a collective's members, by rank. Clones share one list, so that n members in one process take memory
/// for n addresses, not n².
#[derive(Clone)]
pub struct Members(Arc<List>);

struct List {
    addresses: Box<[Ipv4Addr]>,
    /// The lowest address that appears more than once, computed on first use.
    duplicate_cell: OnceLock<Option<Ipv4Addr>>,
}

impl Members {
    /// The lowest address that appears more than once; `None` if all differ. Computed once for all clones of the list.
    pub fn duplicate(&self) -> Option<Ipv4Addr> {
        *self.0.duplicate_cell.get_or_init(|| {
            let mut sorted = self.0.addresses.clone();
            sorted.sort_unstable();
            let mut pairs = sorted.windows(2);
            pairs.find(|pair| pair[0] == pair[1]).map(|pair| pair[0])
        })
    }
}

impl Deref for Members {
    type Target = [Ipv4Addr];

    fn deref(&self) -> &[Ipv4Addr] {
        &self.0.addresses
    }
}

impl From<Vec<Ipv4Addr>> for Members {
    fn from(addresses: Vec<Ipv4Addr>) -> Members {
        addresses.into_iter().collect()
    }
}

impl FromIterator<Ipv4Addr> for Members {
    fn from_iter<I: IntoIterator<Item = Ipv4Addr>>(addresses: I) -> Members {
        Members(Arc::new(List {
            addresses: addresses.into_iter().collect(),
            duplicate_cell: OnceLock::new(),
        }))
    }
}

impl PartialEq for Members {
    fn eq(&self, other: &Members) -> bool {
        Arc::ptr_eq(&self.0, &other.0) || self.0.addresses == other.0.addresses
    }
}

impl Eq for Members {}

impl std::fmt::Debug for Members {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.addresses.fmt(f)
    }
}

impl Serialize for Members {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.addresses.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Members {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Members, D::Error> {
        Vec::deserialize(deserializer).map(Members::from)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn members(last: &[u8]) -> Members {
        last.iter().map(|n| Ipv4Addr::new(10, 0, 0, *n)).collect()
    }

    #[test]
    fn copies_share_one_list() {
        let all = members(&[1, 2, 3]);
        assert_eq!(all.clone().as_ptr(), all.as_ptr());
        assert_eq!(all, members(&[1, 2, 3]));
        assert_ne!(all, members(&[1, 3, 2]));
    }

    #[test]
    fn the_lowest_duplicate_address_is_found() {
        assert_eq!(members(&[4, 2, 9]).duplicate(), None);
        let twice = members(&[4, 9, 2, 4, 2]);
        assert_eq!(twice.duplicate(), Some(Ipv4Addr::new(10, 0, 0, 2)));
        assert_eq!(twice.clone().duplicate(), twice.duplicate());
    }

    #[test]
    fn members_serialise_as_a_plain_list() {
        let text = r#"["10.0.0.7","10.0.0.1"]"#;
        let read: Members = serde_json::from_str(text).unwrap();
        assert_eq!(read, members(&[7, 1]));
        assert_eq!(serde_json::to_string(&read).unwrap(), text);
    }
}
