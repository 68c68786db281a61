use super::*;
use alfirk_bmv2::PreLimits;
use alfirk_packet_io::link::Rate;
use std::time::Duration;

#[derive(Debug, Parser)]
struct Cli {
    #[command(flatten)]
    args: SwitchArgs,
}

fn parse(line: &str) -> Result<Config, String> {
    let words = std::iter::once("switch").chain(line.split_whitespace());
    let cli = Cli::try_parse_from(words).map_err(|e| e.to_string())?;
    cli.args.check().map_err(|e| e.to_string())
}

fn why(line: &str) -> String {
    parse(line).unwrap_err()
}

#[test]
fn help_lists_all_target_options() {
    use clap::CommandFactory;
    let help = Cli::command().render_long_help().to_string();
    for option in TargetArgs::command().get_arguments() {
        let name = option.get_long().unwrap_or_default();
        let is_listed = help.contains(&format!("--{name}"));
        assert_eq!(is_listed, !option.is_hide_set(), "--{name}");
    }
}

#[test]
fn thrift_is_served_on_request_and_by_simple_switch() {
    let thrift = |line: &str| parse(line).unwrap().thrift;
    assert!(thrift("--no-p4").is_none());
    let requested = thrift("--no-p4 --thrift-port 9091").unwrap();
    assert_eq!(requested.address, "127.0.0.1:9091".parse().unwrap());
    assert!(requested.may_swap);
    let all = thrift("--no-p4 --thrift-port 0.0.0.0:9092").unwrap();
    assert_eq!(all.address, "0.0.0.0:9092".parse().unwrap());
    let config = parse("--no-p4 --as-simple-switch").unwrap();
    assert!(!config.serves_p4runtime);
    let config = config.thrift.unwrap();
    assert_eq!(config.address, "127.0.0.1:9090".parse().unwrap());
    assert!(!config.may_swap);
    let swaps = thrift("--no-p4 --as-simple-switch -- --enable-swap").unwrap();
    assert!(swaps.may_swap);
}

#[test]
fn files_replace_interfaces() {
    let config = parse("--no-p4 --use-files 3 -i 0@pcap0").unwrap();
    assert_eq!(config.use_files, Some(Duration::from_secs(3)));
    assert_eq!(
        parse("--no-p4 --use-files -1").unwrap().use_files,
        Some(Duration::ZERO)
    );
    // p4c's test runner passes the option and its value as one argument.
    assert_eq!(parse_interface(" 0@pcap0"), Ok((0, "pcap0".into())));
}

#[test]
fn the_command_line_of_simple_switch_grpc_is_accepted() {
    let config = parse(
        "-i 1@s1-eth1 -i 2@s1-eth2 --device-id 3 --thrift-port 9090 --log-console -L debug \
         --pcap=/tmp/x main.json -- --grpc-server-addr 0.0.0.0:50051 --cpu-port 255",
    )
    .unwrap();
    assert_eq!(config.json, Some("main.json".into()));
    assert_eq!(config.interfaces[&2], "s1-eth2");
    assert_eq!(config.switch.device_id, 3);
    assert_eq!(config.switch.cpu_port, Some(255));
    assert_eq!(config.switch.drop_port, 511);
    assert_eq!(
        config.address,
        ServerAddress::Tcp("0.0.0.0:50051".parse().unwrap())
    );
    assert!(config.thrift.is_some() && config.warnings.is_empty());
}

#[test]
fn the_flags_of_mininet_scripts_are_accepted_with_warnings() {
    let config = parse(
        "-i 1@s1-eth1 --pcap /tmp --nanolog ipc:///tmp/bm-0-log.ipc --device-id 0 main.json \
         --log-console --dump-packet-data 64 -- --grpc-server-addr 0.0.0.0:50051 \
         --priority-queues 4 --max-mc-groups 5 --max-l1-entries 7 --max-l2-entries 6 --disable-swap",
    )
    .unwrap();
    assert_eq!(config.json, Some("main.json".into()));
    assert_eq!(config.dump_packet_data, 64);
    assert_eq!(config.switch.priority_queues, 4);
    assert_eq!(
        config.switch.pre_limits,
        PreLimits {
            groups: 5,
            nodes: 6
        }
    );
    assert!(!config.switch.may_swap);
    let [nanolog] = &config.warnings[..] else {
        panic!("expected one warning")
    };
    assert!(nanolog.contains("nanomsg is not supported"));

    let config = parse("--no-p4 main.json --log-flush").unwrap();
    assert_eq!(config.json, None);
    assert_eq!(config.warnings.len(), 2);
    assert_eq!(parse("--no-p4 -i 700@a").unwrap().interfaces[&700], "a");
    assert!(parse("--version").unwrap().json.is_none());
}

#[test]
fn the_server_listens_on_loopback_by_default() {
    let config = parse("--no-p4").unwrap();
    assert_eq!(
        config.address,
        ServerAddress::Tcp("127.0.0.1:9559".parse().unwrap())
    );
    let unix = parse("--no-p4 -- --grpc-server-addr unix:/run/s1.sock").unwrap();
    assert_eq!(unix.address, ServerAddress::Unix("/run/s1.sock".into()));
}

#[test]
fn client_certificates_are_requested_with_client_auth() {
    let line = "--no-p4 -- --grpc-server-ssl --grpc-server-cert c.pem --grpc-server-key k.pem \
                --grpc-server-cacert ca.pem";
    let tls = parse(line).unwrap().tls.unwrap();
    assert_eq!((tls.cert, tls.key), ("c.pem".into(), "k.pem".into()));
    assert_eq!(tls.clients, None);
    let mutual = parse(&format!("{line} --grpc-server-with-client-auth")).unwrap();
    assert_eq!(mutual.tls.unwrap().clients, Some("ca.pem".into()));
    assert_eq!(parse("--no-p4").unwrap().tls, None);
}

#[test]
fn link_options_apply_to_all_ports_or_one() {
    let config =
        parse("--no-p4 -i 1@a -i 2@b --loss 0.01 --port-loss 2=0.5 --port-delay 2=1.5ms --seed 9")
            .unwrap();
    assert_eq!(config.link(1).loss, 0.01);
    assert_eq!(config.link(2).loss, 0.5);
    assert_eq!(config.link(2).delay, Duration::from_micros(1500));
    assert_eq!(config.switch.seed, 9);

    let config = parse(
        "--no-p4 -i 1@a -i 2@b --rate 1.5Gbps --port-rate 2=2kpps --port-duplicate 2=0.1 \
         --delay 1ms --reorder 0.2 --port-jitter 1=2ms --queue-depth 5 -- --priority-queues 4",
    )
    .unwrap();
    assert_eq!(config.link(1).rate, Some(Rate::Bits(1_500_000_000)));
    assert_eq!(config.link(1).jitter, Duration::from_millis(2));
    assert_eq!(config.link(2).rate, Some(Rate::Packets(2000)));
    assert_eq!(
        (config.link(2).duplicate, config.link(2).reorder),
        (0.1, 0.2)
    );
    assert_eq!((config.queue_depth, config.priority_queues), (5, 4));

    let config =
        parse("--no-p4 -i 1@a -i 2@b --port-drop 2=in,1 --port-drop 2=out,3,42=11").unwrap();
    assert_eq!(config.loss_filters(1), []);
    assert_eq!(config.loss_filters(2)[1], "out,3,42=11".parse().unwrap());
}

#[test]
fn traces_are_text_by_default() {
    assert!(!parse("--no-p4").unwrap().trace.is_on());
    let config = parse("--trace main.json").unwrap();
    assert_eq!(config.trace.format, Some(TraceFormat::Text));
    assert_eq!(config.json, Some("main.json".into()));
    let config = parse("--trace=json main.json").unwrap();
    assert_eq!(config.trace.format, Some(TraceFormat::Json));
    let config = parse("--trace-file t.txt --trace-count 3 main.json").unwrap();
    assert_eq!(config.trace.format, Some(TraceFormat::Text));
    assert_eq!(config.trace.count, Some(3));
}

#[test]
fn errors_name_the_option() {
    assert!(why("").contains("JSON"));
    assert!(why("--no-p4 -i veth0").contains("PORT@IFACE"));
    assert!(why("--no-p4 -i 1@a -i 1@b").contains("port 1 occurs twice"));
    assert!(why("--no-p4 -i 1@a -i 2@a").contains("interface a occurs twice"));
    assert!(why("--no-p4 -i 5@a -- --cpu-port 5").contains("is the CPU port"));
    assert!(why("--no-p4 -i 511@a").contains("is the drop port"));
    assert!(why("--no-p4 -- --cpu-port 511").contains("choose another --drop-port"));
    assert!(why("--no-p4 --debugger").contains("--log-level trace"));
    assert!(why("--no-p4 --debugger-addr ipc:///tmp/d").contains("there is no debugger"));
    assert!(why("--no-p4 --max-port-count 1 -i 700@a -i 2@b").contains("2 interfaces"));
    assert!(why("--no-p4 --log-console --log-file x").contains("--log-file"));
    assert!(why("--no-p4 -- --load-modules a.so").contains("no modules"));
    assert!(why("--no-p4 -- --max-mc-groups 0").contains("--max-mc-groups"));
    assert!(why("--no-p4 -- --grpc-server-ssl").contains("--grpc-server-cert FILE"));
    assert!(why("--no-p4 -- --grpc-server-key k.pem").contains("need --grpc-server-ssl"));
    let tls = "--no-p4 -- --grpc-server-ssl --grpc-server-cert c.pem --grpc-server-key k.pem";
    let why_not = why(&format!("{tls} --grpc-server-with-client-auth"));
    assert!(why_not.contains("--grpc-server-cacert FILE"));
    assert!(why("--no-p4 --loss 2").contains("from 0 to 1"));
    assert!(why("--no-p4 --delay 5").contains("unit"));
    assert!(why("--no-p4 --rate 5").contains("for packets"));
    assert!(why("--no-p4 --rate 0bps").contains("at least 1"));
    assert!(why("--no-p4 --reorder 0.1").contains("--delay"));
    assert!(why("--no-p4 --port-loss 3=0.1").contains("port 3 has no interface"));
    assert!(why("--no-p4 --port-drop 3=in,1").contains("port 3 has no interface"));
    assert!(why("--no-p4 -i 1@a --port-drop 1=in,x").contains("is not a number"));
    assert!(why("--no-p4 -- --grpc-server-addr nonsense").contains("nonsense"));
    assert!(why("--no-p4 --trace-count 2").contains("need --trace"));
    assert!(why("--no-p4 -- --no-such-flag").contains("--no-such-flag"));
}
