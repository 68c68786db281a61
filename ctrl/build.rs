//! Compiles `proto/` without protoc, for the service that the driver offers.

#[cfg(not(feature = "driver"))]
fn main() {}

#[cfg(feature = "driver")]
fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!("cargo:rerun-if-changed=proto");
    println!("cargo:rerun-if-changed=build.rs");
    let mut compiler = protox::Compiler::new(["proto"])?;
    compiler.include_imports(true).include_source_info(true);
    compiler.open_files(["alfirk/ctrl/v1/control.proto"])?;
    tonic_prost_build::configure().compile_fds(compiler.file_descriptor_set())?;
    Ok(())
}
