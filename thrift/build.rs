//! Generates Rust from the Thrift interface files in `idl/`: types, client and server side of each service.

// The rules of the pure cores (tools/check-pure) do not apply to build scripts.
#![allow(clippy::disallowed_methods, clippy::disallowed_types)]

#[path = "build/idl.rs"]
mod idl;
#[path = "build/rust.rs"]
mod rust;

use std::{env, error::Error, fs, path::PathBuf};

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo:rerun-if-changed=idl");
    println!("cargo:rerun-if-changed=build");
    println!("cargo:rerun-if-changed=build.rs");
    let out = PathBuf::from(env::var("OUT_DIR")?);
    for service in ["standard", "simple_pre", "simple_pre_lag", "simple_switch"] {
        let path = format!("idl/{service}.thrift");
        let text = fs::read_to_string(&path)?;
        let document = idl::parse(&text).map_err(|error| format!("{path}: {error}"))?;
        fs::write(
            out.join(format!("{service}.rs")),
            rust::generate(&document, service)?,
        )?;
    }
    Ok(())
}
