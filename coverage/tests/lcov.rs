//! LCOV: what is written is read back, reports are added, and damaged files are errors.

use alfirk_coverage::Report;

const RECORD: &str = "TN:
SF:a.p4
FN:3,start
FNDA:2,start
FNF:1
FNH:1
#branch:4,9,0,true
BRDA:4,9,0,2
#branch:4,9,1,false
BRDA:4,9,1,0
BRF:2
BRH:1
DA:3,2
DA:4,2
DA:5,0
LF:3
LH:2
end_of_record
";

fn parsed(text: &str) -> Report {
    Report::from_lcov(text).unwrap_or_else(|error| panic!("{error}"))
}

#[test]
fn a_report_is_written_as_it_was_read() {
    assert_eq!(parsed(RECORD).to_lcov(), RECORD);
}

#[test]
fn counts_are_added() {
    let mut sum = parsed(RECORD);
    sum.add(&parsed(RECORD)).expect("it is the same version");
    let file = &sum.files["a.p4"];
    assert_eq!(file.lines.values().copied().collect::<Vec<_>>(), [4, 4, 0]);
    assert_eq!(file.missed_lines().collect::<Vec<_>>(), [5]);
    assert_eq!(file.missed_branches().collect::<Vec<_>>(), [(4, "false")]);
}

#[test]
fn another_version_of_a_file_is_an_error() {
    let mut sum = parsed(RECORD);
    let moved = parsed(&RECORD.replace("FN:3", "FN:8"));
    let error = sum.add(&moved).expect_err("the state has moved");
    let message = "a.p4 is another version: start was at line 3, and is at line 8";
    assert_eq!(error.to_string(), message);
    assert_eq!(sum, parsed(RECORD));
}

#[test]
fn damaged_files_are_errors() {
    for (from, to, message) in [
        ("DA:5,0", "DA:five", "line 15 is not LCOV: \"DA:five\""),
        ("SF:a.p4", "", "line 3 is not LCOV: \"FN:3,start\""),
        (
            "end_of_record\n",
            "",
            "line 17 is not LCOV: \"LH:2 (the file ends here)\"",
        ),
    ] {
        let error = Report::from_lcov(&RECORD.replace(from, to)).expect_err(to);
        assert_eq!(error.to_string(), message);
    }
}
