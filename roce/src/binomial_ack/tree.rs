//! The binomial tree of acknowledgements (section 3.2 of the paper), for any number of nodes.

/// The tree over `members` nodes, numbered from 0 in the order of the membership list, one of which is the root.
///
/// Let `d` be a node's cyclic distance after the root in that list. Its parent is at `d` without its lowest set bit, its children at
/// `d + 2^k` for every `2^k` below that bit. Nodes beyond the last member do not exist.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AckTree {
    members: u32,
    root: u32,
}

impl AckTree {
    /// Creates a tree; `root` must be below `members`.
    pub fn new(members: u32, root: u32) -> AckTree {
        assert!(root < members, "the root is a member");
        AckTree { members, root }
    }

    /// The parent of a node: it receives the node's acknowledgement. `None` for the root.
    pub fn parent(self, node: u32) -> Option<u32> {
        let distance = self.distance(node);
        (distance != 0).then(|| self.node(distance & (distance - 1)))
    }

    /// The children of a node, from which it receives acknowledgements, in the order in which they send them.
    pub fn children(self, node: u32) -> impl Iterator<Item = u32> {
        let distance = self.distance(node);
        let lowest_bit = match distance {
            0 => u32::MAX,
            _ => distance & distance.wrapping_neg(),
        };
        (0..u32::BITS)
            .map(|k| 1u32 << k)
            .take_while(move |bit| *bit < lowest_bit)
            .filter_map(move |bit| distance.checked_add(bit))
            .take_while(move |child| *child < self.members)
            .map(move |child| self.node(child))
    }

    /// The cycle, from 1, in which a node sends its acknowledgement if nothing is lost; for the root the number of
    /// cycles.
    ///
    /// A cycle is the delay of one acknowledgement, from a level of the tree to the next. So a timeout of this number
    /// of cycles is just long enough.
    pub fn cycle(self, node: u32) -> u32 {
        match self.distance(node) {
            0 => u32::BITS - (self.members - 1).leading_zeros(),
            distance => distance.trailing_zeros() + 1,
        }
    }

    fn distance(self, node: u32) -> u32 {
        match node >= self.root {
            true => node - self.root,
            false => node + (self.members - self.root),
        }
    }

    fn node(self, distance: u32) -> u32 {
        let to_end = self.members - self.root;
        match distance < to_end {
            true => self.root + distance,
            false => distance - to_end,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figure_1_is_the_tree_of_16_nodes() {
        let tree = AckTree::new(16, 0);
        let children = |node| tree.children(node).collect::<Vec<_>>();
        assert_eq!(children(0), [1, 2, 4, 8]);
        assert_eq!(children(8), [9, 10, 12]);
        assert_eq!(children(12), [13, 14]);
        assert_eq!(children(14), [15]);
        assert_eq!(children(15), [0; 0]);
        // In cycle i, 2^(4 - i) acknowledgements are sent; odd nodes start, and node 14 follows in the second cycle.
        for cycle in 1..=4 {
            let senders = (1..16).filter(|node| tree.cycle(*node) == cycle);
            assert_eq!(senders.count(), 1 << (4 - cycle));
        }
        assert_eq!((tree.cycle(15), tree.cycle(14)), (1, 2));
        assert_eq!(tree.cycle(0), 4);
    }

    #[test]
    fn every_size_and_root_gives_a_tree_of_as_few_cycles_as_a_binomial_one() {
        for members in 1..=130u32 {
            for root in [0, members / 3, members - 1] {
                let tree = AckTree::new(members, root);
                assert_eq!(tree.parent(root), None);
                assert_eq!(1u32 << tree.cycle(root), members.next_power_of_two());
                let mut found = vec![false; members as usize];
                let mut todo = vec![root];
                while let Some(node) = todo.pop() {
                    assert!(!std::mem::replace(&mut found[node as usize], true));
                    let mut before = 0;
                    for child in tree.children(node) {
                        assert_eq!(tree.parent(child), Some(node));
                        // Children acknowledge one after the other, all before their parent.
                        assert!(tree.cycle(child) > before);
                        before = tree.cycle(child);
                        assert!(node == root || before < tree.cycle(node));
                        assert!(before <= tree.cycle(root));
                        todo.push(child);
                    }
                }
                assert!(found.into_iter().all(|found| found), "{members} {root}");
            }
        }
    }
}
