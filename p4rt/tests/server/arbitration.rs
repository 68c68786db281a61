//! Election of the primary, its notifications, and the right to write (P4Runtime § 5).

use alfirk_p4rt::{ClientId, Event, Server};
use alfirk_p4runtime::{p4::v1::*, Code, Status};

use crate::fixture::{arbitration, bare, id, DEVICE};

/// Sends an update and returns the notifications: client, highest election id, status code.
fn update(
    server: &mut Server,
    client: ClientId,
    message: StreamMessageRequest,
) -> Vec<(ClientId, Option<u64>, Code)> {
    server.stream_message(client, message, 0);
    notifications(server)
}

fn notifications(server: &mut Server) -> Vec<(ClientId, Option<u64>, Code)> {
    std::iter::from_fn(|| server.poll())
        .map(|event| match event {
            Event::Stream { client, message } => {
                let Some(stream_message_response::Update::Arbitration(update)) = message.update
                else {
                    panic!("{message:?}");
                };
                assert_eq!(update.device_id, DEVICE);
                let status = update.status.unwrap();
                (
                    client,
                    update.election_id.map(|id| id.low),
                    status.canonical_code(),
                )
            }
            event => panic!("{event:?}"),
        })
        .collect()
}

fn closed(server: &mut Server, client: ClientId, message: StreamMessageRequest) -> Status {
    server.stream_message(client, message, 0);
    loop {
        if let Event::Close {
            client: gone,
            status,
        } = server.poll().expect("the stream is closed")
        {
            assert_eq!(gone, client);
            return status;
        }
    }
}

fn in_role(name: &str, election_id: u64) -> StreamMessageRequest {
    let mut message = arbitration(id(election_id));
    if let Some(stream_message_request::Update::Arbitration(update)) = &mut message.update {
        update.role = Some(Role {
            name: name.into(),
            ..Default::default()
        });
    }
    message
}

fn write(server: &mut Server, role: &str, election_id: Option<Uint128>) -> Code {
    let request = WriteRequest {
        device_id: DEVICE,
        role: role.into(),
        election_id,
        ..Default::default()
    };
    server
        .write(&request, 0)
        .map_or_else(|status| status.canonical_code(), |_| Code::Ok)
}

#[test]
fn the_highest_election_id_is_primary() {
    let mut server = bare();
    let (a, b, c) = (
        server.stream_open(),
        server.stream_open(),
        server.stream_open(),
    );
    assert_eq!(
        update(&mut server, a, arbitration(id(5))),
        [(a, Some(5), Code::Ok)]
    );
    assert_eq!(
        update(&mut server, b, arbitration(id(3))),
        [(b, Some(5), Code::AlreadyExists)]
    );
    // The old primary and the backups are notified before the new one.
    assert_eq!(
        update(&mut server, c, arbitration(id(9))),
        [
            (a, Some(9), Code::AlreadyExists),
            (b, Some(9), Code::AlreadyExists),
            (c, Some(9), Code::Ok)
        ]
    );
}

#[test]
fn a_primary_that_disconnects_is_not_replaced() {
    let mut server = bare();
    let (a, b) = (server.stream_open(), server.stream_open());
    update(&mut server, a, arbitration(id(5)));
    update(&mut server, b, arbitration(id(3)));
    server.stream_close(a);
    assert_eq!(notifications(&mut server), [(b, Some(5), Code::NotFound)]);
    // An id below the highest ever received is not accepted, an equal one is.
    assert_eq!(
        update(&mut server, b, arbitration(id(4))),
        [(b, Some(5), Code::NotFound)]
    );
    assert_eq!(
        update(&mut server, b, arbitration(id(5))),
        [(b, Some(5), Code::Ok)]
    );
}

#[test]
fn a_primary_can_step_down() {
    let mut server = bare();
    let (a, b) = (server.stream_open(), server.stream_open());
    update(&mut server, a, arbitration(id(5)));
    update(&mut server, b, arbitration(id(3)));
    assert_eq!(
        update(&mut server, a, arbitration(id(1))),
        [(a, Some(5), Code::NotFound), (b, Some(5), Code::NotFound)]
    );
}

#[test]
fn a_client_without_election_id_does_not_become_primary() {
    let mut server = bare();
    let a = server.stream_open();
    assert_eq!(
        update(&mut server, a, arbitration(None)),
        [(a, None, Code::NotFound)]
    );
    assert_eq!(write(&mut server, "", None), Code::PermissionDenied);
}

#[test]
fn roles_have_primaries_of_their_own() {
    let mut server = bare();
    let (a, b) = (server.stream_open(), server.stream_open());
    update(&mut server, a, arbitration(id(5)));
    assert_eq!(
        update(&mut server, b, in_role("routes", 5)),
        [(b, Some(5), Code::Ok)]
    );
    // Both pass arbitration and fail at the next check: there is no pipeline yet.
    assert_eq!(write(&mut server, "", id(5)), Code::FailedPrecondition);
    assert_eq!(
        write(&mut server, "routes", id(5)),
        Code::FailedPrecondition
    );
    assert_eq!(write(&mut server, "routes", id(4)), Code::PermissionDenied);
    assert_eq!(write(&mut server, "others", id(5)), Code::NotFound);
}

#[test]
fn only_the_primary_writes() {
    let mut server = bare();
    assert_eq!(write(&mut server, "", id(1)), Code::PermissionDenied);
    let (a, b) = (server.stream_open(), server.stream_open());
    update(&mut server, a, arbitration(id(5)));
    update(&mut server, b, arbitration(id(3)));
    assert_eq!(write(&mut server, "", id(3)), Code::PermissionDenied);
    assert_eq!(write(&mut server, "", None), Code::PermissionDenied);
    server.stream_close(a);
    assert_eq!(write(&mut server, "", id(5)), Code::PermissionDenied);
}

#[test]
fn invalid_updates_close_the_stream() {
    let mut server = bare();
    let (a, b, c) = (
        server.stream_open(),
        server.stream_open(),
        server.stream_open(),
    );
    let mut elsewhere = arbitration(id(1));
    if let Some(stream_message_request::Update::Arbitration(update)) = &mut elsewhere.update {
        update.device_id = 8;
    }
    assert_eq!(
        closed(&mut server, a, elsewhere.clone()).canonical_code(),
        Code::NotFound
    );
    update(&mut server, b, arbitration(id(5)));
    assert_eq!(
        closed(&mut server, c, arbitration(id(5))).canonical_code(),
        Code::InvalidArgument
    );
    assert_eq!(
        closed(&mut server, b, in_role("other", 6)).canonical_code(),
        Code::FailedPrecondition
    );
    let d = server.stream_open();
    update(&mut server, d, arbitration(id(7)));
    assert_eq!(
        closed(&mut server, d, elsewhere).canonical_code(),
        Code::FailedPrecondition
    );
    let e = server.stream_open();
    let mut configured = in_role("x", 1);
    if let Some(stream_message_request::Update::Arbitration(update)) = &mut configured.update {
        update.role.as_mut().unwrap().config = Some(Default::default());
    }
    assert_eq!(
        closed(&mut server, e, configured).canonical_code(),
        Code::InvalidArgument
    );
}

#[test]
fn a_flood_of_streams_is_rejected() {
    let mut server = bare();
    for election_id in 0..256 {
        let client = server.stream_open();
        server.stream_message(client, arbitration(id(1000 - election_id)), 0);
        while server.poll().is_some() {}
    }
    let client = server.stream_open();
    assert_eq!(
        closed(&mut server, client, arbitration(id(1))).canonical_code(),
        Code::ResourceExhausted
    );
}

#[test]
fn a_flood_of_roles_is_rejected() {
    let mut server = bare();
    for n in 0..1024 {
        let client = server.stream_open();
        update(&mut server, client, in_role(&format!("role {n}"), 1));
        server.stream_close(client);
    }
    let client = server.stream_open();
    let one_more = closed(&mut server, client, in_role("one more", 1));
    assert_eq!(one_more.canonical_code(), Code::ResourceExhausted);
    // Existing roles are kept.
    let client = server.stream_open();
    assert_eq!(
        update(&mut server, client, in_role("role 7", 1)),
        [(client, Some(1), Code::Ok)]
    );
    let client = server.stream_open();
    let long = closed(&mut server, client, in_role(&"x".repeat(257), 1));
    assert_eq!(long.canonical_code(), Code::InvalidArgument);
}

#[test]
fn requests_for_other_devices_are_not_found() {
    let mut server = bare();
    let code = |status: Status| status.canonical_code();
    assert_eq!(
        code(server.write(&WriteRequest::default(), 0).unwrap_err()),
        Code::NotFound
    );
    assert_eq!(
        code(server.read(&ReadRequest::default(), 0).unwrap_err()),
        Code::NotFound
    );
    let get = GetForwardingPipelineConfigRequest::default();
    assert_eq!(
        code(server.get_forwarding_pipeline_config(&get).unwrap_err()),
        Code::NotFound
    );
    let of = |device_id| CapabilitiesRequest { device_id };
    assert_eq!(
        code(server.capabilities(&of(8)).unwrap_err()),
        Code::NotFound
    );
    assert_eq!(
        server.capabilities(&of(0)).unwrap().p4runtime_api_version,
        "1.5.0"
    );
    assert_eq!(
        server
            .capabilities(&of(DEVICE))
            .unwrap()
            .p4runtime_api_version,
        "1.5.0"
    );
}
