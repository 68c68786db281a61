//! A debugger for packets in P4 programs, over the Debug Adapter Protocol (DAP).
//!
//! A packet test runs on a switch in this process, whose recording holds every step of every packet. The debugger moves in the
//! recording, so it steps backward as fast as forward. A value that the user changes is applied when the packet is
//! executed again, from the state of the switch before it.
//!
//! [`Debugger`] is a state machine: it takes one message of the editor and returns the messages to send. It reads
//! programs and tests through a [`Host`]. [`Decoder`] and [`encode`] frame messages.

mod expression;
mod frame;
mod navigation;
mod recording;
mod scopes;
mod server;

pub use frame::{encode, Decoder, FrameError};
pub use recording::{Before, Passes, QueuePairState, Record, Site};
pub use server::{Attach, Debugger, Host, Launch, ParseFilter, Released, Reply};
