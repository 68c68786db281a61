// Starts `alfirk lsp` for P4 files. The language support is in the server.
"use strict";

const { existsSync } = require("fs");
const vscode = require("vscode");
const { LanguageClient } = require("vscode-languageclient/node");

let client;

/** The initialization options of the server: the settings that the user has set. */
function options() {
    const settings = vscode.workspace.getConfiguration("alfirk");
    const given = {};
    for (const name of ["main", "arch", "includeDirs", "defines", "book"]) {
        const value = settings.get(name);
        if (value !== undefined && value !== null && value !== "") {
            given[name] = value;
        }
    }
    return given;
}

/**
 * The launch configuration of a packet test, for the test or its program: they have the same name, with the endings .stf and .p4.
 * With a table, the debugger stops there.
 */
function testConfiguration(uri, noDebug, table) {
    const settings = options();
    const name = uri.fsPath.replace(/\.(stf|p4)$/, "");
    return {
        type: "alfirk",
        request: "launch",
        name: noDebug ? "Run packet test" : "Debug packet test",
        program: `${name}.p4`,
        test: `${name}.stf`,
        noDebug,
        ...(table && { stopAt: table }),
        ...(settings.arch && { arch: settings.arch }),
        ...(settings.includeDirs && { includeDirs: settings.includeDirs }),
        ...(settings.defines && { defines: settings.defines }),
    };
}

/** The tables that a P4 text declares, outside of comments and strings, with the offsets of their declarations. */
function tables(text) {
    const found = [];
    for (const match of text.matchAll(/\/\/.*|\/\*[^]*?\*\/|"(?:\\.|[^"\\])*"|\btable\s+(\w+)\s*\{/g)) {
        if (match[1]) {
            found.push({ name: match[1], offset: match.index });
        }
    }
    return found;
}

/** Debugger, commands and lenses of packet tests. */
function debugging() {
    const start = (noDebug) => (uri, table) => {
        const test = uri ?? vscode.window.activeTextEditor?.document.uri;
        return test && vscode.debug.startDebugging(undefined, testConfiguration(test, noDebug, table));
    };
    const lenses = {
        provideCodeLenses(document) {
            const top = new vscode.Range(0, 0, 0, 0);
            const lens = (title, command) =>
                new vscode.CodeLens(top, { title, command, arguments: [document.uri] });
            return [lens("Run packet test", "alfirk.runTest"), lens("Debug packet test", "alfirk.debugTest")];
        },
    };
    const tableLenses = {
        provideCodeLenses(document) {
            if (!existsSync(document.uri.fsPath.replace(/\.p4$/, ".stf"))) {
                return [];
            }
            return tables(document.getText()).map(({ name, offset }) => {
                const at = document.positionAt(offset);
                const call = { title: "Debug packet test", command: "alfirk.debugTest", arguments: [document.uri, name] };
                return new vscode.CodeLens(new vscode.Range(at, at), call);
            });
        },
    };
    const adapter = {
        createDebugAdapterDescriptor(session) {
            const command = vscode.workspace.getConfiguration("alfirk").get("command");
            const { run } = session.configuration;
            const fabric = ["run", "--debug", "--model", "exact", "--algorithms", "alfirk"];
            return new vscode.DebugAdapterExecutable(command, run ? [...fabric, ...run] : ["debug"]);
        },
    };
    return [
        vscode.commands.registerCommand("alfirk.runTest", start(true)),
        vscode.commands.registerCommand("alfirk.debugTest", start(false)),
        vscode.languages.registerCodeLensProvider({ scheme: "file", language: "stf" }, lenses),
        vscode.languages.registerCodeLensProvider({ scheme: "file", language: "p4" }, tableLenses),
        vscode.debug.registerDebugAdapterDescriptorFactory("alfirk", adapter),
    ];
}

async function activate(context) {
    context.subscriptions.push(...debugging());
    const command = vscode.workspace.getConfiguration("alfirk").get("command");
    const server = { command, args: ["lsp", "--stdio"] };
    client = new LanguageClient("alfirk", "Alfirk (P4_16)", server, {
        documentSelector: [{ scheme: "file", language: "p4" }],
        initializationOptions: options(),
    });
    context.subscriptions.push(
        vscode.workspace.onDidChangeConfiguration((event) => {
            if (event.affectsConfiguration("alfirk")) {
                client.sendNotification("workspace/didChangeConfiguration", { settings: { alfirk: options() } });
            }
        }),
    );
    try {
        await client.start();
    } catch (error) {
        vscode.window.showErrorMessage(
            `${command} lsp does not start: ${error.message}. Install alfirk, or set alfirk.command to where it is.`,
        );
    }
}

function deactivate() {
    return client?.stop();
}

module.exports = { activate, deactivate, tables };
