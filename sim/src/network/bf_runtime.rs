//! Control of a switch by BfRuntime: the server of the switch, and the controller's requests in that language.
//!
//! The program is loaded by P4Runtime, as a chip's driver loads it before a controller connects, and packets of the CPU
//! port remain PacketIn and PacketOut. All entries are written and read by BfRuntime.

use alfirk_bf_rt_json::Schema;
use alfirk_bfrt::{Generation, Options, Program, Service};
use alfirk_ctrl::bfrt::Translation;
use alfirk_p4rt::Server;
use alfirk_p4runtime::bfrt_proto::{
    set_forwarding_pipeline_config_request::Action, stream_message_request::Update,
    ForwardingPipelineConfig, SetForwardingPipelineConfigRequest, StreamMessageRequest, Subscribe,
};
use alfirk_p4runtime::p4::v1::{self, ReadRequest, ReadResponse, WriteRequest};
use alfirk_p4runtime::{Bytes, Code, Status};

/// Name of the program to which the controller binds.
const NAME: &str = "main";
/// Id of the controller among the clients of the switch.
const CLIENT: u32 = 1;
/// Options of all requests: errors are returned as status.
const OPTIONS: Options = Options {
    errors_in_response: false,
    ignores_not_found: false,
};

/// The BfRuntime server of a switch and its client.
pub(super) struct BfRuntime {
    /// Schema of the program as text.
    schema: Bytes,
    /// The server, and the client that is bound to its program; `None` before a program is loaded.
    session: Option<(Service, Translation)>,
}

impl BfRuntime {
    pub fn new(schema: Bytes) -> BfRuntime {
        BfRuntime {
            schema,
            session: None,
        }
    }

    /// Clears the program, when the switch restarts.
    pub fn restart(&mut self) {
        self.session = None;
    }

    /// Starts the server for a program that the switch has loaded, and binds the client to it.
    pub fn start(
        &mut self,
        server: &mut Server,
        config: &v1::ForwardingPipelineConfig,
    ) -> Result<(), Status> {
        let no_p4info = Status::new(Code::InvalidArgument, "the config has no P4Info");
        let p4info = config.p4info.as_ref().ok_or(no_p4info)?;
        let generation = match p4info.pkg_info.as_ref().map(|package| &*package.arch) {
            Some("t2na") => Generation::Two,
            _ => Generation::One,
        };
        let binary = config.p4_device_config.to_vec();
        let program = Program::new(NAME.to_owned(), self.schema.to_vec(), binary);
        let program = program.map_err(|why| Status::new(Code::InvalidArgument, why))?;
        let mut service = Service::new(Some(program), generation, Default::default());
        let stream = service.stream_open();
        let subscribe = StreamMessageRequest {
            client_id: CLIENT,
            update: Some(Update::Subscribe(Subscribe::default())),
        };
        service.stream_message(stream, subscribe);
        let bind = SetForwardingPipelineConfigRequest {
            client_id: CLIENT,
            action: Action::Bind.into(),
            config: vec![ForwardingPipelineConfig {
                p4_name: NAME.to_owned(),
                ..ForwardingPipelineConfig::default()
            }],
            ..SetForwardingPipelineConfigRequest::default()
        };
        service.set_pipeline(server, &bind)?;
        let schemas = service.get_pipeline();
        let parse = |text: Option<&[u8]>| {
            let text = text.unwrap_or_default();
            Schema::parse(text).map_err(|why| Status::new(Code::Internal, why.to_string()))
        };
        let of_program = schemas.config.first().map(|own| &*own.bfruntime_info);
        let of_device = schemas.non_p4_config.as_ref();
        let of_device = of_device.map(|own| &*own.bfruntime_info);
        let (of_program, of_device) = (parse(of_program)?, parse(of_device)?);
        let translation = Translation::new(p4info, &of_program, &of_device, CLIENT, NAME);
        let translation =
            translation.map_err(|why| Status::new(Code::InvalidArgument, why.to_string()))?;
        self.session = Some((service, translation));
        Ok(())
    }

    /// Executes a Write of the controller.
    pub fn write(
        &mut self,
        server: &mut Server,
        request: &WriteRequest,
        now: u64,
    ) -> Result<(), Status> {
        let (service, translation) = self.session.as_mut().ok_or_else(not_bound)?;
        let written = translation.write(request);
        let result = service.write(server, &written.request, OPTIONS, &[], now);
        translation.written(&written, result)
    }

    /// Executes a Read of the controller.
    pub fn read(
        &mut self,
        server: &Server,
        request: &ReadRequest,
        now: u64,
    ) -> Result<ReadResponse, Status> {
        let (service, translation) = self.session.as_mut().ok_or_else(not_bound)?;
        let request = translation.read(request)?;
        let (responses, outcome) = service.read(server, &request, OPTIONS, &[], now);
        outcome?;
        Ok(ReadResponse {
            entities: translation.entities(&responses),
        })
    }
}

fn not_bound() -> Status {
    Status::new(Code::FailedPrecondition, "no program is loaded")
}
