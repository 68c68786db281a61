//! State of the language server, and its replies to requests and notifications.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use alfirk_compiler::diag::FileId;
use alfirk_compiler::format::format;
use alfirk_compiler::ide::{complete, Analysis};
use alfirk_compiler::preproc::{normalize, SourceLoader};
use lsp_server::{ErrorCode, Message, Notification, Request, RequestId, Response, ResponseError};
use lsp_types as lsp;
use lsp_types::notification::{self, Notification as _};
use lsp_types::request::{self, Request as _};
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::convert;
use crate::position::{offset_of, path_of, range_of, uri_of, whole_range};
use crate::program::{Document, Files, Includes};
use crate::settings::Settings;

/// A language server for one editor: the open documents, the analysed programs and the published diagnostics.
pub struct Server {
    files: Files,
    /// Folders that are open in the editor.
    folders: Vec<PathBuf>,
    settings: Settings,
    /// The include graph, valid until a file is opened, closed or saved.
    includes: Option<Includes>,
    /// Results of analysing programs in their current state, by main file.
    programs: BTreeMap<PathBuf, Analysis>,
    /// Files in programs that have changed since the diagnostics of the file were last published.
    dirty: BTreeSet<PathBuf>,
    /// Files for which diagnostics are published, by main file of their program.
    published: BTreeMap<PathBuf, BTreeSet<PathBuf>>,
    /// Messages to the editor that are not sent yet.
    outbox: Vec<Message>,
}

/// A position in a file of an analysed program.
struct Cursor {
    file: FileId,
    offset: u32,
}

impl Server {
    /// Creates a server from the parameters of `initialize`, and the reply to that request.
    pub fn start(params: &Value, disk: Box<dyn SourceLoader + Send>) -> (Server, Value) {
        let mut folders: Vec<PathBuf> = Vec::new();
        let listed = params["workspaceFolders"].as_array().into_iter().flatten();
        let uris = listed
            .map(|folder| &folder["uri"])
            .chain([&params["rootUri"]]);
        for uri in uris.filter_map(|uri| uri.as_str()?.parse().ok()) {
            let folder = path_of(&uri).map(|path| normalize(&path));
            folders.extend(
                folder
                    .filter(|folder| !folders.contains(folder))
                    .into_iter()
                    .collect::<Vec<_>>(),
            );
        }
        let mut server = Server {
            files: Files {
                open: BTreeMap::new(),
                disk,
            },
            folders,
            settings: Settings::default(),
            includes: None,
            programs: BTreeMap::new(),
            dirty: BTreeSet::new(),
            published: BTreeMap::new(),
            outbox: Vec::new(),
        };
        server.set(&params["initializationOptions"]);
        let capabilities = lsp::ServerCapabilities {
            text_document_sync: Some(lsp::TextDocumentSyncCapability::Options(
                lsp::TextDocumentSyncOptions {
                    open_close: Some(true),
                    change: Some(lsp::TextDocumentSyncKind::INCREMENTAL),
                    save: Some(lsp::TextDocumentSyncSaveOptions::Supported(true)),
                    ..lsp::TextDocumentSyncOptions::default()
                },
            )),
            hover_provider: Some(lsp::HoverProviderCapability::Simple(true)),
            definition_provider: Some(lsp::OneOf::Left(true)),
            references_provider: Some(lsp::OneOf::Left(true)),
            document_highlight_provider: Some(lsp::OneOf::Left(true)),
            document_symbol_provider: Some(lsp::OneOf::Left(true)),
            document_formatting_provider: Some(lsp::OneOf::Left(true)),
            code_action_provider: Some(lsp::CodeActionProviderCapability::Options(
                lsp::CodeActionOptions {
                    code_action_kinds: Some(vec![lsp::CodeActionKind::QUICKFIX]),
                    ..lsp::CodeActionOptions::default()
                },
            )),
            rename_provider: Some(lsp::OneOf::Right(lsp::RenameOptions {
                prepare_provider: Some(true),
                work_done_progress_options: lsp::WorkDoneProgressOptions::default(),
            })),
            completion_provider: Some(lsp::CompletionOptions {
                trigger_characters: Some(vec![".".to_owned()]),
                ..lsp::CompletionOptions::default()
            }),
            ..lsp::ServerCapabilities::default()
        };
        let info = serde_json::json!({ "name": "alfirk", "version": env!("CARGO_PKG_VERSION") });
        let result = serde_json::json!({ "capabilities": capabilities, "serverInfo": info });
        (server, result)
    }

    /// Handles a message from the editor, and returns the messages to send to the editor.
    pub fn handle(&mut self, message: Message) -> Vec<Message> {
        match message {
            Message::Request(request) => {
                let response = self.reply(request);
                self.outbox.push(Message::Response(response));
            }
            Message::Notification(notification) => self.handle_notification(notification),
            // The server sends no requests, so a response needs no handling.
            Message::Response(_) => {}
        }
        std::mem::take(&mut self.outbox)
    }

    /// Analyses changed programs, and returns the messages that publish their diagnostics. To be called when no message
    /// from the editor is waiting.
    pub fn idle(&mut self) -> Vec<Message> {
        let mains: BTreeSet<PathBuf> = std::mem::take(&mut self.dirty)
            .iter()
            .map(|path| self.main_of(path))
            .collect();
        for main in mains {
            self.publish(&main);
        }
        // Diagnostics of programs without an open file are cleared.
        let open: Vec<PathBuf> = self.files.open.keys().cloned().collect();
        let wanted: BTreeSet<PathBuf> = open.iter().map(|path| self.main_of(path)).collect();
        let gone: Vec<PathBuf> = self
            .published
            .keys()
            .filter(|main| !wanted.contains(*main))
            .cloned()
            .collect();
        for main in gone {
            for path in self.published.remove(&main).into_iter().flatten() {
                self.publish_file(&path, Vec::new());
            }
        }
        std::mem::take(&mut self.outbox)
    }

    fn publish(&mut self, main: &Path) {
        let is_program = self.includes().is_main(main);
        let book = self.settings.book.clone();
        let Some(analysis) = self.program(main) else {
            return;
        };
        let mut by_file = convert::diagnostics(analysis, main, is_program, book.as_deref());
        let now: BTreeSet<PathBuf> = by_file.keys().cloned().collect();
        let before = self
            .published
            .insert(main.to_owned(), now.clone())
            .unwrap_or_default();
        for path in before.union(&now) {
            let messages = by_file.remove(path).unwrap_or_default();
            self.publish_file(path, messages);
        }
    }

    fn publish_file(&mut self, path: &Path, diagnostics: Vec<lsp::Diagnostic>) {
        let Some(uri) = uri_of(path) else { return };
        let version = self.files.open.get(path).map(|document| document.version);
        self.notify::<notification::PublishDiagnostics>(lsp::PublishDiagnosticsParams {
            uri,
            diagnostics,
            version,
        });
    }

    fn notify<N: notification::Notification>(&mut self, params: N::Params) {
        let notification = Notification::new(N::METHOD.to_owned(), params);
        self.outbox.push(Message::Notification(notification));
    }

    fn handle_notification(&mut self, note: Notification) {
        match note.method.as_str() {
            notification::DidOpenTextDocument::METHOD => {
                let Some(params) = self.read::<lsp::DidOpenTextDocumentParams>(note) else {
                    return;
                };
                let document = params.text_document;
                let Some(path) = file_of(&document.uri) else {
                    return;
                };
                let (text, version) = (document.text, document.version);
                self.files
                    .open
                    .insert(path.clone(), Document { text, version });
                self.includes = None;
                self.invalidate(path);
            }
            notification::DidChangeTextDocument::METHOD => {
                let Some(params) = self.read::<lsp::DidChangeTextDocumentParams>(note) else {
                    return;
                };
                let Some(path) = file_of(&params.text_document.uri) else {
                    return;
                };
                let Some(document) = self.files.open.get_mut(&path) else {
                    return;
                };
                document.version = params.text_document.version;
                for change in params.content_changes {
                    match change.range {
                        Some(range) => {
                            let from = offset_of(&document.text, range.start);
                            let to = offset_of(&document.text, range.end).max(from);
                            document.text.replace_range(from..to, &change.text);
                        }
                        None => document.text = change.text,
                    }
                }
                self.invalidate(path);
            }
            notification::DidSaveTextDocument::METHOD => self.invalidate_all(),
            notification::DidCloseTextDocument::METHOD => {
                let Some(params) = self.read::<lsp::DidCloseTextDocumentParams>(note) else {
                    return;
                };
                let Some(path) = file_of(&params.text_document.uri) else {
                    return;
                };
                self.files.open.remove(&path);
                self.invalidate_all();
            }
            notification::DidChangeConfiguration::METHOD => {
                self.set(&note.params["settings"]["alfirk"]);
                self.invalidate_all();
            }
            _ => {}
        }
    }

    /// Discards the analyses of all programs that contain a changed file.
    fn invalidate(&mut self, path: PathBuf) {
        let (gone, kept) = std::mem::take(&mut self.programs)
            .into_iter()
            .partition(|(_, program): &(_, Analysis)| program.file(&path).is_some());
        let gone: BTreeMap<PathBuf, Analysis> = gone;
        self.programs = kept;
        self.dirty.extend(gone.into_keys());
        self.dirty.insert(path);
    }

    /// Discards all analyses and the include graph, as files may now belong to other programs.
    fn invalidate_all(&mut self) {
        self.includes = None;
        self.programs.clear();
        self.dirty.extend(self.files.open.keys().cloned());
    }

    fn set(&mut self, value: &Value) {
        if value.is_null() {
            return;
        }
        match serde_json::from_value::<Settings>(value.clone()) {
            Ok(settings) => {
                if let Some(arch) = &settings.arch {
                    if let Err(error) = alfirk_compiler::arch::Arch::of(Some(arch), None) {
                        self.show_error(error);
                    }
                }
                self.settings = settings;
            }
            Err(error) => self.show_error(format!(
                "alfirk: invalid settings: {error}; the settings are main, arch, includeDirs, defines and book"
            )),
        }
    }

    fn show_error(&mut self, message: String) {
        self.notify::<notification::ShowMessage>(lsp::ShowMessageParams {
            typ: lsp::MessageType::ERROR,
            message,
        });
    }

    fn read<T: DeserializeOwned>(&mut self, note: Notification) -> Option<T> {
        match serde_json::from_value(note.params) {
            Ok(params) => Some(params),
            Err(error) => {
                tracing::warn!("{}: {error}", note.method);
                None
            }
        }
    }

    fn reply(&mut self, request: Request) -> Response {
        let Request { id, method, params } = request;
        let answered = match method.as_str() {
            request::HoverRequest::METHOD => self.respond_to(params, Server::hover),
            request::GotoDefinition::METHOD => self.respond_to(params, Server::definition),
            request::References::METHOD => self.respond_to(params, Server::references),
            request::DocumentHighlightRequest::METHOD => {
                self.respond_to(params, Server::highlights)
            }
            request::DocumentSymbolRequest::METHOD => self.respond_to(params, Server::symbols),
            request::Completion::METHOD => self.respond_to(params, Server::completion),
            request::CodeActionRequest::METHOD => self.respond_to(params, Server::code_actions),
            request::Formatting::METHOD => self.respond_to(params, Server::formatting),
            request::PrepareRenameRequest::METHOD => {
                self.respond_to(params, Server::prepare_rename)
            }
            request::Rename::METHOD => self.respond_to(params, Server::rename),
            _ => Err(failure(
                ErrorCode::MethodNotFound,
                format!("unsupported method: {method}"),
            )),
        };
        respond(id, answered)
    }

    fn respond_to<P: DeserializeOwned, R: serde::Serialize>(
        &mut self,
        params: Value,
        handler: impl FnOnce(&mut Server, P) -> Result<R, ResponseError>,
    ) -> Result<Value, ResponseError> {
        let params = serde_json::from_value(params)
            .map_err(|e| failure(ErrorCode::InvalidParams, e.to_string()))?;
        let result = handler(self, params)?;
        serde_json::to_value(result).map_err(|e| failure(ErrorCode::InternalError, e.to_string()))
    }

    fn hover(&mut self, params: lsp::HoverParams) -> Result<Option<lsp::Hover>, ResponseError> {
        let Some((cursor, analysis)) = self.at(&params.text_document_position_params) else {
            return Ok(None);
        };
        let hover = analysis.hover(cursor.file, cursor.offset);
        Ok(hover.map(|hover| lsp::Hover {
            contents: lsp::HoverContents::Markup(lsp::MarkupContent {
                kind: lsp::MarkupKind::Markdown,
                value: hover.markdown,
            }),
            range: Some(range_of(&analysis.sources, hover.span)),
        }))
    }

    fn definition(
        &mut self,
        params: lsp::GotoDefinitionParams,
    ) -> Result<Option<lsp::Location>, ResponseError> {
        let found = self.at(&params.text_document_position_params);
        Ok(found.and_then(|(cursor, analysis)| {
            let span = analysis.definition(cursor.file, cursor.offset)?;
            convert::location(&analysis.sources, span)
        }))
    }

    fn references(
        &mut self,
        params: lsp::ReferenceParams,
    ) -> Result<Vec<lsp::Location>, ResponseError> {
        let Some((cursor, analysis)) = self.at(&params.text_document_position) else {
            return Ok(Vec::new());
        };
        let declared = match params.context.include_declaration {
            true => None,
            false => analysis.definition(cursor.file, cursor.offset),
        };
        let spans = analysis.references(cursor.file, cursor.offset).into_iter();
        let spans =
            spans.filter(|span| declared.is_none_or(|d| (d.file, d.lo) != (span.file, span.lo)));
        let mut locations: Vec<lsp::Location> = spans
            .filter_map(|s| convert::location(&analysis.sources, s))
            .collect();
        // A file that is included twice has each occurrence twice.
        locations.dedup();
        Ok(locations)
    }

    fn highlights(
        &mut self,
        params: lsp::DocumentHighlightParams,
    ) -> Result<Vec<lsp::DocumentHighlight>, ResponseError> {
        let Some((cursor, analysis)) = self.at(&params.text_document_position_params) else {
            return Ok(Vec::new());
        };
        let spans = analysis.references(cursor.file, cursor.offset).into_iter();
        let here = spans.filter(|span| span.file == cursor.file);
        Ok(here
            .map(|span| lsp::DocumentHighlight {
                range: range_of(&analysis.sources, span),
                kind: None,
            })
            .collect())
    }

    fn symbols(
        &mut self,
        params: lsp::DocumentSymbolParams,
    ) -> Result<Option<lsp::DocumentSymbolResponse>, ResponseError> {
        let Some(path) = file_of(&params.text_document.uri) else {
            return Ok(None);
        };
        let main = self.main_of(&path);
        let Some(analysis) = self.program(&main) else {
            return Ok(None);
        };
        let Some(file) = analysis.file(&path) else {
            return Ok(None);
        };
        let symbols = analysis.symbols(file);
        let symbols = symbols
            .iter()
            .map(|symbol| convert::symbol(symbol, &analysis.sources));
        Ok(Some(lsp::DocumentSymbolResponse::Nested(symbols.collect())))
    }

    fn completion(
        &mut self,
        params: lsp::CompletionParams,
    ) -> Result<Vec<lsp::CompletionItem>, ResponseError> {
        let at = params.text_document_position;
        let Some(path) = file_of(&at.text_document.uri) else {
            return Ok(Vec::new());
        };
        let main = self.main_of(&path);
        let Ok(text) = self.files.load(&path) else {
            return Ok(Vec::new());
        };
        let offset = offset_of(&text, at.position);
        let options = self.options(&main);
        let found = complete(&options, &self.files, &path, offset);
        Ok(convert::completions(found.unwrap_or_default()))
    }

    fn code_actions(
        &mut self,
        params: lsp::CodeActionParams,
    ) -> Result<lsp::CodeActionResponse, ResponseError> {
        let Some(path) = file_of(&params.text_document.uri) else {
            return Ok(Vec::new());
        };
        let main = self.main_of(&path);
        let book = self.settings.book.clone();
        let analysis = self.program(&main);
        Ok(analysis.map_or_else(Vec::new, |analysis| {
            convert::code_actions(analysis, &path, params.range, book.as_deref())
        }))
    }

    fn formatting(
        &mut self,
        params: lsp::DocumentFormattingParams,
    ) -> Result<Vec<lsp::TextEdit>, ResponseError> {
        let Some(path) = file_of(&params.text_document.uri) else {
            return Ok(Vec::new());
        };
        let Ok(text) = self.files.load(&path) else {
            return Ok(Vec::new());
        };
        let formatted = format(&text);
        let edit = lsp::TextEdit {
            range: whole_range(&text),
            new_text: formatted,
        };
        Ok(if edit.new_text == text {
            Vec::new()
        } else {
            vec![edit]
        })
    }

    fn prepare_rename(
        &mut self,
        params: lsp::TextDocumentPositionParams,
    ) -> Result<Option<lsp::Range>, ResponseError> {
        let Some((cursor, analysis)) = self.at(&params) else {
            return Ok(None);
        };
        let span = analysis.renamable(cursor.file, cursor.offset);
        let span = span.map_err(|error| failure(ErrorCode::InvalidRequest, error.to_string()))?;
        Ok(Some(range_of(&analysis.sources, span)))
    }

    fn rename(
        &mut self,
        params: lsp::RenameParams,
    ) -> Result<Option<lsp::WorkspaceEdit>, ResponseError> {
        let Some((cursor, analysis)) = self.at(&params.text_document_position) else {
            return Ok(None);
        };
        let spans = analysis.rename(cursor.file, cursor.offset, &params.new_name);
        let spans = spans.map_err(|error| failure(ErrorCode::InvalidRequest, error.to_string()))?;
        Ok(convert::edit(&analysis.sources, spans, &params.new_name))
    }

    /// Returns the position to which a request refers, and the analysis of the program; `None` if the program cannot be
    /// read or does not contain the file.
    fn at(&mut self, at: &lsp::TextDocumentPositionParams) -> Option<(Cursor, &Analysis)> {
        let path = file_of(&at.text_document.uri)?;
        let main = self.main_of(&path);
        self.program(&main)?;
        let analysis = self.programs.get(&main)?;
        let file = analysis.file(&path)?;
        let offset = offset_of(&analysis.sources.file(file).text, at.position);
        let offset = u32::try_from(offset).ok()?;
        Some((Cursor { file, offset }, analysis))
    }

    fn main_of(&mut self, path: &Path) -> PathBuf {
        if let (Some(main), Some(folder)) = (&self.settings.main, self.folders.first()) {
            return normalize(&folder.join(main));
        }
        self.includes();
        match &self.includes {
            Some(includes) => includes.main_of(path, &self.files),
            None => path.to_owned(),
        }
    }

    fn includes(&mut self) -> &Includes {
        let (folders, files, settings) = (&self.folders, &self.files, &self.settings);
        self.includes
            .get_or_insert_with(|| Includes::of(folders, files, settings))
    }

    fn options(&mut self, main: &Path) -> alfirk_compiler::driver::CompileOptions {
        self.includes();
        let includes = self.includes.as_ref();
        includes.map_or_else(
            || alfirk_compiler::driver::CompileOptions::new(main),
            |includes| includes.options(main, &self.folders, &self.settings),
        )
    }

    /// Returns the analysis of the program with this main file; `None` if the file cannot be read.
    fn program(&mut self, main: &Path) -> Option<&Analysis> {
        if !self.programs.contains_key(main) {
            let options = self.options(main);
            match Analysis::of(options, &self.files) {
                Ok(analysis) => {
                    self.programs.insert(main.to_owned(), analysis);
                }
                Err(error) => {
                    tracing::warn!("{}: {error}", main.display());
                    return None;
                }
            }
        }
        self.programs.get(main)
    }
}

fn file_of(uri: &lsp::Uri) -> Option<PathBuf> {
    Some(normalize(&path_of(uri)?))
}

fn failure(code: ErrorCode, message: String) -> ResponseError {
    ResponseError {
        code: code as i32,
        message,
        data: None,
    }
}

fn respond(id: RequestId, answered: Result<Value, ResponseError>) -> Response {
    match answered {
        Ok(result) => Response::new_ok(id, result),
        Err(error) => Response::new_err(id, error.code, error.message),
    }
}
