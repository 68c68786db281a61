//! The binomial pipeline of RDMC (section 4.4 of its paper, after P. Ganesan and M. Seshadri, "On Cooperative Content
//! Distribution and the Price of Barter", 2005).
//!
//! Members are the vertices of a hypercube with d dimensions. In step j each member exchanges blocks with its neighbour
//! along dimension j mod d. The root sends block j. Every other member sends its newest block, unless its neighbour is
//! the root. With k blocks and n = 2^d members the broadcast takes d + k - 1 steps, and no member receives a block
//! twice.
//!
//! If n is not a power of two, each member from 2^d on shares a vertex with another member. In each step one of the two
//! sends along the dimension and the other receives. The receiver also sends the sender the block that it received
//! before, so that each still sends and receives one block. The member that received the newest block stays the sender
//! until there is a newer one; then they change roles. After the last step each lacks at most one block, which its
//! partner has. So one more step is needed, d + k in all.

use super::Send;

/// Calls `note` for every send in which member `rank` is sender or receiver, in the order of steps.
pub(super) fn sends(members: u32, blocks: u32, rank: u32, mut note: impl FnMut(Send)) {
    let cube = Cube {
        members,
        dimensions: members.ilog2(),
        blocks,
    };
    let vertex = cube.vertex(rank);
    for step in 0..cube.steps() {
        let mut edge = |send: Option<Send>| {
            if let Some(send) = send.filter(|send| send.from == rank || send.to == rank) {
                note(send);
            }
        };
        edge(cube.between(vertex, step));
        edge(cube.between(cube.neighbour(vertex, step), step));
        let [taken, last] = cube.within(vertex, step);
        edge(taken);
        edge(last);
    }
}

struct Cube {
    members: u32,
    /// Number of dimensions d of the hypercube. If the number of members is a power of two, this is l in the paper.
    dimensions: u32,
    blocks: u32,
}

impl Cube {
    fn vertices(&self) -> u32 {
        1 << self.dimensions
    }

    /// Number of steps until every member has all blocks.
    fn steps(&self) -> u32 {
        self.cube_steps() + u32::from(self.members > self.vertices())
    }

    /// Number of steps until the members of each vertex together have all blocks.
    fn cube_steps(&self) -> u32 {
        self.dimensions + self.blocks - 1
    }

    fn vertex(&self, rank: u32) -> u32 {
        match rank.checked_sub(self.vertices()) {
            // Vertex 0 is not shared: it has the root only.
            Some(second_member) => second_member + 1,
            None => rank,
        }
    }

    /// Rank of the second member at a hypercube vertex; `None` if the vertex has one member.
    fn second_member(&self, vertex: u32) -> Option<u32> {
        let rank = self.vertices() + vertex.checked_sub(1)?;
        (rank < self.members).then_some(rank)
    }

    fn neighbour(&self, vertex: u32, step: u32) -> u32 {
        vertex ^ (1 << (step % self.dimensions))
    }

    /// The number of a hypercube vertex, with its bits rotated right so that the bit of the step's dimension is the
    /// lowest. In the paper: σ(v, j mod d).
    fn rotated(&self, vertex: u32, step: u32) -> u32 {
        let by = step % self.dimensions;
        let round = vertex << (self.dimensions - by);
        (vertex >> by | round) & (self.vertices() - 1)
    }

    /// The block with the highest number that the members of a hypercube vertex have before a step; `None` if they have
    /// no block.
    fn newest(&self, vertex: u32, step: u32) -> Option<u32> {
        let last = self.blocks - 1;
        match self.rotated(vertex, step) {
            0 => Some(step.min(last)),
            rotated => {
                let number = step + rotated.trailing_zeros();
                number.checked_sub(self.dimensions).map(|b| b.min(last))
            }
        }
    }

    /// The block that a hypercube vertex sends to its neighbour in a step; `None` if it sends none.
    fn sent_block(&self, vertex: u32, step: u32) -> Option<u32> {
        // The neighbour of the vertex that rotates to 1 is the root, which has every block.
        let to_root = self.rotated(vertex, step) == 1;
        self.newest(vertex, step).filter(|_| !to_root)
    }

    /// The members of a hypercube vertex that send and receive in a step; twice the same member if the vertex is not
    /// shared.
    fn sender_and_receiver(&self, vertex: u32, step: u32) -> (u32, u32) {
        let Some(second_member) = self.second_member(vertex) else {
            return (vertex, vertex);
        };
        // The two change roles after each step whose dimension has its bit set in the vertex, since that step brings a
        // newer block.
        let rounds = step / self.dimensions * vertex.count_ones();
        let changed_dimensions = (1 << (step % self.dimensions)) - 1;
        let changes = rounds + (vertex & changed_dimensions).count_ones();
        match changes % 2 {
            0 => (second_member, vertex),
            _ => (vertex, second_member),
        }
    }

    /// The send from a vertex of the hypercube to its neighbour in a step; `None` if the vertex sends no block.
    fn between(&self, vertex: u32, step: u32) -> Option<Send> {
        if step >= self.cube_steps() {
            return None;
        }
        Some(Send {
            step,
            block: self.sent_block(vertex, step)?,
            from: self.sender_and_receiver(vertex, step).0,
            to: self
                .sender_and_receiver(self.neighbour(vertex, step), step)
                .1,
        })
    }

    /// The sends between the two members of a shared vertex in a step. First: the block that the receiving member has and
    /// the sending member lacks. Second, after the last step of the hypercube: the newest block in the other direction.
    fn within(&self, vertex: u32, step: u32) -> [Option<Send>; 2] {
        let (true, Some(before)) = (self.second_member(vertex).is_some(), step.checked_sub(1))
        else {
            return [None, None];
        };
        let (giver, taker) = self.sender_and_receiver(vertex, step);
        let has_changed = vertex & (1 << (before % self.dimensions)) != 0;
        let taken = match has_changed {
            // This member was the sender until now. Its partner has not received the block that it sent last.
            true => self.newest(vertex, before),
            false => self.sent_block(self.neighbour(vertex, before), before),
        };
        let send = |from, to, block| Send {
            step,
            from,
            to,
            block,
        };
        let is_over = step == self.cube_steps();
        [
            taken.map(|block| send(taker, giver, block)),
            is_over.then(|| send(giver, taker, self.blocks - 1)),
        ]
    }
}
