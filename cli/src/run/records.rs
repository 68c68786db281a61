//! Opens and closes the captures and traces of a run in virtual time.

use std::fs::{self, File};
use std::io::BufWriter;
use std::path::{Path, PathBuf};

use alfirk_ctrl::topology::Topology;
use alfirk_roce::collective::Algorithm;
use alfirk_sim::capture::timeline::Rates;
use alfirk_sim::capture::{
    page_trace, PageTrace, PcapngCapture, PortCapture, Record, TextTrace, Timeline,
};
use alfirk_sim::network::Network;
use alfirk_view::server::GrowingBytes;
use alfirk_view::trace::Header;

use super::config::Config;
use crate::exit::Failure;

/// Maximum size in bytes of the trace of one algorithm for the page of `--web`. It has about half a million frames,
/// which browsers can replay.
const PAGE_LIMIT: u64 = 64 << 20;

/// Open captures and traces of one algorithm's run, each with its path.
pub struct Records(Vec<(PathBuf, Record)>);

impl Records {
    /// Opens the requested recordings, and makes `network` write them: with `--pcap` a file `DIR/ALGORITHM-HOST.pcap`
    /// for every host, with `--trace` a trace, and with `--web` a trace for the page.
    pub fn start(
        config: &Config,
        algorithm: Algorithm,
        network: &mut Network,
        page: Option<GrowingBytes>,
    ) -> Result<Records, Failure> {
        let mut records = Vec::new();
        if let Some(folder) = &config.pcap {
            fs::create_dir_all(folder).map_err(|error| {
                Failure::bad_input(format_args!("--pcap {}: {error}", folder.display()))
            })?;
            for host in config.topology.hosts() {
                let path = folder.join(format!("{algorithm}-{}.pcap", host.name));
                let file = create("--pcap", &path)?;
                let (capture, record) = PortCapture::new(&host.name, 0, file)
                    .map_err(|error| unwritable("--pcap", &path, &error))?;
                network.observe(Box::new(capture));
                records.push((path, record));
            }
        }
        if let Some(file) = &config.trace {
            let path = trace_path(file, algorithm, config.algorithms.len() > 1);
            let writer = create("--trace", &path)?;
            let record = match file.extension().and_then(|extension| extension.to_str()) {
                Some("pcapng") => {
                    let (capture, record) = PcapngCapture::new(writer)
                        .map_err(|error| unwritable("--trace", &path, &error))?;
                    network.observe(Box::new(capture));
                    record
                }
                Some("json") => {
                    let (timeline, record) = Timeline::new(writer, rates(&config.topology));
                    network.observe(Box::new(timeline));
                    record
                }
                Some("jsonl") => {
                    let header = watch_header(config, algorithm);
                    let (watch, record) = PageTrace::new(writer, &header, u64::MAX)
                        .map_err(|error| unwritable("--trace", &path, &error))?;
                    network.observe(Box::new(watch));
                    record
                }
                _ => {
                    let (trace, record) = TextTrace::new(writer);
                    network.observe(Box::new(trace));
                    record
                }
            };
            records.push((path, record));
        }
        if let Some(bytes) = page {
            let header = watch_header(config, algorithm);
            let (watch, record) =
                PageTrace::new(bytes, &header, PAGE_LIMIT).map_err(Failure::failed)?;
            network.observe(Box::new(watch));
            records.push(("the page's trace".into(), record));
        }
        Ok(Records(records))
    }

    /// Completes and closes all recordings.
    pub fn finish(self) -> Result<(), Failure> {
        for (path, record) in self.0 {
            record.finish().map_err(|error| {
                Failure::failed(format_args!("cannot write {}: {error}", path.display()))
            })?;
        }
        Ok(())
    }
}

fn watch_header(config: &Config, algorithm: Algorithm) -> Header {
    page_trace::header(
        &config.topology,
        &algorithm.to_string(),
        &config.job.members,
    )
}

/// Rate of the link at each port in bits per second, by node name and port number.
fn rates(topology: &Topology) -> Rates {
    let links = topology.links().iter();
    let ends = links.flat_map(|link| link.ends.map(|end| (end, link.attributes.rate_bps)));
    ends.map(|(end, rate)| ((topology.name_of(end.node).to_owned(), end.port), rate))
        .collect()
}

/// Path of one algorithm's trace. If `several` algorithms run, its name is put before the extension: `trace.chain.txt`
/// for `trace.txt`.
fn trace_path(file: &Path, algorithm: Algorithm, several: bool) -> PathBuf {
    if !several {
        return file.to_path_buf();
    }
    let extension = match file.extension() {
        Some(extension) => format!("{algorithm}.{}", extension.to_string_lossy()),
        None => algorithm.to_string(),
    };
    file.with_extension(extension)
}

fn create(flag: &str, path: &Path) -> Result<BufWriter<File>, Failure> {
    File::create(path)
        .map(BufWriter::new)
        .map_err(|error| unwritable(flag, path, &error))
}

fn unwritable(flag: &str, path: &Path, error: &std::io::Error) -> Failure {
    let path = path.display();
    Failure::bad_input(format_args!("{flag}: cannot write {path}: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_of_several_algorithms_has_its_own_trace_file() {
        let file = Path::new("/tmp/trace.txt");
        let path = |several| trace_path(file, Algorithm::Chain, several);
        assert_eq!(path(false), file);
        assert_eq!(path(true), Path::new("/tmp/trace.chain.txt"));
    }
}
