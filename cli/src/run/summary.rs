//! Creates the report of a run from its settings and results.

use alfirk_experiment::{
    GroupSummary, Input, Report, Row, Settings, TopologySummary, WorkloadSummary,
};
use alfirk_roce::collective::TransferOp;
use alfirk_roce::rc::Recovery;
use clap::ValueEnum;

use super::args::hardware;
use super::config::Config;
use super::input::Input as Content;

/// Creates the report: the results of all algorithms, and the settings of the run.
pub(super) fn report(config: &Config, input: &Content, results: Vec<Row>) -> Report {
    let (job, topology) = (&config.job, &config.topology);
    let name = |&host| topology.host(host).name.clone();
    let members: Vec<String> = job.members.iter().map(name).collect();
    let is_one_message = config.workload.is_none();
    Report {
        clock: None,
        machines: None,
        results,
        input: is_one_message.then(|| Input {
            file: input.file.clone(),
            size: input.data.bytes().len() as u64,
            sha256: input.data.sha256().to_string(),
        }),
        workload: config.workload.as_ref().map(|asked| WorkloadSummary {
            kind: asked.text.clone(),
            background: asked.background.clone(),
            hosts: members.len(),
            flows: asked.workload.flows().count(),
            phases: asked.workload.phases.len(),
            bytes: asked.workload.bytes(),
        }),
        topology: TopologySummary {
            name: topology.name().to_string(),
            hosts: topology.hosts().len(),
            switches: topology.switches().len(),
            links: topology.links().len(),
        },
        group: is_one_message.then(|| GroupSummary {
            size: members.len(),
            source: members[0].clone(),
            members,
        }),
        settings: settings(config),
        seed: job.seed,
    }
}

fn settings(config: &Config) -> Settings {
    let (job, switching) = (&config.job, config.topology.switching());
    Settings {
        driver: name(config.driver),
        collective: job.collective.to_string(),
        op: name(job.op),
        write: (job.op != TransferOp::Send).then(|| name(job.write)),
        min_psn: job.strategies.min_psn.to_string(),
        icrc: job.strategies.icrc.to_string(),
        tree_policy: config.job.tree_policy.to_string(),
        switch_source: job.switch_source,
        switch_early: job.switch_early,
        congestion: name(job.congestion),
        recovery: (job.recovery != Recovery::default()).then(|| name(job.recovery)),
        mtu: job.mtu.bytes() as u32,
        slices: job.slices,
        loss: config.loss.everywhere,
        outages: config.loss.names.clone(),
        rates: config.rates.clone(),
        suspensions: config.suspensions.clone(),
        fallback_below: job.safeguard.map(|config| config.threshold),
        registration: name(job.registration),
        switching: (!switching.is_default()).then(|| switching.to_string()),
        host_model: hardware::show(config.model),
    }
}

/// Returns the name of a flag's value as on the command line.
pub(crate) fn name(choice: impl ValueEnum) -> String {
    let value = choice.to_possible_value();
    let value = value.expect("no value is hidden on the command line");
    value.get_name().to_owned()
}

#[cfg(test)]
mod tests {
    use alfirk_ctrl::strategy::{IcrcMode, MinPsn};
    use alfirk_experiment::{Congestion, Registration};
    use alfirk_roce::collective::{Collective, WriteMode};
    use serde::Serialize;

    use super::*;

    #[test]
    fn values_have_the_same_names_in_flags_and_files() {
        fn check<T: ValueEnum + Serialize>() {
            for choice in T::value_variants() {
                let in_files = serde_json::to_value(choice).unwrap();
                assert_eq!(in_files, name(choice.clone()));
            }
        }
        check::<Collective>();
        check::<TransferOp>();
        check::<WriteMode>();
        check::<MinPsn>();
        check::<IcrcMode>();
        check::<Congestion>();
        check::<Recovery>();
        check::<Registration>();
        for collective in Collective::ALL {
            assert_eq!(collective.to_string(), name(collective));
        }
    }
}
