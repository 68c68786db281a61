//! Reads in steps (P4Runtime § 13): the result does not depend on the number of steps.

use alfirk_p4runtime::{p4::v1::*, text, Code, Status};

use crate::fixture::*;

/// Reads by steps of `max` entities, with a packet between steps; also counts the steps.
fn read_in_steps(
    f: &mut Fixture,
    filters: &[&str],
    max: usize,
) -> (Vec<Entity>, Result<(), Status>, usize) {
    let request = ReadRequest {
        device_id: DEVICE,
        entities: filters.iter().map(|f| text::parse(f).unwrap()).collect(),
        ..Default::default()
    };
    let mut read = f.server.begin_read(request).unwrap();
    let mut found = Vec::new();
    for steps in 1.. {
        let take = &mut |part: ReadResponse| found.extend(part.entities);
        if let Some(result) = f.server.continue_read(&mut read, max, f.now, take) {
            return (found, result, steps);
        }
        assert_eq!(f.ports(1, &frame(5)), [3]);
    }
    unreachable!()
}

fn filled() -> Fixture {
    let mut f = Fixture::new();
    for destination in 3..7 {
        f.insert(&l2(destination, 3, "")).unwrap();
    }
    f
}

#[test]
fn reads_in_steps_equal_a_single_read() {
    let mut f = filled();
    let filters = [
        "table_entry {}",
        "table_entry { is_default_action: true }",
        "counter_entry {}",
        "table_entry { metadata: \"none has it\" }",
        &format!("table_entry {{ table_id: {L2} }}"),
    ];
    let whole: Vec<Entity> = filters.iter().flat_map(|filter| f.read(filter)).collect();
    let (found, result, steps) = read_in_steps(&mut f, &filters, usize::MAX);
    assert_eq!((result, steps), (Ok(()), 1));
    assert_eq!(found, whole);
    for max in [1, 2, 3, 100] {
        let (found, result, steps) = read_in_steps(&mut f, &filters, max);
        assert_eq!(result, Ok(()));
        assert_eq!(found, whole, "{max} at a time");
        // Three filters process all entries, and no step processes more than `max`.
        assert!(steps >= 3 * 4 / max, "{max} at a time took {steps}");
    }
}

#[test]
fn failing_filters_are_reported_with_the_others_results() {
    let mut f = filled();
    let filters = [
        "table_entry { table_id: 7 }",
        "table_entry {}",
        "meter_entry { meter_id: 7 }",
    ];
    let (found, result, _) = read_in_steps(&mut f, &filters, 3);
    assert_eq!(found, f.read("table_entry {}"));
    let errors = result.unwrap_err().update_errors();
    let codes: Vec<i32> = errors.iter().map(|error| error.canonical_code).collect();
    assert_ne!(codes[0], 0);
    assert_eq!(codes[1], i32::from(Code::Ok));
    assert_ne!(codes[2], 0);
}
