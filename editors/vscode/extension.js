// Starts `alfirk lsp` for P4 files. The language support is in the server.
"use strict";

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

/** The launch configuration of a packet test: the program has the test's name, with the ending .p4. */
function testConfiguration(uri, noDebug) {
    const settings = options();
    return {
        type: "alfirk",
        request: "launch",
        name: noDebug ? "Run packet test" : "Debug packet test",
        program: uri.fsPath.replace(/\.stf$/, ".p4"),
        test: uri.fsPath,
        noDebug,
        ...(settings.arch && { arch: settings.arch }),
        ...(settings.includeDirs && { includeDirs: settings.includeDirs }),
        ...(settings.defines && { defines: settings.defines }),
    };
}

/** Debugger, commands and lenses of packet tests. */
function debugging() {
    const start = (noDebug) => (uri) => {
        const test = uri ?? vscode.window.activeTextEditor?.document.uri;
        return test && vscode.debug.startDebugging(undefined, testConfiguration(test, noDebug));
    };
    const lenses = {
        provideCodeLenses(document) {
            const top = new vscode.Range(0, 0, 0, 0);
            const lens = (title, command) =>
                new vscode.CodeLens(top, { title, command, arguments: [document.uri] });
            return [lens("Run packet test", "alfirk.runTest"), lens("Debug packet test", "alfirk.debugTest")];
        },
    };
    const adapter = {
        createDebugAdapterDescriptor() {
            const command = vscode.workspace.getConfiguration("alfirk").get("command");
            return new vscode.DebugAdapterExecutable(command, ["debug"]);
        },
    };
    return [
        vscode.commands.registerCommand("alfirk.runTest", start(true)),
        vscode.commands.registerCommand("alfirk.debugTest", start(false)),
        vscode.languages.registerCodeLensProvider({ scheme: "file", language: "stf" }, lenses),
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

module.exports = { activate, deactivate };
