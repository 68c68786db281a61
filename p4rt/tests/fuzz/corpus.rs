//! Valid programs, their P4Infos, and packets that match them.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::OnceLock,
};

use alfirk_compiler::arch::Arch;
use alfirk_compiler::driver::{compile, CompileOptions};
use alfirk_p4runtime::p4::{config::v1::P4Info, v1::ForwardingPipelineConfig};
use serde_json::Value;

use crate::chance::Chance;
use crate::fixture;

/// Longest frame in bytes, large enough for jumbo frames.
pub const MAX_FRAME: usize = 9000;

/// A valid program with matching frames.
pub struct Subject {
    /// The BMv2 JSON.
    pub json: String,
    pub info: P4Info,
    /// The frames of its packet test, or some of common protocols.
    pub frames: Vec<Vec<u8>>,
}

impl Subject {
    pub fn config(&self) -> ForwardingPipelineConfig {
        ForwardingPipelineConfig {
            p4info: Some(self.info.clone()),
            p4_device_config: self.json.clone().into_bytes().into(),
            cookie: None,
        }
    }

    /// Returns a frame for the program: possibly damaged, or of random bytes and length.
    pub fn frame(&self, chance: &mut Chance) -> Vec<u8> {
        if chance.one_in(4) {
            let most = if chance.one_in(8) { MAX_FRAME } else { 200 };
            let len = chance.below(most + 1);
            return chance.bytes(len);
        }
        let mut frame = chance.pick(&self.frames).clone();
        match chance.below(4) {
            0 => frame.truncate(chance.below(frame.len() + 1)),
            1 => {
                let more = chance.below(MAX_FRAME.saturating_sub(frame.len()) + 1);
                let more = if chance.one_in(8) { more } else { more % 64 };
                frame.extend(chance.bytes(more));
            }
            _ => {}
        }
        if chance.one_in(2) {
            chance.damage(&mut frame);
        }
        frame.truncate(MAX_FRAME);
        frame
    }
}

/// Returns the BMv2 JSON of [`subjects`], in their order.
pub fn parsed() -> Vec<Value> {
    let parse =
        |subject: &Subject| serde_json::from_str(&subject.json).expect("the compiler writes JSON");
    subjects().iter().map(parse).collect()
}

/// Returns the programs of the compiler's tests, the data plane for both targets, the labs, and one with an object of each kind. They are compiled
/// once.
pub fn subjects() -> &'static [Subject] {
    static SUBJECTS: OnceLock<Vec<Subject>> = OnceLock::new();
    SUBJECTS.get_or_init(|| {
        let room = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let mut sources = Vec::new();
        p4_files(&room.join("compiler/tests/programs"), &mut sources);
        sources.push(room.join("p4src/v1model/main.p4"));
        sources.push(room.join("p4src/tna/main.p4"));
        let mut labs = Vec::new();
        p4_files(&room.join("labs"), &mut labs);
        labs.retain(|path| path.ends_with("solution.p4"));
        sources.extend(labs);
        let mut subjects: Vec<Subject> = sources.iter().filter_map(|path| subject(path)).collect();
        subjects.push(Subject {
            json: fixture::device_config(),
            info: fixture::p4info(),
            frames: vec![fixture::frame(5), fixture::kind_frame(1, 0x88cc)],
        });
        assert!(
            subjects.len() > 20,
            "the test programs are in the repository"
        );
        subjects
    })
}

fn p4_files(folder: &Path, files: &mut Vec<PathBuf>) {
    let entries = fs::read_dir(folder).expect("the folder is in the repository");
    let mut paths: Vec<PathBuf> = entries
        .map(|entry| entry.expect("the folder can be read").path())
        .collect();
    paths.sort();
    for path in paths {
        if path.is_dir() {
            p4_files(&path, files);
        } else if path.extension().is_some_and(|extension| extension == "p4") {
            files.push(path);
        }
    }
}

/// Compiles a program; `None` for a file that others include.
fn subject(path: &Path) -> Option<Subject> {
    let source = fs::read_to_string(path).expect("the file can be read");
    let mut options = CompileOptions::new(path);
    let shared = Path::new(env!("CARGO_MANIFEST_DIR")).join("../labs/shared");
    options.preprocessor.include_dirs.push(shared);
    match (source.contains("V1Switch("), source.contains("Pipeline(")) {
        (true, _) => {}
        (false, true) => options.set_arch(Arch::TNA),
        (false, false) => return None,
    }
    let compiled = compile(&options).unwrap_or_else(|error| panic!("{error}"));
    let test = fs::read_to_string(path.with_extension("stf")).unwrap_or_default();
    let mut frames: Vec<Vec<u8>> = test.lines().filter_map(packet).collect();
    frames.extend(common_frames());
    Some(Subject {
        json: compiled.json.to_text(),
        info: compiled.p4info,
        frames,
    })
}

/// Parses a line such as `packet 3 0200 0000` to its bytes.
fn packet(line: &str) -> Option<Vec<u8>> {
    let (_port, digits) = line.strip_prefix("packet ")?.trim().split_once(' ')?;
    let digits: Vec<u32> = digits.chars().filter_map(|c| c.to_digit(16)).collect();
    let bytes = digits
        .chunks_exact(2)
        .map(|pair| (pair[0] << 4 | pair[1]) as u8);
    Some(bytes.collect())
}

/// Returns an ARP request and two RoCEv2 packets: a SEND and an acknowledgement.
fn common_frames() -> [Vec<u8>; 3] {
    const MACS: [u8; 12] = [2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2];
    let mut arp = MACS.to_vec();
    arp.extend([8, 6, 0, 1, 8, 0, 6, 4, 0, 1]);
    arp.extend([2, 0, 0, 0, 0, 2, 10, 0, 0, 2, 0, 0, 0, 0, 0, 0, 10, 0, 0, 1]);
    let roce = |opcode: u8, behind: &[u8]| {
        let udp = 8 + 12 + behind.len() as u8 + 4;
        let mut frame = MACS.to_vec();
        frame.extend([8, 0, 0x45, 0, 0, 20 + udp, 0, 0, 0x40, 0, 64, 17, 0, 0]);
        frame.extend([10, 0, 0, 2, 10, 1, 0, 1]);
        frame.extend([0xc0, 0, 0x12, 0xb7, 0, udp, 0, 0]);
        frame.extend([opcode, 0x40, 0xff, 0xff, 0, 0, 0, 1, 0x80, 0, 0, 7]);
        frame.extend(behind);
        frame.extend([0; 4]);
        frame
    };
    [
        arp,
        roce(0x04, b"payload of eight"),
        roce(0x11, &[0x1f, 0, 0, 3]),
    ]
}
