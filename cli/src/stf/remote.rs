//! A started switch: P4Runtime by its server, packets over veth pairs.
//!
//! Everything happens in a network namespace of its own, which goes with this process: interfaces and addresses disturb nobody.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::{Duration, Instant};

use alfirk_compiler::driver::Compiled;
use alfirk_p4runtime::p4::v1::p4_runtime_client::P4RuntimeClient;
use alfirk_p4runtime::p4::v1::{Entity, ReadRequest, StreamMessageRequest, WriteRequest};
use alfirk_p4runtime::Status;
use alfirk_stf::{arbitration, pipeline_config, told, Packets, Target};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::{Channel, Endpoint};

use super::process::Process;
use super::wires::Wires;
use crate::exit::Failure;

/// Where the switch serves P4Runtime, in the namespace.
const ADDRESS: &str = "127.0.0.1:9559";

/// How long a switch may take until it answers.
const START_LIMIT: Duration = Duration::from_secs(20);

/// How long expected packets may take.
const PATIENCE: Duration = Duration::from_secs(2);

/// How long a switch that has nothing more to send is silent. Packets that nobody expects are noticed within it.
const SILENCE: Duration = Duration::from_millis(100);

/// Between two looks at the ports.
const INTERVAL: Duration = Duration::from_millis(2);

/// A switch in a process of its own.
pub struct Remote {
    wires: Wires,
    client: P4RuntimeClient<Channel>,
    /// The stream of the primary is open as long as this.
    _requests: mpsc::Sender<StreamMessageRequest>,
    _process: Process,
    /// A packet was sent since the switch was last silent.
    under_way: bool,
}

impl Remote {
    /// Starts `exe` with these ports, waits for its server, becomes its primary, and loads the program. To be called within a
    /// runtime of one thread, which is in the namespace, and whose sockets so are.
    ///
    /// # Errors
    /// Without root, and whatever the switch has against it.
    pub async fn start(
        exe: &Path,
        program: &Compiled,
        ports: BTreeSet<u32>,
    ) -> Result<Remote, Failure> {
        let wires = Wires::new(ports)?;
        let mut process = Process::start(exe, ADDRESS, &wires.interfaces())?;
        let refused = |error: tonic::Status| {
            Failure::failed(format_args!("--switch: {}", told(&Status::from(error))))
        };
        let endpoint =
            Endpoint::from_shared(format!("http://{ADDRESS}")).map_err(Failure::failed)?;
        let start = Instant::now();
        let channel = loop {
            match endpoint.connect().await {
                Ok(channel) => break channel,
                Err(error) if start.elapsed() > START_LIMIT => {
                    return Err(Failure::failed(format_args!(
                        "--switch: no P4Runtime server at {ADDRESS}: {error}"
                    )));
                }
                Err(_) => process.is_alive()?,
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        };
        let mut client = P4RuntimeClient::new(channel).max_decoding_message_size(usize::MAX);
        let (requests, stream) = mpsc::channel(1);
        requests
            .send(arbitration())
            .await
            .map_err(Failure::failed)?;
        let stream = client
            .stream_channel(ReceiverStream::new(stream))
            .await
            .map_err(refused)?;
        let mut messages = stream.into_inner();
        messages.message().await.map_err(refused)?;
        // Digests and notifications that no test asks for.
        tokio::spawn(async move { while let Ok(Some(_)) = messages.message().await {} });
        client
            .set_forwarding_pipeline_config(pipeline_config(
                &program.p4info,
                &program.json.to_text(),
            ))
            .await
            .map_err(refused)?;
        Ok(Remote {
            wires,
            client,
            _requests: requests,
            _process: process,
            under_way: false,
        })
    }
}

impl Target for Remote {
    type Error = Failure;

    fn send(&mut self, port: u32, data: &[u8], _: &mut Packets) -> Result<(), String> {
        self.under_way = true;
        self.wires.send(port, data)
    }

    async fn settle(&mut self, packets: &mut Packets) -> Result<(), Failure> {
        if !std::mem::take(&mut self.under_way) {
            return Ok(());
        }
        let start = tokio::time::Instant::now();
        let mut heard = start;
        loop {
            if self
                .wires
                .receive(|port, frame| packets.received(port, frame.to_vec()))?
            {
                heard = tokio::time::Instant::now();
            }
            let patient = !packets.are_complete() && start.elapsed() < PATIENCE;
            if !patient && heard.elapsed() >= SILENCE {
                return Ok(());
            }
            tokio::time::sleep(INTERVAL).await;
        }
    }

    async fn pass(&mut self, time: Duration) {
        tokio::time::sleep(time).await;
    }

    async fn write(&mut self, request: WriteRequest) -> Result<(), Status> {
        self.client.write(request).await?;
        Ok(())
    }

    async fn read(&mut self, request: ReadRequest) -> Result<Vec<Entity>, Status> {
        let mut responses = self.client.read(request).await?.into_inner();
        let mut entities = Vec::new();
        while let Some(response) = responses.message().await? {
            entities.extend(response.entities);
        }
        Ok(entities)
    }

    fn clone_session_0(&mut self, _: Option<&[(u32, u16)]>) -> Result<(), String> {
        let what =
            "P4Runtime has no clone session 0; use one from 1, or run the test without --switch";
        Err(what.to_owned())
    }

    fn exclude(&mut self, _: u32, _: u32, _: u16) -> Result<(), String> {
        Err(no_exclusions())
    }

    fn prune(&mut self, _: u16, _: &[u32]) -> Result<(), String> {
        Err(no_exclusions())
    }
}

fn no_exclusions() -> String {
    "P4Runtime has no exclusions of replication; run the test without --switch".to_owned()
}
