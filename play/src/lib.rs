//! The playground: an engine that compiles and tests P4 programs for a page in a browser, and the server of that page.
//!
//! * [`Engine`] has no I/O: it takes one [`Request`] and returns one [`Reply`]. It reads included files from the request and from
//!   its [`Library`], so that no file of the machine is reachable.
//! * [`limits`]: sizes of requests and results.
//! * `wasm`: the engine as a WebAssembly module, for a page that needs no server (`make play-wasm`).
//! * `server` and `workers` (feature `server`): the HTTP server, and the processes that run the engine. A process that takes too
//!   long or too much memory is ended, and does not affect others.

mod compile;
mod engine;
#[cfg(feature = "fabric")]
mod fabric;
mod files;
mod frame;
mod graph;
mod language;
pub mod limits;
mod run;
#[cfg(feature = "server")]
pub mod server;
#[cfg(target_arch = "wasm32")]
mod wasm;
#[cfg(feature = "server")]
pub mod workers;

pub use compile::{Action, Key, Message, Parameter, Table};
pub use engine::{Engine, FabricSpec, LayerForm, Reply, Request, SwitchCount};
pub use files::{Document, Example, Library};
pub use frame::{Frame, FrameField, FrameLayer};
pub use graph::{Drawing, DrawnEdge, DrawnNode, NodeLine, Visit};
pub use run::{Executed, Output, Place, Run, Sent};
