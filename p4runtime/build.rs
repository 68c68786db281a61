//! Compiles the protobuf files in `proto/` without protoc: protox parses them, prost and tonic generate Rust code.

// The rules of the pure cores (tools/check-pure) do not apply to build scripts.
#![allow(clippy::disallowed_methods, clippy::disallowed_types)]

use std::{env, error::Error, fs, path::PathBuf};

use protox::prost::Message;

/// The protobuf file of P4Info. Its descriptors are also written to a separate file.
const P4INFO: &str = "p4/config/v1/p4info.proto";

const FILES: [&str; 12] = [
    "alfirk/debug/v1/debug.proto",
    "alfirk/links/v1/links.proto",
    "alfirk/trace/v1/trace.proto",
    "bfrt_proto/bfruntime.proto",
    "google/rpc/code.proto",
    "google/rpc/status.proto",
    "p4/bm/packet_trace.proto",
    "p4/config/v1/p4types.proto",
    P4INFO,
    "p4/tmp/p4config.proto",
    "p4/v1/p4data.proto",
    "p4/v1/p4runtime.proto",
];

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo:rerun-if-changed=proto");
    println!("cargo:rerun-if-changed=build.rs");

    let mut compiler = protox::Compiler::new(["proto"])?;
    compiler.include_imports(true).include_source_info(true);
    compiler.open_files(FILES)?;

    let mut embedded = compiler.file_descriptor_set();
    for file in &mut embedded.file {
        // Comments are used by rustdoc, not at run time.
        file.source_code_info = None;
    }
    let out = PathBuf::from(env::var("OUT_DIR")?);
    fs::write(out.join("descriptors.bin"), embedded.encode_to_vec())?;
    let mut p4info = protox::Compiler::new(["proto"])?;
    p4info.include_imports(true).open_file(P4INFO)?;
    let p4info = p4info.file_descriptor_set().encode_to_vec();
    fs::write(out.join("p4info_descriptors.bin"), p4info)?;

    let mut config = prost_build::Config::new();
    config.enable_type_names().btree_map(["."]);
    // A compiled program is large, and a controller sends the same one to all of its switches: `Bytes` avoids copies.
    config.bytes([".p4.v1.ForwardingPipelineConfig.p4_device_config"]);
    let services = env::var_os("CARGO_FEATURE_GRPC").is_some();
    tonic_prost_build::configure()
        .build_client(services)
        .build_server(services)
        .include_file("protocol.rs")
        .compile_fds_with_config(compiler.file_descriptor_set(), config)?;
    Ok(())
}
