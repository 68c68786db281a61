//! Digest lists: buffering, duplicates and acknowledgements (P4Runtime § 9.8).

use std::collections::BTreeMap;

use alfirk_p4runtime::p4::v1::digest_entry::Config;
use rustc_hash::FxHashSet;

/// Messages in one list when the controller sets no limit.
pub const MAX_LIST_SIZE: usize = 4096;
/// Unacknowledged messages remembered per digest; the oldest lists are forgotten first.
pub const MAX_CACHED: usize = 65_536;

/// One message: its flat fields in canonical form.
pub type Message = Vec<Vec<u8>>;

/// A list that is ready to go to the primary.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReadyList {
    pub digest: u32,
    pub list: u64,
    pub messages: Vec<Message>,
}

#[derive(Clone, Debug)]
struct Sent {
    at: u64,
    messages: Vec<Message>,
}

#[derive(Clone, Debug)]
struct Learner {
    config: Config,
    /// When the first of the waiting messages came.
    since: u64,
    waiting: Vec<Message>,
    unacknowledged: BTreeMap<u64, Sent>,
    /// All messages waiting or unacknowledged.
    known: FxHashSet<Message>,
    next_list: u64,
}

/// The digests for which the controller has asked.
#[derive(Clone, Debug, Default)]
pub struct Digests {
    learners: BTreeMap<u32, Learner>,
}

impl Digests {
    /// The configuration of a digest, if it is enabled.
    pub fn config(&self, digest: u32) -> Option<Config> {
        self.learners.get(&digest).map(|learner| learner.config)
    }

    /// Ids of the enabled digests, ascending.
    pub fn enabled(&self) -> impl Iterator<Item = u32> + '_ {
        self.learners.keys().copied()
    }

    /// Enables a digest, or changes its configuration.
    pub fn configure(&mut self, digest: u32, config: Config) {
        match self.learners.get_mut(&digest) {
            Some(learner) => learner.config = config,
            None => {
                let learner = Learner {
                    config,
                    since: 0,
                    waiting: Vec::new(),
                    unacknowledged: BTreeMap::new(),
                    known: FxHashSet::default(),
                    next_list: 1,
                };
                self.learners.insert(digest, learner);
            }
        }
    }

    /// Disables a digest; what waits is dropped.
    pub fn disable(&mut self, digest: u32) -> bool {
        self.learners.remove(&digest).is_some()
    }

    /// Takes a message of the data plane. Returns a list when that fills it.
    pub fn learn(&mut self, digest: u32, message: Message, now: u64) -> Option<ReadyList> {
        let learner = self.learners.get_mut(&digest)?;
        learner.forget_old(now);
        if !learner.known.insert(message.clone()) {
            return None;
        }
        if learner.waiting.is_empty() {
            learner.since = now;
        }
        learner.waiting.push(message);
        let limit = match usize::try_from(learner.config.max_list_size) {
            Ok(0) | Err(_) => MAX_LIST_SIZE,
            Ok(limit) => limit.min(MAX_LIST_SIZE),
        };
        let full = learner.waiting.len() >= limit || learner.config.max_timeout_ns <= 0;
        full.then(|| learner.take(digest, now))
    }

    /// The controller has acted on a list. False when the digest is not enabled.
    pub fn acknowledge(&mut self, digest: u32, list: u64) -> bool {
        let Some(learner) = self.learners.get_mut(&digest) else {
            return false;
        };
        learner.forget(list);
        true
    }

    /// Messages of a list have been acted on; those that it does not have do not count.
    pub fn acknowledge_some(&mut self, digest: u32, list: u64, messages: &[usize]) {
        let Some(learner) = self.learners.get_mut(&digest) else {
            return;
        };
        let Some(sent) = learner.unacknowledged.get(&list) else {
            return;
        };
        for message in messages.iter().filter_map(|at| sent.messages.get(*at)) {
            learner.known.remove(message);
        }
    }

    /// Lists whose first message has waited long enough.
    pub fn handle_timeout(&mut self, now: u64) -> Vec<ReadyList> {
        let mut ready = Vec::new();
        for (&digest, learner) in &mut self.learners {
            if learner.deadline().is_some_and(|deadline| deadline <= now) {
                ready.push(learner.take(digest, now));
            }
            learner.forget_old(now);
        }
        ready
    }

    /// When [`Digests::handle_timeout`] has something to do next.
    pub fn poll_timeout(&self) -> Option<u64> {
        self.learners.values().filter_map(Learner::deadline).min()
    }

    /// The primary has changed or gone: it has not seen what others acknowledged or not.
    pub fn forget_sent(&mut self) {
        for learner in self.learners.values_mut() {
            let lists: Vec<u64> = learner.unacknowledged.keys().copied().collect();
            for list in lists {
                learner.forget(list);
            }
        }
    }
}

impl Learner {
    fn deadline(&self) -> Option<u64> {
        let timeout = u64::try_from(self.config.max_timeout_ns).unwrap_or(0);
        (!self.waiting.is_empty()).then(|| self.since.saturating_add(timeout))
    }

    fn take(&mut self, digest: u32, now: u64) -> ReadyList {
        let list = self.next_list;
        self.next_list += 1;
        let messages = std::mem::take(&mut self.waiting);
        if self.config.ack_timeout_ns > 0 {
            let sent = Sent {
                at: now,
                messages: messages.clone(),
            };
            self.unacknowledged.insert(list, sent);
            while self.known.len() > MAX_CACHED {
                let Some(&oldest) = self.unacknowledged.keys().next() else {
                    break;
                };
                self.forget(oldest);
            }
        } else {
            for message in &messages {
                self.known.remove(message);
            }
        }
        ReadyList {
            digest,
            list,
            messages,
        }
    }

    fn forget(&mut self, list: u64) {
        for message in self
            .unacknowledged
            .remove(&list)
            .into_iter()
            .flat_map(|sent| sent.messages)
        {
            self.known.remove(&message);
        }
    }

    fn forget_old(&mut self, now: u64) {
        let timeout = u64::try_from(self.config.ack_timeout_ns).unwrap_or(0);
        // Lists were sent in the order of their numbers.
        while let Some((&list, sent)) = self.unacknowledged.first_key_value() {
            if now.saturating_sub(sent.at) < timeout {
                break;
            }
            self.forget(list);
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
    fn a_list_goes_when_it_is_full() {
        let mut d = digests(MS as i64, 2, 0);
        assert_eq!(d.learn(7, message(1), 0), None);
        assert_eq!(d.learn(7, message(1), 0), None);
        let list = d.learn(7, message(2), 0).unwrap();
        assert_eq!(list.messages, [message(1), message(2)]);
        assert_eq!((list.digest, list.list), (7, 1));
    }

    #[test]
    fn a_list_goes_when_its_first_message_has_waited() {
        let mut d = digests(MS as i64, 10, 0);
        assert_eq!(d.poll_timeout(), None);
        d.learn(7, message(1), 5);
        d.learn(7, message(2), 9);
        assert_eq!(d.poll_timeout(), Some(5 + MS));
        assert_eq!(d.handle_timeout(4 + MS), []);
        assert_eq!(d.handle_timeout(5 + MS)[0].messages.len(), 2);
        assert_eq!(d.poll_timeout(), None);
    }

    #[test]
    fn without_timeout_every_message_is_a_list() {
        let mut d = digests(0, 0, 0);
        assert!(d.learn(7, message(1), 0).is_some());
        assert_eq!(d.learn(7, message(1), 0).unwrap().list, 2);
    }

    #[test]
    fn unacknowledged_messages_are_not_repeated() {
        let mut d = digests(0, 0, 10);
        assert!(d.learn(7, message(1), 0).is_some());
        assert!(d.learn(7, message(1), 9).is_none());
        assert!(d.learn(7, message(1), 10).is_some());
        assert!(d.acknowledge(7, 2));
        assert!(d.learn(7, message(1), 11).is_some());
        assert!(!d.acknowledge(8, 1));
    }

    #[test]
    fn disabled_digests_are_silent() {
        let mut d = digests(0, 0, 0);
        assert_eq!(d.learn(6, message(1), 0), None);
        assert!(d.disable(7));
        assert_eq!(d.learn(7, message(1), 0), None);
        assert!(!d.disable(7));
    }
}
