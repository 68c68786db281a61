//! Compiles the shim over libibverbs, most of whose calls are inline functions of its header.

use std::path::Path;

fn main() {
    println!("cargo:rerun-if-changed=src/shim.c");
    println!("cargo:rerun-if-changed=src/shim.h");
    assert!(
        Path::new("/usr/include/infiniband/verbs.h").exists()
            || std::env::var_os("CPATH").is_some()
            || std::env::var_os("CFLAGS").is_some(),
        "the headers of libibverbs are missing: apt-get install libibverbs-dev (or set CPATH)"
    );
    cc::Build::new()
        .file("src/shim.c")
        .warnings(true)
        .extra_warnings(true)
        .compile("alfirk_verbs_shim");
    println!("cargo:rustc-link-lib=ibverbs");
}
