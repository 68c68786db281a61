// Editors of P4 and STF.

import {
  autocompletion, bracketMatching, closeBrackets, closeBracketsKeymap, completionKeymap, Decoration, defaultKeymap, drawSelection,
  EditorState, EditorView, highlightActiveLine, highlightActiveLineGutter, highlightSelectionMatches, HighlightStyle, history,
  historyKeymap, hoverTooltip, indentOnInput, indentUnit, indentWithTab, keymap, lineNumbers, lintGutter, lintKeymap, search,
  searchKeymap, setDiagnostics, StateEffect, StateField, StreamLanguage, syntaxHighlighting, tags,
} from "./codemirror.js";

const words = (text) => new Set(text.split(" "));
const KEYWORDS = words(
  "abstract action actions apply const control default else entries enum error exit extern header header_union if in inout key " +
    "match_kind out package parser return select state struct switch table transition type typedef value_set for break continue",
);
const TYPES = words("bit bool int varbit void string tuple list");
const ATOMS = words("true false accept reject exact lpm ternary range optional selector");
const COMMANDS = words(
  "packet expect no_packet wait add setdefault remove mirroring_add mirroring_add_mc mirroring_delete mirroring_get mc_mgrp_create " +
    "mc_node_create mc_node_update mc_node_associate mc_node_exclude mc_exclude register_read register_write register_reset " +
    "counter_read counter_write check_counter meter_get_rates meter_set_rates meter_array_set_rates dump",
);

const p4 = StreamLanguage.define({
  name: "p4",
  startState: () => ({ isComment: false }),
  token(stream, state) {
    if (state.isComment) {
      state.isComment = !stream.match(/^.*?\*\//);
      if (state.isComment) stream.skipToEnd();
      return "comment";
    }
    if (stream.eatSpace()) return null;
    if (stream.match("//")) {
      stream.skipToEnd();
      return "comment";
    }
    if (stream.match("/*")) {
      state.isComment = true;
      return "comment";
    }
    if (stream.sol() && stream.match("#")) {
      stream.skipToEnd();
      return "meta";
    }
    if (stream.match(/^"(\\.|[^"\\])*"?/)) return "string";
    if (stream.match(/^@[A-Za-z_]\w*/)) return "meta";
    if (stream.match(/^(\d+[ws])?(0[xX][\da-fA-F_]+|0[bB][01_]+|0[oO][0-7_]+|\d[\d_]*)/)) return "number";
    const word = stream.match(/^[A-Za-z_]\w*/);
    if (word) {
      if (KEYWORDS.has(word[0])) return "keyword";
      if (TYPES.has(word[0]) || /_t$/.test(word[0])) return "typeName";
      return ATOMS.has(word[0]) ? "atom" : "variableName";
    }
    stream.next();
    return null;
  },
  languageData: { commentTokens: { line: "//", block: { open: "/*", close: "*/" } } },
});

const stf = StreamLanguage.define({
  name: "stf",
  startState: () => ({}),
  token(stream) {
    if (stream.eatSpace()) return null;
    if (stream.match("#")) {
      stream.skipToEnd();
      return "comment";
    }
    const isFirst = /^\s*$/.test(stream.string.slice(0, stream.pos));
    const word = stream.match(/^[\w.$*[\]]+/);
    if (word && isFirst && COMMANDS.has(word[0].toLowerCase())) return "keyword";
    if (word) return /^(0x)?[\da-fA-F*]+\$?$/.test(word[0]) ? "number" : "variableName";
    stream.next();
    return null;
  },
  languageData: { commentTokens: { line: "#" } },
});

const colors = HighlightStyle.define([
  { tag: tags.keyword, color: "var(--keyword)" },
  { tag: tags.comment, color: "var(--faint)", fontStyle: "italic" },
  { tag: tags.typeName, color: "var(--type)" },
  { tag: tags.number, color: "var(--number)" },
  { tag: tags.string, color: "var(--string)" },
  { tag: tags.atom, color: "var(--number)" },
  { tag: tags.meta, color: "var(--meta)" },
]);

const lit = StateEffect.define();
const litLine = StateField.define({
  create: () => Decoration.none,
  update(value, transaction) {
    let next = value.map(transaction.changes);
    for (const effect of transaction.effects) {
      if (!effect.is(lit)) continue;
      next = effect.value === null ? Decoration.none : Decoration.set([Decoration.line({ class: "lit" }).range(effect.value)]);
    }
    return next;
  },
  provide: (field) => EditorView.decorations.from(field),
});

const KINDS = {
  2: "method", 3: "function", 5: "property", 6: "variable", 7: "class", 9: "namespace", 10: "property", 14: "keyword", 20: "enum",
  21: "constant", 22: "type", 23: "text",
};

/** Position of the Language Server Protocol. */
function positionOf(state, offset) {
  const line = state.doc.lineAt(offset);
  return { line: line.number - 1, character: offset - line.from };
}

/** Offset of a position of the Language Server Protocol; the nearest one if the text has no such position. */
function offsetOf(state, { line, character }) {
  const found = state.doc.line(Math.min(Math.max(line + 1, 1), state.doc.lines));
  return Math.min(found.from + character, found.to);
}

/** Elements for the Markdown of a hover: code blocks and paragraphs. */
function rendered(markdown) {
  const box = document.createElement("div");
  box.className = "hover";
  for (const [index, part] of markdown.split(/```\w*\n?/).entries()) {
    if (!part.trim()) continue;
    const element = document.createElement(index % 2 ? "pre" : "p");
    element.textContent = index % 2 ? part.trimEnd() : part.trim().replaceAll("`", "");
    box.append(element);
  }
  return box;
}

/**
 * Creates an editor.
 *
 * `request(method, parameters)`: forwards a request to the language server; left out for editors without one.
 */
export function createEditor(parent, { language, label, changed, request }) {
  const complete = async (context) => {
    if (!request) return null;
    const word = context.matchBefore(/\w*/);
    const before = context.state.sliceDoc(Math.max(0, word.from - 1), word.from);
    if (word.from === word.to && before !== "." && !context.explicit) return null;
    const items = await request("completion", { position: positionOf(context.state, context.pos) });
    const options = (items ?? []).map((item, index) => ({
      label: item.label, detail: item.detail, type: KINDS[item.kind] ?? "text", boost: -Math.min(index, 98),
    }));
    return options.length ? { from: word.from, options, validFor: /^\w*$/ } : null;
  };
  const hover = hoverTooltip(async (view, offset) => {
    if (!request) return null;
    const found = await request("hover", { position: positionOf(view.state, offset) });
    if (!found) return null;
    const { range, contents } = found;
    return {
      pos: range ? offsetOf(view.state, range.start) : offset,
      end: range ? offsetOf(view.state, range.end) : offset,
      above: true,
      create: () => ({ dom: rendered(contents.value) }),
    };
  });
  const nonce = document.querySelector("meta[name=style-nonce]").content;
  const extensions = (isReadOnly) => [
    EditorView.cspNonce.of(nonce),
    lineNumbers(), highlightActiveLine(), highlightActiveLineGutter(), drawSelection(), history(), indentOnInput(), bracketMatching(),
    closeBrackets(), search({ top: true }), highlightSelectionMatches(), indentUnit.of("    "),
    language === "p4" ? [p4, lintGutter(), hover] : stf,
    syntaxHighlighting(colors),
    autocompletion({ override: [complete] }),
    litLine,
    EditorState.readOnly.of(isReadOnly),
    EditorView.contentAttributes.of({ "aria-label": label }),
    keymap.of([
      ...closeBracketsKeymap, ...completionKeymap, ...searchKeymap, ...historyKeymap, ...lintKeymap, ...defaultKeymap, indentWithTab,
    ]),
    EditorView.updateListener.of((update) => {
      if (update.docChanged) changed(update.state.doc.toString());
    }),
  ];
  const stateOf = (text, isReadOnly) => EditorState.create({ doc: text, extensions: extensions(isReadOnly) });
  const view = new EditorView({ parent, state: stateOf("", false) });
  const lightLine = (line) => {
    if (line < 1 || line > view.state.doc.lines) return;
    const { from } = view.state.doc.line(line);
    view.dispatch({ effects: [lit.of(from), EditorView.scrollIntoView(from, { y: "center" })] });
  };
  return {
    text: () => view.state.doc.toString(),
    /** Shows another text, without its history. */
    show: (text, isReadOnly = false) => view.setState(stateOf(text, isReadOnly)),
    /** Replaces the text, as one change that can be undone. */
    replace: (text) => view.dispatch({ changes: { from: 0, to: view.state.doc.length, insert: text } }),
    /** Shows diagnostics of the Language Server Protocol. */
    diagnose(found) {
      const severities = [null, "error", "warning", "info", "hint"];
      const all = found.map((diagnostic) => {
        const from = offsetOf(view.state, diagnostic.range.start);
        const to = Math.max(from, offsetOf(view.state, diagnostic.range.end));
        return { from, to, severity: severities[diagnostic.severity] ?? "info", message: diagnostic.message };
      });
      view.dispatch(setDiagnostics(view.state, all));
    },
    light: lightLine,
    unlight: () => view.dispatch({ effects: lit.of(null) }),
    /** Moves the cursor to a line and a column, from 1. */
    goTo(line, column) {
      const offset = offsetOf(view.state, { line: line - 1, character: column - 1 });
      view.dispatch({ selection: { anchor: offset }, effects: EditorView.scrollIntoView(offset, { y: "center" }) });
      view.focus();
    },
    focus: () => view.focus(),
  };
}
