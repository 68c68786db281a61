//! The supported P4 architectures: selection by the names of the command line, and the check that `main` fits.

use crate::diag::{Code, Diagnostic, Diagnostics};
use crate::preproc;
use crate::sema::{Callee, CheckedProgram};
use crate::targets::tofino::{T2NA, TNA};
use crate::targets::v1model::V1MODEL;
use crate::targets::{Target, VersionedHeader};

/// A P4 architecture, with its target.
///
/// The compiler asks the target for everything that depends on the architecture.
#[derive(Clone, Copy)]
pub struct Arch(&'static dyn Target);

/// All supported architectures. A new architecture needs an element here.
const ALL: [Arch; 3] = [Arch::V1MODEL, Arch::TNA, Arch::T2NA];

impl Arch {
    /// v1model, for BMv2.
    pub const V1MODEL: Arch = Arch(&V1MODEL);
    /// Tofino Native Architecture, for Tofino 1. Programs are checked for the chip and compiled for the software model; bf-p4c compiles them
    /// for the chip.
    pub const TNA: Arch = Arch(&TNA);
    /// Tofino Native Architecture for Tofino 2; programs are checked and compiled as for [`Arch::TNA`].
    pub const T2NA: Arch = Arch(&T2NA);

    /// For tests: the architecture of a target that `--arch` and `--target` cannot select.
    #[cfg(test)]
    pub(crate) const fn unlisted(target: &'static dyn Target) -> Arch {
        Arch(target)
    }

    /// The architecture selected by the options `--arch` and `--target`; v1model without both.
    ///
    /// # Errors
    /// A name is unknown, or the architecture and the target do not match.
    pub fn of(arch: Option<&str>, target: Option<&str>) -> Result<Arch, String> {
        let of_target = match target {
            None => None,
            Some(name) => {
                let known = ALL.into_iter().find(|arch| arch.targets().contains(&name));
                Some(known.ok_or_else(|| {
                    let names = ALL.map(|arch| arch.targets()[0]);
                    format!("--target {name}: unknown target; use {}", one_of(&names))
                })?)
            }
        };
        let of_arch = match arch {
            None => None,
            Some(name) => {
                let known = ALL.into_iter().find(|arch| arch.name() == name);
                Some(known.ok_or_else(|| {
                    let names = ALL.map(Arch::name);
                    format!(
                        "--arch {name}: unknown architecture; use {}",
                        one_of(&names)
                    )
                })?)
            }
        };
        match (of_arch, of_target) {
            (Some(arch), Some(target)) if arch != target => Err(format!(
                "--arch {} does not match --target {}",
                arch.name(),
                target.targets()[0]
            )),
            (arch, target) => Ok(arch.or(target).unwrap_or_default()),
        }
    }

    /// The target of the architecture, which implements everything that depends on the architecture.
    pub(crate) fn target(self) -> &'static dyn Target {
        self.0
    }

    /// The name for `--arch`, such as `v1model`.
    pub fn name(self) -> &'static str {
        self.0.name()
    }

    /// The names for `--target`, such as `bmv2`; the first is the usual one.
    fn targets(self) -> &'static [&'static str] {
        self.0.target_names()
    }

    /// The first architecture whose `main` may be this package; `None` for an unknown package.
    pub fn of_package(package: &str) -> Option<Arch> {
        ALL.into_iter()
            .find(|arch| arch.0.packages().contains(&package))
    }

    /// Defines the preprocessor macro of the target, such as `__TARGET_TOFINO__`, and removes that of another target.
    pub fn define(self, options: &mut preproc::Options) {
        self.0.define_macros(options);
    }

    /// Reports a program without `main`, or whose `main` is a package of another architecture.
    pub fn check(self, program: &CheckedProgram, diagnostics: &mut Diagnostics) {
        let packages = self.0.packages();
        let Some(main) = program.main() else {
            self.report_missing_main(diagnostics);
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

    /// Reports a program without `main`.
    pub(crate) fn report_missing_main(self, diagnostics: &mut Diagnostics) {
        let what = "the program has no instance named main";
        let end = format!("end it with {}(...) main;", self.0.packages()[0]);
        diagnostics.report(Diagnostic::global(Code::PACKAGE_RULE, what).help(end));
    }
}

impl Default for Arch {
    fn default() -> Self {
        Arch::V1MODEL
    }
}

impl PartialEq for Arch {
    fn eq(&self, other: &Arch) -> bool {
        self.name() == other.name()
    }
}

impl Eq for Arch {}

impl std::fmt::Debug for Arch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Arch({})", self.name())
    }
}

/// The remedy for an undeclared name that the shipped file `file` declares, if an `#include` of the file is not enough;
/// otherwise `None`.
pub(crate) fn include_help(file: &str) -> Option<String> {
    ALL.iter().find_map(|arch| arch.0.include_help(file))
}

/// The shipped file `file` as a header with a version, which the including program chooses; `None` for other files.
pub(crate) fn versioned_header(file: &str) -> Option<VersionedHeader> {
    let headers = ALL.iter().filter_map(|arch| arch.0.versioned_header());
    headers.into_iter().find(|header| header.file == file)
}

/// Joins names for a message: `a, b or c`.
fn one_of(names: &[&str]) -> String {
    match names {
        [others @ .., last] if !others.is_empty() => format!("{} or {last}", others.join(", ")),
        names => names.concat(),
    }
}
