//! The supported P4 architectures, and their targets.

use crate::diag::{Code, Diagnostic, Diagnostics};
use crate::preproc::{self, MacroOption};
use crate::sema::{Callee, CheckedProgram};

/// A P4 architecture, with its target.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Arch {
    /// v1model, for BMv2.
    #[default]
    V1model,
    /// Tofino Native Architecture, for Tofino 1. Programs are checked for the chip and compiled for the software model; bf-p4c compiles them
    /// for the chip.
    Tna,
    /// Tofino Native Architecture for Tofino 2, as [`Arch::Tna`].
    T2na,
}

/// All supported architectures.
const ALL: [Arch; 3] = [Arch::V1model, Arch::Tna, Arch::T2na];

impl Arch {
    /// The architecture selected by the options `--arch` and `--target`; v1model without both.
    ///
    /// # Errors
    /// A name is unknown, or the architecture and the target do not match.
    pub fn of(arch: Option<&str>, target: Option<&str>) -> Result<Arch, String> {
        let of_target = match target {
            None => None,
            Some("bmv2" | "bmv2-ss-p4org") => Some(Arch::V1model),
            Some("tofino") => Some(Arch::Tna),
            Some("tofino2") => Some(Arch::T2na),
            Some(other) => {
                return Err(format!(
                    "--target {other}: unknown target; use bmv2, tofino or tofino2"
                ))
            }
        };
        let of_arch = match arch {
            None => None,
            Some("v1model") => Some(Arch::V1model),
            Some("tna") => Some(Arch::Tna),
            Some("t2na") => Some(Arch::T2na),
            Some(other) => {
                return Err(format!(
                    "--arch {other}: unknown architecture; use v1model, tna or t2na"
                ))
            }
        };
        match (of_arch, of_target) {
            (Some(arch), Some(target)) if arch != target => Err(format!(
                "--arch {} does not match --target {}",
                arch.name(),
                target.target()
            )),
            (arch, target) => Ok(arch.or(target).unwrap_or_default()),
        }
    }

    /// The name for `--arch`, such as `v1model`.
    pub fn name(self) -> &'static str {
        match self {
            Arch::V1model => "v1model",
            Arch::Tna => "tna",
            Arch::T2na => "t2na",
        }
    }

    /// The name for `--target`, such as `bmv2`.
    fn target(self) -> &'static str {
        match self {
            Arch::V1model => "bmv2",
            Arch::Tna => "tofino",
            Arch::T2na => "tofino2",
        }
    }

    /// Names of the packages that `main` may instantiate.
    fn packages(self) -> &'static [&'static str] {
        match self {
            Arch::V1model => &["V1Switch"],
            Arch::Tna => &["Switch", "MultiParserSwitch"],
            Arch::T2na => &["Switch"],
        }
    }

    /// The first architecture whose `main` may be this package; `None` for an unknown package.
    pub fn of_package(package: &str) -> Option<Arch> {
        ALL.into_iter()
            .find(|arch| arch.packages().contains(&package))
    }

    /// Defines the preprocessor macro of the target, such as `__TARGET_TOFINO__`. Nothing for v1model.
    pub fn define(self, options: &mut preproc::Options) {
        let chip = match self {
            Arch::V1model => return,
            Arch::Tna => 1,
            Arch::T2na => 2,
        };
        options.without_target = true;
        let target = MacroOption::Define(format!("__TARGET_TOFINO__={chip}"));
        options.macros.insert(0, target);
    }

    /// Whether the target is a Tofino chip.
    pub fn is_tofino(self) -> bool {
        self != Arch::V1model
    }

    /// Reports a program without `main`, or whose `main` is a package of another architecture.
    pub fn check(self, program: &CheckedProgram, diagnostics: &mut Diagnostics) {
        let packages = self.packages();
        let Some(main) = program.main() else {
            let what = "the program has no instance named main";
            let end = format!("end it with {}(...) main;", packages[0]);
            diagnostics.report(Diagnostic::global(Code::PACKAGE_RULE, what).help(end));
            return;
        };
        let Some(call) = program.call(main.call) else {
            return;
        };
        let Callee::PackageConstructor(package) = call.callee else {
            return;
        };
        let name = program.name(package);
        if packages.contains(&&*name) {
            return;
        }
        let message = format!(
            "main is a {name}, but a program for {} needs a {}",
            self.name(),
            packages.join(" or a ")
        );
        let what = Diagnostic::error(Code::TARGET, main.span, message);
        diagnostics.report(what.help(match Arch::of_package(&name) {
            Some(other) => format!("{name} is a package of {0}: use --arch {0}", other.name()),
            None => format!("include {}.p4", self.name()),
        }));
    }
}
