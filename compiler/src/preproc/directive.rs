//! Directives: lines that begin with `#`.

use super::include::{find, shipped_files, SearchStart};
use super::{Conditional, Preprocessor, MAX_INCLUDES};
use crate::diag::{Code, Diagnostic, Span, Warning};
use crate::syntax::token::{Token, TokenKind};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// Names of the implemented directives, used mainly for suggestions.
const NAMES: &[&str] = &[
    "include",
    "define",
    "undef",
    "if",
    "ifdef",
    "ifndef",
    "elif",
    "elifdef",
    "elifndef",
    "else",
    "endif",
    "error",
    "warning",
    "line",
    "include_next",
    "import",
    "assert",
    "unassert",
];

/// Directives for C compilers, which have no effect and are removed, as by `cpp`.
const FOR_COMPILERS: &[&str] = &["pragma", "ident", "sccs"];

/// Whether a line is a directive that `cpp` executes or removes; `line` begins with its `#`. `cpp` passes other lines with `#` on as
/// text; in P4, they are ignored outside strings.
pub(super) fn is_directive(line: &[Token]) -> bool {
    match line.get(1).filter(|name| !name.first_on_line) {
        Some(name) => NAMES.contains(&&*name.text) || FOR_COMPILERS.contains(&&*name.text),
        None => true,
    }
}

/// The directives that include a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Inclusion {
    Include,
    /// `#include_next`: searches from the `-I` folder after that of the including file.
    Next,
    /// `#import`: includes a file at most once.
    Import,
}

impl Preprocessor<'_> {
    /// Executes the directive whose `#` is the next token of the open file.
    pub(super) fn directive(&mut self) {
        let Some(file) = self.files.last_mut() else {
            return;
        };
        let hash = file.tokens[file.pos].clone();
        let all = file.tokens.clone();
        let from = file.pos + 1;
        let length = all[from..]
            .iter()
            .position(|t| t.first_on_line)
            .unwrap_or(all.len() - from);
        file.pos = from + length;
        let active = file.conditionals.last().is_none_or(|c| c.active);
        let line = &all[from..from + length];
        let Some((name, rest)) = line.split_first() else {
            return;
        };
        let span = hash.span.to(name.span);
        if self.options.only_line_markers {
            if name.kind == TokenKind::Number {
                self.line_directive(line, span);
            }
            return;
        }
        match (&*name.text, active) {
            ("if", true) => {
                let value = self.condition(rest, span);
                self.open_conditional(span, value, true);
            }
            ("ifdef" | "ifndef", true) => {
                let defined = self.is_defined(rest, name);
                self.open_conditional(span, defined == (&*name.text == "ifdef"), true);
            }
            ("if" | "ifdef" | "ifndef", false) => self.open_conditional(span, false, false),
            ("elif" | "elifdef" | "elifndef", _) => self.elif(name, rest, span),
            ("else", _) => self.else_branch(span),
            ("endif", _) => {
                if self
                    .files
                    .last_mut()
                    .and_then(|f| f.conditionals.pop())
                    .is_none()
                {
                    self.diagnostics
                        .error(Code::DIRECTIVE, span, "`#endif` without `#if`");
                }
            }
            (_, false) => {}
            ("define", true) => {
                let end = rest.last().map_or(span, |t| t.span);
                self.define(rest, span.to(end));
            }
            ("undef", true) => match rest.first() {
                Some(name) if name.kind == TokenKind::Ident => {
                    self.macros.remove(&name.text);
                }
                _ => {
                    self.diagnostics.error(
                        Code::DIRECTIVE,
                        span,
                        "`#undef` needs the name of a macro",
                    );
                }
            },
            ("include", true) => self.include(Inclusion::Include, rest, span),
            ("include_next", true) => self.include(Inclusion::Next, rest, span),
            ("import", true) => self.include(Inclusion::Import, rest, span),
            ("error", true) => {
                let text = self.line_text(rest);
                self.diagnostics
                    .error(Code::USER_ERROR, span, format!("#error: {text}"));
            }
            ("warning", true) => {
                let text = self.line_text(rest);
                self.diagnostics
                    .warning(Warning::Preprocessor, span, format!("#warning: {text}"));
            }
            ("line", true) => {
                let rest = self.expand_list(rest.to_vec());
                self.line_directive(&rest, span);
            }
            ("pragma", true) => self.pragma(rest, span),
            ("ident" | "sccs" | "assert" | "unassert", true) => {}
            (_, true) if name.kind == TokenKind::Number => self.line_directive(line, span),
            (text, true) => self.unknown_directive(text, span),
        }
    }

    fn unknown_directive(&mut self, text: &str, span: Span) {
        let message = format!("unknown directive `#{text}`");
        let warning = Diagnostic::warning(Warning::Preprocessor, span, message)
            .note("the line is ignored, as by p4c");
        self.diagnostics
            .report(match crate::diag::closest(text, NAMES.iter().copied()) {
                Some(near) => warning.help(format!("did you mean `#{near}`?")),
                None => warning,
            });
    }

    fn open_conditional(&mut self, span: Span, value: bool, active: bool) {
        if let Some(file) = self.files.last_mut() {
            file.conditionals.push(Conditional {
                span,
                active: active && value,
                done: !active || value,
                in_else: false,
            });
        }
    }

    fn is_defined(&mut self, rest: &[Token], directive: &Token) -> bool {
        match rest.first() {
            Some(name) if name.kind == TokenKind::Ident => self.macros.contains_key(&name.text),
            _ => {
                let message = format!("`#{}` needs the name of a macro", directive.text);
                self.diagnostics
                    .error(Code::DIRECTIVE, directive.span, message);
                false
            }
        }
    }

    fn elif(&mut self, name: &Token, rest: &[Token], span: Span) {
        let top = self.files.last().and_then(|f| f.conditionals.last());
        let Some(top) = top else {
            self.diagnostics.error(
                Code::DIRECTIVE,
                span,
                format!("`#{}` without `#if`", name.text),
            );
            return;
        };
        if top.in_else {
            self.diagnostics.report(
                Diagnostic::error(
                    Code::DIRECTIVE,
                    span,
                    format!("`#{}` after `#else`", name.text),
                )
                .other(top.span, "the conditional begins here"),
            );
            return;
        }
        let value = !top.done
            && match &*name.text {
                "elif" => self.condition(rest, span),
                "elifdef" => self.is_defined(rest, name),
                _ => !self.is_defined(rest, name),
            };
        if let Some(top) = self
            .files
            .last_mut()
            .and_then(|f| f.conditionals.last_mut())
        {
            top.active = value;
            top.done |= value;
        }
    }

    fn else_branch(&mut self, span: Span) {
        match self
            .files
            .last_mut()
            .and_then(|f| f.conditionals.last_mut())
        {
            None => {
                self.diagnostics
                    .error(Code::DIRECTIVE, span, "`#else` without `#if`");
            }
            Some(top) if top.in_else => {
                let begin = top.span;
                self.diagnostics.report(
                    Diagnostic::error(Code::DIRECTIVE, span, "second `#else` of one conditional")
                        .other(begin, "the conditional begins here"),
                );
            }
            Some(top) => {
                top.active = !top.done;
                top.done = true;
                top.in_else = true;
            }
        }
    }

    /// Source text from the first to the last token of `rest`.
    fn line_text(&self, rest: &[Token]) -> String {
        let (Some(first), Some(last)) = (rest.first(), rest.last()) else {
            return String::new();
        };
        let text = self.map.text(first.span.to(last.span));
        let text = text.replace("\\\r\n", "").replace("\\\n", "");
        let inner = text.strip_prefix('"').and_then(|t| t.strip_suffix('"'));
        inner.unwrap_or(&text).to_owned()
    }

    fn include(&mut self, how: Inclusion, rest: &[Token], span: Span) {
        let Some((name, system, at)) = self.include_name(rest, span) else {
            self.diagnostics.report(
                Diagnostic::error(Code::DIRECTIVE, span, "`#include` needs a file name")
                    .help("write `#include <core.p4>` or `#include \"headers.p4\"`"),
            );
            return;
        };
        if self.files.len() > MAX_INCLUDES {
            self.files.clear();
            self.diagnostics.report_last(
                Diagnostic::error(
                    Code::LIMIT,
                    at,
                    format!("files include each other more than {MAX_INCLUDES} deep"),
                )
                .help(format!(
                    "if `{name}` includes itself, guard it with `#ifndef`"
                )),
            );
            return;
        }
        let includer = self.includer();
        let dir = includer.parent().filter(|_| !system);
        let from = self.search_start(dir, how == Inclusion::Next);
        match find(&name, from, &self.options.include_dirs, self.loader) {
            Ok(found) if self.read_once.contains(&found.name) => {}
            Ok(found) => {
                let first = self.files_read.insert(found.name.clone());
                if how == Inclusion::Import {
                    self.read_once.insert(found.name.clone());
                    if !first {
                        return;
                    }
                }
                let shipped = found.name.starts_with(super::include::SHIPPED);
                let id = self.map.add(found.name, found.text);
                if system
                    || shipped
                    || self
                        .files
                        .last()
                        .is_some_and(|f| self.map.file(f.id).system)
                {
                    self.map.file_mut(id).system = true;
                    self.diagnostics.mark_system(id, 0, true);
                }
                self.enter_file(id, found.folder);
            }
            Err(e) if e.kind() == ErrorKind::NotFound && self.options.missing_are_generated => {
                self.missing.push(name);
            }
            Err(e) if e.kind() == ErrorKind::NotFound => {
                let mut d =
                    Diagnostic::error(Code::INCLUDE, at, format!("file `{name}` not found"));
                let searched: Vec<String> = dir
                    .map(|d| {
                        if d.as_os_str().is_empty() {
                            ".".into()
                        } else {
                            d.display().to_string()
                        }
                    })
                    .into_iter()
                    .chain(
                        self.options
                            .include_dirs
                            .iter()
                            .map(|d| d.display().to_string()),
                    )
                    .collect();
                if !searched.is_empty() {
                    d = d.note(format!("searched in {}", searched.join(", ")));
                }
                let known = shipped_files()
                    .iter()
                    .map(|(name, _)| name.trim_end_matches(".p4"));
                d = match crate::diag::closest(name.trim_end_matches(".p4"), known) {
                    Some(near) => d.help(format!("did you mean `{near}.p4`?")),
                    None => d.help("add its folder with `-I`"),
                };
                self.diagnostics.report(d);
            }
            Err(e) => {
                self.diagnostics
                    .error(Code::INCLUDE, at, format!("cannot read file: {e}"));
            }
        }
    }

    /// Path of the current file.
    fn includer(&self) -> PathBuf {
        let file = self.files.last();
        file.map(|f| self.map.file(f.id).name.clone().into())
            .unwrap_or_default()
    }

    /// The start of the search for a file that the current file includes. `own`: folder of the current file, for `"..."`. `next`: for
    /// `#include_next`.
    fn search_start<'d>(&self, own: Option<&'d Path>, next: bool) -> SearchStart<'d> {
        let folder = self.files.last().and_then(|f| f.folder);
        match (next.then_some(folder).flatten(), own) {
            (Some(folder), _) => SearchStart::Folder(folder + 1),
            (None, Some(own)) => SearchStart::Own(own),
            (None, None) => SearchStart::Folder(0),
        }
    }

    /// Whether an `#include` of this file would find it.
    pub(super) fn has_file(&mut self, name: &str, system: bool, next: bool) -> bool {
        let includer = self.includer();
        let from = self.search_start(includer.parent().filter(|_| !system), next);
        find(name, from, &self.options.include_dirs, self.loader).is_ok()
    }

    /// Parses the operand of `#include`: file name, whether it is in `<>`, and position. `None` after a reported error.
    pub(super) fn include_name(
        &mut self,
        rest: &[Token],
        span: Span,
    ) -> Option<(String, bool, Span)> {
        let first = rest.first()?;
        let at = first.span.to(rest.last()?.span);
        match first.kind {
            TokenKind::String => {
                let name = first.text.trim_matches('"').to_owned();
                (!name.is_empty()).then_some((name, false, first.span))
            }
            // The name in `<>` is source text, not tokens.
            TokenKind::Lt => {
                let file = self.map.file(first.span.file);
                let line = &file.text[first.span.hi as usize..];
                let line = line.lines().next().unwrap_or("");
                let name = line[..line.find('>')?].trim().to_owned();
                (!name.is_empty()).then_some((name, true, at))
            }
            _ => {
                let expanded = self.expand_list(rest.to_vec());
                let first = expanded.first()?;
                if first.kind == TokenKind::String {
                    return Some((first.text.trim_matches('"').to_owned(), false, at));
                }
                let blank = |t: &Token| if t.space_before { " " } else { "" };
                let text: String = expanded.iter().flat_map(|t| [blank(t), &t.text]).collect();
                let name = text.trim().strip_prefix('<')?.strip_suffix('>')?.to_owned();
                Some((name, true, span))
            }
        }
    }

    /// Executes `#line 12 "file"`, or a line marker `# 12 "file" 1` of an earlier preprocessor.
    fn line_directive(&mut self, rest: &[Token], span: Span) {
        let line = rest
            .first()
            .filter(|t| t.kind == TokenKind::Number)
            .and_then(|t| t.text.parse().ok());
        let Some(line) = line else {
            self.diagnostics.report(
                Diagnostic::error(Code::DIRECTIVE, span, "`#line` needs a line number")
                    .help("write `#line 12` or `#line 12 \"file.p4\"`"),
            );
            return;
        };
        let file = rest
            .get(1)
            .filter(|t| t.kind == TokenKind::String)
            .map(|t| t.text.trim_matches('"').to_owned());
        // The flag 3 marks a system header in line markers of `cpp`.
        let system = rest.iter().skip(2).any(|t| &*t.text == "3");
        if let Some(open) = self.files.last() {
            let id = open.id;
            self.map.file_mut(id).set_line(span.lo, line, file, system);
            let system = system || self.map.file(id).system;
            self.diagnostics.mark_system(id, span.lo, system);
        }
    }
}
