//! DCQCN, the congestion control of RoCEv2 (Zhu et al., *Congestion Control for Large-Scale RDMA Deployments*, SIGCOMM
//! 2015).
//!
//! ```text
//!   reaction point              congestion point            notification point
//!   (requester) ── ECT(0) ──▶ switch marks CE ──▶ CE ──▶ (responder)
//!        ▲ reduces its rate                                   │
//!        └──────────────── CNP, one per interval ◀────────────┘
//! ```
//!
//! This module has the state machines of both end points: [`ReactionPoint`] controls and paces the rate,
//! [`NotificationPoint`] decides when a CNP is due. The queue pair owns one of each. The data plane of switches marks
//! packets.

mod config;
mod notification;
mod reaction;

pub use config::DcqcnConfig;
pub use notification::NotificationPoint;
pub use reaction::{Phase, ReactionPoint};
