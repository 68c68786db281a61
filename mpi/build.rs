//! Compiles the C shim over MPI, whose handles and constants are defined only in its header.

use std::process::Command;

fn main() {
    for name in ["src/shim.c", "build.rs"] {
        println!("cargo::rerun-if-changed={name}");
    }
    println!("cargo::rerun-if-env-changed=MPICC");
    let mpicc = std::env::var("MPICC").unwrap_or_else(|_| "mpicc".to_owned());
    let show = |what: &str| {
        let output = Command::new(&mpicc)
            .arg(format!("--showme:{what}"))
            .output();
        let output = output.ok().filter(|output| output.status.success());
        output.and_then(|output| String::from_utf8(output.stdout).ok())
    };
    let (Some(includes), Some(dirs), Some(libs)) = (show("incdirs"), show("libdirs"), show("libs"))
    else {
        println!("cargo::error=`{mpicc} --showme` does not print where Open MPI is installed: apt-get install libopenmpi-dev, or set MPICC");
        return;
    };
    let mut shim = cc::Build::new();
    shim.includes(includes.split_whitespace());
    shim.file("src/shim.c").warnings(true).extra_warnings(true);
    shim.compile("alfirk_mpi_shim");
    for dir in dirs.split_whitespace() {
        println!("cargo::rustc-link-search=native={dir}");
    }
    for lib in libs.split_whitespace() {
        println!("cargo::rustc-link-lib={lib}");
    }
}
