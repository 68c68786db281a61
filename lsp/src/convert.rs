//! Converts results of the compiler to types of the Language Server Protocol.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use alfirk_compiler::diag::{Code, Diagnostic, Fix, Page, Severity, SourceMap, Span};
use alfirk_compiler::ide::{Analysis, Completion, CompletionKind, Symbol, SymbolKind};
use alfirk_compiler::preproc::{normalize, shipped_files, SHIPPED};
use lsp_types as lsp;

use crate::position::{range_of, uri_of};

/// Converts the compiler's diagnostics of a program, grouped by file. `book` is the address of the book, for links to
/// the explanations of codes.
pub fn diagnostics(
    analysis: &Analysis,
    main: &Path,
    is_program: bool,
    book: Option<&str>,
) -> BTreeMap<PathBuf, Vec<lsp::Diagnostic>> {
    let sources = &analysis.sources;
    let mut by_file: BTreeMap<PathBuf, Vec<lsp::Diagnostic>> = BTreeMap::new();
    for diagnostic in analysis.diagnostics.iter() {
        let span = diagnostic.span.map(|span| sources.reported_span(span));
        // A file without `main` that no program includes may still be part of a program, so a missing `main` is not reported.
        if span.is_none() && !is_program && diagnostic.code == Some(Code::PACKAGE_RULE) {
            continue;
        }
        let path = match span {
            Some(span) => path_of_span(sources, span),
            None => Some(main.to_owned()),
        };
        let Some(path) = path else { continue };
        by_file
            .entry(path)
            .or_default()
            .push(of_diagnostic(diagnostic, sources, span, book));
    }
    by_file
}

fn of_diagnostic(
    diagnostic: &Diagnostic,
    sources: &SourceMap,
    span: Option<Span>,
    book: Option<&str>,
) -> lsp::Diagnostic {
    let related = diagnostic.others.iter().filter_map(|(span, text)| {
        Some(lsp::DiagnosticRelatedInformation {
            location: location(sources, sources.reported_span(*span))?,
            message: text.clone(),
        })
    });
    let related: Vec<_> = related.collect();
    let mut message = diagnostic.message.clone();
    if !diagnostic.label.is_empty() {
        message += &format!(": {}", diagnostic.label);
    }
    for note in &diagnostic.notes {
        message += &format!("\nnote: {note}");
    }
    for help in &diagnostic.helps {
        message += &format!("\nhelp: {help}");
    }
    let page = Page::of_diagnostic(diagnostic);
    lsp::Diagnostic {
        range: span.map_or_else(lsp::Range::default, |span| range_of(sources, span)),
        severity: Some(match diagnostic.severity {
            Severity::Error => lsp::DiagnosticSeverity::ERROR,
            Severity::Warning => lsp::DiagnosticSeverity::WARNING,
            Severity::Info => lsp::DiagnosticSeverity::INFORMATION,
        }),
        code: page.map(|page| lsp::NumberOrString::String(page.code.to_owned())),
        code_description: page
            .and_then(|page| page_uri(page, book))
            .map(|href| lsp::CodeDescription { href }),
        source: Some("alfirk".to_owned()),
        message,
        related_information: (!related.is_empty()).then_some(related),
        ..lsp::Diagnostic::default()
    }
}

/// Returns the address of the page that explains a diagnostic's code. It is in the book; without `book`, it is a copy
/// of the page in a temporary file.
fn page_uri(page: Page, book: Option<&str>) -> Option<lsp::Uri> {
    let Some(book) = book else {
        return uri_of(&write_embedded(
            "explain",
            &format!("{}.md", page.code),
            &page.text(),
        )?);
    };
    let address = format!(
        "{}/errors.html#{}",
        book.trim_end_matches('/'),
        page.anchor()
    );
    address.parse().ok()
}

/// Returns the quick fixes of all diagnostics that overlap a range of a file.
pub fn code_actions(
    analysis: &Analysis,
    path: &Path,
    range: lsp::Range,
    book: Option<&str>,
) -> Vec<lsp::CodeActionOrCommand> {
    let sources = &analysis.sources;
    let mut actions = Vec::new();
    for diagnostic in analysis.diagnostics.iter() {
        let Some(span) = diagnostic.span.map(|span| sources.reported_span(span)) else {
            continue;
        };
        let at = range_of(sources, span);
        let is_there = path_of_span(sources, span).as_deref() == Some(path);
        if !is_there || at.end < range.start || range.end < at.start {
            continue;
        }
        for Fix {
            span: replaced,
            text,
        } in &diagnostic.fixes
        {
            // The span is the use of a macro, but the fix concerns the macro's body.
            if sources.origin(*replaced).is_some() {
                continue;
            }
            let Some(edit) = edit(sources, [*replaced], text) else {
                continue;
            };
            let shown = text.trim_end();
            let title = match replaced.lo == replaced.hi {
                true => format!("Add `{shown}`"),
                false => format!("Replace `{}` by `{shown}`", sources.text(*replaced)),
            };
            actions.push(lsp::CodeActionOrCommand::CodeAction(lsp::CodeAction {
                title,
                kind: Some(lsp::CodeActionKind::QUICKFIX),
                diagnostics: Some(vec![of_diagnostic(diagnostic, sources, Some(span), book)]),
                edit: Some(edit),
                is_preferred: Some(true),
                ..lsp::CodeAction::default()
            }));
        }
    }
    actions
}

/// Creates a workspace edit that replaces each span by the same text.
pub fn edit(
    sources: &SourceMap,
    spans: impl IntoIterator<Item = Span>,
    text: &str,
) -> Option<lsp::WorkspaceEdit> {
    // clippy rejects `lsp::Uri` as a key, as it has interior mutability. The URIs here are not mutated.
    #[allow(clippy::mutable_key_type)]
    let mut changes: std::collections::HashMap<lsp::Uri, Vec<lsp::TextEdit>> =
        std::collections::HashMap::new();
    for span in spans {
        let lsp::Location { uri, range } = location(sources, span)?;
        let edits = changes.entry(uri).or_default();
        // A file that is included twice has each span twice.
        if edits.iter().all(|edit| edit.range != range) {
            edits.push(lsp::TextEdit {
                range,
                new_text: text.to_owned(),
            });
        }
    }
    Some(lsp::WorkspaceEdit {
        changes: Some(changes),
        ..lsp::WorkspaceEdit::default()
    })
}

/// Returns the location of a span in a file that the editor can open; `None` if there is no such file.
pub fn location(sources: &SourceMap, span: Span) -> Option<lsp::Location> {
    Some(lsp::Location {
        uri: uri_of(&path_of_span(sources, span)?)?,
        range: range_of(sources, span),
    })
}

fn path_of_span(sources: &SourceMap, span: Span) -> Option<PathBuf> {
    let name = &sources.file(span.file).name;
    match name.strip_prefix(SHIPPED) {
        Some(shipped) => {
            let name = shipped.trim_start_matches('/');
            let mut files = shipped_files().iter();
            let (_, text) = files.find(|(shipped, _)| *shipped == name)?;
            write_embedded("p4include", name, text)
        }
        None => Some(normalize(Path::new(name))),
    }
}

/// Writes a file that is built into the executable to the folder for temporary files, so that editors can open it.
/// Returns its path.
fn write_embedded(kind: &str, name: &str, text: &str) -> Option<PathBuf> {
    let folder = format!("alfirk-{kind}-{}", env!("CARGO_PKG_VERSION"));
    let folder = std::env::temp_dir().join(folder);
    let path = folder.join(name);
    if std::fs::read_to_string(&path).is_ok_and(|present| present == text) {
        return Some(path);
    }
    let written = std::fs::create_dir_all(&folder).and_then(|()| std::fs::write(&path, text));
    match written {
        Ok(()) => Some(path),
        Err(error) => {
            tracing::warn!("cannot write {}: {error}", path.display());
            None
        }
    }
}

/// Converts a symbol of the outline, with its children.
pub fn symbol(symbol: &Symbol, sources: &SourceMap) -> lsp::DocumentSymbol {
    let children: Vec<_> = symbol
        .children
        .iter()
        .map(|child| self::symbol(child, sources))
        .collect();
    // The type has no constructor, and its field `deprecated` must be set.
    #[allow(deprecated)]
    lsp::DocumentSymbol {
        name: symbol.name.clone(),
        detail: None,
        kind: match symbol.kind {
            SymbolKind::Action | SymbolKind::Function => lsp::SymbolKind::FUNCTION,
            SymbolKind::Constant => lsp::SymbolKind::CONSTANT,
            SymbolKind::Control | SymbolKind::Parser | SymbolKind::Package => {
                lsp::SymbolKind::CLASS
            }
            SymbolKind::Enum => lsp::SymbolKind::ENUM,
            SymbolKind::EnumMember => lsp::SymbolKind::ENUM_MEMBER,
            SymbolKind::Extern => lsp::SymbolKind::INTERFACE,
            SymbolKind::Field => lsp::SymbolKind::FIELD,
            SymbolKind::Header | SymbolKind::Struct => lsp::SymbolKind::STRUCT,
            SymbolKind::Instance => lsp::SymbolKind::OBJECT,
            SymbolKind::State => lsp::SymbolKind::EVENT,
            SymbolKind::Table => lsp::SymbolKind::ARRAY,
            SymbolKind::Type => lsp::SymbolKind::TYPE_PARAMETER,
            SymbolKind::Variable => lsp::SymbolKind::VARIABLE,
        },
        tags: None,
        deprecated: None,
        range: range_of(sources, symbol.span),
        selection_range: range_of(sources, symbol.name_span),
        children: (!children.is_empty()).then_some(children),
    }
}

/// Converts completion items. The order of the items, by likelihood, is kept.
pub fn completions(found: Vec<Completion>) -> Vec<lsp::CompletionItem> {
    let items = found.into_iter().enumerate();
    items
        .map(|(rank, completion)| lsp::CompletionItem {
            label: completion.name,
            kind: Some(match completion.kind {
                CompletionKind::Action | CompletionKind::Function => {
                    lsp::CompletionItemKind::FUNCTION
                }
                CompletionKind::Constant => lsp::CompletionItemKind::CONSTANT,
                CompletionKind::EnumMember => lsp::CompletionItemKind::ENUM_MEMBER,
                CompletionKind::Field => lsp::CompletionItemKind::FIELD,
                CompletionKind::Instance => lsp::CompletionItemKind::MODULE,
                CompletionKind::Keyword => lsp::CompletionItemKind::KEYWORD,
                CompletionKind::Method => lsp::CompletionItemKind::METHOD,
                CompletionKind::Property => lsp::CompletionItemKind::PROPERTY,
                CompletionKind::State => lsp::CompletionItemKind::EVENT,
                CompletionKind::Table => lsp::CompletionItemKind::CLASS,
                CompletionKind::Type => lsp::CompletionItemKind::STRUCT,
                CompletionKind::Variable => lsp::CompletionItemKind::VARIABLE,
            }),
            detail: (!completion.detail.is_empty()).then_some(completion.detail),
            sort_text: Some(format!("{rank:05}")),
            ..lsp::CompletionItem::default()
        })
        .collect()
}
