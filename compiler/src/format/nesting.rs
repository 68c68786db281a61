//! A persistent stack with O(1) copies: the layout may format a line several times from the same state.

use std::rc::Rc;

/// A persistent stack; copies share their common items.
#[derive(Clone, Debug)]
pub(super) struct Nesting<T> {
    top: Option<Rc<Node<T>>>,
    len: usize,
}

#[derive(Clone, Debug)]
struct Node<T> {
    item: T,
    below: Option<Rc<Node<T>>>,
}

impl<T> Default for Nesting<T> {
    fn default() -> Self {
        Nesting { top: None, len: 0 }
    }
}

impl<T: Clone> Nesting<T> {
    pub(super) fn push(&mut self, item: T) {
        let below = self.top.take();
        self.top = Some(Rc::new(Node { item, below }));
        self.len += 1;
    }

    pub(super) fn pop(&mut self) {
        if let Some(node) = self.top.take() {
            self.top.clone_from(&node.below);
            self.len -= 1;
        }
    }

    /// The top item. Changing it does not affect copies of the stack.
    pub(super) fn last_mut(&mut self) -> Option<&mut T> {
        self.top.as_mut().map(|node| &mut Rc::make_mut(node).item)
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }
}

impl<T> Drop for Nesting<T> {
    /// Drops nodes iteratively, as recursion would need stack per node.
    fn drop(&mut self) {
        let mut next = self.top.take();
        while let Some(node) = next {
            next = Rc::into_inner(node).and_then(|mut node| node.below.take());
        }
    }
}
