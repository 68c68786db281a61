//! Ids and aliases of P4Info objects, assigned by p4c's algorithm.
//!
//! The top byte of an id is the kind of the object. The other bytes are the value of `@id`, or a hash of the name. If two names have the same
//! hash, the later one in alphabetical order takes the next free number.

use std::collections::{BTreeMap, BTreeSet};

use alfirk_p4runtime::p4::config::v1::p4_ids::Prefix;

use super::IdError;

const LOW_BITS: u32 = 0x00ff_ffff;

/// The highest byte of an id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HighByte(u32);

impl From<Prefix> for HighByte {
    fn from(prefix: Prefix) -> HighByte {
        HighByte(prefix as u32)
    }
}

impl From<u32> for HighByte {
    fn from(prefix: u32) -> HighByte {
        HighByte(prefix)
    }
}

/// The objects of a P4Info or of another schema and their ids.
#[derive(Default)]
pub struct Symbols {
    /// Kind, name and explicit id (`@id`) of each object, in order of appearance.
    list: Vec<(u32, String, Option<u32>)>,
    known: BTreeSet<(u32, String)>,
    ids: BTreeMap<(u32, String), u32>,
}

impl Symbols {
    /// Adds an object, unless it was added before. `id`: the number in its annotation `@id`, if any.
    pub fn add(&mut self, prefix: impl Into<HighByte>, name: &str, id: Option<u32>) {
        let HighByte(prefix) = prefix.into();
        if self.known.insert((prefix, name.to_owned())) {
            self.list.push((prefix, name.to_owned(), id));
        }
    }

    /// Assigns an id to each object; returns the conflicts of explicit ids.
    pub fn assign(&mut self) -> Vec<IdError> {
        let mut errors = Vec::new();
        let mut taken: BTreeMap<u32, String> = BTreeMap::new();
        for (prefix, name, id) in &self.list {
            let Some(id) = *id else { continue };
            let high = *prefix << 24;
            if id & !LOW_BITS != 0 && id & !LOW_BITS != high {
                errors.push(IdError::WrongPrefix {
                    name: name.clone(),
                    id,
                });
                continue;
            }
            let id = id | high;
            if let Some(other) = taken.get(&id) {
                errors.push(IdError::Duplicate {
                    name: name.clone(),
                    id,
                    other: other.clone(),
                });
                continue;
            }
            taken.insert(id, name.clone());
            self.ids.insert((*prefix, name.clone()), id);
        }
        let hashed: BTreeSet<(u32, &String)> = self
            .list
            .iter()
            .filter(|(_, _, id)| id.is_none())
            .map(|(prefix, name, _)| (*prefix, name))
            .collect();
        for (prefix, name) in hashed {
            let mut low = hash(name) & LOW_BITS;
            while taken.contains_key(&(prefix << 24 | low)) {
                low = (low + 1) & LOW_BITS;
            }
            let id = prefix << 24 | low;
            taken.insert(id, name.clone());
            self.ids.insert((prefix, name.clone()), id);
        }
        errors
    }

    /// The id of an object; 0 if it has none.
    pub fn id(&self, prefix: impl Into<HighByte>, name: &str) -> u32 {
        self.ids
            .get(&(prefix.into().0, name.to_owned()))
            .copied()
            .unwrap_or(0)
    }

    /// The names of all objects, sorted, without duplicates.
    pub fn names(&self) -> Vec<String> {
        let names: BTreeSet<&String> = self.list.iter().map(|(_, name, _)| name).collect();
        names.into_iter().cloned().collect()
    }
}

/// Aliases of objects: shortest unambiguous suffixes of their names.
#[derive(Debug, Default)]
pub struct Aliases {
    /// For each suffix of the names, from a dot or the start on: the number of names that end with it.
    endings: BTreeMap<String, u32>,
}

impl Aliases {
    /// Prepares the aliases of these names.
    pub fn new<'a>(names: impl IntoIterator<Item = &'a String>) -> Aliases {
        let mut endings = BTreeMap::new();
        for name in names {
            for ending in endings_of(name) {
                *endings.entry(ending.to_owned()).or_insert(0) += 1;
            }
        }
        Aliases { endings }
    }

    /// The shortest suffix of `name`, of whole parts between dots, that is not a suffix of another name.
    pub fn alias<'a>(&self, name: &'a str) -> &'a str {
        endings_of(name)
            .find(|ending| self.endings.get(*ending).is_none_or(|count| *count < 2))
            .unwrap_or(name)
    }
}

/// The suffixes of a name that consist of whole parts between dots, the shortest first.
fn endings_of(name: &str) -> impl Iterator<Item = &str> {
    let dots = name.rmatch_indices('.').map(|(at, _)| &name[at + 1..]);
    dots.chain([name])
}

/// Ids of fields or parameters: the explicit ids, and for others consecutive numbers from 1 that are not explicit ids.
///
/// # Errors
/// A duplicate id, or the invalid id 0.
pub fn field_ids(explicit: &[Option<u32>]) -> Result<Vec<u32>, u32> {
    let mut taken = BTreeSet::new();
    for id in explicit.iter().flatten() {
        if *id == 0 || !taken.insert(*id) {
            return Err(*id);
        }
    }
    let mut next = 1;
    let mut ids = Vec::with_capacity(explicit.len());
    for id in explicit {
        match id {
            Some(id) => {
                next += 1;
                ids.push(*id);
            }
            None => {
                while taken.contains(&next) {
                    next += 1;
                }
                taken.insert(next);
                ids.push(next);
            }
        }
    }
    Ok(ids)
}

/// Bob Jenkins's one-at-a-time hash, which p4c uses for ids.
fn hash(name: &str) -> u32 {
    let mut hash: u32 = 0;
    for byte in name.bytes() {
        hash = hash.wrapping_add(u32::from(byte));
        hash = hash.wrapping_add(hash << 10);
        hash ^= hash >> 6;
    }
    hash = hash.wrapping_add(hash << 3);
    hash ^= hash >> 11;
    hash.wrapping_add(hash << 15)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Ids that p4c assigned, from public transcripts of p4runtime-shell.
    #[test]
    fn ids_equal_those_of_p4c() {
        let mut symbols = Symbols::default();
        symbols.add(Prefix::Table, "IngressImpl.dmac", None);
        symbols.add(Prefix::Action, "IngressImpl.fwd", None);
        symbols.add(Prefix::Action, "IngressImpl.broadcast", None);
        symbols.add(Prefix::Action, "IngressImpl.drop", None);
        symbols.add(Prefix::Action, "NoAction", None);
        assert_eq!(symbols.assign(), []);
        assert_eq!(symbols.id(Prefix::Action, "NoAction"), 21257015);
        assert_eq!(symbols.id(Prefix::Table, "IngressImpl.dmac"), 45595255);
        assert_eq!(symbols.id(Prefix::Action, "IngressImpl.fwd"), 19387472);
        assert_eq!(
            symbols.id(Prefix::Action, "IngressImpl.broadcast"),
            22047199
        );
        assert_eq!(symbols.id(Prefix::Action, "IngressImpl.drop"), 17676690);
    }

    #[test]
    fn explicit_ids_get_the_prefix_of_their_kind() {
        let mut symbols = Symbols::default();
        symbols.add(Prefix::Table, "a.t", Some(7));
        symbols.add(Prefix::Action, "a.x", Some(0x0100_0007));
        assert_eq!(symbols.assign(), []);
        assert_eq!(symbols.id(Prefix::Table, "a.t"), 0x0200_0007);
        assert_eq!(symbols.id(Prefix::Action, "a.x"), 0x0100_0007);
    }

    #[test]
    fn conflicting_ids_are_errors() {
        let mut symbols = Symbols::default();
        symbols.add(Prefix::Table, "a.t", Some(7));
        symbols.add(Prefix::Table, "a.u", Some(0x0200_0007));
        symbols.add(Prefix::Table, "a.v", Some(0x0100_0007));
        assert_eq!(
            symbols.assign(),
            [
                IdError::Duplicate {
                    name: "a.u".into(),
                    id: 0x0200_0007,
                    other: "a.t".into()
                },
                IdError::WrongPrefix {
                    name: "a.v".into(),
                    id: 0x0100_0007
                },
            ]
        );
    }

    #[test]
    fn alias_is_the_shortest_unambiguous_suffix() {
        let all: Vec<String> = ["d.a.c", "e.b.c", "x"]
            .iter()
            .map(|name| (*name).to_owned())
            .collect();
        let aliases = Aliases::new(&all);
        assert_eq!(aliases.alias("d.a.c"), "a.c");
        assert_eq!(aliases.alias("e.b.c"), "b.c");
        assert_eq!(aliases.alias("x"), "x");
    }

    #[test]
    fn assigned_field_ids_skip_explicit_ones() {
        assert_eq!(field_ids(&[None, Some(1), None]), Ok(vec![2, 1, 3]));
        assert_eq!(field_ids(&[None, None]), Ok(vec![1, 2]));
        assert_eq!(field_ids(&[Some(3), Some(3)]), Err(3));
    }
}
