//! HTTP server of the playground.
//!
//! Serves the files of the page, the texts of the library, and sessions. No path of a request is used as a file name of the machine.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::future::Future;
use std::io::{self, Read};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use alfirk_view::server::Listener;
use axum::body::Body;
use axum::extract::{Path, Query, State};
use axum::http::header::{
    HeaderName, CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, X_CONTENT_TYPE_OPTIONS,
};
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::response::Response;
use axum::routing::{get, post};
use axum::Router;
use serde::{Deserialize, Serialize};

use crate::engine::{Reply, Request};
use crate::files::{Document, Library};
use crate::limits;
use crate::workers::Pool;

/// Files of the page: path, content type and bytes.
const PAGE_FILES: [(&str, &str, &str); 9] = [
    ("/style.css", CSS, include_str!("../page/style.css")),
    ("/main.js", SCRIPT, include_str!("../page/main.js")),
    ("/server.js", SCRIPT, include_str!("../page/server.js")),
    ("/editor.js", SCRIPT, include_str!("../page/editor.js")),
    ("/forms.js", SCRIPT, include_str!("../page/forms.js")),
    ("/graph.js", SCRIPT, include_str!("../page/graph.js")),
    ("/trace.js", SCRIPT, include_str!("../page/trace.js")),
    (
        "/codemirror.js",
        SCRIPT,
        include_str!("../page/vendor/codemirror.js"),
    ),
    (
        "/LICENSES.txt",
        TEXT,
        include_str!("../page/vendor/LICENSES.txt"),
    ),
];

/// The page. `NONCE` in it is replaced.
const PAGE: &str = include_str!("../page/index.html");

const CSS: &str = "text/css; charset=utf-8";
const HTML: &str = "text/html; charset=utf-8";
const JSON: &str = "application/json";
const SCRIPT: &str = "text/javascript; charset=utf-8";
const TEXT: &str = "text/plain; charset=utf-8";

/// Content security policy: no resource from other servers, and no inline script. The editor adds a style with
/// the nonce; browsers set style attributes while text is edited.
const CONTENT_POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self' 'nonce-NONCE'; style-src-attr 'unsafe-inline'; connect-src 'self'; img-src 'self' data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// Maximum number of sessions. A further one replaces the session that was used least recently.
const SESSIONS: usize = 250;

/// Maximum number of requests of one session that wait or are executed.
const WAITING: usize = 16;

/// Maximum duration of receiving a request.
const RECEIVE: Duration = Duration::from_secs(30);

/// A program with a test, as the page opens and saves it.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Project {
    /// The program.
    pub document: Document,
    /// The test in the STF language.
    pub test: String,
}

/// One page in a browser. Its requests are executed one after the other.
#[derive(Default)]
struct Session {
    turn: tokio::sync::Mutex<()>,
    waiting: AtomicUsize,
    /// The program of the last run.
    saved: Mutex<Option<Project>>,
}

/// The sessions, with the number of the last use of each.
#[derive(Default)]
struct Sessions {
    all: BTreeMap<String, (u64, Arc<Session>)>,
    uses: u64,
}

/// State of the server.
struct Playground {
    pool: Pool,
    library: Library,
    /// Program that new sessions begin with.
    start: Option<Project>,
    sessions: Mutex<Sessions>,
}

/// Serves the playground until `until` completes. `start`: the program that new sessions begin with. Must be called within
/// a tokio runtime.
///
/// # Errors
/// A connection cannot be accepted.
pub async fn serve(
    listener: Listener,
    pool: Pool,
    library: Library,
    start: Option<Project>,
    until: impl Future<Output = ()>,
) -> io::Result<()> {
    let playground = Arc::new(Playground {
        pool,
        library,
        start,
        sessions: Mutex::default(),
    });
    listener.serve_router(router(playground), until).await
}

fn router(playground: Arc<Playground>) -> Router {
    let mut router = Router::new().route("/", get(page));
    for (path, kind, bytes) in PAGE_FILES {
        router = router.route(
            path,
            get(move || async move { response(StatusCode::OK, kind, bytes) }),
        );
    }
    router
        .route("/api/examples", get(examples))
        .route("/api/text", get(text))
        .route("/api/sessions", post(open))
        .route("/api/sessions/{id}", get(saved).post(execute))
        .with_state(playground)
}

/// Creates a response that browsers do not cache.
fn response(status: StatusCode, kind: &'static str, body: impl Into<Body>) -> Response {
    let mut response = Response::new(body.into());
    *response.status_mut() = status;
    let headers: [(HeaderName, &'static str); 4] = [
        (CONTENT_TYPE, kind),
        (CONTENT_SECURITY_POLICY, "default-src 'none'"),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (CACHE_CONTROL, "no-store"),
    ];
    for (name, value) in headers {
        response
            .headers_mut()
            .insert(name, HeaderValue::from_static(value));
    }
    response
}

fn json(status: StatusCode, value: &impl Serialize) -> Response {
    match serde_json::to_vec(value) {
        Ok(body) => response(status, JSON, body),
        Err(error) => response(StatusCode::INTERNAL_SERVER_ERROR, TEXT, error.to_string()),
    }
}

/// Creates a response to a request that is not executed.
fn refusal(status: StatusCode, text: impl Display) -> Response {
    let text = text.to_string();
    json(status, &Reply::Error { text })
}

/// Returns 128 random bits in hexadecimal.
fn token() -> io::Result<String> {
    let mut bytes = [0; 16];
    std::fs::File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(scapy::hex(&bytes))
}

async fn page() -> Response {
    let nonce = match token() {
        Ok(nonce) => nonce,
        Err(error) => return refusal(StatusCode::INTERNAL_SERVER_ERROR, error),
    };
    let mut response = response(StatusCode::OK, HTML, PAGE.replace("NONCE", &nonce));
    if let Ok(policy) = CONTENT_POLICY.replace("NONCE", &nonce).parse() {
        let headers = response.headers_mut();
        headers.insert(CONTENT_SECURITY_POLICY, policy);
    }
    response
}

async fn examples(State(playground): State<Arc<Playground>>) -> Response {
    json(StatusCode::OK, &playground.library.examples())
}

/// Query of a request for a text of the library.
#[derive(Deserialize)]
struct TextQuery {
    path: String,
}

async fn text(
    State(playground): State<Arc<Playground>>,
    Query(query): Query<TextQuery>,
) -> Response {
    match playground.library.text(&query.path) {
        Some(found) => response(StatusCode::OK, TEXT, found.to_owned()),
        None => refusal(
            StatusCode::NOT_FOUND,
            format_args!("the library has no file `{}`", query.path),
        ),
    }
}

/// A new session.
#[derive(Serialize)]
struct Opened<'p> {
    session: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    start: Option<&'p Project>,
}

async fn open(State(playground): State<Arc<Playground>>, headers: HeaderMap) -> Response {
    if let Err(refusal) = of_this_page(&headers) {
        return *refusal;
    }
    let id = match token() {
        Ok(id) => id,
        Err(error) => return refusal(StatusCode::INTERNAL_SERVER_ERROR, error),
    };
    playground.sessions().add(id.clone());
    let opened = Opened {
        session: id,
        start: playground.start.as_ref(),
    };
    json(StatusCode::OK, &opened)
}

async fn saved(State(playground): State<Arc<Playground>>, Path(id): Path<String>) -> Response {
    let Some(session) = playground.sessions().find(&id) else {
        return no_session();
    };
    let saved = session.saved.lock().unwrap_or_else(PoisonError::into_inner);
    json(StatusCode::OK, &*saved)
}

fn no_session() -> Response {
    refusal(
        StatusCode::NOT_FOUND,
        "there is no such session; reload the page",
    )
}

/// Checks that a request can be of this page: a page of another server cannot send this content type without the consent of this
/// server.
fn of_this_page(headers: &HeaderMap) -> Result<(), Box<Response>> {
    match headers.get(CONTENT_TYPE) {
        Some(kind) if kind == JSON => Ok(()),
        _ => Err(Box::new(refusal(
            StatusCode::UNSUPPORTED_MEDIA_TYPE,
            format_args!("the content type must be {JSON}"),
        ))),
    }
}

async fn execute(
    State(playground): State<Arc<Playground>>,
    Path(id): Path<String>,
    headers: HeaderMap,
    body: Body,
) -> Response {
    if let Err(refusal) = of_this_page(&headers) {
        return *refusal;
    }
    let Some(session) = playground.sessions().find(&id) else {
        return no_session();
    };
    let received = axum::body::to_bytes(body, limits::REQUEST_BYTES);
    let bytes = match tokio::time::timeout(RECEIVE, received).await {
        Ok(Ok(bytes)) => bytes,
        Ok(Err(_)) => {
            let limit = limits::REQUEST_BYTES >> 10;
            return refusal(
                StatusCode::PAYLOAD_TOO_LARGE,
                format_args!("the request is not complete, or larger than {limit} KiB"),
            );
        }
        Err(_) => return refusal(StatusCode::REQUEST_TIMEOUT, "the request is not complete"),
    };
    let request: Request = match serde_json::from_slice(&bytes) {
        Ok(request) => request,
        Err(error) => return refusal(StatusCode::BAD_REQUEST, format_args!("request: {error}")),
    };
    if session.waiting.fetch_add(1, Ordering::Relaxed) >= WAITING {
        session.waiting.fetch_sub(1, Ordering::Relaxed);
        return refusal(
            StatusCode::TOO_MANY_REQUESTS,
            "too many requests of this session are waiting",
        );
    }
    // The task goes on after the client has disconnected, so that the worker process can be used again.
    let task = tokio::spawn(async move {
        let reply = {
            let _turn = session.turn.lock().await;
            if let Request::Run { document, test } = &request {
                let project = Project {
                    document: document.clone(),
                    test: test.clone(),
                };
                let mut saved = session.saved.lock().unwrap_or_else(PoisonError::into_inner);
                *saved = Some(project);
            }
            playground.pool.reply(&request).await
        };
        session.waiting.fetch_sub(1, Ordering::Relaxed);
        reply
    });
    match task.await {
        Ok(Ok(reply)) => response(StatusCode::OK, JSON, reply),
        Ok(Err(error)) => refusal(StatusCode::OK, error),
        Err(error) => refusal(StatusCode::INTERNAL_SERVER_ERROR, error),
    }
}

impl Playground {
    fn sessions(&self) -> std::sync::MutexGuard<'_, Sessions> {
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Sessions {
    fn add(&mut self, id: String) {
        if self.all.len() >= SESSIONS {
            let oldest = self.all.iter().min_by_key(|(_, (used, _))| *used);
            if let Some(oldest) = oldest.map(|(id, _)| id.clone()) {
                self.all.remove(&oldest);
            }
        }
        self.uses += 1;
        self.all.insert(id, (self.uses, Arc::default()));
    }

    fn find(&mut self, id: &str) -> Option<Arc<Session>> {
        self.uses += 1;
        let (used, session) = self.all.get_mut(id)?;
        *used = self.uses;
        Some(session.clone())
    }
}
