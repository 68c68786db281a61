//! Tests a switch process: entries are written through its P4Runtime server, packets are exchanged over veth pairs.
//!
//! Runs in a network namespace of its own, which ends with this process, so interfaces and addresses do not conflict with others.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::{Duration, Instant};

use alfirk_compiler::driver::Compiled;
use alfirk_p4runtime::p4::v1::p4_runtime_client::P4RuntimeClient;
use alfirk_p4runtime::p4::v1::{Entity, ReadRequest, StreamMessageRequest, WriteRequest};
use alfirk_p4runtime::Status;
use alfirk_stf::{arbitration, pipeline_config, rejection_message, Packets, Target};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::{Channel, Endpoint};

use super::process::Process;
use super::veth::VethPairs;
use crate::exit::Failure;

/// Address of the switch's P4Runtime server, in the test's network namespace.
const ADDRESS: &str = "127.0.0.1:9559";

/// Time limit for the switch to start its P4Runtime server.
const START_LIMIT: Duration = Duration::from_secs(20);

/// Time limit for the arrival of all expected packets.
const EXPECTED_LIMIT: Duration = Duration::from_secs(2);

/// Time without packets after which the switch counts as idle. Unexpected packets that arrive later are not detected.
const IDLE_TIME: Duration = Duration::from_millis(100);

/// Interval between two polls of the ports for packets.
const POLL_INTERVAL: Duration = Duration::from_millis(2);

/// A switch under test in a process of its own.
pub struct Remote {
    veth: VethPairs,
    client: P4RuntimeClient<Channel>,
    /// Keeps the P4Runtime stream open, so that this client stays the primary one.
    _requests: mpsc::Sender<StreamMessageRequest>,
    _process: Process,
    /// Port of the last packet sent since the switch was last idle.
    sent_to: Option<u32>,
}

impl Remote {
    /// Starts the switch `exe` with these ports, becomes its primary P4Runtime client, and loads the program. Moves the
    /// calling thread to a new network namespace; the async runtime must have a single thread, so that its sockets are
    /// in that namespace, too.
    ///
    /// # Errors
    /// Root is missing, or the switch reports an error.
    pub async fn start(
        exe: &Path,
        program: &Compiled,
        ports: BTreeSet<u32>,
    ) -> Result<Remote, Failure> {
        let veth = VethPairs::new(ports)?;
        let mut process = Process::start(exe, ADDRESS, &veth.interfaces())?;
        let refused = |error: tonic::Status| {
            Failure::failed(format_args!(
                "--switch: {}",
                rejection_message(&Status::from(error))
            ))
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
                Err(_) => process.check_alive()?,
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
        // Discards digests and notifications, which tests do not check.
        tokio::spawn(async move { while let Ok(Some(_)) = messages.message().await {} });
        client
            .set_forwarding_pipeline_config(pipeline_config(
                &program.p4info,
                &program.json.to_text(),
            ))
            .await
            .map_err(refused)?;
        Ok(Remote {
            veth,
            client,
            _requests: requests,
            _process: process,
            sent_to: None,
        })
    }

    /// Receives packets until the switch is idle. Waits for expected packets up to `limit`.
    async fn receive(&mut self, packets: &mut Packets, limit: Duration) -> Result<(), Failure> {
        let start = tokio::time::Instant::now();
        let mut last_received = start;
        loop {
            if self.receive_arrived(packets)? {
                last_received = tokio::time::Instant::now();
            }
            let patient = !packets.are_complete() && start.elapsed() < limit;
            if !patient && last_received.elapsed() >= IDLE_TIME {
                return Ok(());
            }
            tokio::time::sleep(POLL_INTERVAL).await;
        }
    }

    /// Receives the packets that have arrived; returns whether there were any.
    fn receive_arrived(&mut self, packets: &mut Packets) -> Result<bool, Failure> {
        self.veth
            .receive(|port, frame| packets.received(port, frame.to_vec()))
    }
}

impl Target for Remote {
    type Error = Failure;

    async fn send(&mut self, port: u32, data: &[u8], packets: &mut Packets) -> Result<(), String> {
        // A switch can receive from its ports in another order than that of the packets.
        if self.sent_to.is_some_and(|last| last != port) {
            let received = self.receive(packets, Duration::ZERO).await;
            received.map_err(|error| error.message())?;
        }
        self.sent_to = Some(port);
        self.veth.send(port, data)
    }

    async fn settle(&mut self, packets: &mut Packets) -> Result<(), Failure> {
        match self.sent_to.take() {
            Some(_) => self.receive(packets, EXPECTED_LIMIT).await,
            // Late packets, as those that leave during a `wait`.
            None => self.receive_arrived(packets).map(drop),
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
            "P4Runtime has no clone session 0; use a session from 1 on, or run the test without --switch";
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
    "P4Runtime has no exclusion ids for replication; run the test without --switch".to_owned()
}
