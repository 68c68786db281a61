//! HTTP server of the page that replays runs, and of its traces.
//!
//! Serves a fixed list of files and traces: no path of a request is used as a file name.

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};

use axum::extract::{Path, Query, State};
use axum::http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, X_CONTENT_TYPE_OPTIONS,
};
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::Router;
use serde::{Deserialize, Serialize};

/// Files of the page: path, content type and bytes.
const PAGE_FILES: [(&str, &str, &str); 8] = [
    ("/", HTML, include_str!("../page/index.html")),
    ("/style.css", CSS, include_str!("../page/style.css")),
    ("/main.js", SCRIPT, include_str!("../page/main.js")),
    ("/trace.js", SCRIPT, include_str!("../page/trace.js")),
    ("/layout.js", SCRIPT, include_str!("../page/layout.js")),
    ("/fabric.js", SCRIPT, include_str!("../page/fabric.js")),
    ("/sequence.js", SCRIPT, include_str!("../page/sequence.js")),
    ("/panels.js", SCRIPT, include_str!("../page/panels.js")),
];

const HTML: &str = "text/html; charset=utf-8";
const CSS: &str = "text/css; charset=utf-8";
const SCRIPT: &str = "text/javascript; charset=utf-8";

/// Content security policy: no resource from other servers, and no inline script or style.
const CONTENT_POLICY: &str =
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// Bytes of a trace in memory. More can be appended while they are served; clones share the bytes.
#[derive(Clone, Debug, Default)]
pub struct GrowingBytes(Arc<Mutex<Vec<u8>>>);

impl GrowingBytes {
    /// Number of bytes of the trace so far.
    pub fn len(&self) -> usize {
        self.with(|bytes| bytes.len())
    }

    /// Whether the trace has no bytes yet.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Copies the bytes from the offset `start` to the end.
    pub fn from(&self, start: usize) -> Vec<u8> {
        self.with(|bytes| bytes.get(start..).unwrap_or_default().to_vec())
    }

    fn with<R>(&self, act: impl FnOnce(&mut Vec<u8>) -> R) -> R {
        act(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl io::Write for GrowingBytes {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.with(|all| all.extend_from_slice(bytes));
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A recorded trace that the page can select.
#[derive(Clone, Debug)]
pub struct ServedTrace {
    /// Name by which the page lists the trace.
    pub name: String,
    /// Bytes of the trace; more are added while the run continues.
    pub bytes: GrowingBytes,
    /// Whether more bytes may follow.
    pub is_live: bool,
}

/// A bound address, at which a page can be served.
pub struct Listener(std::net::TcpListener);

impl Listener {
    /// Binds an address; port 0 takes a free one.
    ///
    /// # Errors
    /// The address cannot be bound, for example because it is in use.
    pub fn bind(address: SocketAddr) -> io::Result<Listener> {
        let listener = std::net::TcpListener::bind(address)?;
        listener.set_nonblocking(true)?;
        Ok(Listener(listener))
    }

    /// The bound address, with the port that was chosen for port 0.
    ///
    /// # Errors
    /// The operating system cannot report the address.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.0.local_addr()
    }

    /// Serves the page and `traces` until `until` completes. Must be called within a tokio runtime.
    ///
    /// # Errors
    /// A connection cannot be accepted.
    pub async fn serve(
        self,
        traces: Vec<ServedTrace>,
        until: impl Future<Output = ()>,
    ) -> io::Result<()> {
        self.serve_router(router(traces), until).await
    }

    /// Serves another page until `until` completes. Must be called within a tokio runtime.
    ///
    /// # Errors
    /// A connection cannot be accepted.
    pub async fn serve_router(
        self,
        router: Router,
        until: impl Future<Output = ()>,
    ) -> io::Result<()> {
        let listener = tokio::net::TcpListener::from_std(self.0)?;
        // Open connections of browsers are closed, too.
        tokio::select! {
            ended = async { axum::serve(listener, router).await } => ended,
            () = until => Ok(()),
        }
    }
}

/// Routes of the server: files of the page, list of traces, and traces.
fn router(traces: Vec<ServedTrace>) -> Router {
    let mut router = Router::new();
    for (path, kind, bytes) in PAGE_FILES {
        router = router.route(path, get(move || async move { response_with(kind, bytes) }));
    }
    router
        .route("/traces", get(list))
        .route("/traces/{index}", get(trace))
        .with_state(Arc::new(traces))
}

/// Creates a response that browsers do not cache, with the content security policy.
fn response_with(kind: &'static str, body: impl Into<axum::body::Body>) -> Response {
    let mut response = Response::new(body.into());
    let headers = response.headers_mut();
    for (name, value) in [
        (CONTENT_TYPE, kind),
        (CONTENT_SECURITY_POLICY, CONTENT_POLICY),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (CACHE_CONTROL, "no-store"),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
    response
}

/// Entry of the list of traces that the page requests.
#[derive(Serialize)]
struct TraceInfo<'e> {
    name: &'e str,
    bytes: usize,
    live: bool,
}

async fn list(State(traces): State<Arc<Vec<ServedTrace>>>) -> Response {
    let listed = traces.iter().map(|served| TraceInfo {
        name: &served.name,
        bytes: served.bytes.len(),
        live: served.is_live,
    });
    let listed: Vec<TraceInfo<'_>> = listed.collect();
    match serde_json::to_vec(&listed) {
        Ok(body) => response_with("application/json", body),
        Err(_) => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
    }
}

/// Query of a request for a trace.
#[derive(Deserialize)]
struct TraceQuery {
    /// Offset of the first requested byte.
    #[serde(default)]
    from: usize,
}

async fn trace(
    State(traces): State<Arc<Vec<ServedTrace>>>,
    Path(index): Path<usize>,
    Query(query): Query<TraceQuery>,
) -> Response {
    match traces.get(index) {
        Some(served) => response_with("application/jsonl", served.bytes.from(query.from)),
        None => StatusCode::NOT_FOUND.into_response(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::net::TcpStream;

    /// The server's response to one request, header and body.
    fn ask(request: &str) -> String {
        let mut bytes = GrowingBytes::default();
        bytes.write_all(b"0123456789").unwrap();
        let served = ServedTrace {
            name: "chain \"1\"".to_owned(),
            bytes,
            is_live: false,
        };
        let listener = Listener::bind(([127, 0, 0, 1], 0).into()).unwrap();
        let address = listener.address().unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        let (done, until) = tokio::sync::oneshot::channel::<()>();
        let request = format!("{request} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
        let client = std::thread::spawn(move || {
            let mut stream = TcpStream::connect(address).unwrap();
            stream.write_all(request.as_bytes()).unwrap();
            let mut answer = String::new();
            stream.read_to_string(&mut answer).unwrap();
            drop(done);
            answer
        });
        let until = async {
            let _ = until.await;
        };
        runtime
            .block_on(listener.serve(vec![served], until))
            .unwrap();
        client.join().unwrap()
    }

    #[test]
    fn every_file_of_the_page_is_served_and_loads_no_external_resource() {
        for (path, kind, bytes) in PAGE_FILES {
            let answer = ask(&format!("GET {path}"));
            assert!(answer.starts_with("HTTP/1.1 200"), "{path}: {answer}");
            assert!(answer.contains(&format!("content-type: {kind}")), "{path}");
            assert!(answer.contains("default-src 'none'"), "{path}");
            assert!(answer.ends_with(bytes), "{path}");
            assert!(
                !bytes.contains("http://") || bytes.contains("www.w3.org"),
                "{path}"
            );
        }
    }

    #[test]
    fn traces_are_listed_and_served_from_any_offset() {
        let listed = ask("GET /traces");
        assert!(
            listed.ends_with("[{\"name\":\"chain \\\"1\\\"\",\"bytes\":10,\"live\":false}]"),
            "{listed}"
        );
        assert!(ask("GET /traces/0").ends_with("\r\n\r\n0123456789"));
        assert!(ask("GET /traces/0?from=7").ends_with("\r\n\r\n789"));
        assert!(ask("GET /traces/0?from=70").ends_with("\r\n\r\n"));
    }

    #[test]
    fn missing_files_are_rejected() {
        for (request, status) in [
            ("GET /traces/1", "404"),
            ("GET /traces/x", "400"),
            ("GET /traces/0?from=x", "400"),
            ("GET /../Cargo.toml", "404"),
            ("GET /page/main.js", "404"),
            ("POST /", "405"),
        ] {
            let answer = ask(request);
            let expected = format!("HTTP/1.1 {status}");
            assert!(answer.starts_with(&expected), "{request}: {answer}");
        }
    }
}
