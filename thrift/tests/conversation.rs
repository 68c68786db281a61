//! Tests of a client with a server over a TCP socket.

use std::{
    io::{Read, Write},
    net::{TcpListener, TcpStream},
    thread,
};

use alfirk_thrift::{
    simple_switch,
    standard::{
        self, BmAddEntryOptions, BmMatchParam, BmMatchParamExact, InvalidTableOperation,
        TableOperationErrorCode,
    },
    Call, Connection, Failure, Incoming, Reply, Requests,
};

/// Starts a server that replies with `handler` until the client closes the connection. The server's thread returns the
/// received requests.
fn start_server(
    handler: impl Fn(&Call) -> Reply + Send + 'static,
) -> (TcpStream, thread::JoinHandle<Vec<Call>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let server = thread::spawn(move || {
        let (stream, _) = listener.accept().unwrap();
        let mut requests = Requests::new(&stream, &stream);
        let mut requests_seen = Vec::new();
        while let Ok(Incoming::Request(ticket, call)) = requests.receive() {
            requests.send_reply(&ticket, &handler(&call)).unwrap();
            requests_seen.push(*call);
        }
        requests_seen
    });
    (stream, server)
}

#[test]
fn arguments_and_results_are_transferred_unchanged() {
    let (stream, server) = start_server(|_| Reply::Standard(standard::Reply::BmMtAddEntry(Ok(7))));
    let key = vec![BmMatchParam {
        exact: Some(BmMatchParamExact {
            key: vec![0, 255, 128],
        }),
        ..Default::default()
    }];
    let options = BmAddEntryOptions { priority: Some(3) };
    let mut connection = Connection::over(stream).unwrap();
    let handle = connection
        .standard()
        .bm_mt_add_entry(0, "t", key.clone(), "a", vec![vec![9]], options.clone())
        .unwrap();
    assert_eq!(handle, 7);
    drop(connection);
    let call = standard::Call::BmMtAddEntry(standard::BmMtAddEntry {
        cxt_id: 0,
        table_name: "t".into(),
        match_key: key,
        action_name: "a".into(),
        action_data: vec![vec![9]],
        options,
    });
    assert_eq!(server.join().unwrap(), [Call::Standard(call)]);
}

#[test]
fn exceptions_are_transferred_with_their_code() {
    let exception = InvalidTableOperation {
        code: TableOperationErrorCode::DuplicateEntry,
    };
    let handler = exception.clone();
    let (stream, _server) = start_server(move |_| {
        Reply::Standard(standard::Reply::BmMtDeleteEntry(Err(handler.clone())))
    });
    let mut connection = Connection::over(stream).unwrap();
    let failure = connection.standard().bm_mt_delete_entry(0, "t", 1);
    match failure.unwrap_err() {
        Failure::Refused(error) => {
            assert_eq!(error, exception);
            assert_eq!(error.to_string(), "DUPLICATE_ENTRY");
        }
        other => panic!("{other}"),
    }
}

#[test]
fn an_unknown_method_is_rejected_and_the_connection_stays_open() {
    let (mut stream, _server) =
        start_server(|_| Reply::SimpleSwitch(simple_switch::Reply::GetTimeElapsedUs(5)));
    for (name, kind, end) in [
        // A field to be skipped, and "unknown method" (1) as the exception's type.
        ("standard:nothing", 3, &[8u8, 0, 1, 0, 0, 0, 0, 0][..]),
        ("simple_switch:get_time_elapsed_us", 2, &[0][..]),
    ] {
        let mut message = vec![0x80, 1, 0, 1];
        message.extend((name.len() as u32).to_be_bytes());
        message.extend(name.as_bytes());
        message.extend(9u32.to_be_bytes());
        message.extend(end);
        stream.write_all(&message).unwrap();
        let mut head = [0; 4];
        stream.read_exact(&mut head).unwrap();
        assert_eq!(head, [0x80, 1, 0, kind], "{name}");
        if kind == 2 {
            break;
        }
        let mut rest = vec![0; 1024];
        let count = stream.read(&mut rest).unwrap();
        // The reply's name has no service before it; the structure ends with field 2, an i32, and a stop.
        assert_eq!(&rest[..11], b"\0\0\0\x07nothing");
        assert_eq!(&rest[count - 8..count], [8, 0, 2, 0, 0, 0, 1, 0]);
    }
}
