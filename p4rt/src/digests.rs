//! Digest lists: buffers messages, suppresses duplicates, and handles acknowledgements (P4Runtime § 9.8).

use std::collections::BTreeMap;

use alfirk_p4runtime::p4::v1::digest_entry::Config;
use rustc_hash::FxHashSet;

/// Maximum number of messages in a digest list if the controller sets no limit.
pub const MAX_LIST_SIZE: usize = 4096;
/// Maximum number of unacknowledged messages per digest. Beyond it, the oldest lists are discarded.
pub const MAX_CACHED: usize = 65_536;

/// One digest message: the numbers of its value, with structs flattened, each as a canonical byte string.
pub type Message = Vec<Vec<u8>>;

/// A digest list that is ready to be sent to the primary.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReadyList {
    pub digest: u32,
    pub list: u64,
    pub messages: Vec<Message>,
}

#[derive(Clone, Debug)]
struct SentList {
    at: u64,
    messages: Vec<Message>,
}

#[derive(Clone, Debug)]
struct DigestState {
    config: Config,
    /// Arrival time of the first message that waits to be sent, in nanoseconds.
    since: u64,
    waiting: Vec<Message>,
    unacknowledged: BTreeMap<u64, SentList>,
    /// All waiting and unacknowledged messages, by which duplicates are suppressed.
    pending: FxHashSet<Message>,
    next_list: u64,
}

/// State of all digests that a controller has enabled.
#[derive(Clone, Debug, Default)]
pub struct Digests {
    states: BTreeMap<u32, DigestState>,
}

impl Digests {
    /// Returns the configuration of a digest, if it is enabled.
    pub fn config(&self, digest: u32) -> Option<Config> {
        self.states.get(&digest).map(|state| state.config)
    }

    /// Iterates over the ids of enabled digests, in ascending order.
    pub fn enabled(&self) -> impl Iterator<Item = u32> + '_ {
        self.states.keys().copied()
    }

    /// Enables a digest, or changes its configuration.
    pub fn configure(&mut self, digest: u32, config: Config) {
        match self.states.get_mut(&digest) {
            Some(state) => state.config = config,
            None => {
                let state = DigestState {
                    config,
                    since: 0,
                    waiting: Vec::new(),
                    unacknowledged: BTreeMap::new(),
                    pending: FxHashSet::default(),
                    next_list: 1,
                };
                self.states.insert(digest, state);
            }
        }
    }

    /// Disables a digest and discards the messages that wait to be sent. Returns whether the digest was enabled.
    pub fn disable(&mut self, digest: u32) -> bool {
        self.states.remove(&digest).is_some()
    }

    /// Adds a message of the data plane, unless it is a duplicate. Returns the list to send, if the message fills it or
    /// messages need not wait.
    pub fn add(&mut self, digest: u32, message: Message, now: u64) -> Option<ReadyList> {
        let state = self.states.get_mut(&digest)?;
        state.discard_expired(now);
        if !state.pending.insert(message.clone()) {
            return None;
        }
        if state.waiting.is_empty() {
            state.since = now;
        }
        state.waiting.push(message);
        let limit = match usize::try_from(state.config.max_list_size) {
            Ok(0) | Err(_) => MAX_LIST_SIZE,
            Ok(limit) => limit.min(MAX_LIST_SIZE),
        };
        let full = state.waiting.len() >= limit || state.config.max_timeout_ns <= 0;
        full.then(|| state.take(digest, now))
    }

    /// Handles the acknowledgement of a digest list. Returns false when the digest is not enabled.
    pub fn acknowledge(&mut self, digest: u32, list: u64) -> bool {
        let Some(state) = self.states.get_mut(&digest) else {
            return false;
        };
        state.discard(list);
        true
    }

    /// Handles the acknowledgement of some messages of a digest list, given by their indexes. Indexes beyond the end of
    /// the list are ignored.
    pub fn acknowledge_some(&mut self, digest: u32, list: u64, messages: &[usize]) {
        let Some(state) = self.states.get_mut(&digest) else {
            return;
        };
        let Some(sent) = state.unacknowledged.get(&list) else {
            return;
        };
        for message in messages.iter().filter_map(|at| sent.messages.get(*at)) {
            state.pending.remove(message);
        }
    }

    /// Returns the digest lists that are due: their first message has waited for the configured time.
    pub fn handle_timeout(&mut self, now: u64) -> Vec<ReadyList> {
        let mut ready = Vec::new();
        for (&digest, state) in &mut self.states {
            if state.deadline().is_some_and(|deadline| deadline <= now) {
                ready.push(state.take(digest, now));
            }
            state.discard_expired(now);
        }
        ready
    }

    /// Returns the time at which [`Digests::handle_timeout`] must be called next; `None` if nothing is due.
    pub fn poll_timeout(&self) -> Option<u64> {
        self.states.values().filter_map(DigestState::deadline).min()
    }

    /// Discards all unacknowledged lists. Called when the primary has changed or disconnected, since a new primary
    /// has not received them.
    pub fn discard_sent(&mut self) {
        for state in self.states.values_mut() {
            let lists: Vec<u64> = state.unacknowledged.keys().copied().collect();
            for list in lists {
                state.discard(list);
            }
        }
    }
}

impl DigestState {
    fn deadline(&self) -> Option<u64> {
        let timeout = u64::try_from(self.config.max_timeout_ns).unwrap_or(0);
        (!self.waiting.is_empty()).then(|| self.since.saturating_add(timeout))
    }

    fn take(&mut self, digest: u32, now: u64) -> ReadyList {
        let list = self.next_list;
        self.next_list += 1;
        let messages = std::mem::take(&mut self.waiting);
        if self.config.ack_timeout_ns > 0 {
            let sent = SentList {
                at: now,
                messages: messages.clone(),
            };
            self.unacknowledged.insert(list, sent);
            while self.pending.len() > MAX_CACHED {
                let Some(&oldest) = self.unacknowledged.keys().next() else {
                    break;
                };
                self.discard(oldest);
            }
        } else {
            for message in &messages {
                self.pending.remove(message);
            }
        }
        ReadyList {
            digest,
            list,
            messages,
        }
    }

    fn discard(&mut self, list: u64) {
        for message in self
            .unacknowledged
            .remove(&list)
            .into_iter()
            .flat_map(|sent| sent.messages)
        {
            self.pending.remove(&message);
        }
    }

    fn discard_expired(&mut self, now: u64) {
        let timeout = u64::try_from(self.config.ack_timeout_ns).unwrap_or(0);
        // Lists were sent in the order of their ids.
        while let Some((&list, sent)) = self.unacknowledged.first_key_value() {
            if now.saturating_sub(sent.at) < timeout {
                break;
            }
            self.discard(list);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn digests(max_timeout_ns: i64, max_list_size: i32, ack_timeout_ns: i64) -> Digests {
        let mut digests = Digests::default();
        let config = Config {
            max_timeout_ns,
            max_list_size,
            ack_timeout_ns,
        };
        digests.configure(7, config);
        digests
    }

    fn message(n: u8) -> Message {
        vec![vec![n]]
    }

    #[test]
    fn a_list_is_sent_when_it_is_full() {
        let mut d = digests(MS as i64, 2, 0);
        assert_eq!(d.add(7, message(1), 0), None);
        assert_eq!(d.add(7, message(1), 0), None);
        let list = d.add(7, message(2), 0).unwrap();
        assert_eq!(list.messages, [message(1), message(2)]);
        assert_eq!((list.digest, list.list), (7, 1));
    }

    #[test]
    fn a_list_is_sent_when_its_first_message_times_out() {
        let mut d = digests(MS as i64, 10, 0);
        assert_eq!(d.poll_timeout(), None);
        d.add(7, message(1), 5);
        d.add(7, message(2), 9);
        assert_eq!(d.poll_timeout(), Some(5 + MS));
        assert_eq!(d.handle_timeout(4 + MS), []);
        assert_eq!(d.handle_timeout(5 + MS)[0].messages.len(), 2);
        assert_eq!(d.poll_timeout(), None);
    }

    #[test]
    fn without_timeout_every_message_is_a_list() {
        let mut d = digests(0, 0, 0);
        assert!(d.add(7, message(1), 0).is_some());
        assert_eq!(d.add(7, message(1), 0).unwrap().list, 2);
    }

    #[test]
    fn unacknowledged_messages_are_not_repeated() {
        let mut d = digests(0, 0, 10);
        assert!(d.add(7, message(1), 0).is_some());
        assert!(d.add(7, message(1), 9).is_none());
        assert!(d.add(7, message(1), 10).is_some());
        assert!(d.acknowledge(7, 2));
        assert!(d.add(7, message(1), 11).is_some());
        assert!(!d.acknowledge(8, 1));
    }

    #[test]
    fn disabled_digests_send_no_lists() {
        let mut d = digests(0, 0, 0);
        assert_eq!(d.add(6, message(1), 0), None);
        assert!(d.disable(7));
        assert_eq!(d.add(7, message(1), 0), None);
        assert!(!d.disable(7));
    }
}
