//! The main job: one message from one host to a group, by several algorithms, side by side.

pub mod report;
