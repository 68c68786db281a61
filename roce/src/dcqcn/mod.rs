//! DCQCN, the congestion control of RoCEv2 (Zhu et al., *Congestion Control for Large-Scale RDMA Deployments*, SIGCOMM 2015).
//!
//! ```text
//!   reaction point              congestion point            notification point
//!   (requester) ── ECT(0) ──▶ switch marks CE ──▶ CE ──▶ (responder)
//!        ▲ slows down                                         │
//!        └──────────────── CNP, one per interval ◀────────────┘
//! ```
//!
//! Here are the two ends, pure: [`ReactionPoint`] is the rate machine with its pacing, [`NotificationPoint`] says when a CNP is
//! due. The queue pair owns one of each; the switch's part is in the data plane.

mod config;
mod notification;
mod reaction;

pub use config::DcqcnConfig;
pub use notification::NotificationPoint;
pub use reaction::{Phase, ReactionPoint};
