use super::*;

#[derive(Parser)]
#[command(name = "p4c")]
struct Cli {
    #[command(flatten)]
    args: StepArgs,
}

const PROGRAM: &str = "#include <core.p4>
#include <v1model.p4>
#ifdef __TARGET_BMV2__
#error the first step knows no target
#endif
struct headers_t { }
struct metadata_t { bit<8> x; }
parser P(packet_in p, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    state start { transition accept; }
}
control V(inout headers_t hdr, inout metadata_t meta) { apply { } }
control I(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    apply { sm.egress_spec = PORT; }
}
control E(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) { apply { } }
control D(packet_out p, in headers_t hdr) { apply { } }
V1Switch(P(), V(), I(), E(), V(), D()) main;
";

/// Runs a command line in a folder with `prog.p4`; returns the exit code, the output and the folder.
fn p4c(line: &str) -> (u8, String, tempfile::TempDir) {
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    std::fs::write(folder.path().join("prog.p4"), PROGRAM).expect("the folder can be written");
    let line = line.replace("DIR", &folder.path().to_string_lossy());
    let words = ["p4c"].into_iter().chain(line.split(' ')).map(Into::into);
    let cli = Cli::try_parse_from(with_long_options(words)).expect("the line is right");
    let (mut stdout, mut stderr) = (Vec::new(), Vec::new());
    let code = run_steps(&cli.args, &mut stdout, &mut stderr);
    stdout.extend(stderr);
    let output = String::from_utf8(stdout).expect("messages are UTF-8");
    let output = output.replace(&*folder.path().to_string_lossy(), "DIR");
    (code, output, folder)
}

fn files(folder: &tempfile::TempDir, within: &str) -> Vec<String> {
    let Ok(entries) = std::fs::read_dir(folder.path().join(within)) else {
        return Vec::new();
    };
    let names = entries.map(|entry| entry.expect("readable").file_name());
    let mut names: Vec<String> = names
        .map(|name| name.to_string_lossy().into_owned())
        .collect();
    names.sort();
    names
}

#[test]
fn driver_writes_p4i_and_json_to_a_folder() {
    for target in [
        "--target bmv2 --arch v1model --std p4-16",
        "-b bmv2-ss-p4org -c",
        "-S -x p4_16 -g",
        "",
    ] {
        let line = format!("{target} -DPORT=1 -o DIR/out DIR/prog.p4");
        let (code, output, folder) = p4c(line.trim());
        assert_eq!((code, &*output), (0, ""));
        assert_eq!(files(&folder, "out"), ["prog.json", "prog.p4i"]);
    }
    let (code, output, _) =
        p4c("--Werror -DPORT=1 --p4runtime-files DIR/a.txtpb -o DIR DIR/prog.p4");
    assert_eq!(
        (code, &*output),
        (0, ""),
        "nothing in the architecture is warned about"
    );
}

#[test]
fn single_steps_can_be_run() {
    let (code, output, folder) = p4c("-E -DPORT=1 -o DIR/out DIR/prog.p4");
    assert_eq!((code, &*output), (0, ""));
    assert_eq!(files(&folder, "out"), ["prog.p4i"]);
    let text = std::fs::read_to_string(folder.path().join("out/prog.p4i")).expect("it was written");
    assert!(text.contains("sm.egress_spec = 1;"), "{text}");
    let (code, output, _) = p4c("-e -o DIR/out DIR/prog.p4");
    assert_eq!(code, 2);
    assert!(output.contains("out/prog.p4i: "), "{output}");
    let (code, output, folder) =
        p4c("-### -v --ndebug -Xp4c --emit-externs -Xpreprocessor -DA -IX -o DIR/out DIR/prog.p4");
    assert_eq!(code, 0);
    assert_eq!(files(&folder, "out"), [""; 0]);
    expect_test::expect![[r#"
        preprocessor:
        p4c-bm2-ss -E -DA -I X DIR/prog.p4 > DIR/out/prog.p4i
        compiler:
        p4c-bm2-ss --emit-externs -I X --std=p4-16 --arch=v1model --p4runtime-format=binary --ndebug -o DIR/out/prog.json DIR/out/prog.p4i
    "#]]
    .assert_eq(&output);
}

#[test]
fn messages_name_the_line_of_the_source() {
    let (code, output, folder) = p4c("-DPORT=nowhere -o DIR/out DIR/prog.p4");
    assert_eq!(code, 1);
    assert!(output.contains("DIR/prog.p4:13:"), "{output}");
    assert_eq!(files(&folder, "out"), ["prog.p4i"]);
}

#[test]
fn dependency_rules_are_written_to_the_output_folder() {
    let (code, _, folder) = p4c("-MD -DPORT=1 -o DIR/out DIR/prog.p4");
    assert_eq!(code, 0);
    assert_eq!(files(&folder, "out"), ["prog.d", "prog.json", "prog.p4i"]);
    let (code, _, folder) = p4c("-M -o DIR/out DIR/prog.p4");
    assert_eq!(code, 0);
    let rule = std::fs::read_to_string(folder.path().join("out/prog.p4i")).expect("it was written");
    assert!(rule.starts_with("prog.o:"), "{rule}");
}

#[test]
fn unsupported_options_are_rejected_in_one_line() {
    for (line, part) in [
        (
            "-b tofino -a tna DIR/prog.p4",
            "unknown backend tofino-tna: use bmv2-v1model",
        ),
        ("-a psa DIR/prog.p4", "unknown backend bmv2-psa"),
        ("-o DIR", "no program; give one P4 file"),
        ("DIR/none.p4", "DIR/none.p4: there is no such file"),
        ("DIR/prog.p4 DIR/other.p4", "a second source file"),
        (
            "--std p4-14 -DPORT=1 -o DIR DIR/prog.p4",
            "only P4_16 is supported",
        ),
        ("--metrics loc -DPORT=1 -o DIR DIR/prog.p4", "--metrics: "),
        ("--fromJson DIR/x.json -e -o DIR", "--fromJSON: "),
        ("--gdb DIR/prog.p4", "--gdb: "),
        ("-Xp4c --nonsense -DPORT=1 -o DIR DIR/prog.p4", "--nonsense"),
    ] {
        let (code, output, _) = p4c(line);
        assert_eq!((code, output.lines().count()), (2, 1), "{output}");
        assert!(
            output.starts_with("error: ") && output.contains(part),
            "{output}"
        );
    }
    let (code, output, _) = p4c("--target-help");
    assert_eq!(code, 0);
    assert!(output.contains("bmv2-v1model"), "{output}");
    assert!(p4c("-V").1.starts_with("p4c "));
}

/// The printed steps are a second form of the options that are compiled: parsing them gives the same options.
#[test]
fn printed_steps_have_the_options_of_the_run() {
    for line in [
        "DIR/prog.p4",
        "-DA -DB=1 -IX -I Y -MD -MT a -MQ b$c -MP --ndebug -o DIR/out DIR/prog.p4",
        "-MD -MF x.d -Xpreprocessor -MF -Xpreprocessor y.d -Xpreprocessor -DC -DA DIR/prog.p4",
        "-M -MG -MT a -Xpreprocessor -MT -Xpreprocessor b DIR/prog.p4",
        "-Xp4c --emit-externs -Xp4c -I -Xp4c first -I second -Xp4c -o -Xp4c none -Xp4c -U -Xp4c A -DA DIR/prog.p4",
        "--Werror=unused --Werror= --Wdisable=shadow -Xp4c --Werror=deprecated DIR/prog.p4",
        "--p4runtime-files a.txt,b.bin --p4runtime-files c.json --p4runtime-file d --p4runtime-format text DIR/prog.p4",
        "--disable-annotations=a,b --pp out.p4 --top4 A --top4 B --dump folder -x P4₁₆ DIR/prog.p4",
        "--metrics loc --toJson x --fromJson y -Xp4c --toJSON=z DIR/prog.p4",
    ] {
        let folder = tempfile::tempdir().expect("a temporary folder can be made");
        std::fs::write(folder.path().join("prog.p4"), "").expect("the folder can be written");
        let line = line.replace("DIR", &folder.path().to_string_lossy());
        let words = ["p4c"].into_iter().chain(line.split(' ')).map(Into::into);
        let cli = Cli::try_parse_from(with_long_options(words)).expect("the line is right");
        let steps = Steps::of(&cli.args).expect("there is one program");
        let printed = |words: Vec<OsString>| {
            let (_source, options) = words.split_last().expect("the source is last");
            format!("{:#?}", StepOptions::parse(options).expect("they are right"))
        };
        let built = |options: Result<P4cOptions, String>| format!("{:#?}", options.expect("right"));
        assert_eq!(
            built(steps.preprocess_options()),
            printed(steps.preprocess_words()),
            "{line}"
        );
        assert_eq!(
            built(steps.compile_options()),
            printed(steps.compile_words()),
            "{line}"
        );
    }
}
