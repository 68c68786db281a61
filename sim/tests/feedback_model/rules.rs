//! Each rule against faulty members and restarted switches. With the rule the invariants hold; without it ([`Flaw`]),
//! the checker finds a violation.

use alfirk_aggregation::{Flaw, Strategy};

use super::{
    fails, faulty, holds, lossy, on_tofino, one_switch, ordered, selective, two_switches, Adjust,
};
use crate::fabric::{
    ModelFabric, NEEDS_NO_TIMEOUT, ONLY_WHAT_ALL_HOLD, RECOVERS, WALKS_END, WITHIN_WINDOW,
};
use crate::faulty::{FaultyMember, FaultyTraffic};
use crate::restart::Restart;

const TREE: Strategy = Strategy::Tree;

/// Host 2 sends packets of this kind.
fn with(fabric: ModelFabric, false_reports: u32, traffic: FaultyTraffic) -> ModelFabric {
    fabric.adjust(|fabric| fabric.faulty = Some(faulty(false_reports, traffic)))
}

fn without(fabric: ModelFabric, flaw: Flaw) -> ModelFabric {
    fabric.adjust(|fabric| fabric.flaw = flaw)
}

// ---- NAKs acknowledge no more than all members have ----

fn forged_acknowledgements() -> ModelFabric {
    with(
        lossy(one_switch(2), 2, TREE),
        1,
        FaultyTraffic::Acknowledgements,
    )
}

#[test]
fn forged_acknowledgements_near_the_window_have_no_effect() {
    let fabric = with(
        lossy(one_switch(2), 1, TREE),
        1,
        FaultyTraffic::Acknowledgements,
    );
    holds("any acknowledgement near the window", fabric.clone());
    holds(
        "any acknowledgement near the window, Tofino",
        on_tofino(fabric),
    );
    let fabric = with(
        lossy(one_switch(2), 1, TREE),
        1,
        FaultyTraffic::Acknowledgements,
    );
    holds(
        "any acknowledgement, selective repeat",
        selective(fabric, 1),
    );
}

#[test]
#[ignore = "takes minutes"]
fn full_forged_acknowledgements() {
    holds("any acknowledgement, 2 packets", forged_acknowledgements());
    holds(
        "any acknowledgement, 2 packets, Tofino",
        on_tofino(forged_acknowledgements()),
    );
    let twice = |strategy| {
        let fabric = with(
            lossy(one_switch(2), 1, strategy),
            2,
            FaultyTraffic::Acknowledgements,
        );
        fabric.adjust(|fabric| fabric.walk_timeouts = 0)
    };
    holds("2 acknowledgements, tree", twice(TREE));
    holds("2 acknowledgements, Tofino", on_tofino(twice(TREE)));
    holds(
        "2 acknowledgements, selective repeat",
        selective(twice(TREE), 1),
    );
    let once = |strategy| {
        with(
            lossy(one_switch(2), 1, strategy),
            1,
            FaultyTraffic::Acknowledgements,
        )
    };
    holds("any acknowledgement, walk", once(Strategy::Walk));
    holds("any acknowledgement, punt", once(Strategy::Punt));
    let far = with(
        lossy(two_switches(1, 1), 1, TREE),
        1,
        FaultyTraffic::Acknowledgements,
    );
    holds("any acknowledgement, 2 switches", far);
}

#[test]
fn the_checker_finds_a_forwarded_reserved_nak() {
    let fabric = without(forged_acknowledgements(), Flaw::ReservedNak);
    fails("reserved NAK", fabric, ONLY_WHAT_ALL_HOLD);
}

fn forged_acknowledgements_without_loss() -> ModelFabric {
    with(
        ordered(one_switch(2), 2, TREE),
        1,
        FaultyTraffic::Acknowledgements,
    )
}

#[test]
fn a_forged_acknowledgement_replaces_no_other() {
    holds(
        "any acknowledgement, nothing lost",
        forged_acknowledgements_without_loss(),
    );
    holds(
        "any acknowledgement, nothing lost, Tofino",
        on_tofino(forged_acknowledgements_without_loss()),
    );
}

#[test]
fn the_checker_finds_a_nak_of_an_unsent_packet() {
    let fabric = without(forged_acknowledgements_without_loss(), Flaw::NakOfUnsent);
    fails("NAK of what was not sent", fabric, NEEDS_NO_TIMEOUT);
}

// ---- Aggregated packets have the group's headers ----

fn malformed_headers() -> ModelFabric {
    with(ordered(one_switch(2), 2, TREE), 1, FaultyTraffic::OddAck)
}

#[test]
fn malformed_headers_of_a_member_reach_no_other() {
    holds("odd headers", malformed_headers());
}

#[test]
fn the_checker_finds_an_aggregated_packet_with_a_members_headers() {
    let fabric = without(malformed_headers(), Flaw::KeptHeaders);
    fails("a member's form", fabric, NEEDS_NO_TIMEOUT);
}

// ---- Message sequence numbers ----

fn counts(fabric: ModelFabric, false_reports: u32) -> ModelFabric {
    with(fabric, false_reports, FaultyTraffic::Counts)
        .adjust(|fabric| fabric.counts_messages = true)
}

#[test]
fn forged_msns_are_ignored() {
    holds("forged counts", counts(lossy(one_switch(2), 1, TREE), 1));
}

#[test]
#[ignore = "takes minutes"]
fn full_forged_msns() {
    holds(
        "forged counts, 2 packets",
        counts(lossy(one_switch(2), 2, TREE), 1),
    );
    holds("2 forged counts", counts(lossy(one_switch(2), 1, TREE), 2));
    let far = counts(lossy(two_switches(1, 1), 1, TREE), 1);
    holds("forged counts, 2 switches", far);
    for strategy in [Strategy::Walk, Strategy::Punt] {
        let fabric = counts(lossy(one_switch(2), 1, strategy), 1);
        holds(&format!("forged counts, {strategy:?}"), fabric);
    }
}

#[test]
fn the_checker_finds_a_forwarded_forged_msn() {
    let fabric = counts(lossy(one_switch(2), 1, TREE), 1);
    fails(
        "forged count",
        without(fabric, Flaw::AnyMsn),
        ONLY_WHAT_ALL_HOLD,
    );
}

// ---- Report counts of selective NAKs ----

/// One receiver reports a packet with any count. Two packets are lost: the data packet that the other receiver lacks,
/// and this report on its way to the source. If it arrived, the retransmission would end its effect.
fn reports() -> ModelFabric {
    let fabric = selective(ordered(one_switch(2), 3, TREE), 4);
    with(fabric, 1, FaultyTraffic::Reports).adjust(|fabric| fabric.losses = 2)
}

#[test]
fn forged_report_counts_suppress_no_other_report() {
    holds("forged reports", reports());
}

#[test]
fn the_checker_finds_a_forwarded_forged_report_count() {
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
        traffic: FaultyTraffic::Cnps,
    };
    lossy(one_switch(2), 1, TREE).adjust(|fabric| fabric.faulty = Some(source))
}

#[test]
fn a_cnp_of_the_source_is_not_returned_to_it() {
    holds("the source's CNPs", cnps_of_the_source());
    let member = with(lossy(one_switch(2), 1, TREE), 1, FaultyTraffic::Cnps);
    holds("a member's CNPs", member);
}

#[test]
fn the_checker_finds_a_cnp_returned_to_the_source() {
    let fabric = without(cnps_of_the_source(), Flaw::AnyCnp);
    fails("the source's CNPs", fabric, ONLY_WHAT_ALL_HOLD);
}

// ---- Walks ----

/// One receiver repeats its newest ACK, more often than a walk has passes.
fn repeated_acks() -> ModelFabric {
    let fabric = with(
        ordered(one_switch(2), 1, Strategy::Walk),
        12,
        FaultyTraffic::SameAck,
    );
    fabric.adjust(|fabric| fabric.walk_timeouts = 0)
}

#[test]
fn repeated_acks_do_not_prolong_walks() {
    holds("repeated ACKs", repeated_acks());
}

#[test]
fn the_checker_finds_a_walk_that_does_not_end() {
    let fabric = without(repeated_acks(), Flaw::EqualAckDirties);
    fails("repeated ACKs", fabric, WALKS_END);
}

// ---- Choice of the source, and its window ----

fn first_data() -> ModelFabric {
    with(lossy(one_switch(2), 2, TREE), 2, FaultyTraffic::First)
}

#[test]
fn a_member_that_sends_first_affects_only_itself() {
    holds("first data", first_data());
    holds("first data, Tofino", on_tofino(first_data()));
}

#[test]
fn the_checker_finds_accepted_first_data_of_any_psn() {
    let fabric = without(first_data(), Flaw::AnyFirstPsn);
    fails("first data", fabric, ONLY_WHAT_ALL_HOLD);
}

/// The source skips packets.
fn leap() -> ModelFabric {
    let source = FaultyMember {
        host: 0,
        false_reports: 2,
        traffic: FaultyTraffic::Leap,
    };
    ordered(one_switch(2), 1, TREE).adjust(|fabric| fabric.faulty = Some(source))
}

#[test]
fn a_source_stays_within_its_window() {
    // A source that loses packets which it skips completes nothing.
    holds_what_all_hold("leap", leap());
}

#[test]
fn the_checker_finds_a_source_beyond_its_window() {
    fails("leap", without(leap(), Flaw::NoWindow), WITHIN_WINDOW);
}

/// Asserts that nothing is acknowledged that a member lacks, and that sources stay within their windows. Messages need not
/// complete.
fn holds_what_all_hold(what: &str, fabric: ModelFabric) {
    use stateright::{Checker, Model};
    let checker = fabric.checker().threads(2).spawn_bfs().join();
    println!("{what}: {} states", checker.unique_state_count());
    assert!(checker.discovery(WITHIN_WINDOW).is_none());
    assert!(checker.discovery(ONLY_WHAT_ALL_HOLD).is_none());
}

// ---- A switch that restarts ----

/// Two sources, one after the other; the switch restarts once.
fn restarted(restart: Restart) -> ModelFabric {
    let fabric = lossy(one_switch(2), 1, TREE);
    fabric.adjust(|fabric| {
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
    let longer =
        restarted(Restart::Position).adjust(|fabric| fabric.streams = vec![(0, 2), (1, 1)]);
    holds("restart, 3 packets", longer);
    let far = |below| {
        let fabric = lossy(two_switches(2 - below, below), 1, TREE);
        fabric.adjust(|fabric| {
            fabric.streams = vec![(0, 1), (1, 1)];
            fabric.switch_restarts = 1;
            fabric.restart = Restart::Position;
        })
    };
    holds("restart of one of 2 switches", far(1));
    let with_faulty_member = with(
        restarted(Restart::Position),
        1,
        FaultyTraffic::Acknowledgements,
    );
    // Completion is not claimed: a member that acknowledged a packet which it lacks holds the position back that all members
    // report after the restart, until the controller removes it.
    holds_what_all_hold("restart, and any acknowledgement", with_faulty_member);
}

#[test]
fn the_checker_finds_a_restart_at_the_first_psn() {
    fails(
        "restart at the first PSN",
        restarted(Restart::FirstPsn),
        RECOVERS,
    );
}
