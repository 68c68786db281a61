//! Work on a switch, measured with both engines.

use crate::group::{pass, processor_time};
use alfirk_bmv2::{Effects, Engine, Queued, Switch};

/// Number of turns of each engine.
const TURNS: usize = 40;
/// Minimum processor time of a turn in nanoseconds.
const TURN_NS: u64 = 10_000_000;

/// Work on a switch, by one engine.
pub struct Work {
    /// Number of frames that one call processes.
    pub items: u64,
    /// Number of copies that the switch sends of each of them; 1 if it does not copy them.
    pub copies: usize,
    pub pass: Box<dyn FnMut()>,
}

/// Creates work that processes frames on a switch, each received at a port.
pub fn frames(mut switch: Switch, frames: Vec<(u32, Vec<u8>)>, copies: usize) -> Work {
    for (port, frame) in &frames {
        let sent = switch.process(*port, frame, 0);
        assert_eq!(sent.len(), copies, "every frame is forwarded");
    }
    let (mut fx, mut waiting) = (Effects::default(), Vec::<Queued>::new());
    Work {
        items: frames.len() as u64,
        copies,
        pass: Box::new(move || {
            for (port, frame) in &frames {
                pass(&mut switch, &mut fx, &mut waiting, *port, frame);
            }
        }),
    }
}

/// Measures the cases that the command line selects, and prints the results: as a table, or with `--json` as a JSON
/// object for each line, which `tools/bench_peers.py` reads.
pub struct Report {
    /// Words of which a case's name must contain one; empty for all cases.
    words: Vec<String>,
    is_json: bool,
}

impl Report {
    /// Reads the command line, to which `cargo bench` adds flags.
    pub fn from_args() -> Report {
        let args: Vec<String> = std::env::args().skip(1).collect();
        let is_json = args.iter().any(|arg| arg == "--json");
        let words = args.into_iter().filter(|arg| !arg.starts_with('-'));
        Report {
            words: words.collect(),
            is_json,
        }
    }

    /// Prints the head of the table.
    pub fn head(&self) {
        if !self.is_json {
            println!(
                "processor time per received frame         interpreter     compiled  ratio   compiled packets/s"
            );
        }
    }

    /// Measures a case if it is selected. The engines take turns, so that other load on the machine affects both; the least
    /// time of each is printed.
    pub fn measure(&self, case: &str, work: &dyn Fn(Engine) -> Work) {
        if !self.words.is_empty() && !self.words.iter().any(|word| case.contains(&word[..])) {
            return;
        }
        let mut works = [Engine::Interpreter, Engine::Compiled].map(work);
        let mut times = [f64::MAX; 2];
        for _ in 0..TURNS {
            for (work, least) in works.iter_mut().zip(&mut times) {
                let (start, mut count) = (processor_time(), 0);
                while processor_time() - start < TURN_NS {
                    (work.pass)();
                    count += work.items;
                }
                let time = (processor_time() - start) as f64 / count as f64;
                *least = least.min(time);
            }
        }
        let [interpreter, compiled] = times;
        let copies = works[0].copies;
        if self.is_json {
            let result = serde_json::json!({
                "case": case, "copies": copies, "interpreter_ns": interpreter, "compiled_ns": compiled,
            });
            println!("{result}");
        } else {
            println!(
                "{case:<42} {interpreter:>8.0} ns  {compiled:>8.0} ns  {:>5.2}  {:>18.0}",
                compiled / interpreter,
                1e9 / compiled
            );
        }
    }

    /// Prints a remark on a case.
    #[allow(dead_code)]
    pub fn remark(&self, case: &str, remark: &str) {
        if self.is_json {
            println!("{}", serde_json::json!({ "case": case, "remark": remark }));
        } else {
            println!("{case:<42} {remark}");
        }
    }
}
