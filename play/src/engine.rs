//! The engine: requests of the page, and their replies.

use std::rc::Rc;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::compile::{prepare, Message, Prepared, Table};
#[cfg(feature = "fabric")]
use crate::files::Loader;
use crate::files::{Document, Library};
use crate::frame::{describe, dissect, Frame};
use crate::graph::{draw, Drawing};
use crate::language::Language;
use crate::limits;
use crate::run::{run, Run};

/// A request of the page.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(tag = "do", rename_all = "snake_case")]
pub enum Request {
    /// Returns the diagnostics of a program that is being edited.
    Check {
        /// The program.
        document: Document,
    },
    /// Forwards a request to the language server: `hover`, `completion` or `formatting` of a file.
    Language {
        /// The program.
        document: Document,
        /// Name of the request without `textDocument/`.
        method: String,
        /// Path of the file.
        file: String,
        /// Parameters of the request without the file.
        #[serde(default)]
        parameters: Value,
    },
    /// Compiles a program, and returns its tables and headers.
    Interface {
        /// The program.
        document: Document,
    },
    /// Compiles a program, and draws its control-flow graphs.
    Graphs {
        /// The program.
        document: Document,
    },
    /// Builds a packet from an expression in the manner of scapy. The headers of the program may be layers.
    Build {
        /// The program.
        document: Document,
        /// The expression, such as `Ether()/IP(dst="10.0.0.2")`.
        expression: String,
    },
    /// Dissects a frame.
    Dissect {
        /// The program.
        document: Document,
        /// The frame in hexadecimal.
        data: String,
    },
    /// Returns the frames of a capture.
    Capture {
        /// The file (pcap or pcapng) in hexadecimal.
        data: String,
    },
    /// Returns the topologies of fabrics.
    Topologies,
    /// Broadcasts a message in a fabric of switches with the program, and returns the packets of one switch.
    Fabric {
        /// The program.
        document: Document,
        /// The run.
        spec: FabricSpec,
        /// Index of the switch whose packets are returned.
        switch: usize,
    },
    /// Runs a test on a program.
    Run {
        /// The program.
        document: Document,
        /// The test in the STF language.
        test: String,
    },
}

/// A reply to a [`Request`].
#[derive(Clone, Debug, Serialize)]
#[serde(tag = "is", rename_all = "snake_case")]
pub enum Reply {
    /// Diagnostics by path, as the Language Server Protocol has them.
    Diagnostics {
        /// An array for each path.
        files: Value,
    },
    /// Result of the language server.
    Language {
        /// The result of the request.
        result: Value,
    },
    /// Tables and headers of a program.
    Interface {
        /// The tables with keys.
        tables: Vec<Table>,
        /// Protocols and headers of the program, with their fields.
        layers: Vec<LayerForm>,
        /// Warnings.
        messages: Vec<Message>,
    },
    /// Control-flow graphs of parsers and pipelines.
    Graphs {
        /// The drawings, to whose indexes the ways of packets refer.
        graphs: Vec<Drawing>,
    },
    /// A frame.
    Frame {
        /// The frame.
        frame: Frame,
    },
    /// The frames of a capture.
    Frames {
        /// The frames in hexadecimal.
        frames: Vec<String>,
    },
    /// Topologies of fabrics.
    Topologies {
        /// Their paths in the library; none if this playground has no fabrics.
        paths: Vec<String>,
    },
    /// A run of a fabric.
    Fabric {
        /// Result of the transfer.
        summary: String,
        /// The switches.
        switches: Vec<SwitchCount>,
        /// The packets of the selected switch, in the form of a test's.
        run: Box<Run>,
    },
    /// The results of a test.
    Run(Box<Run>),
    /// The program has errors.
    Faulty {
        /// Errors and warnings.
        messages: Vec<Message>,
    },
    /// The request was not executed.
    Error {
        /// The reason, in one line.
        text: String,
    },
}

/// Encodes a reply as JSON in one line; an error in its place if it exceeds the limit.
pub(crate) fn encoded(reply: &Reply) -> Vec<u8> {
    let encode = |reply: &Reply| serde_json::to_vec(reply).unwrap_or_default();
    let bytes = encode(reply);
    if bytes.len() <= limits::REPLY_BYTES {
        return bytes;
    }
    let (size, limit) = (bytes.len() >> 20, limits::REPLY_BYTES >> 20);
    let text = format!("the result has {size} MiB; the limit is {limit} MiB: send fewer packets");
    encode(&Reply::Error { text })
}

/// A run of a fabric in virtual time: the first hosts of a topology are a group, and the first of them broadcasts a message.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FabricSpec {
    /// Path of the topology in the library.
    pub topology: String,
    /// Number of hosts of the group.
    pub group: usize,
    /// Size of the message in bytes.
    pub bytes: usize,
    /// Probability that a link loses a frame.
    pub loss: f64,
    /// Seed of all randomness.
    pub seed: u64,
}

/// A switch of a fabric.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SwitchCount {
    /// Name in the topology.
    pub name: String,
    /// Number of traced packets.
    pub packets: usize,
}

/// A layer that a packet may have.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LayerForm {
    /// Name of the layer.
    pub name: String,
    /// Whether it is a header of the program.
    pub is_of_program: bool,
    /// Names of the fields, their values by default, and whether they are computed if they have no value.
    pub fields: Vec<(String, String, bool)>,
}

/// A program that is ready to run, or the messages about its errors.
type Compiled = Result<Rc<Prepared>, Vec<Message>>;

/// Number of programs that are kept ready to run.
const KEPT_PROGRAMS: usize = 8;

/// Number of language servers that are kept, each with its program.
const KEPT_LANGUAGES: usize = 8;

/// Compiles, tests and describes programs. Requests are independent of each other: earlier results are kept only to save time.
pub struct Engine {
    library: Library,
    /// Programs that are ready, the most recently used last.
    programs: Vec<(Document, Compiled)>,
    /// Language servers, the most recently used last.
    languages: Vec<Language>,
    /// The last run of a fabric.
    #[cfg(feature = "fabric")]
    fabric: Option<(Document, FabricSpec, Rc<crate::fabric::FabricRun>)>,
}

impl Engine {
    /// Creates an engine whose programs may include the files of the library.
    pub fn new(library: Library) -> Engine {
        Engine {
            library,
            programs: Vec::new(),
            languages: Vec::new(),
            #[cfg(feature = "fabric")]
            fabric: None,
        }
    }

    /// Executes a request. The compiler recurses as deeply as a program is nested, so call this function on a large stack
    /// ([`alfirk_compiler::on_deep_stack`]).
    pub fn reply(&mut self, request: &Request) -> Reply {
        self.try_reply(request).unwrap_or_else(|text| Reply::Error {
            // Messages about expressions have the expression below.
            text: text.lines().next().unwrap_or_default().to_owned(),
        })
    }

    fn try_reply(&mut self, request: &Request) -> Result<Reply, String> {
        Ok(match request {
            Request::Check { document } => {
                document.check()?;
                let files = self.language(document).diagnostics();
                Reply::Diagnostics { files }
            }
            Request::Language {
                document,
                method,
                file,
                parameters,
            } => {
                document.check()?;
                if !matches!(method.as_str(), "hover" | "completion" | "formatting") {
                    return Err(format!("`{method}` is not hover, completion or formatting"));
                }
                let method = format!("textDocument/{method}");
                let language = self.language(document);
                let result = language.request(&method, file, parameters.clone())?;
                Reply::Language { result }
            }
            Request::Interface { document } => match self.program(document)? {
                Ok(prepared) => Reply::Interface {
                    tables: prepared.tables(),
                    layers: layers(&prepared),
                    messages: prepared.messages.clone(),
                },
                Err(messages) => Reply::Faulty { messages },
            },
            Request::Graphs { document } => match self.program(document)? {
                Ok(prepared) => Reply::Graphs {
                    graphs: draw(prepared.ways.graphs())?,
                },
                Err(messages) => Reply::Faulty { messages },
            },
            Request::Build {
                document,
                expression,
            } => {
                // A program with errors has no headers; the protocols can still be layers.
                let prepared = self.program(document)?.ok();
                let program = prepared.as_ref().and_then(|ready| ready.program.as_ref());
                let more = program.map_or(&[][..], |program| program.protocols());
                let packet = scapy::parse_with(expression, more);
                let packet = packet.map_err(|error| error.to_string())?;
                let bytes = packet.build().map_err(|error| error.to_string())?;
                let frame = describe(&bytes, &dissect(&bytes, program));
                Reply::Frame { frame }
            }
            Request::Dissect { document, data } => {
                let bytes = scapy::unhex(data)?;
                let prepared = self.program(document)?.ok();
                let program = prepared.as_ref().and_then(|ready| ready.program.as_ref());
                let frame = describe(&bytes, &dissect(&bytes, program));
                Reply::Frame { frame }
            }
            Request::Capture { data } => {
                let content = scapy::unhex(data)?;
                if content.len() > limits::CAPTURE_BYTES {
                    let limit = limits::CAPTURE_BYTES >> 10;
                    let size = content.len() >> 10;
                    return Err(format!(
                        "the capture has {size} KiB; the limit is {limit} KiB"
                    ));
                }
                let frames = scapy::capture::read(&content).map_err(|error| error.to_string())?;
                if frames.is_empty() {
                    return Err("the capture has no complete packet".to_owned());
                }
                if frames.len() > limits::PACKETS {
                    let limit = limits::PACKETS;
                    let count = frames.len();
                    return Err(format!(
                        "the capture has {count} packets; the limit is {limit}"
                    ));
                }
                let frames = frames.iter().map(|frame| scapy::hex(&frame.bytes));
                Reply::Frames {
                    frames: frames.collect(),
                }
            }
            Request::Topologies => Reply::Topologies {
                #[cfg(feature = "fabric")]
                paths: crate::fabric::topologies(&self.library),
                #[cfg(not(feature = "fabric"))]
                paths: Vec::new(),
            },
            #[cfg(feature = "fabric")]
            Request::Fabric {
                document,
                spec,
                switch,
            } => match self.program(document)? {
                Ok(prepared) => self.fabric(document, spec, *switch, &prepared)?,
                Err(messages) => Reply::Faulty { messages },
            },
            #[cfg(not(feature = "fabric"))]
            Request::Fabric { .. } => return Err("this playground has no fabrics".to_owned()),
            Request::Run { document, test } => match self.program(document)? {
                Ok(prepared) => Reply::Run(Box::new(run(&prepared, test)?)),
                Err(messages) => Reply::Faulty { messages },
            },
        })
    }

    #[cfg(feature = "fabric")]
    fn fabric(
        &mut self,
        document: &Document,
        spec: &FabricSpec,
        switch: usize,
        prepared: &Prepared,
    ) -> Result<Reply, String> {
        use crate::compile::{arch_of, options};
        use crate::fabric::{run, shown};

        let kept = self.fabric.as_ref();
        let kept = kept.filter(|kept| kept.0 == *document && kept.1 == *spec);
        let fabric = match kept {
            Some((_, _, fabric)) => fabric.clone(),
            None => {
                let loader = Loader {
                    document,
                    library: &self.library,
                };
                let options = options(document, arch_of(document, &loader)?);
                let fabric = Rc::new(run(options, document, &self.library, spec)?);
                self.fabric = Some((document.clone(), spec.clone(), fabric.clone()));
                fabric
            }
        };
        let Some((_, packets)) = fabric.switches.get(switch) else {
            let count = fabric.switches.len();
            return Err(format!("there is no switch {switch}; there are {count}"));
        };
        let switches = fabric.switches.iter().map(|(name, packets)| SwitchCount {
            name: name.clone(),
            packets: packets.len(),
        });
        Ok(Reply::Fabric {
            summary: fabric.summary.clone(),
            switches: switches.collect(),
            run: Box::new(shown(packets, prepared)),
        })
    }

    /// Returns the program, compiled now or kept from an earlier request.
    fn program(&mut self, document: &Document) -> Result<Compiled, String> {
        document.check()?;
        let kept = self.programs.iter().position(|(kept, _)| kept == document);
        let entry = match kept {
            Some(at) => self.programs.remove(at),
            None => {
                let prepared = prepare(document, &self.library).map(Rc::new);
                (document.clone(), prepared)
            }
        };
        if self.programs.len() >= KEPT_PROGRAMS {
            drop(self.programs.remove(0));
        }
        let result = entry.1.clone();
        self.programs.push(entry);
        Ok(result)
    }

    /// Returns a language server in which the files of this program are open.
    fn language(&mut self, document: &Document) -> &mut Language {
        let same = |kept: &Language| kept.document().main == document.main;
        let mut language = match self.languages.iter().rposition(same) {
            Some(at) => self.languages.remove(at),
            None => Language::new(&self.library),
        };
        if language.document() != document {
            language.open(document);
        }
        if self.languages.len() >= KEPT_LANGUAGES {
            self.languages.remove(0);
        }
        self.languages.push(language);
        self.languages.last_mut().expect("one was added")
    }
}

/// Returns the headers of the program, then the protocols.
fn layers(prepared: &Prepared) -> Vec<LayerForm> {
    let program = prepared.program.as_ref();
    let own = program.map_or(&[][..], |program| program.protocols());
    let own = own.iter().map(|protocol| form(protocol, true));
    let known = scapy::protocols::ALL.into_iter();
    own.chain(known.map(|protocol| form(protocol, false)))
        .collect()
}

fn form(protocol: &scapy::Protocol, is_of_program: bool) -> LayerForm {
    let fields = protocol.fields.iter();
    let fields = fields.map(|field| {
        let value = match field.is_computed {
            true => String::new(),
            false => field.text(&protocol.template).unwrap_or_default(),
        };
        (field.name.to_string(), value, field.is_computed)
    });
    LayerForm {
        name: protocol.name.to_string(),
        is_of_program,
        fields: fields.collect(),
    }
}
