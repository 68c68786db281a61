//! Idle timeouts of entries (P4Runtime § 9.1.9, § 16.3).

use alfirk_p4runtime::{p4::v1::*, Code};

use crate::fixture::*;

const MS: u64 = 1_000_000;

fn idle(f: &mut Fixture) -> Vec<IdleTimeoutNotification> {
    let notification = |message: StreamMessageResponse| match message.update {
        Some(stream_message_response::Update::IdleTimeoutNotification(n)) => n,
        other => panic!("{other:?}"),
    };
    f.server.handle_timeout(f.now);
    f.settle().1.into_iter().map(notification).collect()
}

#[test]
fn an_entry_without_hits_is_reported_once_per_timeout() {
    let mut f = Fixture::new();
    f.insert(&l2(5, 3, "idle_timeout_ns: 10000000")).unwrap();
    assert_eq!(f.server.poll_timeout(), Some(10 * MS));
    f.now = 6 * MS;
    f.packet(1, &frame(5));
    f.now = 10 * MS;
    assert_eq!(idle(&mut f), []);
    assert_eq!(f.server.poll_timeout(), Some(16 * MS));
    f.now = 16 * MS;
    let reported = idle(&mut f);
    assert_eq!(reported.len(), 1);
    assert_eq!(reported[0].timestamp, 16 * MS as i64);
    let Some(entity::Entity::TableEntry(entry)) =
        entity(&l2(5, 3, "idle_timeout_ns: 10000000")).entity
    else {
        unreachable!();
    };
    assert_eq!(reported[0].table_entry, [entry]);
    assert_eq!(f.server.poll_timeout(), Some(26 * MS));
    f.now = 26 * MS;
    assert_eq!(idle(&mut f).len(), 1);
}

#[test]
fn time_since_the_last_hit_is_read() {
    let mut f = Fixture::new();
    f.insert(&l2(5, 3, "")).unwrap();
    f.now = 4 * MS;
    f.packet(1, &frame(5));
    f.now = 7 * MS;
    let read = f.read(&format!(
        "table_entry {{ table_id: {L2} time_since_last_hit {{}} }}"
    ));
    assert_eq!(
        read,
        [entity(&l2(
            5,
            3,
            "time_since_last_hit { elapsed_ns: 3000000 }"
        ))]
    );
}

#[test]
fn tables_without_idle_timeouts_reject_them() {
    let mut f = Fixture::new();
    let entry = format!(
        r#"table_entry {{ table_id: {ROUTES} idle_timeout_ns: 5 action {{ action {{ action_id: {NO_ACTION} }} }} }}"#
    );
    let refusal = f.insert(&entry).unwrap_err();
    assert_eq!(code(&refusal), Code::InvalidArgument);
    assert_eq!(
        refusal.message,
        "idle_timeout_ns must be set to 0 for tables which do not support idle timeout"
    );
    let read = format!("table_entry {{ table_id: {ROUTES} time_since_last_hit {{}} }}");
    assert_eq!(code(&f.try_read(&read).unwrap_err()), Code::InvalidArgument);
}
