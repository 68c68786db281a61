//! A switch process and its controller.

use std::{
    io::{BufRead, BufReader, Read},
    os::unix::process::CommandExt,
    process::{Child, ChildStdout, Command, Stdio},
    time::Duration,
};

use alfirk_p4runtime::p4::v1::{
    p4_runtime_client::P4RuntimeClient, set_forwarding_pipeline_config_request::Action,
    stream_message_response::Update as Response, *,
};
use alfirk_switch::SwitchArgs;
use clap::Parser;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{
    transport::{Channel, Endpoint},
    Streaming,
};

use crate::fixture;

/// First argument that makes this binary the switch.
pub const AS_SWITCH: &str = "as-switch";

#[derive(Parser)]
struct Cli {
    #[command(flatten)]
    args: SwitchArgs,
}

/// Runs `alfirk switch`.
pub fn run_as_switch(arguments: &[String]) -> ! {
    let words = std::iter::once("switch").chain(arguments.iter().map(String::as_str));
    let args = Cli::parse_from(words).args;
    let result = args
        .start_logging("warn")
        .and_then(|()| alfirk_switch::run(&args, None));
    let code = match result {
        Ok(()) => 0,
        Err(error) => {
            eprintln!("{error}");
            i32::from(error.exit_code())
        }
    };
    std::process::exit(code);
}

/// Returns the command of the switch: this binary, or the one in `ALFIRK`.
fn command(address: &str, line: &[&str], target: &[String]) -> Command {
    let (program, verb) = match std::env::var_os("ALFIRK") {
        Some(alfirk) => (alfirk.into(), "switch"),
        None => (std::env::current_exe().unwrap(), AS_SWITCH),
    };
    let mut command = Command::new(program);
    let device = fixture::DEVICE.to_string();
    let cpu = fixture::CPU_PORT.to_string();
    command
        .args([verb, "--no-p4", "--device-id", &device])
        .args(line)
        .args(["--", "--cpu-port", &cpu, "--grpc-server-addr", address])
        .args(target)
        .stdin(Stdio::null())
        .stdout(Stdio::piped());
    // If the test is killed, the switch ends too, and with it the namespace.
    // SAFETY: prctl is a plain system call, allowed between fork and exec.
    unsafe {
        command.pre_exec(|| {
            match libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL as libc::c_ulong) {
                0 => Ok(()),
                _ => Err(std::io::Error::last_os_error()),
            }
        });
    }
    command
}

/// A running switch; killed when dropped.
pub struct Process {
    child: Child,
    output: BufReader<ChildStdout>,
    address: String,
}

impl Process {
    /// Starts a switch and waits until it listens.
    pub fn start(line: &[&str]) -> Process {
        Process::start_with(line, &[])
    }

    /// Starts a switch with more options after the `--`.
    pub fn start_with(line: &[&str], target: &[String]) -> Process {
        Process::start_at("127.0.0.1:0", line, target)
    }

    pub fn start_at(address: &str, line: &[&str], target: &[String]) -> Process {
        let mut child = command(address, line, target).spawn().unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        let mut process = Process {
            child,
            output,
            address: String::new(),
        };
        let line = process.wait_for_line("Server listening on ");
        process.address = line.trim().rsplit(' ').next().unwrap().to_owned();
        process
    }

    /// Starts a switch that is expected to fail; returns its exit code and output.
    pub fn fail(line: &[&str]) -> (Option<i32>, String) {
        Process::fail_with(line, &[])
    }

    pub fn fail_with(line: &[&str], target: &[String]) -> (Option<i32>, String) {
        Process::end(command("127.0.0.1:0", line, target))
    }

    pub fn fail_at(address: &str, line: &[&str]) -> (Option<i32>, String) {
        Process::end(command(address, line, &[]))
    }

    fn end(mut command: Command) -> (Option<i32>, String) {
        let output = command.stderr(Stdio::piped()).output().unwrap();
        let mut text = String::from_utf8(output.stdout).unwrap();
        text.push_str(&String::from_utf8_lossy(&output.stderr));
        (output.status.code(), text)
    }

    pub fn address(&self) -> &str {
        &self.address
    }

    /// Waits for a line that contains the text.
    pub fn wait_for_line(&mut self, text: &str) -> String {
        loop {
            let mut line = String::new();
            let len = self.output.read_line(&mut line).unwrap();
            assert_ne!(len, 0, "the switch ended before it said {text:?}");
            if line.contains(text) {
                return line;
            }
        }
    }

    /// Returns the processor time so far, in clock ticks (10 ms each).
    pub fn processor_ticks(&self) -> u64 {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.child.id())).unwrap();
        let fields: Vec<&str> = stat
            .rsplit(')')
            .next()
            .unwrap()
            .split_whitespace()
            .collect();
        fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap()
    }

    /// Returns the time for which the switch's main thread, which runs the server, was running or runnable.
    pub fn busy(&self) -> Duration {
        let path = format!("/proc/{}/schedstat", self.child.id());
        let stat = std::fs::read_to_string(path).unwrap();
        let fields = stat.split_whitespace().take(2);
        let nanos = fields.map(|field| field.parse::<u64>().unwrap());
        Duration::from_nanos(nanos.sum())
    }

    /// Returns the resident memory in bytes.
    pub fn memory(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let line = status
            .lines()
            .find(|line| line.starts_with("VmRSS:"))
            .unwrap();
        let kilobytes: u64 = line.split_whitespace().nth(1).unwrap().parse().unwrap();
        kilobytes * 1024
    }

    /// Whether the switch has an AF_XDP socket, by its completion ring in the memory map.
    pub fn has_xdp_socket(&self) -> bool {
        const COMPLETION_RING: &str = "180000000";
        let maps = std::fs::read_to_string(format!("/proc/{}/maps", self.child.id())).unwrap();
        let mut offsets = maps
            .lines()
            .filter_map(|line| line.split_whitespace().nth(2));
        offsets.any(|offset| offset == COMPLETION_RING)
    }

    /// Limits the number of open files.
    pub fn limit_files(&self, max: u64) {
        let limit = libc::rlimit {
            rlim_cur: max,
            rlim_max: max,
        };
        let pid = self.child.id() as i32;
        // SAFETY: the limit outlives the call, and the old one is not requested.
        let set = unsafe { libc::prlimit(pid, libc::RLIMIT_NOFILE, &limit, std::ptr::null_mut()) };
        assert_eq!(set, 0);
    }

    /// Stops the process until [`Process::resume`].
    pub fn pause(&self) {
        self.signal(libc::SIGSTOP);
        let threads = format!("/proc/{}/task", self.child.id());
        let is_paused = |thread: std::io::Result<std::fs::DirEntry>| {
            let stat = thread.unwrap().path().join("stat");
            std::fs::read_to_string(stat).unwrap().contains(") T ")
        };
        while !std::fs::read_dir(&threads).unwrap().all(is_paused) {
            std::thread::yield_now();
        }
    }

    pub fn resume(&self) {
        self.signal(libc::SIGCONT);
    }

    fn signal(&self, signal: i32) {
        // SAFETY: the process is a child that was not waited for yet.
        assert_eq!(unsafe { libc::kill(self.child.id() as i32, signal) }, 0);
    }

    /// Terminates the switch by SIGTERM, and checks the exit status.
    pub fn stop(self) {
        self.stop_by(libc::SIGTERM);
    }

    /// Terminates the switch by a signal, and checks the exit status.
    pub fn stop_by(mut self, signal: i32) {
        self.signal(signal);
        let mut rest = String::new();
        self.output.read_to_string(&mut rest).unwrap();
        assert_eq!(self.child.wait().unwrap().code(), Some(0), "{rest}");
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // Both fail after `stop`.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A primary controller.
pub struct Controller {
    pub client: P4RuntimeClient<Channel>,
    pub requests: mpsc::Sender<StreamMessageRequest>,
    pub responses: Streaming<StreamMessageResponse>,
    election: u64,
}

impl Controller {
    pub async fn connect(address: &str) -> Controller {
        Controller::connect_as(1, address).await
    }

    /// Connects with an election id, which must be the largest one.
    pub async fn connect_as(election: u64, address: &str) -> Controller {
        let url = match address.starts_with("unix:") {
            true => address.to_owned(),
            false => format!("http://{address}"),
        };
        let endpoint = Endpoint::from_shared(url).unwrap();
        Controller::over_as(election, endpoint.connect().await.unwrap()).await
    }

    pub async fn over(channel: Channel) -> Controller {
        Controller::over_as(1, channel).await
    }

    async fn over_as(election: u64, channel: Channel) -> Controller {
        let mut client = P4RuntimeClient::new(channel);
        let (requests, stream) = mpsc::channel(16);
        requests
            .send(fixture::arbitration(fixture::id(election)))
            .await
            .unwrap();
        let stream = client
            .stream_channel(ReceiverStream::new(stream))
            .await
            .unwrap();
        let mut controller = Controller {
            client,
            requests,
            responses: stream.into_inner(),
            election,
        };
        match controller.next().await {
            Response::Arbitration(update) => assert_eq!(update.status.unwrap().code, 0),
            other => panic!("{other:?}"),
        }
        controller
    }

    async fn next(&mut self) -> Response {
        let message = self.responses.message().await.unwrap();
        message
            .and_then(|message| message.update)
            .expect("the stream goes on")
    }

    pub async fn set_pipeline(&mut self, config: ForwardingPipelineConfig) {
        self.replace_pipeline(Action::VerifyAndCommit, config).await;
    }

    pub async fn replace_pipeline(&mut self, action: Action, config: ForwardingPipelineConfig) {
        let request = SetForwardingPipelineConfigRequest {
            device_id: fixture::DEVICE,
            election_id: fixture::id(self.election),
            action: action.into(),
            config: Some(config),
            ..Default::default()
        };
        self.client
            .set_forwarding_pipeline_config(request)
            .await
            .unwrap();
    }

    pub async fn insert(&mut self, entity: &str) {
        self.write(vec![fixture::update(update::Type::Insert, entity)])
            .await;
    }

    pub async fn write(&mut self, updates: Vec<Update>) {
        let request = WriteRequest {
            device_id: fixture::DEVICE,
            election_id: fixture::id(self.election),
            updates,
            ..Default::default()
        };
        self.client.write(request).await.unwrap();
    }

    pub async fn packet_in(&mut self) -> PacketIn {
        match self.next().await {
            Response::Packet(packet) => packet,
            other => panic!("{other:?}"),
        }
    }

    pub async fn packet_out(&mut self, packet: PacketOut) {
        let update = Some(stream_message_request::Update::Packet(packet));
        self.requests
            .send(StreamMessageRequest { update })
            .await
            .unwrap();
    }
}
