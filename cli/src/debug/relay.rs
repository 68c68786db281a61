//! Debugging of a running switch: messages between the editor and the debugger in the switch, which are carried by gRPC.

use alfirk_ctrl::client::root_cause;
use alfirk_p4runtime::alfirk::debug::v1::{debug_client::DebugClient, Message};
use serde_json::{json, Value};
use tokio::runtime::Runtime;
use tokio::sync::mpsc;
use tokio_stream::wrappers::UnboundedReceiverStream;
use tonic::{Code, Status, Streaming};

use super::editor::Editor;
use crate::connection::TlsArgs;
use crate::exit::{Failure, Outcome};

/// Maximum length of a message of the switch in bytes.
const MAX_MESSAGE: usize = 64 << 20;

/// The connection to the debugger in a switch.
pub struct Relay {
    runtime: Runtime,
    address: String,
    to_switch: mpsc::UnboundedSender<Message>,
    from_switch: Streaming<Message>,
}

impl Relay {
    /// Connects to the switch whose P4Runtime server has this address: `HOST:PORT`, or `unix:PATH`. `tls`: flags of TLS.
    ///
    /// # Errors
    /// There is no switch, it cannot be debugged, or another debugger is attached.
    pub fn connect(address: &str, tls: &TlsArgs) -> Result<Relay, String> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|error| format!("cannot start the async runtime: {error}"))?;
        let endpoint = tls.endpoint(address, |why| format!("{address}: {why}"));
        let endpoint = endpoint.map_err(|failure| failure.message())?;
        let (to_switch, requests) = mpsc::unbounded_channel();
        let from_switch = runtime.block_on(async {
            let channel = endpoint
                .connect()
                .await
                .map_err(|error| format!("no switch at {address}: {}", root_cause(&error)))?;
            let mut client = DebugClient::new(channel).max_decoding_message_size(MAX_MESSAGE);
            let attached = client.attach(UnboundedReceiverStream::new(requests)).await;
            attached.map_err(|status| refusal(address, &status))
        })?;
        Ok(Relay {
            runtime,
            address: address.to_owned(),
            to_switch,
            from_switch: from_switch.into_inner(),
        })
    }

    /// Carries messages until the editor or the switch ends the session. `first`: requests that the editor has sent already,
    /// of which the first was answered.
    pub fn run(mut self, first: &[Value], editor: &mut Editor, mut seq: i64) -> Outcome {
        for message in first {
            self.send(message);
        }
        enum Input {
            Editor(Result<Option<Value>, Failure>),
            Switch(Result<Option<Message>, Status>),
        }
        loop {
            let input = self.runtime.block_on(async {
                tokio::select! {
                    message = editor.next_async() => Input::Editor(message),
                    message = self.from_switch.message() => Input::Switch(message),
                }
            });
            match input {
                Input::Editor(Ok(Some(message))) => self.send(&message),
                Input::Editor(Ok(None)) | Input::Switch(Ok(None)) => return Ok(()),
                Input::Editor(Err(failure)) => return Err(failure),
                Input::Switch(Ok(Some(message))) => {
                    let Ok(mut message) = serde_json::from_str::<Value>(&message.json) else {
                        continue;
                    };
                    if message["type"] == "response" && message["command"] == "initialize" {
                        continue;
                    }
                    seq += 1;
                    message["seq"] = json!(seq);
                    if !editor.send(&[message])? {
                        return Ok(());
                    }
                }
                Input::Switch(Err(status)) => {
                    let why = refusal(&self.address, &status);
                    let output = json!({"category": "stderr", "output": format!("{why}\n")});
                    editor.send(&[
                        json!({"seq": seq + 1, "type": "event", "event": "output", "body": output}),
                        json!({"seq": seq + 2, "type": "event", "event": "terminated"}),
                    ])?;
                    return Err(Failure::failed(why));
                }
            }
        }
    }

    fn send(&self, message: &Value) {
        let json = message.to_string();
        // A closed stream is seen by the next reading.
        let _ = self.to_switch.send(Message { json });
    }
}

/// Returns the message for an error that the switch has returned.
fn refusal(address: &str, status: &Status) -> String {
    match status.code() {
        Code::Unimplemented => {
            format!("the switch at {address} cannot be debugged; this needs an `alfirk switch`")
        }
        Code::ResourceExhausted | Code::FailedPrecondition | Code::InvalidArgument => {
            format!("the switch at {address}: {}", status.message())
        }
        _ => format!("the switch at {address} has ended: {}", root_cause(status)),
    }
}
