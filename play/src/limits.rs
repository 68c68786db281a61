//! Limits on what a client may send, and on what the engine returns.

/// Maximum size of a program with all files that the client sends, in bytes.
pub const PROGRAM_BYTES: usize = 1 << 20;

/// Maximum number of files of a program that the client sends.
pub const FILES: usize = 64;

/// Maximum size of a test in bytes.
pub const TEST_BYTES: usize = 256 << 10;

/// Maximum number of packets of a test.
pub const PACKETS: usize = 500;

/// Maximum size of a capture in bytes.
pub const CAPTURE_BYTES: usize = 512 << 10;

/// Maximum number of steps that the traces of one run have together.
pub const TRACE_STEPS: usize = 20_000;

/// Maximum number of nodes of a control-flow graph that is drawn.
pub const GRAPH_NODES: usize = 3000;

/// Maximum number of packets that are returned for one packet sent.
pub const OUTPUTS: usize = 256;

/// Maximum size of the message of a fabric in bytes.
pub const MESSAGE_BYTES: usize = 256 << 10;

/// Maximum number of packets of each switch of a fabric that are traced.
pub const SWITCH_PACKETS: usize = 200;

/// Maximum size of a request in bytes: a program and a test, with the escapes of JSON.
pub const REQUEST_BYTES: usize = 3 << 20;

/// Maximum size of a reply in bytes.
pub const REPLY_BYTES: usize = 32 << 20;
