//! Malformed requests: no panic, no endless work, and the server that received them still works.

use alfirk_p4runtime::{
    p4::v1::{set_forwarding_pipeline_config_request::Action, update::Type, *},
    Message,
};
use rand_chacha::ChaCha8Rng;
use rand_core::{Rng, SeedableRng};

use crate::fixture::*;

/// Returns one valid entity of each kind, and some invalid ones.
fn entities() -> Vec<Entity> {
    let acl = format!(
        r#"table_entry {{ table_id: {ACL} priority: 9 match {{ field_id: 1 ternary {{ value: "\x01" mask: "\xff" }} }}
           match {{ field_id: 2 range {{ low: "\x01" high: "\x08" }} }} match {{ field_id: 3 optional {{ value: "\x01" }} }}
           action {{ action {{ action_id: {DROP} }} }} meter_config {{ cir: 1 pir: 2 }} }}"#
    );
    let one_shot = format!(
        r#"table_entry {{ table_id: {ECMP} match {{ field_id: 1 exact {{ value: "\x08\x00" }} }} action {{
           action_profile_action_set {{ action_profile_actions {{ action {{ action_id: {NO_ACTION} }} weight: 2 watch: 3 }} }} }} }}"#
    );
    [
        l2(5, 3, "idle_timeout_ns: 5 counter_data { packet_count: 1 }"),
        acl,
        one_shot,
        format!("table_entry {{ table_id: {L2} is_default_action: true }}"),
        format!("action_profile_member {{ action_profile_id: {SELECTOR} member_id: 1 action {{ action_id: {NO_ACTION} }} }}"),
        format!("action_profile_group {{ action_profile_id: {SELECTOR} group_id: 1 members {{ member_id: 1 weight: 1 }} }}"),
        format!("counter_entry {{ counter_id: {COUNTER} index {{ index: 1 }} data {{ packet_count: 3 }} }}"),
        format!("meter_entry {{ meter_id: {METER} config {{ pir: 5 pburst: 5 }} }}"),
        format!("register_entry {{ register_id: {REGISTER} data {{ bitstring: \"abc\" }} }}"),
        format!("digest_entry {{ digest_id: {DIGEST} config {{ max_timeout_ns: 9 }} }}"),
        format!("value_set_entry {{ value_set_id: {VALUE_SET} members {{ match {{ field_id: 1 exact {{ value: \"ab\" }} }} }} }}"),
        "packet_replication_engine_entry { multicast_group_entry { multicast_group_id: 1 replicas { egress_port: 1 } } }".into(),
        "packet_replication_engine_entry { clone_session_entry { session_id: 1 replicas { port: \"\\x01\" } } }".into(),
        format!("direct_counter_entry {{ table_entry {{ table_id: {L2} }} data {{ byte_count: 4 }} }}"),
        format!("direct_meter_entry {{ table_entry {{ table_id: {ACL} }} config {{ pir: 4 }} }}"),
    ]
    .iter()
    .map(|text| entity(text))
    .collect()
}

/// Changes some bytes; the result is often still a message.
fn damage(bytes: &mut Vec<u8>, random: &mut ChaCha8Rng) {
    for _ in 0..=random.next_u32() % 4 {
        let at = random.next_u32() as usize % bytes.len().max(1);
        match random.next_u32() % 4 {
            0 if !bytes.is_empty() => bytes[at] = random.next_u32() as u8,
            1 if !bytes.is_empty() => bytes[at] ^= 1 << (random.next_u32() % 8),
            2 if !bytes.is_empty() => {
                bytes.remove(at);
            }
            _ => bytes.insert(at.min(bytes.len()), random.next_u32() as u8),
        }
    }
}

/// Checks that the server accepts a primary, a program and an entry, and forwards a frame by it.
fn still_works(f: &mut Fixture) {
    while f.server.poll().is_some() {}
    // At least as high as any election id of a malformed request.
    f.election_id = Some(Uint128 {
        high: u64::MAX,
        low: u64::MAX,
    });
    f.server
        .stream_message(f.primary, arbitration(f.election_id), f.now);
    assert_eq!(f.settle().1.len(), 1, "the primary gets a reply");
    f.set_pipeline(Action::VerifyAndCommit, Some(config()))
        .unwrap();
    f.insert(&l2(5, 3, "")).unwrap();
    assert_eq!(f.ports(1, &frame(5)), [3]);
}

#[test]
fn damaged_updates_and_reads_get_a_reply() {
    let mut random = ChaCha8Rng::seed_from_u64(1);
    let mut f = Fixture::new();
    let entities = entities();
    for round in 0..20_000u32 {
        f.now += 1;
        let mut bytes = entities[round as usize % entities.len()].encode_to_vec();
        if random.next_u32() % 3 > 0 {
            damage(&mut bytes, &mut random);
        }
        let Ok(entity) = Entity::decode(bytes.as_slice()) else {
            continue;
        };
        let kind = [Type::Insert, Type::Modify, Type::Delete][random.next_u32() as usize % 3];
        let read = ReadRequest {
            device_id: DEVICE,
            entities: vec![entity.clone()],
            ..Default::default()
        };
        let update = Update {
            r#type: kind.into(),
            entity: Some(entity),
        };
        let atomicity = write_request::Atomicity::try_from((random.next_u32() % 3) as i32).unwrap();
        // A batch that fails at its end is rolled back.
        let updates = vec![update; 1 + (random.next_u32() % 2) as usize];
        let _ = f.write_all(atomicity, updates);
        let _ = f.server.read(&read, f.now);
        if round % 16 == 0 {
            f.server.handle_timeout(f.now);
            f.packet(1, &frame(round as u8));
        }
    }
    still_works(&mut f);
}

#[test]
fn damaged_pipelines_are_rejected_or_run() {
    let mut random = ChaCha8Rng::seed_from_u64(2);
    let mut f = Fixture::new();
    let whole = config();
    for _ in 0..400 {
        let mut damaged = whole.clone();
        if random.next_u32() % 2 == 0 {
            let mut bytes = p4info().encode_to_vec();
            damage(&mut bytes, &mut random);
            let Ok(info) = Message::decode(bytes.as_slice()) else {
                continue;
            };
            damaged.p4info = Some(info);
        } else {
            let mut program = damaged.p4_device_config.to_vec();
            damage(&mut program, &mut random);
            damaged.p4_device_config = program.into();
        }
        if f.set_pipeline(Action::VerifyAndCommit, Some(damaged))
            .is_ok()
        {
            for entity in entities() {
                let update = Update {
                    r#type: Type::Insert.into(),
                    entity: Some(entity),
                };
                let _ = f.write_all(Default::default(), vec![update]);
            }
            f.packet(1, &frame(5));
        }
    }
    still_works(&mut f);
}

#[test]
fn damaged_stream_messages_get_a_reply() {
    let mut random = ChaCha8Rng::seed_from_u64(3);
    let mut f = Fixture::new();
    let messages = [
        arbitration(id(1)),
        StreamMessageRequest {
            update: Some(stream_message_request::Update::DigestAck(DigestListAck {
                digest_id: DIGEST,
                list_id: 1,
            })),
        },
        StreamMessageRequest {
            update: Some(stream_message_request::Update::Packet(PacketOut {
                payload: frame(5),
                metadata: vec![PacketMetadata {
                    metadata_id: 3,
                    value: vec![1],
                }],
            })),
        },
    ];
    let mut open = Vec::new();
    for round in 0..5_000 {
        let mut bytes = messages[round % messages.len()].encode_to_vec();
        damage(&mut bytes, &mut random);
        let Ok(message) = StreamMessageRequest::decode(bytes.as_slice()) else {
            continue;
        };
        let client = f.server.stream_open();
        f.server.stream_message(client, message, 0);
        match round % 2 {
            0 => f.server.stream_close(client),
            _ => open.push(client),
        }
        while f.server.poll().is_some() {}
    }
    // Clients that disconnect make room for others of their role.
    for client in open {
        f.server.stream_close(client);
    }
    still_works(&mut f);
}
