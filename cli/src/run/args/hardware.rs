//! Flags of simulated hardware: queueing and flow control of switches, and delays of hosts and switches.

use alfirk_bmv2::Engine;
use alfirk_ctrl::topology::{Alpha, Pfc, Queueing, SharedBuffer, SwitchingProblem, Topology};
use alfirk_sim::network::{Fidelity, Model};
use alfirk_units::{RATE, SIZE, TIME};
use clap::ValueEnum;

use super::quantity::quantity;
use crate::exit::Failure;

/// Flags that set the queueing of every switch, in place of the topology's settings.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Switches (virtual driver)")]
pub(super) struct SwitchArgs {
    /// Queueing: output, input (with head-of-line blocking) or voq (virtual output queues) [default: as the topology, or output]
    #[arg(long, value_name = "WHERE")]
    queueing: Option<String>,

    /// Crossbar speedup: packets of one input that may cross at the same time, with --queueing input or voq [default: 1]
    #[arg(long, value_name = "N")]
    speedup: Option<u32>,

    /// Bytes of a buffer shared by all ports of a switch [default: as the topology, or a queue for each port]
    #[arg(long, value_name = "SIZE", value_parser = |text: &str| SIZE.parse(text))]
    buffer: Option<u64>,

    /// Dynamic threshold of a shared buffer: a queue may hold ALPHA times the free space, as 1, 8 or 1/4 [default: 1]
    #[arg(long, value_name = "ALPHA")]
    alpha: Option<String>,

    /// Use priority flow control (PFC) for RoCE packets; the topology may set class and thresholds
    #[arg(long)]
    pfc: bool,
}

impl SwitchArgs {
    /// Returns the topology with the settings of these flags in every switch.
    pub(super) fn apply(&self, topology: Topology) -> Result<Topology, Failure> {
        let wrong = |problem: SwitchingProblem| Failure::bad_input(problem);
        let mut switching = topology.switching();
        let own = switching.queueing.speedup();
        let speedup = self.speedup.or(own).unwrap_or(1);
        let name = self.queueing.as_deref();
        let name = name.unwrap_or(switching.queueing.name());
        switching.queueing = Queueing::named(name, speedup)
            .ok_or_else(|| wrong(SwitchingProblem::Queueing(name.to_owned())))?;
        if self.speedup.is_some() && switching.queueing == Queueing::Output {
            return Err(wrong(SwitchingProblem::SpeedupOfOutput));
        }
        let alpha = match &self.alpha {
            None => None,
            Some(text) => Some(text.parse::<Alpha>().map_err(|bad| wrong(bad.into()))?),
        };
        if let Some(bytes) = self.buffer {
            switching.buffer = Some(SharedBuffer {
                bytes,
                alpha: Alpha::ONE,
            });
        }
        match (&mut switching.buffer, alpha) {
            (Some(buffer), Some(alpha)) => buffer.alpha = alpha,
            (None, Some(_)) => return Err(wrong(SwitchingProblem::AlphaAlone)),
            _ => {}
        }
        if self.pfc {
            switching.pfc.get_or_insert_with(Pfc::default);
        }
        topology.with_switching(switching).map_err(wrong)
    }
}

/// Delays and rates of hosts, switches and the control network in the virtual driver.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Model (virtual driver)")]
pub(in crate::run) struct ModelArgs {
    /// Detail of the simulation; both have the same results
    #[arg(long, value_enum, value_name = "MODEL", default_value_t = ModelArg::Exact)]
    model: ModelArg,

    /// Execution of P4 pipelines; all have the same results
    #[arg(long, value_enum, value_name = "ENGINE", default_value_t = Engine::Auto)]
    engine: Engine,

    /// Delays and rates of hosts and switches: a name of --list-host-models, or KEY=VALUE pairs, or both, with commas. Keys are the flags
    /// below, post-rate and copy-rate (of copies at source and receivers), relay-delay and relay-rate (of members that relay), and
    /// packet-interval (between frames of a NIC) [default: default]
    #[arg(long, value_name = "MODEL")]
    host_model: Option<String>,

    /// List the host models with their figures and sources, and exit
    #[arg(long)]
    pub(in crate::run) list_host_models: bool,

    /// Time from an application's post until its NIC acts on it [default: 250ns]
    #[arg(long, value_name = "TIME")]
    post_delay: Option<String>,

    /// Time from the last bit of a frame until the NIC has acted on it [default: 250ns]
    #[arg(long, value_name = "TIME")]
    nic_delay: Option<String>,

    /// Time from a completion until the application has handled it, one at a time [default: 500ns]
    #[arg(long, value_name = "TIME")]
    completion_delay: Option<String>,

    /// Time from the last bit of a frame into a switch until it is in its output queue [default: 400ns]
    #[arg(long, value_name = "TIME")]
    pipeline_latency: Option<String>,

    /// One-way delay between controller and switch [default: 50us]
    #[arg(long, value_name = "TIME")]
    control_latency: Option<String>,
}

impl ModelArgs {
    /// Builds the host model from its flags.
    pub(super) fn check(&self) -> Result<Model, Failure> {
        let mut model = match &self.host_model {
            None => Model::default(),
            Some(text) => host_model(text)?,
        };
        let flags = [
            ("post-delay", &self.post_delay),
            ("nic-delay", &self.nic_delay),
            ("completion-delay", &self.completion_delay),
            ("pipeline-latency", &self.pipeline_latency),
            ("control-latency", &self.control_latency),
        ];
        for (key, text) in flags {
            if let Some(text) = text {
                let field = Field::find(key).expect("flags are keys, too");
                field.set(&mut model, &format!("--{key}"), text)?;
            }
        }
        model.fidelity = match self.model {
            ModelArg::Exact => Fidelity::Exact,
            ModelArg::Fast => Fidelity::Fast,
        };
        model.engine = self.engine;
        if self.engine == Engine::Compiled && !Engine::HAS_COMPILER {
            return Err(Failure::bad_input(
                "--engine compiled: this build has no compiler (feature jit); use --engine interpreter",
            ));
        }
        Ok(model)
    }
}

/// Detail of the packet simulation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum ModelArg {
    /// Every byte is carried, and each packet passes the compiled P4 pipelines
    Exact,
    /// Payloads are carried by reference, and most packets are switched by native code with the same rules
    Fast,
}

/// One delay or rate of a host model: its key on the command line, and its field.
struct Field {
    key: &'static str,
    access: FieldAccess,
}

/// Access to a field of a host model.
enum FieldAccess {
    Delay(fn(&mut Model) -> &mut u64),
    Rate(fn(&mut Model) -> &mut Option<u64>),
}

/// Keys of a host model.
const FIELDS: [Field; 10] = [
    Field::delay("post-delay", |model| &mut model.post_delay),
    Field::delay("nic-delay", |model| &mut model.nic_delay),
    Field::delay("completion-delay", |model| &mut model.completion_delay),
    Field::delay("pipeline-latency", |model| &mut model.pipeline_latency),
    Field::delay("control-latency", |model| &mut model.control_latency),
    Field::rate("post-rate", |model| &mut model.post_rate),
    Field::rate("copy-rate", |model| &mut model.copy_rate),
    Field::delay("relay-delay", |model| &mut model.relay_delay),
    Field::rate("relay-rate", |model| &mut model.relay_rate),
    Field::delay("packet-interval", |model| &mut model.packet_interval),
];

impl Field {
    const fn delay(key: &'static str, access: fn(&mut Model) -> &mut u64) -> Field {
        let access = FieldAccess::Delay(access);
        Field { key, access }
    }

    const fn rate(key: &'static str, access: fn(&mut Model) -> &mut Option<u64>) -> Field {
        let access = FieldAccess::Rate(access);
        Field { key, access }
    }

    fn find(key: &str) -> Option<&'static Field> {
        const { &FIELDS }.iter().find(|field| field.key == key)
    }

    fn set(&self, model: &mut Model, flag: &str, text: &str) -> Result<(), Failure> {
        match self.access {
            FieldAccess::Delay(access) => *access(model) = quantity(flag, text, &TIME)?,
            FieldAccess::Rate(access) => {
                let rate = quantity(flag, text, &RATE)?;
                if rate == 0 {
                    return Err(Failure::bad_input(format_args!(
                        "{flag}: 0bps never ends; use 1bps or more, or leave it out"
                    )));
                }
                *access(model) = Some(rate);
            }
        }
        Ok(())
    }

    /// Formats the delay or rate in the form that [`Field::set`] parses; `None` for a rate that is not limited.
    fn show(&self, mut model: Model) -> Option<String> {
        match self.access {
            FieldAccess::Delay(access) => Some(TIME.show(*access(&mut model)).to_string()),
            FieldAccess::Rate(access) => access(&mut model).map(|rate| RATE.show(rate).to_string()),
        }
    }
}

/// Parses a host model: a name, `KEY=VALUE` pairs, or both, separated by commas.
pub(crate) fn host_model(text: &str) -> Result<Model, Failure> {
    let mut model = Model::default();
    for (index, part) in text.split(',').map(str::trim).enumerate() {
        let wrong = || {
            let names = Model::named_models().map(|model| model.name).join(", ");
            let keys = FIELDS.map(|field| field.key).join(", ");
            Failure::bad_input(format_args!(
                "--host-model: `{part}` is neither a model nor KEY=VALUE; models are {names}, and keys are {keys}"
            ))
        };
        match part.split_once('=') {
            Some((key, value)) => {
                let field = Field::find(key.trim()).ok_or_else(wrong)?;
                field.set(
                    &mut model,
                    &format!("--host-model: {}", field.key),
                    value.trim(),
                )?;
            }
            None => {
                let mut named = Model::named_models().into_iter();
                let found = named.find(|named| index == 0 && named.name == part);
                model = found.ok_or_else(wrong)?.model;
            }
        }
    }
    Ok(model)
}

/// Formats a model for reports: its name, or the `KEY=VALUE` pairs that differ from the default. `None` for the
/// default.
pub(in crate::run) fn show(model: Model) -> Option<String> {
    // The detail of the simulation does not change results.
    let model = Model {
        fidelity: Fidelity::default(),
        engine: Engine::default(),
        ..model
    };
    if model == Model::default() {
        return None;
    }
    let mut named = Model::named_models().into_iter();
    if let Some(named) = named.find(|named| named.model == model) {
        return Some(named.name.to_owned());
    }
    let shown = FIELDS.iter().filter_map(|field| {
        let text = field.show(model)?;
        let differs = field.show(Model::default()).as_ref() != Some(&text);
        differs.then(|| format!("{}={text}", field.key))
    });
    Some(shown.collect::<Vec<_>>().join(","))
}

/// Text of `--list-host-models`: one line per model, with description and source.
pub(in crate::run) fn list() -> String {
    let all = Model::named_models();
    let width = all.iter().map(|named| named.name.len()).max().unwrap_or(0);
    let lines = all.iter().map(|named| {
        let (name, about, source) = (named.name, named.about, named.source);
        format!("{name:width$}  {about} [{source}]\n")
    });
    lines.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Model {
        host_model(text).unwrap_or_else(|_| panic!("{text} is a model"))
    }

    #[test]
    fn shown_models_parse_to_the_same() {
        for text in [
            "free",
            "cyclic",
            "copy-rate=40Gbps",
            "nic-delay=1us,post-rate=80Gbps,packet-interval=10ns",
            "relay-delay=2us,relay-rate=50Gbps",
        ] {
            assert_eq!(show(read(text)).as_deref(), Some(text));
        }
        assert_eq!(show(read("default")), None);
        assert_eq!(show(read("default,post-delay=250ns")), None);
        assert_eq!(
            show(read("free,post-delay=250ns")).as_deref(),
            Some("nic-delay=0ns,completion-delay=0ns")
        );
    }

    #[test]
    fn invalid_models_are_rejected() {
        for text in [
            "",
            "rdmc",
            "post-delay=1us,free",
            "copy-rate=0bps",
            "copies=1",
        ] {
            assert!(host_model(text).is_err(), "{text}");
        }
    }
}
