//! The members that contribute data to a transfer, and this member's part in that.

use crate::collective::depth::RequestLatencies;
use crate::collective::execution::Execution;
use crate::collective::spec::TransferSpec;

/// The members that contribute data, with the state that this member needs for its own contribution.
pub(super) enum Sources {
    /// The root has all data at the start.
    Root {
        /// Whether this member, the root, has its data.
        has_data: bool,
        /// Latencies of the messages, at a root with a queue depth ([`TransferSpec::depth`]); otherwise `None`.
        requests: Option<RequestLatencies>,
    },
    /// Members send parts of the data in turn ([`TransferSpec::sources`]).
    Turns {
        /// Number of the first part that this member may still have to send.
        next_part: u32,
        /// For each part of the data, whether its completion has been reported.
        reported: Vec<bool>,
    },
    /// Every member contributes data, or takes part in a barrier.
    All,
}

impl Sources {
    pub(super) fn new(spec: &TransferSpec) -> Sources {
        if spec.has_several_sources() {
            return Sources::Turns {
                next_part: 0,
                reported: vec![false; spec.parts() as usize],
            };
        }
        if spec.collective.begins_everywhere() {
            return Sources::All;
        }
        let depth = spec.depth.filter(|_| spec.is_root());
        Sources::Root {
            has_data: false,
            requests: depth.map(RequestLatencies::new),
        }
    }

    /// Whether members send parts of the data in turn.
    pub(super) fn take_turns(&self) -> bool {
        matches!(self, Sources::Turns { .. })
    }

    /// Whether every member contributes data, or takes part in a barrier.
    pub(super) fn are_all(&self) -> bool {
        matches!(self, Sources::All)
    }

    /// The next part that this member is to send; `None` if it has started all its parts.
    pub(super) fn next_part(&self, spec: &TransferSpec) -> Option<u32> {
        let first = match self {
            Sources::Root { has_data, .. } => u32::from(*has_data),
            Sources::Turns { next_part, .. } => *next_part,
            Sources::All => return None,
        };
        (first..spec.parts()).find(|part| spec.source_of(*part) == spec.rank)
    }

    /// Records that this member has started to send a part.
    pub(super) fn start_part(&mut self, part: u32) {
        match self {
            Sources::Root { has_data, .. } => *has_data = true,
            Sources::Turns { next_part, .. } => *next_part = part + 1,
            Sources::All => {}
        }
    }

    /// Number of bytes in the parts that this member has started to send.
    pub(super) fn started_bytes(&self, spec: &TransferSpec) -> u64 {
        let Sources::Turns { next_part, .. } = self else {
            return 0;
        };
        let own = (0..*next_part).filter(|part| spec.source_of(*part) == spec.rank);
        own.map(|part| spec.part(part).1).sum()
    }

    /// Numbers of the parts that have become complete since the last call. A part is complete when this member holds
    /// it, and at the part's source when every member does.
    pub(super) fn take_complete_parts(
        &mut self,
        spec: &TransferSpec,
        execution: &Execution,
    ) -> Vec<u32> {
        let Sources::Turns { reported, .. } = self else {
            return Vec::new();
        };
        let acknowledged: usize = execution.acknowledged_counts().sum();
        let mut sent = 0;
        let mut complete = Vec::new();
        for part in 0..spec.parts() {
            let slices = spec.slices_of(part);
            let is_own = spec.source_of(part) == spec.rank;
            if is_own {
                sent += slices.len();
            }
            let is_complete = execution.holds_range(slices) && (!is_own || acknowledged >= sent);
            if is_complete && !std::mem::replace(&mut reported[part as usize], true) {
                complete.push(part);
            }
        }
        complete
    }

    /// Latencies of the root's messages; `None` without a queue depth.
    pub(super) fn requests(&self) -> Option<&RequestLatencies> {
        match self {
            Sources::Root { requests, .. } => requests.as_ref(),
            Sources::Turns { .. } | Sources::All => None,
        }
    }

    pub(super) fn requests_mut(&mut self) -> Option<&mut RequestLatencies> {
        match self {
            Sources::Root { requests, .. } => requests.as_mut(),
            Sources::Turns { .. } | Sources::All => None,
        }
    }

    /// Ends the measurement of latencies.
    pub(super) fn drop_requests(&mut self) {
        if let Sources::Root { requests, .. } = self {
            *requests = None;
        }
    }
}
