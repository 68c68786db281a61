//! Estimate of the pipeline layout on Tofino: the stage and the resources of each step of a program.
//!
//! The method is that of Jose et al., "Compiling Packet Programs to Reconfigurable Switches" (NSDI 2015). The program is divided into steps
//! ([`steps`]), which depend on each other ([`depend`]). Each step needs memories and units of its stage ([`chip`]). A list scheduler places
//! each step in the first stage after its dependencies with enough resources ([`place`]). A match or action dependency needs a later stage;
//! a successor dependency and a reverse dependency do not.
//!
//! The result is an estimate and not the output of the chip's compiler: containers of the packet header vector are not allocated, and a table
//! that exceeds a stage continues in the next one. The budgets are those published in bf-p4c's sources.

mod applies;
mod arrays;
mod chip;
mod depend;
mod layout;
mod limits;
mod place;
mod shape;
mod steps;
mod text;
mod units;

use serde::Serialize;

use crate::ir::FlatProgram;
use crate::targets::{ReportForm, StageReport};

pub use applies::refuse as refuse_applies;
pub use chip::{Budget, Resources};
pub use limits::refuse;
pub use units::refuse as refuse_operations;

/// The stage report: the stage of each step, and the resources of each stage.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// The program's source file.
    pub program: String,
    /// Index of the pipe, from 0, if there are several.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pipe: Option<usize>,
    /// `tna` or `t2na`.
    pub architecture: &'static str,
    /// Number of stages of the chip.
    pub stages: u32,
    /// Number of stages that the program needs.
    pub needed: u32,
    /// Number of stages that the program would need with unlimited resources per stage.
    pub longest_chain: u32,
    /// Available resources of each stage.
    pub budget: Resources,
    /// The steps with their stages, in the order of the source.
    pub steps: Vec<Placed>,
    /// Used resources of each stage, from stage 0.
    pub used: Vec<Resources>,
    /// Memories of tables, profiles and arrays, by name.
    pub memories: Vec<Memory>,
    /// The longest chain of dependencies between steps, in the order of execution.
    pub chain: Vec<Link>,
    /// The dependency whose removal shortens the longest chain most; `None` if no single one shortens it.
    pub cut: Option<Cut>,
    /// Steps that exceed the units of a stage.
    pub notes: Vec<Note>,
    /// Limits of the chip that are not modelled: a program that fits here may exceed them.
    pub not_checked: &'static [&'static str],
}

/// Limits of the chip that are not modelled.
const NOT_CHECKED: &[&str] = &[
    "containers of the packet header vector (PHV)",
    "states and extractors of parsers",
    "the deparsers' dictionaries",
    "buses of action data",
];

/// A step of the program with its stages.
#[derive(Clone, Debug, Serialize)]
pub struct Placed {
    /// `ingress` or `egress`.
    pub gress: &'static str,
    /// Name of the table or register, or text of the statement.
    pub name: String,
    /// `table`, `condition`, `register` or `statement`.
    pub kind: &'static str,
    /// File and line, as `file:line`.
    pub source: String,
    /// The first stage, from 0.
    pub stage: u32,
    /// The last stage: that of its last entries or its last operation.
    pub last: u32,
    /// Resources of the step in all stages.
    pub takes: Resources,
}

/// Memories of a table, a profile or an array.
#[derive(Clone, Debug, Serialize)]
pub struct Memory {
    /// Name of the object.
    pub name: String,
    /// Number of blocks of SRAM, 1,024 rows of 128 bits each.
    pub sram: u64,
    /// Number of blocks of TCAM, 512 rows of 44 bits each.
    pub tcam: u64,
}

/// A step of the longest chain.
#[derive(Clone, Debug, Serialize)]
pub struct Link {
    /// Index of the step in [`Report::steps`].
    pub step: usize,
    /// The earliest stage of the step with unlimited resources.
    pub stage: u32,
    /// The dependency on the previous step: `match`, `action`, `successor`, `order` or `same register`; empty for the first step.
    pub dependency: &'static str,
    /// The field or validity bit that causes the dependency; empty if there is none.
    pub field: String,
}

/// A dependency whose removal would shorten the longest chain.
#[derive(Clone, Debug, Serialize)]
pub struct Cut {
    /// The earlier step, by its index in [`Report::steps`].
    pub from: usize,
    /// The dependent step, by its index in [`Report::steps`].
    pub to: usize,
    /// The field or validity bit that causes the dependency.
    pub field: String,
    /// Length in stages of the longest chain without the dependency.
    pub left: u32,
}

/// A remark about a step that exceeds the units of a stage.
#[derive(Clone, Debug, Serialize)]
pub struct Note {
    /// File and line of the step, as `file:line`.
    pub source: String,
    /// The problem and a remedy.
    pub text: String,
}

/// Reports the stages of each pipe's program.
///
/// # Errors
/// A message for the user: a program has no pipelines.
pub fn report(programs: &[FlatProgram], form: ReportForm) -> Result<StageReport, String> {
    let mut reports: Vec<Report> = programs.iter().filter_map(Report::of).collect();
    if programs.iter().any(|program| program.pipelines.is_empty()) {
        return Err(
            "--report: the program must be a Switch of Pipelines, each of two parsers and four controls"
                .to_owned(),
        );
    }
    if reports.len() > 1 {
        for (pipe, report) in reports.iter_mut().enumerate() {
            report.pipe = Some(pipe);
        }
    }
    let json = match (form, &reports[..]) {
        (ReportForm::Text, _) => None,
        (ReportForm::Json, [report]) => Some(serde_json::to_string_pretty(report)),
        (ReportForm::Json, several) => Some(serde_json::to_string_pretty(several)),
    };
    let text = match json.transpose().map_err(|error| error.to_string())? {
        Some(json) => format!("{json}\n"),
        None => {
            let texts: Vec<String> = reports.iter().map(Report::to_text).collect();
            texts.join("\n")
        }
    };
    let excesses = reports.iter().filter_map(Report::excess).collect();
    Ok(StageReport { text, excesses })
}

impl Report {
    /// Assigns the steps of a program to stages; `None` if the program is not for Tofino.
    pub fn of(program: &FlatProgram) -> Option<Report> {
        let budget = Budget::of(program.objects.arch)?;
        let steps::Steps { steps, notes } = steps::of(program);
        let dependencies = depend::all(&steps);
        Some(place::report(
            program,
            &budget,
            &steps,
            &dependencies,
            notes,
        ))
    }

    /// The heading of the report: the source file, and the pipe if there are several.
    pub fn title(&self) -> String {
        match self.pipe {
            Some(pipe) => format!("{}, pipe {pipe}", self.program),
            None => self.program.clone(),
        }
    }

    /// Whether the chip has enough stages for the program.
    pub fn fits(&self) -> bool {
        self.needed <= self.stages
    }

    /// The message about a program that needs more stages than the chip has; `None` if it fits.
    fn excess(&self) -> Option<String> {
        if self.fits() {
            return None;
        }
        let mut message = format!(
            "error: {} needs {} stages, and {} has {}: shorten the longest chain of the report (--report), or make tables smaller\n",
            self.title(), self.needed, self.architecture, self.stages
        );
        if let Some((table, stages)) = self.longest_table() {
            message += &format!(
                " --> {}: table {} takes {stages} of them: reduce its `size`, or shorten its keys\n",
                table.source, table.name
            );
        }
        Some(message)
    }

    /// The table that spans the most stages, with their number; `None` if no table spans several.
    pub fn longest_table(&self) -> Option<(&Placed, u32)> {
        let tables = self.steps.iter().filter(|step| step.kind == "table");
        let with_stages = tables.map(|step| (step, step.last - step.stage + 1));
        // The first of equal ones.
        let longest = with_stages.rev().max_by_key(|(_, stages)| *stages);
        longest.filter(|(_, stages)| *stages > 1)
    }

    /// The report as text for the terminal.
    pub fn to_text(&self) -> String {
        text::render(self)
    }
}

#[cfg(test)]
mod tests;
