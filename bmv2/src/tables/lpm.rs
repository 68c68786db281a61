//! Longest prefix match of keys of up to 64 bits: a multibit trie, whose nodes are as wide as their prefixes need.
//!
//! A node selects one of 2^n slots by n bits of the key, and skips the bits before them in which all of its prefixes
//! agree. A slot holds the longest prefix that ends within the node's bits, and leads to longer ones: to another node,
//! or to a list of up to [`MAX_LIST`] prefixes. There are about as many slots as prefixes, so a small table needs little
//! memory, and a large one reads one slot and one list for most keys. Entries change the slots that they cover; a node
//! is built again only after the number of its prefixes has changed by a factor.

use std::collections::BTreeMap;

/// Maximum number of prefixes that are compared one by one.
const MAX_LIST: usize = 8;

/// Maximum number of bits by which a node selects a slot.
const MAX_BITS: u32 = 24;

/// A node with more prefixes per slot than this gets more slots.
const MAX_LOAD: usize = 8;

/// A node with more slots per prefix than this gets fewer slots.
const MAX_SPARSITY: usize = 64;

/// Number of bits of a [`Found`] that hold the entry's number.
const HANDLE_BITS: u32 = 24;

/// A prefix that a slot or list holds: the entry's number in the low 24 bits, and the prefix length (1 to 64) above them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Found(u32);

impl Found {
    const NONE: Found = Found(u32::MAX);

    fn new(len: u32, handle: u32) -> Found {
        Found(len << HANDLE_BITS | handle)
    }

    fn len(self) -> u32 {
        self.0 >> HANDLE_BITS
    }

    fn handle(self) -> Option<u32> {
        (self != Found::NONE).then_some(self.0 & ((1 << HANDLE_BITS) - 1))
    }

    /// Returns whether this is a prefix of at least `len` bits.
    fn is_as_long_as(self, len: u32) -> bool {
        self != Found::NONE && self.len() >= len
    }
}

/// What a slot leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Child {
    None,
    /// The only longer prefix, if its value fits: the 32 bits after those of the node.
    Single {
        found: Found,
        rest: u32,
    },
    /// The number of a node.
    Node(u32),
    /// A list: its position in [`Lpm::lists`], and the binary logarithm of its capacity.
    List {
        position: u32,
        class: u8,
    },
}

impl Child {
    /// Returns the range of a list in [`Lpm::lists`].
    #[inline]
    fn range(position: u32, class: u8) -> std::ops::Range<usize> {
        position as usize..position as usize + (1 << class)
    }
}

#[derive(Clone, Copy, Debug)]
struct Slot {
    found: Found,
    child: Child,
}

#[derive(Clone, Debug)]
struct Node {
    /// Leading bits of all keys of the node, and a mask of these bits.
    value: u64,
    mask: u64,
    /// Number of bits before those that select a slot.
    start: u32,
    /// Number of bits that select a slot, at least 1.
    bits: u32,
    /// Number of prefixes in the slots and below them.
    count: usize,
    slots: Box<[Slot]>,
}

const EMPTY: Slot = Slot {
    found: Found::NONE,
    child: Child::None,
};

impl Node {
    #[inline]
    fn index(&self, key: u64) -> usize {
        (key << self.start >> (64 - self.bits)) as usize
    }

    fn contains(&self, value: u64) -> bool {
        (value ^ self.value) & self.mask == 0
    }

    /// Returns the slots that a prefix covers, which ends within the node's bits.
    fn covered(&mut self, prefix: Prefix) -> &mut [Slot] {
        let first = self.index(prefix.value);
        &mut self.slots[first..first + (1 << (self.start + self.bits - prefix.len))]
    }

    fn end(&self) -> u32 {
        self.start + self.bits
    }
}

/// A prefix in a list. Unused elements at the end of a list have [`Found::NONE`].
#[derive(Clone, Copy, Debug)]
struct Element {
    value: u64,
    found: Found,
}

impl Element {
    const NONE: Element = Element {
        value: 0,
        found: Found::NONE,
    };

    fn prefix(self) -> Prefix {
        Prefix {
            value: self.value,
            len: self.found.len(),
        }
    }
}

/// A prefix of a left-aligned key. The bits after it are zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Prefix {
    value: u64,
    len: u32,
}

/// Returns a mask of the first `len` bits.
fn mask(len: u32) -> u64 {
    match len {
        0 => 0,
        len => u64::MAX << (64 - len.min(64)),
    }
}

/// The prefixes of a table.
#[derive(Clone, Debug)]
pub(crate) struct Lpm {
    /// Number of bits by which a key is shifted, so that its first bit is the highest one.
    shift: u32,
    prefixes: BTreeMap<Prefix, u32>,
    /// The entry that matches any key.
    any: Option<u32>,
    root: Child,
    nodes: Vec<Node>,
    free_nodes: Vec<u32>,
    lists: Vec<Element>,
    /// Unused lists by the binary logarithm of their capacity.
    free_lists: [Vec<u32>; 4],
}

impl Lpm {
    /// Creates a table without prefixes, for keys of up to 64 bits.
    pub(crate) fn new(key_bits: u32) -> Lpm {
        Lpm {
            shift: 64u32.saturating_sub(key_bits) & 63,
            prefixes: BTreeMap::new(),
            any: None,
            root: Child::None,
            nodes: Vec::new(),
            free_nodes: Vec::new(),
            lists: Vec::new(),
            free_lists: Default::default(),
        }
    }

    /// Returns the entry with the longest prefix of a key.
    #[inline]
    pub(crate) fn find(&self, key: u64) -> Option<u32> {
        let key = key << self.shift;
        let mut found = Found::NONE;
        let (mut child, mut end) = (self.root, 0);
        loop {
            match child {
                Child::None => break,
                Child::Single {
                    found: single,
                    rest,
                } => {
                    let beyond = ((key << end >> 32) as u32 ^ rest) as u64;
                    if beyond << 32 >> (64 + end - single.len()) == 0 {
                        found = single;
                    }
                    break;
                }
                Child::Node(at) => {
                    let node = &self.nodes[at as usize];
                    if !node.contains(key) {
                        break;
                    }
                    let slot = node.slots[node.index(key)];
                    if slot.found != Found::NONE {
                        found = slot.found;
                    }
                    (child, end) = (slot.child, node.end());
                }
                Child::List { position, class } => {
                    // The longest prefix is the first one.
                    for element in &self.lists[Child::range(position, class)] {
                        if element.found == Found::NONE {
                            break;
                        }
                        if (key ^ element.value) >> ((64 - element.found.len()) & 63) == 0 {
                            found = element.found;
                            break;
                        }
                    }
                    break;
                }
            }
        }
        found.handle().or(self.any)
    }

    /// Returns the entry with exactly this prefix. `value` is right-aligned like a key.
    pub(crate) fn get(&self, value: u64, len: u32) -> Option<u32> {
        self.prefixes.get(&self.prefix(value, len)).copied()
    }

    /// Adds a prefix; one that is in the table already gets the new entry.
    pub(crate) fn insert(&mut self, value: u64, len: u32, handle: u32) {
        let prefix = self.prefix(value, len);
        if self.prefixes.contains_key(&prefix) {
            self.remove(value, len);
        }
        self.prefixes.insert(prefix, handle);
        if len == 0 {
            self.any = Some(handle);
            return;
        }
        self.root = self.insert_at(self.root, 0, prefix, Found::new(len, handle));
    }

    /// Removes a prefix, if it is in the table.
    pub(crate) fn remove(&mut self, value: u64, len: u32) {
        let prefix = self.prefix(value, len);
        if self.prefixes.remove(&prefix).is_none() {
            return;
        }
        if len == 0 {
            self.any = None;
            return;
        }
        self.root = self.remove_at(self.root, 0, prefix);
    }

    fn prefix(&self, value: u64, len: u32) -> Prefix {
        let value = value << self.shift & mask(len);
        Prefix { value, len }
    }

    /// Adds a prefix to a child below `end` bits. Returns what replaces the child.
    fn insert_at(&mut self, child: Child, end: u32, prefix: Prefix, found: Found) -> Child {
        let Child::Node(number) = child else {
            let mut elements = self.take_elements(child, prefix, end);
            let value = prefix.value;
            elements.push(Element { value, found });
            elements.sort_unstable_by_key(|element| element.prefix());
            return self.build(&elements, end);
        };
        let at = number as usize;
        let node = &self.nodes[at];
        if !node.contains(prefix.value) || prefix.len <= node.start {
            return self.insert_above(number, end, prefix, found);
        }
        if prefix.len <= node.end() {
            for slot in self.nodes[at].covered(prefix) {
                if !slot.found.is_as_long_as(prefix.len) {
                    slot.found = found;
                }
            }
        } else {
            let slot = node.index(prefix.value);
            let below = self.insert_at(node.slots[slot].child, node.end(), prefix, found);
            self.nodes[at].slots[slot].child = below;
        }
        let node = &mut self.nodes[at];
        node.count += 1;
        let is_crowded = node.count > MAX_LOAD * node.slots.len();
        match is_crowded && node.bits < MAX_BITS && node.end() < 64 {
            true => self.rebuild(number, end),
            false => child,
        }
    }

    /// Creates a node below `end` bits, for a prefix and for a node that the prefix is not within.
    fn insert_above(&mut self, below: u32, end: u32, prefix: Prefix, found: Found) -> Child {
        let child = Child::Node(below);
        let below = &self.nodes[below as usize];
        let common = (below.value ^ prefix.value).leading_zeros();
        let start = common.min(prefix.len - 1).min(below.start);
        // Less than the start of the node below: the prefix differs before it, or ends there.
        let bits = (below.start - start).clamp(1, 4);
        let (value, count) = (below.value, below.count);
        let mut node = Node {
            value: value & mask(start),
            mask: mask(start),
            start,
            bits,
            count,
            slots: vec![EMPTY; 1 << bits].into(),
        };
        let slot = node.index(value);
        node.slots[slot].child = child;
        let above = self.add_node(node);
        self.insert_at(above, end, prefix, found)
    }

    /// Removes a prefix from a child below `end` bits. Returns what replaces the child.
    fn remove_at(&mut self, child: Child, end: u32, prefix: Prefix) -> Child {
        let Child::Node(number) = child else {
            let mut elements = self.take_elements(child, prefix, end);
            elements.retain(|element| element.prefix() != prefix);
            return self.build(&elements, end);
        };
        let at = number as usize;
        let node = &self.nodes[at];
        if prefix.len <= node.end() {
            let next = self.next_shorter(prefix, node.start);
            for slot in self.nodes[at].covered(prefix) {
                if slot.found.len() == prefix.len {
                    slot.found = next;
                }
            }
        } else {
            let slot = node.index(prefix.value);
            let below = self.remove_at(node.slots[slot].child, node.end(), prefix);
            self.nodes[at].slots[slot].child = below;
        }
        let node = &mut self.nodes[at];
        node.count -= 1;
        let is_sparse = node.count * MAX_SPARSITY < node.slots.len();
        match is_sparse || node.count == 0 {
            true => self.rebuild(number, end),
            false => child,
        }
    }

    /// Returns the longest prefix that covers `prefix`, is shorter, and has more than `start` bits.
    fn next_shorter(&self, prefix: Prefix, start: u32) -> Found {
        let shorter = (start + 1..prefix.len).rev().find_map(|len| {
            let value = prefix.value & mask(len);
            let handle = self.prefixes.get(&Prefix { value, len })?;
            Some(Found::new(len, *handle))
        });
        shorter.unwrap_or(Found::NONE)
    }

    /// Builds a node below `end` bits again, with as many slots as its prefixes need.
    fn rebuild(&mut self, number: u32, end: u32) -> Child {
        let Node {
            value, mask, start, ..
        } = self.nodes[number as usize];
        self.free(Child::Node(number));
        let first = Prefix { value, len: 0 };
        let last = Prefix {
            value: value | !mask,
            len: 64,
        };
        let within = self.prefixes.range(first..=last);
        let elements: Vec<Element> = within
            .filter(|(prefix, _)| prefix.len > start)
            .map(|(prefix, handle)| Element {
                value: prefix.value,
                found: Found::new(prefix.len, *handle),
            })
            .collect();
        self.build(&elements, end)
    }

    /// Creates a child below `end` bits for prefixes in order.
    fn build(&mut self, elements: &[Element], end: u32) -> Child {
        let (Some(first), Some(last)) = (elements.first(), elements.last()) else {
            return Child::None;
        };
        if elements.len() == 1 && first.found.len() <= end + 32 {
            return Child::Single {
                found: first.found,
                rest: (first.value << end >> 32) as u32,
            };
        }
        if elements.len() <= MAX_LIST {
            return self.add_list(elements);
        }
        let lens = elements.iter().map(|element| element.found.len());
        let (shortest, longest) = lens.fold((64, 0), |(a, b), len| (len.min(a), len.max(b)));
        let common = (first.value ^ last.value).leading_zeros();
        let start = common.min(shortest - 1);
        let bits = elements.len().next_power_of_two().trailing_zeros();
        let bits = bits.min(MAX_BITS).min(longest - start);
        let mut node = Node {
            value: first.value & mask(start),
            mask: mask(start),
            start,
            bits,
            count: elements.len(),
            slots: vec![EMPTY; 1 << bits].into(),
        };
        let (mut within, mut beyond): (Vec<Element>, Vec<Element>) = Default::default();
        for element in elements {
            match element.found.len() <= node.end() {
                true => within.push(*element),
                false => beyond.push(*element),
            }
        }
        within.sort_by_key(|element| element.found.len());
        for element in within {
            let covered = node.covered(element.prefix());
            covered
                .iter_mut()
                .for_each(|slot| slot.found = element.found);
        }
        let index = |element: &Element| (element.value << start >> (64 - bits)) as usize;
        for group in beyond.chunk_by(|a, b| index(a) == index(b)) {
            node.slots[index(&group[0])].child = self.build(group, start + bits);
        }
        self.add_node(node)
    }

    fn add_node(&mut self, node: Node) -> Child {
        match self.free_nodes.pop() {
            Some(at) => {
                self.nodes[at as usize] = node;
                Child::Node(at)
            }
            None => {
                self.nodes.push(node);
                Child::Node((self.nodes.len() - 1) as u32)
            }
        }
    }

    /// Creates a list. Its elements are put in order, longest prefix first.
    fn add_list(&mut self, elements: &[Element]) -> Child {
        let class = elements.len().next_power_of_two().trailing_zeros() as u8;
        let position = match self.free_lists[usize::from(class)].pop() {
            Some(position) => position,
            None => {
                let position = self.lists.len();
                self.lists.resize(position + (1 << class), Element::NONE);
                position as u32
            }
        };
        let place = &mut self.lists[Child::range(position, class)];
        place.fill(Element::NONE);
        place[..elements.len()].copy_from_slice(elements);
        place[..elements.len()].sort_by_key(|element| std::cmp::Reverse(element.found.len()));
        Child::List { position, class }
    }

    /// Removes a child that is not a node, and returns its prefixes. `key` is a prefix in the same slot below `end` bits.
    fn take_elements(&mut self, child: Child, key: Prefix, end: u32) -> Vec<Element> {
        match child {
            Child::None | Child::Node(_) => Vec::new(),
            Child::Single { found, rest } => {
                // All bits before the rest are those of the slot.
                let value = key.value & mask(end) | u64::from(rest) << 32 >> end;
                vec![Element { value, found }]
            }
            Child::List { position, class } => {
                let elements = self.lists[Child::range(position, class)].iter().copied();
                let elements = elements.filter(|element| element.found != Found::NONE);
                let elements = elements.collect();
                self.free(child);
                elements
            }
        }
    }

    /// Removes a child and all below it.
    fn free(&mut self, child: Child) {
        match child {
            Child::None | Child::Single { .. } => {}
            Child::List { position, class } => self.free_lists[usize::from(class)].push(position),
            Child::Node(at) => {
                let slots = std::mem::take(&mut self.nodes[at as usize].slots);
                slots.iter().for_each(|slot| self.free(slot.child));
                self.free_nodes.push(at);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Prefixes of a key in no order, whose lookup compares all.
    #[derive(Default)]
    struct Naive(Vec<(u64, u32, u32)>);

    impl Naive {
        fn remove(&mut self, value: u64, len: u32) {
            self.0.retain(|entry| (entry.0, entry.1) != (value, len));
        }

        fn find(&self, key: u64, bits: u32) -> Option<u32> {
            let matches = |value: u64, len: u32| len == 0 || (key ^ value) >> (bits - len) == 0;
            let all = self.0.iter().filter(|entry| matches(entry.0, entry.1));
            all.max_by_key(|entry| entry.1).map(|entry| entry.2)
        }
    }

    /// Keys of different widths: few bits, so that many prefixes cover each other, and many.
    fn widths() -> impl Strategy<Value = u32> {
        prop_oneof![Just(1u32), Just(6), Just(10), Just(32), Just(48), Just(64)]
    }

    /// Changes: whether to add, a value, a prefix length, and the number of values nearby that are changed, too.
    fn changes() -> impl Strategy<Value = Vec<(bool, u64, u32, u32)>> {
        let change = (
            prop::bool::weighted(0.7),
            prop_oneof![any::<u64>(), 0u64..256, (0u64..64).prop_map(|i| i << 26)],
            0u32..=64,
            1u32..40,
        );
        proptest::collection::vec(change, 0..80)
    }

    proptest! {
        #[test]
        fn the_longest_prefix_is_found(bits in widths(), changes in changes()) {
            let (mut lpm, mut naive) = (Lpm::new(bits), Naive::default());
            let all = u64::MAX >> (64 - bits);
            let mut handle = 0;
            let mut keys = vec![0, all];
            for (is_added, value, len, run) in changes {
                let len = len.min(bits);
                for i in 0..run {
                    let unit = if len == 0 { 0 } else { 1 << (bits - len) };
                    let value = value.wrapping_add(u64::from(i).wrapping_mul(unit)) & all;
                    let value = if len == 0 { 0 } else { value >> (bits - len) << (bits - len) };
                    naive.remove(value, len);
                    if is_added {
                        handle = (handle + 1) % (1 << HANDLE_BITS);
                        naive.0.push((value, len, handle));
                        lpm.insert(value, len, handle);
                        prop_assert_eq!(lpm.get(value, len), Some(handle));
                    } else {
                        lpm.remove(value, len);
                        prop_assert_eq!(lpm.get(value, len), None);
                    }
                    keys.extend([value, value.wrapping_sub(1) & all, (value | unit.wrapping_sub(1)) & all]);
                }
                for key in &keys {
                    prop_assert_eq!(lpm.find(*key), naive.find(*key, bits), "{:#x}", key);
                }
                keys.truncate(200);
            }
            for (value, len, _) in std::mem::take(&mut naive.0) {
                lpm.remove(value, len);
            }
            prop_assert!(lpm.root == Child::None && lpm.any.is_none());
        }
    }

    #[test]
    fn memory_is_proportional_to_the_number_of_prefixes() {
        let mut lpm = Lpm::new(32);
        let slots = |lpm: &Lpm| lpm.nodes.iter().map(|node| node.slots.len()).sum::<usize>();
        for i in 0..10 {
            lpm.insert(i << 28 | 0xabc0, 28, i as u32);
        }
        assert!(slots(&lpm) <= 64);
        for i in 0..100_000u64 {
            let len = 16 + (i % 17) as u32;
            let value = i.wrapping_mul(0x9e37_79b1) as u32 >> (32 - len) << (32 - len);
            lpm.insert(value.into(), len, i as u32);
        }
        let count = lpm.prefixes.len();
        assert!(slots(&lpm) < 4 * count && lpm.lists.len() < 4 * count);
        let all: Vec<Prefix> = lpm.prefixes.keys().copied().collect();
        for Prefix { value, len } in all {
            lpm.remove(value >> 32, len);
        }
        assert_eq!((slots(&lpm), lpm.root), (0, Child::None));
    }
}
