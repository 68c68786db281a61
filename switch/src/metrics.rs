//! Counters for Prometheus, served by a minimal HTTP server.

use std::{
    fmt::{Display, Write},
    io,
    net::SocketAddr,
    time::Duration,
};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    sync::oneshot,
    time::timeout,
};
use tracing::debug;

use super::command::{Command, CommandSender};

/// Time limit for receiving a client's request, and for sending the reply.
const CLIENT_TIMEOUT: Duration = Duration::from_secs(5);
/// Maximum size of the head of an HTTP request in bytes.
const MAX_HEAD: usize = 8192;
/// Pause after a failed attempt to accept a connection, which mostly fails for lack of file descriptors.
const ACCEPT_RETRY_PAUSE: Duration = Duration::from_millis(100);

/// Text in Prometheus' exposition format.
#[derive(Debug, Default)]
pub struct Exposition {
    text: String,
}

impl Exposition {
    /// Starts a family of counters.
    pub fn counter(&mut self, name: &str, help: &str) -> &mut Exposition {
        self.family(name, help, "counter")
    }

    /// Starts a family of gauges.
    pub fn gauge(&mut self, name: &str, help: &str) -> &mut Exposition {
        self.family(name, help, "gauge")
    }

    fn family(&mut self, name: &str, help: &str, kind: &str) -> &mut Exposition {
        // Writing to a string never fails, here and below.
        let _ = writeln!(self.text, "# HELP {name} {help}\n# TYPE {name} {kind}");
        self
    }

    /// Adds a sample to the current family.
    pub fn sample(
        &mut self,
        name: &str,
        labels: &[(&str, &dyn Display)],
        value: impl Display,
    ) -> &mut Exposition {
        self.text.push_str(name);
        for (i, (label, text)) in labels.iter().enumerate() {
            let open = if i == 0 { '{' } else { ',' };
            let text = text.to_string();
            let text = text.replace('\\', "\\\\").replace('"', "\\\"");
            let _ = write!(self.text, "{open}{label}=\"{}\"", text.replace('\n', "\\n"));
        }
        let close = if labels.is_empty() { "" } else { "}" };
        let _ = writeln!(self.text, "{close} {value}");
        self
    }

    pub fn into_text(self) -> String {
        self.text
    }
}

/// Starts to listen for HTTP connections.
///
/// # Errors
/// When the address is in use or not of this machine.
pub async fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    TcpListener::bind(address).await
}

/// Serves HTTP requests; never returns.
pub async fn serve(listener: TcpListener, commands: CommandSender) {
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                let commands = commands.clone();
                tokio::spawn(async move {
                    if let Ok(Err(error)) = timeout(CLIENT_TIMEOUT, reply(stream, &commands)).await
                    {
                        debug!("metrics: {error}");
                    }
                });
            }
            Err(error) => {
                debug!("metrics: {error}");
                tokio::time::sleep(ACCEPT_RETRY_PAUSE).await;
            }
        }
    }
}

async fn reply(mut stream: TcpStream, commands: &CommandSender) -> io::Result<()> {
    let mut head = Vec::new();
    while !head.windows(4).any(|end| end == b"\r\n\r\n") && head.len() < MAX_HEAD {
        if stream.read_buf(&mut head).await? == 0 {
            break;
        }
    }
    let line = head.split(|&b| b == b'\r').next().unwrap_or_default();
    let (status, body) = match line {
        line if line.starts_with(b"GET /metrics ") || line.starts_with(b"GET /metrics?") => {
            let (sender, metrics) = oneshot::channel();
            commands.send(Command::Metrics(sender)).await;
            match metrics.await {
                Ok(text) => ("200 OK", text),
                Err(_) => ("503 Service Unavailable", "the switch is stopping\n".into()),
            }
        }
        _ => ("404 Not Found", "try GET /metrics\n".to_owned()),
    };
    let length = body.len();
    let response = format!(
        "HTTP/1.1 {status}\r\nContent-Type: text/plain; version=0.0.4; charset=utf-8\r\n\
         Content-Length: {length}\r\nConnection: close\r\n\r\n{body}"
    );
    stream.write_all(response.as_bytes()).await?;
    stream.shutdown().await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_are_in_prometheus_format() {
        let mut out = Exposition::default();
        out.counter("a_total", "What a is.")
            .sample("a_total", &[("port", &1), ("name", &"x\"y\\z")], 5)
            .sample("a_total", &[], 6);
        out.gauge("b", "What b is.").sample("b", &[], 0.5);
        assert_eq!(
            out.into_text(),
            "# HELP a_total What a is.\n# TYPE a_total counter\n\
             a_total{port=\"1\",name=\"x\\\"y\\\\z\"} 5\na_total 6\n\
             # HELP b What b is.\n# TYPE b gauge\nb 0.5\n"
        );
    }
}
