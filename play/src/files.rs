//! The files of a program: those that the client sends, and those of the library.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::sync::Arc;

use alfirk_compiler::preproc::{normalize, shipped_files, SourceLoader, SHIPPED};
use serde::{Deserialize, Serialize};

use crate::limits;

/// A program: its main file, and its other files that the client may edit. Paths begin with `/`, the root of the library.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Document {
    /// Path of the main file.
    pub main: String,
    /// Texts by path. They precede files of the library.
    pub files: BTreeMap<String, String>,
}

impl Document {
    /// A program of one file.
    pub fn of(main: &str, text: &str) -> Document {
        Document {
            main: main.to_owned(),
            files: BTreeMap::from([(main.to_owned(), text.to_owned())]),
        }
    }

    /// Checks the limits.
    ///
    /// # Errors
    /// The reason in one line.
    pub fn check(&self) -> Result<(), String> {
        let bytes: usize = self.files.values().map(String::len).sum();
        if bytes > limits::PROGRAM_BYTES {
            let limit = limits::PROGRAM_BYTES >> 10;
            return Err(format!(
                "the program has {} KiB; the limit is {limit} KiB",
                bytes >> 10
            ));
        }
        if self.files.len() > limits::FILES {
            let limit = limits::FILES;
            return Err(format!(
                "the program has {} files; the limit is {limit}",
                self.files.len()
            ));
        }
        let all = self.files.keys().chain([&self.main]);
        match all.clone().find(|path| !path.starts_with('/')) {
            Some(path) => Err(format!("the path `{path}` does not begin with `/`")),
            None => Ok(()),
        }
    }
}

/// A program of the library that the page offers, with a test.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Example {
    /// Heading under which the page lists the example.
    pub group: String,
    /// Name of the example in its group.
    pub name: String,
    /// Path of the main file in the library.
    pub main: String,
    /// Path of the test in the library; `None` if the example has no test.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub test: Option<String>,
}

/// Files that programs may include and the page may show.
#[derive(Clone, Debug, Default)]
pub struct Library {
    files: Arc<BTreeMap<String, String>>,
}

/// Folder of the labs' shared files, which is searched for included files, as the labs' checks do.
const INCLUDED: &str = "/labs/shared";

/// Folder of the programs whose packets the compiler's tests check.
const PROGRAMS: &str = "/compiler/tests/programs/";

impl Library {
    /// Creates a library of files; their paths are relative to the root of the library.
    pub fn new<P: AsRef<str>, T: Into<String>>(files: impl IntoIterator<Item = (P, T)>) -> Library {
        let files = files.into_iter();
        let files = files.map(|(path, text)| (format!("/{}", path.as_ref()), text.into()));
        Library {
            files: Arc::new(files.collect()),
        }
    }

    /// Folders in which included files are searched.
    pub(crate) fn include_dirs() -> [&'static str; 1] {
        [INCLUDED]
    }

    /// Paths of the files of the library.
    #[cfg(feature = "fabric")]
    pub(crate) fn paths(&self) -> impl Iterator<Item = &str> {
        self.files.keys().map(String::as_str)
    }

    /// Returns the text of a file of the library, or of the architectures (`<p4include>/core.p4`).
    pub fn text(&self, path: &str) -> Option<&str> {
        if let Some(name) = path.strip_prefix(SHIPPED) {
            let name = name.trim_start_matches('/');
            let mut shipped = shipped_files().iter();
            return Some(shipped.find(|(shipped, _)| *shipped == name)?.1);
        }
        self.files.get(path).map(String::as_str)
    }

    /// Returns the programs that the page offers: the labs, the data plane, and those of the compiler's tests, in this order.
    pub fn examples(&self) -> Vec<Example> {
        let mut examples: Vec<(usize, Example)> = Vec::new();
        for path in self.files.keys().filter(|path| path.ends_with(".p4")) {
            let beside = format!("{}.stf", path.trim_end_matches(".p4"));
            let beside = Some(beside).filter(|test| self.files.contains_key(test));
            let (rank, group, name, test) = match path.strip_prefix("/labs/") {
                Some(of_lab) => {
                    let Some((lab, file)) = of_lab.split_once('/') else {
                        continue;
                    };
                    let packets = format!("/labs/{lab}/packets.stf");
                    let test = Some(packets).filter(|test| self.files.contains_key(test));
                    let name = match file {
                        "starter.p4" => format!("{lab}, to complete"),
                        "solution.p4" => format!("{lab}, solved"),
                        "bridge.p4" => format!("{lab}, the switch"),
                        _ => continue,
                    };
                    (0, "Labs", name, test)
                }
                None => match path.strip_prefix(PROGRAMS) {
                    Some(name) => {
                        // Files without a test are parts of other programs.
                        let Some(test) = beside else { continue };
                        let name = name.trim_end_matches(".p4").replace(['/', '_'], " ");
                        let (rank, group, name) = match name.split_once(' ') {
                            Some(("exercises", name)) => (1, "Exercises", name.to_owned()),
                            Some(("tna", name)) => (3, "Tofino", name.to_owned()),
                            _ => (2, "Language features", name),
                        };
                        (rank, group, name, Some(test))
                    }
                    None if path == "/p4src/v1model/main.p4" => {
                        (4, "Data plane", "p4src/v1model".to_owned(), None)
                    }
                    None => continue,
                },
            };
            let example = Example {
                group: group.to_owned(),
                name,
                main: path.clone(),
                test,
            };
            examples.push((rank, example));
        }
        examples.sort_by(|a, b| (a.0, &a.1.name).cmp(&(b.0, &b.1.name)));
        examples.into_iter().map(|(_, example)| example).collect()
    }
}

/// A loader of the files of one program.
pub(crate) struct Loader<'a> {
    /// The client's files.
    pub document: &'a Document,
    /// The library.
    pub library: &'a Library,
}

impl SourceLoader for Loader<'_> {
    fn load(&self, path: &Path) -> io::Result<String> {
        let normal = normalize(path);
        let name = normal.to_string_lossy();
        match self.document.files.get(&*name) {
            Some(text) => Ok(text.clone()),
            None => self.library.load(path),
        }
    }
}

impl SourceLoader for Library {
    fn load(&self, path: &Path) -> io::Result<String> {
        let normal = normalize(path);
        let text = self.files.get(&*normal.to_string_lossy());
        text.cloned().ok_or_else(|| io::ErrorKind::NotFound.into())
    }
}
