//! Each rule against faulty and hostile members and restarted switches: with the rule the invariants hold, without it ([`Flaw`]) the checker
//! finds what goes wrong.

use alfirk_aggregation::{Flaw, Strategy};

use super::{
    fails, faulty, holds, hostile, kind, on_tofino, one_switch, selective, two_switches, But,
};
use crate::fabric::{
    ModelFabric, NEEDS_NO_TIMEOUT, ONLY_WHAT_ALL_HOLD, RECOVERS, WALKS_END, WITHIN_WINDOW,
};
use crate::faulty::{FaultyMember, Speech};
use crate::restart::Restart;

const TREE: Strategy = Strategy::Tree;

/// Host 2 sends so.
fn with(fabric: ModelFabric, false_reports: u32, speech: Speech) -> ModelFabric {
    fabric.but(|fabric| fabric.faulty = Some(faulty(false_reports, speech)))
}

fn without(fabric: ModelFabric, flaw: Flaw) -> ModelFabric {
    fabric.but(|fabric| fabric.flaw = flaw)
}

// ---- NAKs acknowledge no more than all have ----

fn answers_of_every_kind() -> ModelFabric {
    with(hostile(one_switch(2), 2, TREE), 1, Speech::Answers)
}

#[test]
fn answers_of_every_kind_near_the_window_acknowledge_nothing() {
    let fabric = with(hostile(one_switch(2), 1, TREE), 1, Speech::Answers);
    holds("any answer near the window", fabric.clone());
    holds("any answer near the window, Tofino", on_tofino(fabric));
    let fabric = with(hostile(one_switch(2), 1, TREE), 1, Speech::Answers);
    holds("any answer, selective repeat", selective(fabric, 1));
}

#[test]
#[ignore = "takes minutes"]
fn full_answers_of_every_kind() {
    holds("any answer, 2 packets", answers_of_every_kind());
    holds(
        "any answer, 2 packets, Tofino",
        on_tofino(answers_of_every_kind()),
    );
    let twice = |strategy| {
        let fabric = with(hostile(one_switch(2), 1, strategy), 2, Speech::Answers);
        fabric.but(|fabric| fabric.ages = 0)
    };
    holds("2 answers, tree", twice(TREE));
    holds("2 answers, Tofino", on_tofino(twice(TREE)));
    holds("2 answers, selective repeat", selective(twice(TREE), 1));
    let once = |strategy| with(hostile(one_switch(2), 1, strategy), 1, Speech::Answers);
    holds("any answer, walk", once(Strategy::Walk));
    holds("any answer, punt", once(Strategy::Punt));
    let far = with(hostile(two_switches(1, 1), 1, TREE), 1, Speech::Answers);
    holds("any answer, 2 switches", far);
}

#[test]
fn the_checker_finds_a_reserved_nak_that_passes() {
    let fabric = without(answers_of_every_kind(), Flaw::ReservedNak);
    fails("reserved NAK", fabric, ONLY_WHAT_ALL_HOLD);
}

fn answers_in_a_kind_world() -> ModelFabric {
    with(kind(one_switch(2), 2, TREE), 1, Speech::Answers)
}

#[test]
fn an_answer_of_a_member_takes_no_other_answers_place() {
    holds("any answer, nothing lost", answers_in_a_kind_world());
    holds(
        "any answer, nothing lost, Tofino",
        on_tofino(answers_in_a_kind_world()),
    );
}

#[test]
fn the_checker_finds_a_nak_of_a_packet_that_was_not_sent() {
    let fabric = without(answers_in_a_kind_world(), Flaw::NakOfUnsent);
    fails("NAK of what was not sent", fabric, NEEDS_NO_TIMEOUT);
}

// ---- What a switch merges has the group's form ----

fn odd_headers() -> ModelFabric {
    with(kind(one_switch(2), 2, TREE), 1, Speech::OddAck)
}

#[test]
fn odd_headers_of_a_member_reach_no_other() {
    holds("odd headers", odd_headers());
}

#[test]
fn the_checker_finds_a_merged_packet_of_a_members_form() {
    let fabric = without(odd_headers(), Flaw::KeptHeaders);
    fails("a member's form", fabric, NEEDS_NO_TIMEOUT);
}

// ---- Counts of messages ----

fn counts(fabric: ModelFabric, false_reports: u32) -> ModelFabric {
    with(fabric, false_reports, Speech::Counts).but(|fabric| fabric.counts_messages = true)
}

#[test]
fn forged_counts_of_messages_are_not_believed() {
    holds("forged counts", counts(hostile(one_switch(2), 1, TREE), 1));
}

#[test]
#[ignore = "takes minutes"]
fn full_counts_of_messages() {
    holds(
        "forged counts, 2 packets",
        counts(hostile(one_switch(2), 2, TREE), 1),
    );
    holds(
        "2 forged counts",
        counts(hostile(one_switch(2), 1, TREE), 2),
    );
    let far = counts(hostile(two_switches(1, 1), 1, TREE), 1);
    holds("forged counts, 2 switches", far);
    for strategy in [Strategy::Walk, Strategy::Punt] {
        let fabric = counts(hostile(one_switch(2), 1, strategy), 1);
        holds(&format!("forged counts, {strategy:?}"), fabric);
    }
}

#[test]
fn the_checker_finds_a_forged_count_of_messages() {
    let fabric = counts(hostile(one_switch(2), 1, TREE), 1);
    fails(
        "forged count",
        without(fabric, Flaw::AnyMsn),
        ONLY_WHAT_ALL_HOLD,
    );
}

// ---- Counts of reports ----

/// One receiver reports a packet with any count. Two are lost: the packet that the other one lacks, and this report on its way to the source,
/// for the packet that it brings would end its effect.
fn reports() -> ModelFabric {
    let fabric = selective(kind(one_switch(2), 3, TREE), 4);
    with(fabric, 1, Speech::Reports).but(|fabric| fabric.losses = 2)
}

#[test]
fn forged_counts_of_reports_silence_no_other_report() {
    holds("forged reports", reports());
}

#[test]
fn the_checker_finds_a_forged_count_of_reports() {
    fails(
        "forged reports",
        without(reports(), Flaw::AnyCount),
        NEEDS_NO_TIMEOUT,
    );
}

// ---- Congestion notifications ----

fn cnps_of_the_source() -> ModelFabric {
    let source = FaultyMember {
        host: 0,
        false_reports: 2,
        speech: Speech::Cnps,
    };
    hostile(one_switch(2), 1, TREE).but(|fabric| fabric.faulty = Some(source))
}

#[test]
fn a_cnp_of_the_source_does_not_come_back() {
    holds("the source's CNPs", cnps_of_the_source());
    let member = with(hostile(one_switch(2), 1, TREE), 1, Speech::Cnps);
    holds("a member's CNPs", member);
}

#[test]
fn the_checker_finds_a_cnp_that_comes_back() {
    let fabric = without(cnps_of_the_source(), Flaw::AnyCnp);
    fails("the source's CNPs", fabric, ONLY_WHAT_ALL_HOLD);
}

// ---- Walks ----

/// One receiver repeats its newest ACK: as often as a walk has passes, and more.
fn repeated_acks() -> ModelFabric {
    let fabric = with(kind(one_switch(2), 1, Strategy::Walk), 12, Speech::SameAck);
    fabric.but(|fabric| fabric.ages = 0)
}

#[test]
fn repeated_acks_keep_no_walk_going() {
    holds("repeated ACKs", repeated_acks());
}

#[test]
fn the_checker_finds_a_walk_that_does_not_end() {
    let fabric = without(repeated_acks(), Flaw::EqualAckDirties);
    fails("repeated ACKs", fabric, WALKS_END);
}

// ---- Who is the source, and how far it may be ahead ----

fn first_data() -> ModelFabric {
    with(hostile(one_switch(2), 2, TREE), 2, Speech::First)
}

#[test]
fn a_member_that_sends_first_hurts_only_itself() {
    holds("first data", first_data());
    holds("first data, Tofino", on_tofino(first_data()));
}

#[test]
fn the_checker_finds_first_data_of_any_psn() {
    let fabric = without(first_data(), Flaw::AnyFirstPsn);
    fails("first data", fabric, ONLY_WHAT_ALL_HOLD);
}

/// The source sends what is not the next packet.
fn leap() -> ModelFabric {
    let source = FaultyMember {
        host: 0,
        false_reports: 2,
        speech: Speech::Leap,
    };
    kind(one_switch(2), 1, TREE).but(|fabric| fabric.faulty = Some(source))
}

#[test]
fn a_source_is_ahead_by_a_window_at_most() {
    fails_only_by_its_own_fault("leap", leap());
}

#[test]
fn the_checker_finds_a_source_that_leaps_ahead() {
    fails("leap", without(leap(), Flaw::NoWindow), WITHIN_WINDOW);
}

/// A source that loses what it leaps over completes nothing, and that is its own fault.
fn fails_only_by_its_own_fault(what: &str, fabric: ModelFabric) {
    use stateright::{Checker, Model};
    let checker = fabric.checker().threads(2).spawn_bfs().join();
    println!("{what}: {} states", checker.unique_state_count());
    assert!(checker.discovery(WITHIN_WINDOW).is_none());
    assert!(checker.discovery(ONLY_WHAT_ALL_HOLD).is_none());
}

// ---- A switch that restarts ----

/// Two sources, one after the other; the switch restarts once.
fn restarted(restart: Restart) -> ModelFabric {
    let fabric = hostile(one_switch(2), 1, TREE);
    fabric.but(|fabric| {
        fabric.streams = vec![(0, 1), (1, 1)];
        fabric.switch_restarts = 1;
        fabric.restart = restart;
    })
}

#[test]
fn a_group_survives_the_restart_of_its_switch() {
    holds("restart", restarted(Restart::Position));
}

#[test]
#[ignore = "takes minutes"]
fn full_restart() {
    let longer = restarted(Restart::Position).but(|fabric| fabric.streams = vec![(0, 2), (1, 1)]);
    holds("restart, 3 packets", longer);
    let far = |below| {
        let fabric = hostile(two_switches(2 - below, below), 1, TREE);
        fabric.but(|fabric| {
            fabric.streams = vec![(0, 1), (1, 1)];
            fabric.switch_restarts = 1;
            fabric.restart = Restart::Position;
        })
    };
    holds("restart of one of 2 switches", far(1));
    let with_faulty_member = with(restarted(Restart::Position), 1, Speech::Answers);
    holds("restart, and any answer", with_faulty_member);
}

#[test]
fn the_checker_finds_a_switch_that_restarts_at_the_beginning() {
    fails(
        "restart at the first PSN",
        restarted(Restart::FirstPsn),
        RECOVERS,
    );
}
