//! Handling of acknowledgements and requests that no correct peer or switch sends.

use alfirk_roce::rc::{LossReports, MsnRule, NakRule, RcConfig, Recovery, Violations};

use crate::conversation::{config, converse, converse_from};
use alfirk_roce::wire::Psn;

// ---- Requester ----

#[test]
fn ack_with_an_msn_beyond_the_messages_sent_acknowledges_by_its_psn() {
    let stats = converse(
        config(),
        "post send len=1
         < SendOnly 0 len=1 ack
         post send len=1
         < SendOnly 1 len=1 ack
         > Ack 0 msn=3
         ! Send #0: 1 bytes
         > Nak 1 msn=3
         < SendOnly 1 len=1 ack
         > Ack 1 msn=16777215
         ! Send #1: 1 bytes
         post send len=1
         < SendOnly 2 len=1 ack
         > Ack 2 msn=3
         ! Send #2: 1 bytes",
    );
    assert_eq!(stats.violations.msn_beyond_sent, 3);
    assert_eq!(stats.violations.total(), 3);
    assert_eq!(stats.inexact_msns, 0);
}

/// Credits are counted from the MSN, or from the number that the PSN implies if the MSN is implausible.
#[test]
fn credits_with_an_implausible_msn_are_counted_from_the_psn() {
    let stats = converse(
        config(),
        "post send len=1
         < SendOnly 0 len=1 ack
         > Ack 0 msn=9 credits=1
         ! Send #0: 1 bytes
         post send len=1
         < SendOnly 1 len=1 ack
         post send len=1
         > Ack 1 msn=9 credits=1
         < SendOnly 2 len=1 ack
         ! Send #1: 1 bytes
         > Ack 2 msn=3
         ! Send #2: 1 bytes",
    );
    assert_eq!(stats.violations.msn_beyond_sent, 2);
}

#[test]
fn smaller_msn_with_a_larger_psn_is_counted() {
    let stats = converse(
        config(),
        "post send len=1
         < SendOnly 0 len=1 ack
         post send len=1
         < SendOnly 1 len=1 ack
         post send len=1
         < SendOnly 2 len=1 ack
         > Ack 1 msn=2
         ! Send #0: 1 bytes
         ! Send #1: 1 bytes
         > Ack 0 msn=1
         > Ack 2 msn=1
         ! Send #2: 1 bytes
         post send len=1
         < SendOnly 3 len=1 ack
         > Ack 3 msn=4
         ! Send #3: 1 bytes",
    );
    assert_eq!(stats.violations.msn_went_back, 1);
    assert_eq!(stats.violations.total(), 1);
    assert_eq!(stats.stale_acks, 1, "a reordered ACK is not a violation");
}

/// Linux rxe restarts its MSN at 0 when its PSN is set, as at a change of the source of a group.
#[test]
fn msns_of_devices_may_restart() {
    let restarts = RcConfig {
        msn_rule: MsnRule::Restarts,
        ..config()
    };
    let stats = converse(
        restarts,
        "post send len=1
         < SendOnly 0 len=1 ack
         > Ack 0 msn=1
         ! Send #0: 1 bytes
         post send len=1
         < SendOnly 1 len=1 ack
         > Ack 1 msn=0
         ! Send #1: 1 bytes
         post send len=1
         < SendOnly 2 len=1 ack
         > Ack 2 msn=77
         ! Send #2: 1 bytes",
    );
    assert_eq!(stats.violations.total(), 0);
    assert_eq!(stats.inexact_msns, 2);
}

#[test]
fn inexact_msns_are_counted() {
    let script = |first: u32| {
        format!(
            "post send len=300
             < SendFirst 0 len=256
             < SendLast 1 len=44 ack
             post send len=1
             < SendOnly 2 len=1 ack
             > Ack 1 msn={first}
             ! Send #0: 300 bytes
             > Ack 2 msn=2
             ! Send #1: 1 bytes"
        )
    };
    assert_eq!(converse(config(), &script(1)).inexact_msns, 0);
    let late = converse(config(), &script(0));
    assert_eq!((late.inexact_msns, late.violations.total()), (1, 0));
}

#[test]
fn new_source_continues_the_groups_psns_and_msns() {
    let stats = converse_from(
        Psn::new(0xff_ffff),
        config(),
        "recv len=9
         > SendOnly 16777215 len=1 ack
         < Ack 16777215 msn=1
         ! Receive #0: 1 bytes
         take-over
         post send len=1
         < SendOnly 0 len=1 ack
         > Ack 0 msn=1
         ! Send #1: 1 bytes
         post send len=1
         < SendOnly 1 len=1 ack
         > Ack 1 msn=3
         ! Send #2: 1 bytes",
    );
    assert_eq!(stats.violations.total(), 0);
}

#[test]
fn ack_of_an_unsent_psn_is_dropped() {
    let stats = converse(
        config(),
        "post send len=1
         < SendOnly 0 len=1 ack
         > Ack 1
         > Nak 1
         > Rnr 9
         > AccessNak 2
         > Ack 0
         ! Send #0: 1 bytes
         > Ack 0
         > Ack 1",
    );
    assert_eq!(stats.violations.psn_beyond_sent, 5);
    assert_eq!(stats.violations.total(), 5);
}

#[test]
fn malformed_acknowledgements_are_dropped() {
    let stats = converse(
        config(),
        "post send len=1
         < SendOnly 0 len=1 ack
         > Ack 0 len=4
         > ReadResponseMiddle 0 len=256
         > AtomicAcknowledge 0
         > Cnp 0
         > Ack 0
         ! Send #0: 1 bytes",
    );
    let expected = Violations {
        bad_ack_length: 1,
        bad_opcode: 3,
        ..Violations::default()
    };
    assert_eq!(stats.violations, expected);
}

/// As in Linux rxe (`check_psn`, `check_ack`): the PSN completes the packets before it, then the syndrome fails the rest.
#[test]
fn every_reserved_syndrome_acknowledges_the_packets_before_its_psn_and_is_fatal() {
    let known = |syndrome: u16| matches!(syndrome, 0..=0x3f | 0x60..=0x63);
    for syndrome in (0..=255u16).filter(|&syndrome| !known(syndrome)) {
        let script = format!(
            "post send len=1
             < SendOnly 0 len=1 ack
             post send len=1
             < SendOnly 1 len=1 ack
             post send len=1
             < SendOnly 2 len=1 ack
             > Acknowledge 1 syndrome={syndrome} msn=0
             ! Send #0: 1 bytes
             ! Send #1: the remote side reported an operational error
             ! Send #2: flushed: the queue pair failed before the request completed
             ! requester: the remote side reported an operational error"
        );
        let stats = converse(config(), &script);
        let expected = Violations {
            bad_syndrome: 1,
            ..Violations::default()
        };
        // An MSN that does not match the PSN is not a separate violation.
        assert_eq!(stats.violations, expected, "{syndrome:#x}");
    }
}

#[test]
fn every_nak_acknowledges_the_packets_before_its_psn() {
    let again = "< SendOnly 2 len=1 ack";
    let done = "! Send #0: 1 bytes
                ! Send #1: 1 bytes";
    for reply in [
        format!("> Nak 2 msn=2\n{again}\n{done}"),
        format!("> Rnr 2 msn=2\n{done}\n@ 10us\n{again}"),
    ] {
        converse(
            config(),
            &format!(
                "post send len=1
                 < SendOnly 0 len=1 ack
                 post send len=1
                 < SendOnly 1 len=1 ack
                 post send len=1
                 < SendOnly 2 len=1 ack
                 {reply}
                 > Ack 2 msn=3
                 ! Send #2: 1 bytes"
            ),
        );
    }
}

fn selective(loss_reports: LossReports) -> RcConfig {
    RcConfig {
        recovery: Recovery::SelectiveRepeat,
        loss_reports,
        ..config()
    }
}

/// 0x7f is the selective NAK. From a group's switches its PSN is one past the last acknowledged, and the MSN field holds the lost PSN.
#[test]
fn merged_selective_nak_names_the_lost_packet_in_its_msn_field() {
    let stats = converse(
        selective(LossReports::Merged),
        "post send len=768
         < SendFirst 0 len=256
         < SendMiddle 1 len=256
         < SendLast 2 len=256 ack
         @ 10us
         > Acknowledge 0 syndrome=127 msn=1
         < SendMiddle 1 len=256 ack
         > Acknowledge 1 syndrome=127 msn=2
         < SendLast 2 len=256 ack
         > Ack 2 msn=1
         ! Send #0: 768 bytes",
    );
    assert_eq!((stats.naks_received, stats.retransmissions), (2, 2));
    assert_eq!(stats.violations.total(), 0);
}

/// A lost PSN that was acknowledged is stale; one that was never sent is a violation.
#[test]
fn merged_selective_nak_of_a_packet_that_is_not_outstanding_is_dropped() {
    let stats = converse(
        selective(LossReports::Merged),
        "post send len=1
         < SendOnly 0 len=1 ack
         > Ack 0 msn=1
         ! Send #0: 1 bytes
         post send len=1
         < SendOnly 1 len=1 ack
         > Acknowledge 1 syndrome=127 msn=0
         > Acknowledge 1 syndrome=127 msn=2
         > Ack 1 msn=2
         ! Send #1: 1 bytes",
    );
    assert_eq!((stats.stale_acks, stats.violations.psn_beyond_sent), (1, 1));
    assert_eq!(stats.retransmissions, 0);
}

/// Several receivers may report the same loss: the packet is resent once per round trip.
#[test]
fn packet_is_resent_at_most_once_per_round_trip() {
    let stats = converse(
        selective(LossReports::Merged),
        "post send len=1
         < SendOnly 0 len=1 ack
         @ 20us
         > Ack 0 msn=1
         ! Send #0: 1 bytes
         post send len=512
         < SendFirst 1 len=256
         < SendLast 2 len=256 ack
         @ 20us
         > Acknowledge 1 syndrome=127 msn=1
         < SendFirst 1 len=256 ack
         > Acknowledge 1 syndrome=127 msn=1
         @ 19us
         > Acknowledge 1 syndrome=127 msn=1
         @ 1us
         > Acknowledge 1 syndrome=127 msn=1
         < SendFirst 1 len=256 ack
         > Ack 2 msn=2
         ! Send #1: 512 bytes",
    );
    assert_eq!(stats.naks_received, 4);
}

/// Directly from a responder the PSN is that of the lost packet, and nothing is acknowledged.
#[test]
fn direct_selective_nak_acknowledges_nothing() {
    let stats = converse(
        selective(LossReports::Direct),
        "post send len=1
         < SendOnly 0 len=1 ack
         post send len=1
         < SendOnly 1 len=1 ack
         post send len=1
         < SendOnly 2 len=1 ack
         > Acknowledge 1 syndrome=127 msn=1
         < SendOnly 1 len=1 ack
         > Acknowledge 1 syndrome=127 msn=1
         > Acknowledge 1 syndrome=127 msn=2
         < SendOnly 1 len=1 ack
         > Ack 2 msn=3
         ! Send #0: 1 bytes
         ! Send #1: 1 bytes
         ! Send #2: 1 bytes",
    );
    assert_eq!(stats.violations.total(), 0);
}

#[test]
fn without_credit_a_message_is_sent_packet_by_packet() {
    converse(
        config(),
        "post send len=1
         < SendOnly 0 len=1 ack
         > Ack 0 msn=1 credits=1
         ! Send #0: 1 bytes
         post send len=1
         < SendOnly 1 len=1 ack
         post send len=300
         > Ack 1 msn=2 credits=0
         < SendFirst 2 len=256 ack
         ! Send #1: 1 bytes
         > Ack 2 msn=2 credits=1
         < SendLast 3 len=44 ack
         > Ack 3 msn=3 credits=0
         ! Send #2: 300 bytes
         post write len=300
         < WriteFirst 4 len=256 va=4096 dma=300
         < WriteLast 5 len=44 ack
         post send len=1
         > Ack 5 msn=4
         < SendOnly 6 len=1 ack
         ! Write #3: 300 bytes",
    );
}

#[test]
fn second_nak_waits_for_an_ack_with_the_rule_of_linux_rxe() {
    let rule = |nak_rule| RcConfig {
        nak_rule,
        ..config()
    };
    let start = "post send len=1024
         < SendFirst 0 len=256
         < SendMiddle 1 len=256
         < SendMiddle 2 len=256
         < SendLast 3 len=256 ack
         > Nak 1
         < SendMiddle 1 len=256
         < SendMiddle 2 len=256
         < SendLast 3 len=256 ack
         > Nak 1
         > Nak 2";
    let again = "< SendMiddle 2 len=256
         < SendLast 3 len=256 ack";
    let end = "> Ack 3 msn=1
         ! Send #0: 1024 bytes";
    converse(
        rule(NakRule::EachGap),
        &format!("{start}\n{again}\n> Nak 2\n{end}"),
    );
    converse(
        rule(NakRule::OncePerAck),
        &format!("{start}\n@ 1048us\n@ 1us\n{again}\n> Nak 3\n< SendLast 3 len=256 ack\n{end}"),
    );
}

// ---- Responder ----

#[test]
fn invalid_requests_are_counted_by_kind() {
    let counts = |request: &str| {
        let script = format!(
            "> WriteFirst 0 len=256 dma=400
             > {request}
             < Nak InvalidRequest 1 msn=0
             ! responder: rejected a request of the remote side (InvalidRequest)"
        );
        let v = converse(config(), &script).violations;
        (v.bad_sequence, v.bad_length, v.total())
    };
    assert_eq!(counts("WriteOnly 1 len=1"), (1, 0, 1));
    assert_eq!(counts("SendLast 1 len=144"), (1, 0, 1));
    assert_eq!(counts("ReadRequest 1"), (1, 0, 1));
    assert_eq!(counts("WriteLast 1 len=143"), (0, 1, 1));
    assert_eq!(counts("WriteMiddle 1 len=255"), (0, 1, 1));
    let refused = converse(
        config(),
        "> WriteOnly 0 len=1 rkey=7
         < Nak RemoteAccessError 0 msn=0
         ! responder: rejected a request of the remote side (RemoteAccessError)",
    );
    assert_eq!(refused.violations.bad_access, 1);
}

#[test]
fn write_of_zero_bytes_needs_no_valid_address_or_key() {
    let stats = converse(
        config(),
        "> WriteOnly 0 len=0 rkey=12345 at=99999 ack
         < Ack 0 msn=1
         > WriteOnlyImm 1 len=0 rkey=1 ack
         < Rnr 12 1 msn=1
         recv len=0
         > WriteOnlyImm 1 len=0 rkey=1 ack
         < Ack 1 msn=2
         ! ReceiveWrite #0: 0 bytes",
    );
    assert_eq!(stats.violations.total(), 0);
}

#[test]
fn loss_and_duplicates_are_not_violations() {
    let stats = converse(
        config(),
        "recv len=1024
         > SendMiddle 1 len=256
         < Nak PsnSequenceError 0 msn=0
         > SendFirst 0 len=256
         > SendFirst 0 len=256 ack
         < Ack 0 msn=0
         > SendLast 1 len=256 ack
         < Ack 1 msn=1
         ! Receive #0: 512 bytes
         > Ack 16777215
         > Nak 16777215",
    );
    assert_eq!(stats.violations.total(), 0);
}

// ---- A group's ends ----

#[test]
fn ends_of_a_group_alternate_as_source_with_shared_psns_and_msns() {
    let stats = converse(
        config(),
        "recv len=512
         > SendFirst 0 len=256
         > SendLast 1 len=256 ack
         < Ack 1 msn=1
         ! Receive #0: 512 bytes
         take-over
         post send len=257
         < SendFirst 2 len=256
         < SendLast 3 len=1 ack
         expect-next
         recv len=1
         > SendOnly 4 len=1 ack
         < Ack 4 msn=3
         ! Send #1: 257 bytes
         ! Receive #2: 1 bytes
         > Ack 3 msn=2
         > Ack 4 msn=3
         > Nak 5 msn=3
         > Ack 5 msn=3",
    );
    // The next source's requests acknowledge this one's; acknowledgements for it may be routed here.
    assert_eq!(stats.stale_acks, 3);
    assert_eq!(stats.violations.psn_beyond_sent, 1);
    assert_eq!(stats.violations.total(), 1);
    assert_eq!(stats.inexact_msns, 0);
}

#[test]
fn concluded_sends_complete_without_an_ack() {
    let stats = converse(
        config(),
        "post send len=1024
         < SendFirst 0 len=256
         < SendMiddle 1 len=256
         < SendMiddle 2 len=256
         < SendLast 3 len=256 ack
         > Nak 2
         < SendMiddle 2 len=256
         < SendLast 3 len=256 ack
         expect-next
         conclude
         ! Send #0: 1024 bytes
         > Ack 3 msn=1
         > Nak 3
         @ 5000us
         recv len=1
         > SendOnly 4 len=1 ack
         < Ack 4 msn=2
         ! Receive #1: 1 bytes
         take-over
         post send len=1
         < SendOnly 5 len=1 ack
         > Ack 5 msn=3
         ! Send #2: 1 bytes",
    );
    assert_eq!(stats.violations.total(), 0);
    assert_eq!(stats.stale_acks, 2);
}

/// Switches acknowledge a former source, and they may hold an MSN from before the change.
#[test]
fn a_former_source_may_get_an_older_msn() {
    let script = |next: &str| {
        format!(
            "recv len=1
             > SendOnly 0 len=1 ack
             < Ack 0 msn=1
             ! Receive #0: 1 bytes
             take-over
             post send len=257
             < SendFirst 1 len=256
             < SendLast 2 len=1 ack
             {next}
             > Ack 1 msn=0
             > Ack 2 msn=2
             ! Send #1: 257 bytes"
        )
    };
    let before = converse(config(), &script("expect-next"));
    assert_eq!((before.violations.total(), before.inexact_msns), (0, 1));
    // The present source gets the newest MSN that the fabric has sent, or a newer one.
    let now = converse(config(), &script(""));
    assert_eq!(now.violations.msn_went_back, 1);
}
