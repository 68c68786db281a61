//! The ICRC constants in the entries keep the ICRC of real packets valid, from any member to any other.

use alfirk_roce::icrc;
use proptest::prelude::*;

use super::super::bridge::{BridgeParameters, Bridges, GroupMember};
use super::super::capacity::Allocation;
use super::super::group::{Group, GroupPart};
use super::*;
use crate::constants::{VIRTUAL_RKEY, VIRTUAL_VA};
use crate::strategy::Strategies;
use crate::tables::Program;
use crate::topology::testbed;
use crate::tree::Tree;

/// IPv4, UDP, BTH and, for opcodes that have one, RETH; then the payload.
fn packet(
    src: Ipv4Addr,
    dst: Ipv4Addr,
    opcode: u8,
    psn: u32,
    random: u32,
    payload: &[u8],
) -> Vec<u8> {
    let has_reth = [0x06, 0x0a, 0x0b].contains(&opcode);
    let len = 20 + 8 + 12 + if has_reth { 16 } else { 0 } + payload.len() + 4;
    let mut p = vec![0x45, 2];
    p.extend(u16::try_from(len).unwrap().to_be_bytes());
    p.extend((random as u16).to_be_bytes());
    p.extend([0x40, 0, 64, 17, 0, 0]);
    p.extend(src.octets());
    p.extend(dst.octets());
    p.extend((0xc000 | (random >> 16) as u16).to_be_bytes());
    p.extend(4791u16.to_be_bytes());
    p.extend(u16::try_from(len - 20).unwrap().to_be_bytes());
    p.extend([0, 0]);
    p.extend([opcode, 0, 0xff, 0xff]);
    p.extend(VIRTUAL_QPN.get().to_be_bytes());
    p.extend((0x8000_0000 | psn).to_be_bytes());
    if has_reth {
        p.extend((VIRTUAL_VA + 0x120).to_be_bytes());
        p.extend(VIRTUAL_RKEY.to_be_bytes());
        p.extend(u32::try_from(payload.len()).unwrap().to_be_bytes());
    }
    p.extend(payload);
    p
}

fn xor(packet: &mut [u8], at: usize, bytes: &[u8]) {
    for (byte, x) in packet[at..].iter_mut().zip(bytes) {
        *byte ^= x;
    }
}

/// Parameters of an entry's action, in order.
fn params(entry: &alfirk_p4runtime::p4::v1::Update) -> Vec<u64> {
    use alfirk_p4runtime::p4::v1::{entity::Entity, table_action::Type};
    let Some(Entity::TableEntry(entry)) = entry.entity.clone().and_then(|e| e.entity) else {
        panic!("a table entry was expected");
    };
    let Some(Type::Action(action)) = entry.action.and_then(|a| a.r#type) else {
        panic!("an action was expected");
    };
    let number = |bytes: &[u8]| bytes.iter().fold(0, |n, b| n << 8 | u64::from(*b));
    action.params.iter().map(|p| number(&p.value)).collect()
}

proptest! {
    #[test]
    fn bridged_packets_keep_their_icrc(
        qpns in proptest::collection::vec(1u32..1 << 24, 4),
        vas in proptest::collection::vec(any::<u64>(), 4),
        rkeys in proptest::collection::vec(any::<u32>(), 4),
        mcst in 1u32..65_535,
        opcode in prop::sample::select(vec![0x00u8, 0x04, 0x06, 0x07, 0x0a, 0x0b]),
        psn in 0u32..1 << 24,
        random: u32,
        payload in proptest::collection::vec(any::<u8>(), 0..300),
    ) {
        let payload = &payload[..payload.len() / 4 * 4];
        let topology = testbed();
        let program = Program::resolve(&p4info::p4info()).unwrap();
        let members: Vec<GroupMember> = topology.host_indexes().map(|host| GroupMember {
            host,
            mac: topology.host(host).mac,
            spec: MemberSpec {
                ip: topology.host(host).ip,
                qpn: QpNum::new(qpns[host.0]),
                region: Some(MemoryRegion { va: vas[host.0] & !0xfff, rkey: rkeys[host.0], len: 0x1000 }), may_send: true },
        }).collect();
        let hosts: Vec<_> = members.iter().map(|m| m.host).collect();
        let paths = Paths::new(&topology);
        let loads = PortLoads::default();
        let view = crate::tree::View { topology: &topology, paths: &paths, loads: &loads };
        let tree = Tree::grow(&crate::tree::Planner::ReuseLeastLoaded, &view, &hosts);
        let allocation = Allocation {
            index: 0,
            slots: (1..=4).zip(0..).collect(),
        };
        let mcst_id = Ipv4Addr::from(0x0aff_0000 | mcst);
        let terms = BridgeParameters::new(mcst_id, VIRTUAL_QPN, Strategies::default());
        let bridges = Bridges::solve(&terms, &members).unwrap();
        let on = GroupPart::new(&topology, SwitchIndex(0), &allocation, 1..=4, &bridges);
        let group = Group {
            retry_timeout: alfirk_roce::registration::RetryTimeout::UNKNOWN,
            mcst_id,
            virtual_qpn: VIRTUAL_QPN,
            is_in_band: false,
            initial_psn: Psn::new(0),
            position: super::super::position::Position::before(Psn::new(1)),
            strategies: Strategies::default(),
            source: None,
            members: members.clone(),
            tree,
            parts: vec![on.clone()],
        };
        let updates = group.entries(&program, &on);
        // Order of the updates: four receivers, the multicast group, four members.
        let (deliveries, entries) = (&updates[..4], &updates[5..9]);

        for (from, entry) in members.iter().zip(entries) {
            for (to, delivery) in members.iter().zip(deliveries) {
                let mut p = packet(from.spec.ip, group.mcst_id, opcode, psn, random, payload);
                let sent = icrc::compute(&p).unwrap();

                let entry = params(entry);
                p[12..16].copy_from_slice(&group.mcst_id.octets());
                xor(&mut p, 4, &(entry[0] as u16).to_be_bytes());
                xor(&mut p, 20, &(entry[1] as u16).to_be_bytes());
                prop_assert_eq!(icrc::compute(&p).unwrap(), sent);

                let d = params(delivery);
                let has_reth = [0x06, 0x0a, 0x0b].contains(&opcode);
                p[16..20].copy_from_slice(&(d[1] as u32).to_be_bytes());
                p[33..36].copy_from_slice(&(d[2] as u32).to_be_bytes()[1..]);
                let (id, port) = if has_reth { (d[5], d[6]) } else { (d[3], d[4]) };
                xor(&mut p, 4, &(id as u16).to_be_bytes());
                xor(&mut p, 20, &(port as u16).to_be_bytes());
                if has_reth {
                    xor(&mut p, 40, &d[7].to_be_bytes());
                    xor(&mut p, 48, &(d[8] as u32).to_be_bytes());
                    let region = to.spec.region.unwrap();
                    prop_assert_eq!(&p[40..48], &(region.va + 0x120).to_be_bytes()[..]);
                    prop_assert_eq!(&p[48..52], &region.rkey.to_be_bytes()[..]);
                }
                prop_assert_eq!(icrc::compute(&p).unwrap(), sent);
                prop_assert_eq!(&p[16..20], &to.spec.ip.octets()[..]);
            }
        }
    }
}
