//! The p4runtime-shell of PyPI against our switch, with our compiler's outputs.
//!
//! It runs where that package is installed (`pip install p4runtime-shell`) for `python3`, or for the Python that `ALFIRK_PYTHON` names.

mod serving;

use std::path::Path;
use std::process::{Command, Stdio};

/// Commands of a user of the shell, with the folder and the server's address as parameters.
const SESSION: &str = r#"
import sys
import p4runtime_sh.shell as sh

folder, server = sys.argv[1:]
files = sh.FwdPipeConfig(f"{folder}/p4info.txtpb", f"{folder}/basic.json")
sh.setup(device_id=3, grpc_addr=server, election_id=(0, 1), config=files)
entry = sh.TableEntry("BasicIngress.ipv4_lpm")(action="BasicIngress.ipv4_forward")
entry.match["hdr.ipv4.dst"] = "10.0.1.0/24"
entry.action["dst"] = "00:00:0a:00:01:01"
entry.action["port"] = "7"
entry.insert()
read = list(sh.TableEntry("BasicIngress.ipv4_lpm").read())
assert len(read) == 1, read
assert read[0].match["hdr.ipv4.dst"].lpm.prefix_len == 24, read[0]
assert read[0].action["port"].value == b"\x07", read[0]
read[0].delete()
assert not list(sh.TableEntry("BasicIngress.ipv4_lpm").read())
sh.teardown()
print("all read back")
"#;

#[test]
fn shell_pushes_the_pipeline_and_reads_tables_back() {
    let python = std::env::var("ALFIRK_PYTHON").unwrap_or_else(|_| "python3".to_owned());
    let installed = Command::new(&python)
        .args(["-c", "import p4runtime_sh.shell"])
        .stderr(Stdio::null())
        .status();
    if !installed.is_ok_and(|status| status.success()) {
        let reason = format!("{python} has no p4runtime-shell (pip install p4runtime-shell)");
        alfirk_test_budget::skip(&reason);
        return;
    }
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    compile(folder.path());
    let (_switch, server) = serving::switch("3", &[]);
    let output = Command::new(&python)
        .args(["-c", SESSION])
        .arg(folder.path())
        .arg(&server)
        .output()
        .expect("Python was just there");
    let stdout = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(stdout.contains("all read back"), "{stdout}{errors}");
}

fn compile(folder: &Path) {
    let source =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../compiler/tests/programs/exercises/basic.p4");
    let status = Command::new(env!("CARGO_BIN_EXE_alfirk"))
        .arg("p4c")
        .arg(source)
        .arg("-o")
        .arg(folder.join("basic.json"))
        .arg("--p4runtime-files")
        .arg(folder.join("p4info.txtpb"))
        .status();
    assert!(status.expect("the binary was just built").success());
}
