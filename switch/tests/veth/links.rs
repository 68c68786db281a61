//! The links service, which a switch serves together with P4Runtime.

use std::time::{Duration, Instant};

use alfirk_p4runtime::alfirk::links::v1::{
    link::Rate, link_change, links_client::LinksClient, ChangeRequest, LinkChange, ListRequest,
    Port,
};
use tokio::runtime::Runtime;
use tonic::{transport::Channel, Code};

use crate::{fixture, forward, net::Wire, process::Process, start, DEADLINE, FAR, NEAR};

/// A client of the service.
pub struct Links<'a> {
    client: LinksClient<Channel>,
    runtime: &'a Runtime,
}

impl Links<'_> {
    pub fn connect<'a>(runtime: &'a Runtime, process: &Process) -> Links<'a> {
        let address = format!("http://{}", process.address());
        let client = runtime.block_on(LinksClient::connect(address)).unwrap();
        Links { client, runtime }
    }

    pub fn list(&mut self, ports: &[u32]) -> Result<Vec<Port>, tonic::Status> {
        let request = ListRequest {
            ports: ports.to_vec(),
        };
        let reply = self.runtime.block_on(self.client.list(request))?;
        Ok(reply.into_inner().ports)
    }

    fn change(&mut self, changes: &[LinkChange]) -> Result<Vec<Port>, tonic::Status> {
        let request = ChangeRequest {
            changes: changes.to_vec(),
        };
        let reply = self.runtime.block_on(self.client.change(request))?;
        Ok(reply.into_inner().ports)
    }
}

/// Time without a frame after which none is expected; many times a frame's latency.
const SILENCE: Duration = Duration::from_millis(200);

fn change(port: u32, change: impl FnOnce(&mut LinkChange)) -> LinkChange {
    let mut link = LinkChange {
        port,
        ..LinkChange::default()
    };
    change(&mut link);
    link
}

pub fn links_change_while_the_switch_runs() {
    let (runtime, process, mut controller) = start(&["--port-rate", "1=1Gbps"]);
    forward(&runtime, &mut controller, 5, 2);
    let (one, two) = (Wire::open(FAR[0]), Wire::open(FAR[1]));
    let mut links = Links::connect(&runtime, &process);

    let ports = links.list(&[]).unwrap();
    assert_eq!(ports.len(), 2);
    assert_eq!((ports[0].number, ports[0].interface.as_str()), (1, NEAR[0]));
    assert!(ports[0].interface_up);
    let rate = ports[0].link.unwrap().rate;
    assert_eq!(rate, Some(Rate::BitsPerSecond(1_000_000_000)));
    assert_eq!(ports[1].link.unwrap(), Default::default());

    let delay = 50_000_000;
    let now = links
        .change(&[change(2, |link| link.delay_ns = Some(delay))])
        .unwrap();
    assert_eq!(now[0].link.unwrap().delay_ns, delay);
    let sent = Instant::now();
    one.send(&fixture::frame(5));
    assert_eq!(two.receive(DEADLINE), Some(fixture::frame(5)));
    assert!(sent.elapsed() >= Duration::from_nanos(delay));

    // Options that are not named do not change.
    let now = links
        .change(&[change(2, |link| link.down = Some(true))])
        .unwrap();
    let link = now[0].link.unwrap();
    assert_eq!((link.delay_ns, link.down), (delay, true));
    one.send(&fixture::frame(5));
    assert_eq!(two.receive(SILENCE), None);

    let restored = change(2, |link| {
        link.down = Some(false);
        link.delay_ns = Some(0);
    });
    links.change(&[restored]).unwrap();
    one.send(&fixture::frame(5));
    assert_eq!(two.receive(DEADLINE), Some(fixture::frame(5)));
    let ports = links.list(&[2]).unwrap();
    let counters = ports[0].counters.unwrap();
    assert_eq!(
        (counters.sent, counters.lost, counters.under_way),
        (2, 1, 0)
    );
    process.stop();
}

pub fn backups_are_used_while_a_link_is_cut() {
    let (runtime, process, mut controller) = start(&[]);
    let group = r#"packet_replication_engine_entry { multicast_group_entry { multicast_group_id: 9
        replicas { port: "\x02" backup_replicas { port: "\x01" } } } }"#;
    let flood = format!(
        r#"table_entry {{ table_id: {} match {{ field_id: 1 exact {{ value: "\x05" }} }}
           action {{ action {{ action_id: {} params {{ param_id: 1 value: "\x09" }} }} }} }}"#,
        fixture::L2,
        fixture::FLOOD
    );
    runtime.block_on(async {
        controller.insert(group).await;
        controller.insert(&flood).await;
    });
    let (one, two) = (Wire::open(FAR[0]), Wire::open(FAR[1]));
    let mut links = Links::connect(&runtime, &process);
    for (down, goes_to) in [(false, &two), (true, &one), (false, &two)] {
        let cut = change(2, |link| link.down = Some(down));
        links.change(&[cut]).unwrap();
        one.send(&fixture::frame(5));
        assert_eq!(goes_to.receive(DEADLINE), Some(fixture::frame(5)), "{down}");
    }
    process.stop();
}

pub fn queued_packets_are_sent_when_a_rate_is_removed() {
    let (runtime, process, mut controller) = start(&["--port-rate", "2=1pps"]);
    forward(&runtime, &mut controller, 5, 2);
    let (one, two) = (Wire::open(FAR[0]), Wire::open(FAR[1]));
    let mut links = Links::connect(&runtime, &process);
    let numbered = |n: u8| [&fixture::frame(5)[..], &[n]].concat();
    for n in 0..10 {
        one.send(&numbered(n));
    }
    let deadline = Instant::now() + DEADLINE;
    while links.list(&[2]).unwrap()[0].counters.unwrap().queued == 0 {
        assert!(Instant::now() < deadline, "frames wait for a slow link");
    }
    let unlimited = link_change::Rate::Unlimited(true);
    links
        .change(&[change(2, |link| link.rate = Some(unlimited))])
        .unwrap();
    one.send(&numbered(10));
    let sent = Instant::now();
    for n in 0..=10 {
        assert_eq!(two.receive(DEADLINE), Some(numbered(n)), "in order");
    }
    assert!(
        sent.elapsed() < Duration::from_secs(8),
        "at 1pps it takes ten"
    );
    process.stop();
}

pub fn invalid_links_change_nothing() {
    let (runtime, process, _controller) = start(&[]);
    let mut links = Links::connect(&runtime, &process);
    let good = change(1, |link| link.loss = Some(0.5));
    let mut refused = |bad: LinkChange, code: Code, why: &str| {
        let status = links.change(&[good, bad]).unwrap_err();
        assert_eq!(status.code(), code, "{status}");
        assert!(status.message().contains(why), "{status}");
        let link = links.list(&[1]).unwrap()[0].link.unwrap();
        assert_eq!(link, Default::default());
    };
    refused(change(9, |_| ()), Code::NotFound, "ports are 1, 2");
    let invalid = Code::InvalidArgument;
    refused(
        change(2, |link| link.loss = Some(-1.0)),
        invalid,
        "port 2: loss",
    );
    refused(
        change(2, |link| link.reorder = Some(0.1)),
        invalid,
        "reorder",
    );
    let stopped = link_change::Rate::PacketsPerSecond(0);
    refused(
        change(2, |link| link.rate = Some(stopped)),
        invalid,
        "at least 1",
    );
    assert_eq!(links.list(&[3]).unwrap_err().code(), Code::NotFound);
    process.stop();
}
