use super::*;

fn hosts(count: usize) -> Vec<HostIndex> {
    (0..count).map(HostIndex).collect()
}

fn kind(text: &str) -> Kind {
    text.parse().unwrap()
}

fn members(workload: &Workload, phase: usize) -> Vec<Vec<usize>> {
    let flows = workload.phases[phase].flows.iter();
    flows
        .map(|flow| flow.members.iter().map(|host| host.0).collect())
        .collect()
}

#[test]
fn hpl_broadcasts_in_rows_and_then_in_columns() {
    let workload = kind("hpl:grid=2x3,panel=3KiB,swap=1KiB,epochs=2")
        .workload(&hosts(6), 1)
        .unwrap();
    let names: Vec<&str> = workload.phases.iter().map(|p| p.name.as_str()).collect();
    assert_eq!(names, ["PB 1", "RS 1", "PB 2", "RS 2"]);
    assert_eq!(members(&workload, 0), [[0, 1, 2], [3, 4, 5]]);
    assert_eq!(members(&workload, 1), [[0, 3], [1, 4], [2, 5]]);
    // The next process column has the next panel.
    assert_eq!(members(&workload, 2), [[1, 2, 0], [4, 5, 3]]);
    assert_eq!(members(&workload, 3), [[3, 0], [4, 1], [5, 2]]);
    assert_eq!(workload.bytes(), 2 * (2 * 3_072 + 3 * 1_024));
    let by = workload.phases[1].flows[0].by;
    assert_eq!(by.algorithm(Algorithm::Alfirk), Algorithm::Alfirk);
    assert_eq!(by.algorithm(Algorithm::Chain), Algorithm::Long);
}

#[test]
fn grid_of_one_row_has_nothing_to_swap() {
    let workload = kind("hpl:grid=1x4").workload(&hosts(4), 1).unwrap();
    assert_eq!(workload.phases.len(), 1);
    assert_eq!(workload.phases[0].name, "PB");
}

#[test]
fn hpl_messages_shrink_with_the_matrix() {
    let lengths = HplLengths::Matrix { n: 1_000, nb: 100 };
    let first = lengths.lengths_in_epoch(0, 2, 4);
    // The first panel that HPL of hpcc 1.5 sends on such a grid, as traced.
    assert_eq!(first.0, 480_808);
    assert_eq!(first, (8 * (500 * 100 + 100 * 100 + 101), 8 * 100 * 225));
    let last = lengths.lengths_in_epoch(9, 2, 4);
    assert_eq!(last, (8 * (50 * 100 + 100 * 100 + 101), 0));
    assert_eq!(lengths.lengths_in_epoch(10, 2, 4).1, 0);
}

#[test]
fn groups_are_drawn_without_repetition_and_alike_for_a_seed() {
    let kind = kind("groups:count=40,size=7,bytes=64B");
    let workload = kind.workload(&hosts(16), 3).unwrap();
    for members in members(&workload, 0) {
        let mut sorted = members.clone();
        sorted.sort_unstable();
        sorted.dedup();
        assert_eq!(sorted.len(), 7);
        assert!(sorted.iter().all(|host| *host < 16));
    }
    assert_eq!(kind.workload(&hosts(16), 3).unwrap(), workload);
    assert_ne!(kind.workload(&hosts(16), 4).unwrap(), workload);
}

#[test]
fn storage_requests_have_the_given_size() {
    let workload = kind("storage:clients=3,replicas=2,io=4KiB,requests=10,depth=2")
        .workload(&hosts(4), 1)
        .unwrap();
    assert_eq!(workload.flows().count(), 3);
    for (client, flow) in workload.flows().enumerate() {
        assert_eq!((flow.members[0].0, flow.members.len()), (client, 3));
        assert_eq!(
            (flow.bytes, flow.messages, flow.depth),
            (40_960, Some(10), Some(2))
        );
    }
}

#[test]
fn every_server_sends_its_share_to_every_worker() {
    let workload = kind("training:servers=2,workers=3,parameters=1MiB,buckets=4")
        .workload(&hosts(8), 1)
        .unwrap();
    assert_eq!(members(&workload, 0), [[0, 2, 3, 4], [1, 2, 3, 4]]);
    assert_eq!(workload.bytes(), 1 << 20);
}

#[test]
fn pairs_are_a_part_of_a_permutation() {
    let workload = kind("pairs:count=5").workload(&hosts(5), 1).unwrap();
    let pairs = members(&workload, 0);
    for side in [0, 1] {
        let mut ends: Vec<usize> = pairs.iter().map(|pair| pair[side]).collect();
        ends.sort_unstable();
        assert_eq!(ends, [0, 1, 2, 3, 4]);
    }
    assert!(pairs.iter().all(|pair| pair[0] != pair[1]));
}

#[test]
fn sources_of_a_shared_fabric_receive_nothing() {
    let workload = kind("shared:groups=2,size=4,unicasts=3");
    let workload = workload.workload(&hosts(9), 1).unwrap();
    let flows = members(&workload, 0);
    assert_eq!(
        flows.iter().map(Vec::len).collect::<Vec<_>>(),
        [4, 4, 2, 2, 2]
    );
    for (source, members) in flows.iter().enumerate() {
        assert_eq!(members[0], source);
        assert!(members[1..].iter().all(|host| (5..9).contains(host)));
    }
    let by: Vec<FlowAlgorithm> = workload.flows().map(|flow| flow.by).collect();
    assert_eq!(
        by[1..3],
        [
            FlowAlgorithm::Compared,
            FlowAlgorithm::Always(Algorithm::Unicast)
        ]
    );
    assert!(workload.flows().all(|flow| flow.after == 0));
}

#[test]
fn starts_of_groups_and_unicasts_alternate() {
    let after = |text: &str| {
        let workload = kind(text).workload(&hosts(12), 1).unwrap();
        let after: Vec<u64> = workload.flows().map(|flow| flow.after / 1_000).collect();
        after
    };
    let [more, fewer] = [
        "shared:groups=2,unicasts=4,apart=1us",
        "shared:groups=3,unicasts=1,apart=1us",
    ];
    assert_eq!(after(more), [0, 2, 1, 3, 4, 5]);
    assert_eq!(after(fewer), [0, 2, 3, 1]);
}

#[test]
fn flows_that_meet_at_a_receiver_share_it() {
    let workload = kind("shared:groups=2,size=3,unicasts=2,meet=receiver");
    let workload = workload.workload(&hosts(8), 1).unwrap();
    assert!(members(&workload, 0).iter().all(|members| members[1] == 7));
}

#[test]
fn background_loads_every_phase() {
    let mut workload = kind("hpl:grid=2x2").workload(&hosts(5), 1).unwrap();
    let incast = kind("incast:senders=4").workload(&hosts(5), 1).unwrap();
    workload.add_background(&incast);
    assert!(workload
        .phases
        .iter()
        .all(|phase| phase.background.len() == 4));
    assert_eq!(workload.hosts().len(), 5);
}

#[test]
fn every_kind_round_trips() {
    for example in Kind::examples() {
        let text = example
            .replace(",n=16384,nb=128", "")
            .replace(",gflops=1000", "");
        let read = kind(&text);
        assert_eq!(kind(&read.to_string()), read, "{text}");
    }
    for matrix in ["n=16384,nb=128", "n=16384,nb=128,gflops=500"] {
        let matrix = kind(&format!("hpl:grid=4x8,{matrix}"));
        assert_eq!(kind(&matrix.to_string()), matrix);
    }
}

#[test]
fn hpl_computes_the_trailing_matrix_after_each_epoch() {
    let workload = kind("hpl:grid=1x4,n=1000,nb=100,epochs=10,gflops=2");
    let workload = workload.workload(&hosts(4), 1).unwrap();
    let computing = workload
        .phases
        .iter()
        .filter(|phase| phase.flows.is_empty());
    let computing: Vec<u64> = computing.map(|phase| phase.computing).collect();
    assert_eq!(computing.len(), 10);
    let panel = 1_000 * 100 * 100;
    assert_eq!(computing[0], (panel + 2 * 100 * 1_000 * 225) / 2);
    // After the last panel, no trailing matrix is left.
    assert_eq!(computing[9], 100 * 100 * 100 / 2);
    // Four hosts do two thirds of the cube of the order; here one host at a time factors a panel.
    let all: u64 = 2 * computing.iter().sum::<u64>();
    assert!((150_000_000..230_000_000).contains(&all), "{all}");
}

#[test]
fn default_lengths_apply_where_none_is_stated() {
    let bytes = |text: &str| {
        let kind = Kind::read(text, 64).unwrap();
        kind.workload(&hosts(8), 1).unwrap().phases[0].flows[0].bytes
    };
    for text in [
        "groups:count=2,size=3",
        "incast:senders=2",
        "pairs:count=2",
        "hpl:grid=2x2",
        "shared:groups=1",
    ] {
        assert_eq!(bytes(text), 64, "{text}");
    }
    assert_eq!(bytes("groups:bytes=1KiB"), 1_024);
}

#[test]
fn malformed_workloads_are_rejected() {
    let refused = [
        ("hlp:grid=2x2", "there is no workload `hlp`; there are hpl, groups, storage, training, incast, pairs, fairness, shared"),
        ("hpl", "hpl needs grid, such as grid=8x8"),
        ("hpl:grid=8", "grid=8: give rows and columns, as 8x8"),
        ("hpl:grid=0x3", "grid=0x3: give rows and columns, as 8x8"),
        ("hpl:grid=2x2,n=100", "hpl takes either n and nb or panel and swap"),
        ("hpl:grid=2x2,n=100,nb=10,panel=1B", "hpl takes either n and nb or panel and swap"),
        ("hpl:grid=2x2,gflops=1", "hpl: gflops needs n and nb, which determine the number of operations"),
        ("groups:members=3", "groups has no key `members`; its keys are count, size, bytes"),
        ("groups:size=3,size=4", "groups has `size` twice"),
        ("groups:size", "`size` is not of the form KEY=VALUE"),
        ("groups:size=1", "size=1: give at least 2"),
        ("groups:count=0", "count=0: give a number from 1 to 1000000"),
        ("shared:size=1", "size=1: give at least 2"),
        ("shared:meet=here", "meet=here: expected sources or receiver"),
        ("groups:bytes=0B", "bytes=0B: give a size above 0"),
    ];
    for (text, why) in refused {
        assert_eq!(text.parse::<Kind>().unwrap_err().to_string(), why);
    }
    let few = kind("training:servers=2,workers=3").workload(&hosts(4), 1);
    assert_eq!(
        few.unwrap_err().to_string(),
        "training:servers=2,workers=3,parameters=64MiB,buckets=16 needs 5 hosts, and the topology has 4"
    );
}
