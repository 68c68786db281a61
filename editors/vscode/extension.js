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

async function activate(context) {
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
