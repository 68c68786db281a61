//! Python packages of this project: where they are, and which Python can run them.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use crate::doctor::{self, python_modules};
use crate::exit::Failure;

/// A Python package of this project.
#[derive(Debug, Clone, Copy)]
pub struct Package {
    /// Folder that contains the package, in the source tree and in the installation.
    pub folder: &'static str,
    /// Name by which it is imported.
    pub name: &'static str,
}

/// Value of `PYTHONPATH` with the folders of packages, which are in the installation or in the source tree of the
/// executable `alfirk`, or in the present folder.
///
/// # Errors
/// A package is in none of them.
pub fn path(alfirk: &Path, packages: &[Package]) -> Result<OsString, Failure> {
    let given = std::env::var_os("PYTHONPATH").unwrap_or_default();
    let given: Vec<PathBuf> = std::env::split_paths(&given)
        .filter(|path| !path.as_os_str().is_empty())
        .collect();
    let mut paths = Vec::new();
    for package in packages {
        let found = folder(alfirk, *package, &given).ok_or_else(|| {
            Failure::failed(format_args!(
                "cannot find the Python package {}; run from the source tree, or `make install`, or set PYTHONPATH",
                package.name
            ))
        })?;
        paths.push(found);
    }
    paths.extend(given);
    std::env::join_paths(paths)
        .map_err(|error| Failure::failed(format_args!("PYTHONPATH: {error}")))
}

/// The folder that contains a package, absolute. The folders `given` are searched first.
fn folder(alfirk: &Path, package: Package, given: &[PathBuf]) -> Option<PathBuf> {
    let mut candidates: Vec<PathBuf> = given.to_vec();
    if let Some(prefix) = alfirk.parent().and_then(Path::parent) {
        candidates.push(prefix.join("share/alfirk").join(package.folder));
    }
    let ancestors = alfirk.ancestors();
    candidates.extend(ancestors.map(|folder| folder.join(package.folder)));
    candidates.push(package.folder.into());
    let found = candidates
        .into_iter()
        .find(|folder| folder.join(package.name).join("__main__.py").is_file())?;
    Some(std::path::absolute(&found).unwrap_or(found))
}

/// How a Python process finds the packages of this project.
#[derive(Debug)]
pub struct Python {
    pub executable: PathBuf,
    /// Value of `PYTHONPATH`; `None` if the packages are installed, as by the wheel.
    pub path: Option<OsString>,
}

/// Finds a Python that has `modules`, and runs `packages`: that of `ALFIRK_PYTHON`; else that beside the executable
/// `alfirk`, which a wheel installs into a virtual environment; else that of the source tree's `.venv`, or the
/// `python3` on PATH.
///
/// # Errors
/// Exit code 2 if no Python has all modules, or the packages are missing.
pub fn find(alfirk: &Path, packages: &[Package], modules: &[&str]) -> Result<Python, Failure> {
    let path = path(alfirk, packages);
    let mut wanted: Vec<&str> = modules.to_vec();
    if path.is_err() {
        wanted.extend(packages.iter().map(|package| package.name));
    }
    let mut best: Option<(PathBuf, Vec<&str>)> = None;
    for executable in candidates(alfirk, path.as_ref().ok()) {
        let found = python_modules(&executable, &wanted);
        let missing: Vec<&str> = wanted
            .iter()
            .filter(|module| !found.contains(**module))
            .copied()
            .collect();
        if missing.is_empty() {
            let path = path.ok();
            return Ok(Python { executable, path });
        }
        if best
            .as_ref()
            .is_none_or(|(_, least)| missing.len() < least.len())
        {
            best = Some((executable, missing));
        }
    }
    let (executable, missing) = best.unwrap_or_else(|| ("python3".into(), wanted));
    Err(Failure::bad_input(format_args!(
        "{} lacks the Python packages {}: run `make setup` in a clone, or `pip install` them in a virtual environment \
         with alfirk's wheel, and set ALFIRK_PYTHON to the path of its python",
        executable.display(),
        missing.join(", ")
    )))
}

fn candidates(alfirk: &Path, path: Option<&OsString>) -> Vec<PathBuf> {
    if let Some(given) = std::env::var_os("ALFIRK_PYTHON") {
        return vec![given.into()];
    }
    let mut found = Vec::new();
    found.extend(alfirk.parent().map(|folder| folder.join("python3")));
    let folders = path.map(std::env::split_paths).into_iter().flatten();
    let roots = folders.filter_map(|folder| folder.parent().map(Path::to_owned));
    found.extend(roots.map(|root| root.join(".venv/bin/python")));
    found.retain(|python| python.is_file());
    found.push("python3".into());
    found.push(doctor::python());
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    const PACKAGE: Package = Package {
        folder: "parts",
        name: "part",
    };

    #[test]
    fn packages_are_found_in_source_tree_and_installation() {
        let root = tempfile::tempdir().expect("a temporary folder can be made");
        for (folder, alfirk) in [
            ("clone/parts", "clone/target/debug/alfirk"),
            ("usr/share/alfirk/parts", "usr/bin/alfirk"),
        ] {
            let folder = root.path().join(folder);
            let module = folder.join("part");
            std::fs::create_dir_all(&module).expect("the folder is new");
            let alfirk = root.path().join(alfirk);
            assert!(path(&alfirk, &[PACKAGE]).is_err());
            std::fs::write(module.join("__main__.py"), "").expect("the folder can be written");
            let found = path(&alfirk, &[PACKAGE]).expect("the package exists");
            let first = std::env::split_paths(&found).next();
            assert_eq!(first, Some(folder));
        }
    }

    #[test]
    fn missing_modules_are_named() {
        let error = find(
            Path::new("/nowhere/alfirk"),
            &[PACKAGE],
            &["no_such_module"],
        );
        let text = format!("{:?}", error.expect_err("no Python has it"));
        assert!(text.contains("no_such_module, part"), "{text}");
    }
}
