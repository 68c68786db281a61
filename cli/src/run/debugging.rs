//! `alfirk run --debug`: an editor stops in the P4 program of the switches of a fabric in virtual time.
//!
//! The fabric runs in a thread. It hands over each pass of a packet through a switch, and waits until the debugger takes it:
//! while the debugger is stopped, virtual time stands still.

use std::sync::mpsc::{sync_channel, Receiver, SyncSender};
use std::thread;

use alfirk_compiler::on_deep_stack;
use alfirk_debug::{Before, Debugger, Passes, QueuePairState, Record, Site};
use alfirk_experiment::Report;
use alfirk_roce::rc::{QpState, QueuePair};
use alfirk_sim::network::{Network, Pass};
use alfirk_sim::TakePasses;
use serde_json::Value;

use super::config::Config;
use super::progress::Bars;
use super::{measure_watched, report_text};
use crate::debug::editor::Editor;
use crate::exit::{print, Failure, Outcome};
use crate::program::CompiledProgram;

/// What a fabric hands over to the debugger.
#[derive(Clone)]
pub struct PassSender(SyncSender<Record>);

impl PassSender {
    /// Returns the function that the fabric calls for its passes. It stops the run if the editor has ended the session.
    pub fn function(&self) -> TakePasses {
        let sender = self.0.clone();
        Box::new(move |passes, network| {
            let queue_pairs = queue_pairs(network);
            for pass in passes {
                let Pass {
                    switch,
                    at,
                    before,
                    stops,
                    trace,
                } = pass;
                let record = Record {
                    number: None,
                    origin: format!("at switch {switch}, {} us", microseconds(at)),
                    before: Before::Switch(Box::new(before)),
                    stops,
                    trace,
                    site: Some(Site {
                        switch,
                        time: at,
                        queue_pairs: queue_pairs.clone(),
                    }),
                };
                if sender.send(record).is_err() {
                    return network.run_handle().stop();
                }
            }
        })
    }
}

/// Returns a time in nanoseconds in microseconds, with three decimals.
fn microseconds(ns: u64) -> String {
    format!("{}.{:03}", ns / 1000, ns % 1000)
}

/// The side of the debugger.
struct OfFabric {
    passes: Receiver<Record>,
    result: Receiver<(String, i32)>,
}

impl Passes for OfFabric {
    fn next_pass(&mut self) -> Option<Record> {
        self.passes.recv().ok()
    }

    fn result(&mut self) -> (String, i32) {
        while self.passes.recv().is_ok() {}
        let result = self.result.recv();
        result.unwrap_or_else(|_| ("the run has ended without a report\n".to_owned(), 1))
    }
}

/// Runs a fabric under a debugger. `listen`: address at which the editor connects; `None` for standard input and output.
pub fn run(
    config: &Config,
    program: &CompiledProgram,
    bars: &Bars,
    listen: Option<&str>,
) -> Outcome {
    let mut editor = Editor::connect(listen)?;
    let json = String::from_utf8_lossy(&program.device_config).into_owned();
    // A pass is handed over when the debugger takes it.
    let (sender, passes) = sync_channel(0);
    let (result_sender, result) = sync_channel(1);
    let debugger = Debugger::of_fabric(Box::new(OfFabric { passes, result }), json);
    let report = thread::scope(|scope| {
        let fabric = scope.spawn(move || {
            let sender = PassSender(sender);
            let measured = measure_watched(config, program, bars, None, Some(&sender));
            let outcome = match &measured {
                Ok(report) => (text_of(config, report), i32::from(!report.verified())),
                Err(failure) => (format!("{}\n", failure.message()), 1),
            };
            // The editor may have ended the session.
            let _ = result_sender.send(outcome);
            measured
        });
        let is_ended = on_deep_stack(|| serve(debugger, &mut editor));
        let measured = fabric.join().expect("a run does not panic");
        // A run that the editor ends early has no report.
        is_ended.map(|is_ended| is_ended.then_some(measured))
    })?;
    let Some(report) = report.transpose()? else {
        return Ok(());
    };
    if listen.is_some() {
        print(report_text(config, &report))?;
    }
    match report.verified() {
        true => Ok(()),
        false => Err(Failure::failed(report.failures())),
    }
}

/// Text of a report for the editor.
fn text_of(config: &Config, report: &Report) -> String {
    let mut text = report_text(config, report);
    if !report.verified() {
        text += &format!("{}\n", report.failures());
    }
    text
}

/// Handles requests of the editor until it ends the session. Returns whether the run was continued to its end.
fn serve(mut debugger: Debugger, editor: &mut Editor) -> Result<bool, Failure> {
    while !debugger.is_done() {
        let message = match debugger.is_running() {
            true => editor.try_next()?,
            false => editor.next()?.map(Some),
        };
        let replies: Vec<Value> = match message {
            None => break,
            Some(None) => debugger.advance(),
            Some(Some(message)) => debugger.handle(&message).map_err(Failure::bad_input)?,
        };
        if !editor.send(&replies)? {
            break;
        }
    }
    Ok(debugger.exit_code().is_some())
}

/// Returns the state of the queue pairs of all hosts.
fn queue_pairs(network: &Network) -> Vec<QueuePairState> {
    let topology = network.topology();
    let of_hosts = topology.host_indexes().flat_map(|index| {
        let name = &topology.host(index).name;
        let qps = network.host(index).host().qps();
        qps.map(move |qp| state_of(name, qp))
    });
    of_hosts.collect()
}

fn state_of(host: &str, qp: &QueuePair) -> QueuePairState {
    let state = match qp.state() {
        QpState::Init => "INIT".to_owned(),
        QpState::Ready => "RTS".to_owned(),
        QpState::Error(failure) => format!("ERR, {failure}"),
    };
    let stats = qp.stats();
    let (unacknowledged, next, end) = (qp.unacknowledged_psn(), qp.next_psn(), qp.sq_psn());
    let remote = qp.remote();
    let remote = remote.map_or_else(
        || "not connected".to_owned(),
        |remote| format!("{} QP {:#x}", remote.ip, remote.qpn.get()),
    );
    let values = [
        ("state", state.clone()),
        ("remote", remote.clone()),
        (
            "oldest unacknowledged PSN",
            unacknowledged.get().to_string(),
        ),
        ("next PSN to send", next.get().to_string()),
        ("PSN of the next new request", end.get().to_string()),
        ("expected PSN (ePSN)", qp.rq_psn().get().to_string()),
        ("MSN", qp.msn().to_string()),
        ("window", format!("{} packets", qp.config().window)),
        ("requests sent", stats.requests_sent.to_string()),
        ("retransmissions", stats.retransmissions.to_string()),
        (
            "requests acknowledged",
            stats.requests_acknowledged.to_string(),
        ),
        ("requests received", stats.requests_received.to_string()),
        ("ACKs received", stats.acks_received.to_string()),
        ("NAKs received", stats.naks_received.to_string()),
        ("ACKs sent", stats.acks_sent.to_string()),
        ("NAKs sent", stats.naks_sent.to_string()),
        ("timeouts", stats.timeouts.to_string()),
        ("CNPs received", stats.cnps_received.to_string()),
    ];
    QueuePairState {
        name: format!("{host} QP {:#x}", qp.qpn().get()),
        summary: format!(
            "{state}, to {remote}, PSN {}..{}, ePSN {}",
            unacknowledged.get(),
            next.get(),
            qp.rq_psn().get()
        ),
        values: values.map(|(name, value)| (name.to_owned(), value)).into(),
    }
}
