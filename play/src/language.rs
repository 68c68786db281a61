//! The language server for the files of one program.

use std::path::Path;

use alfirk_lsp::{path_of, uri_of, Server};
use lsp_server::{Message, Notification, Request, RequestId};
use lsp_types::Uri;
use serde::Deserialize;
use serde_json::{json, Value};

use crate::files::{Document, Library};

/// A language server, with the files that it has open.
pub(crate) struct Language {
    server: Server,
    open: Document,
    /// Version of the open documents.
    version: i32,
}

impl Language {
    /// Starts a language server without files.
    pub fn new(library: &Library) -> Language {
        let options = json!({ "includeDirs": Library::include_dirs(), "book": "book" });
        let parameters = json!({ "initializationOptions": options });
        let (server, _) = Server::start(&parameters, Box::new(library.clone()));
        Language {
            server,
            open: Document::default(),
            version: 0,
        }
    }

    /// The program of which files are open.
    pub fn document(&self) -> &Document {
        &self.open
    }

    /// Opens, changes and closes files as the client has done.
    pub fn open(&mut self, document: &Document) {
        self.version += 1;
        let version = self.version;
        for path in self.open.files.keys() {
            if !document.files.contains_key(path) {
                let parameters = json!({ "textDocument": { "uri": uri(path) } });
                notify(&mut self.server, "textDocument/didClose", parameters);
            }
        }
        for (path, text) in &document.files {
            let uri = uri(path);
            match self.open.files.get(path) {
                Some(before) if before == text => {}
                Some(_) => {
                    let parameters = json!({
                        "textDocument": { "uri": uri, "version": version },
                        "contentChanges": [{ "text": text }],
                    });
                    notify(&mut self.server, "textDocument/didChange", parameters);
                }
                None => {
                    let parameters = json!({
                        "textDocument": { "uri": uri, "languageId": "p4", "version": version, "text": text },
                    });
                    notify(&mut self.server, "textDocument/didOpen", parameters);
                }
            }
        }
        self.open = document.clone();
    }

    /// Returns the diagnostics of all files, by path, as the Language Server Protocol has them.
    pub fn diagnostics(&mut self) -> Value {
        // All files are diagnosed, also those that have not changed since the last request.
        let main = self.open.main.clone();
        let parameters = json!({ "textDocument": { "uri": uri(&main) } });
        notify(&mut self.server, "textDocument/didSave", parameters);
        let mut by_file = serde_json::Map::new();
        for message in self.server.idle() {
            let Message::Notification(notification) = message else {
                continue;
            };
            let uri = Uri::deserialize(&notification.params["uri"]).ok();
            let path = uri.as_ref().and_then(path_of);
            let Some(path) = path.and_then(|path| path.into_os_string().into_string().ok()) else {
                continue;
            };
            let found = notification.params["diagnostics"].clone();
            by_file.insert(path, found);
        }
        Value::Object(by_file)
    }

    /// Forwards a request about one file, such as `textDocument/hover`.
    ///
    /// # Errors
    /// The language server rejects the request.
    pub fn request(
        &mut self,
        method: &str,
        path: &str,
        parameters: Value,
    ) -> Result<Value, String> {
        let mut parameters = match parameters {
            Value::Object(parameters) => parameters,
            _ => serde_json::Map::new(),
        };
        parameters.insert("textDocument".to_owned(), json!({ "uri": uri(path) }));
        let request = Request {
            id: RequestId::from(1),
            method: method.to_owned(),
            params: Value::Object(parameters),
        };
        for message in self.server.handle(Message::Request(request)) {
            if let Message::Response(response) = message {
                let result = response.response_result;
                return result.map_err(|error| error.message);
            }
        }
        Err(format!("the language server has no reply to {method}"))
    }
}

fn notify(server: &mut Server, method: &str, parameters: Value) {
    let notification = Notification::new(method.to_owned(), parameters);
    server.handle(Message::Notification(notification));
}

/// URI of a file for the language server.
fn uri(path: &str) -> Option<Uri> {
    uri_of(Path::new(path))
}
