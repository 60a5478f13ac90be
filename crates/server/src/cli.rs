//! The command line: flags into settings. It runs nothing.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};

use crate::certificates::command::{CertificatesCommand, EXAMPLES as CERTIFICATES_EXAMPLES};
use crate::lab::LabCommand;
use crate::settings::{Raw, SettingsError, take_environment};
use crate::users::{EXAMPLES as USERS_EXAMPLES, UsersCommand};

const EXAMPLES: &str = "\
Examples:
  plimsoll serve
      One node on loopback: Redis clients on 127.0.0.1:6380, Elasticsearch
      clients on 127.0.0.1:9200 (metrics at /_metrics), data in ./data.
  plimsoll serve --data /var/lib/plimsoll --resp 0.0.0.0:6380 \\
                 --set resp.password_file=/etc/plimsoll/password
      Open to the network, with a password.
  plimsoll serve --secure --data /var/lib/plimsoll --http 0.0.0.0:9200
      TLS and a password, made on an empty folder and said once.
  plimsoll serve --node a --data ./a --http 127.0.0.1:9201 \\
                 --resp 127.0.0.1:6381 --rpc 127.0.0.1:9301 \\
                 --log nats://127.0.0.1:4222,127.0.0.1:4223,127.0.0.1:4224
      One of several nodes, which share a log on JetStream servers.
  plimsoll serve --set log.durability=async --set cache.size=1gb
      Answers writes before they are synced; more memory for reads.
  plimsoll serve --config plimsoll.toml --log-format json
      From a settings file (TOML or YAML), with messages for machines.

A flag goes before --set, and that before the file. Secrets may stand in the
environment: PLIMSOLL_RESP_PASSWORD, PLIMSOLL_RPC_SECRET. Exit codes: 0 after SIGTERM
or SIGINT, 1 where the node fails, 2 where the command line or a setting is wrong.";

const LAB_EXAMPLES: &str = "\
Examples:
  plimsoll lab demo
      Ninety seconds: three nodes here, one gets sick, with protections off and on.
  plimsoll lab list
      The experiments.
  plimsoll lab run replica-selection --quick
      Real nodes on this machine, one of them stressed, with and without replica selection; less
      than ten minutes. Ctrl-C leaves a report of what there is.
  plimsoll lab run replica-selection --target http://search:9200
      The same searches on a cluster of yours, its own selection off and on.
  plimsoll lab run sick-node --full --corpus http_logs=documents-181998.json.bz2
      Every fault and every workload; the lines of web servers are the first of Rally's file.
  plimsoll lab simulate replica-selection
      One slow node of six, with and without replica selection; tables here, result.json and
      report.html in lab/replica-selection.
  plimsoll lab simulate admission-queue --seed 7 --out /tmp/queue
      Search queues on a stressed cluster, from another seed.
  plimsoll lab report lab/replica-selection
      The tables of an earlier run again.";

/// A replicated search and key-value store that knows its load line.
#[derive(Debug, Parser)]
#[command(name = "plimsoll", version, subcommand_required = true, arg_required_else_help = true)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// What the binary can do.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Runs a node until SIGTERM.
    #[command(after_help = EXAMPLES)]
    Serve(ServeArgs),
    /// Experiments: the controllers in a simulated cluster, measured against published studies.
    #[command(subcommand, after_help = LAB_EXAMPLES)]
    Lab(LabCommand),
    /// Makes certificates: an authority, nodes, clients.
    #[command(subcommand, after_help = CERTIFICATES_EXAMPLES)]
    Certificates(CertificatesCommand),
    /// Users, on the machine itself: a way back in.
    #[command(subcommand, after_help = USERS_EXAMPLES)]
    Users(UsersCommand),
}

/// The flags of `plimsoll serve`, as section names of the settings.
#[derive(Debug, Default, Args)]
pub struct ServeArgs {
    /// Settings file, TOML or YAML.
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// The node's name [default: node-1].
    #[arg(long, value_name = "NAME")]
    pub node: Option<String>,
    /// Folder of log and rows [default: ./data].
    #[arg(long, value_name = "DIR")]
    pub data: Option<String>,
    /// Where HTTP listens [default: 127.0.0.1:9200].
    #[arg(long, value_name = "ADDR")]
    pub http: Option<String>,
    /// Where Redis clients connect [default: 127.0.0.1:6380].
    #[arg(long, value_name = "ADDR")]
    pub resp: Option<String>,
    /// Where other nodes connect; with the embedded log only where given [default:
    /// 127.0.0.1:9300].
    #[arg(long, value_name = "ADDR")]
    pub rpc: Option<String>,
    /// The log: embedded, nats://HOST:PORT,… (JetStream servers; tls:// insists on TLS) or plimsoll://HOST:PORT
    /// [default: embedded].
    #[arg(long, value_name = "LOG")]
    pub log: Option<String>,
    /// How messages are written to standard error: text or json [default: text].
    #[arg(long, value_name = "FORMAT")]
    pub log_format: Option<String>,
    /// Any setting; may be given several times.
    #[arg(long = "set", value_name = "KEY=VALUE")]
    pub settings: Vec<String>,
    /// Listen beyond loopback without authentication.
    #[arg(long)]
    pub insecure: bool,
    /// TLS and users for clients: makes an authority, a certificate and a password on an empty folder, and says
    /// once what a client needs.
    #[arg(long, conflicts_with = "insecure")]
    pub secure: bool,
}

impl ServeArgs {
    /// What was given: file, then `--set`, then flags.
    ///
    /// # Errors
    /// Names the key and who gave it.
    pub fn raw(&self) -> Result<Raw, SettingsError> {
        let mut raw = Raw::default();
        if let Some(path) = &self.config {
            raw.file(path)?;
        }
        for assignment in &self.settings {
            raw.assignment(assignment)?;
        }
        let [insecure, secure] =
            [self.insecure, self.secure].map(|is_given| is_given.then(|| "true".to_owned()));
        for (key, value, flag) in [
            ("node.name", &self.node, "--node"),
            ("path.data", &self.data, "--data"),
            ("http.address", &self.http, "--http"),
            ("resp.address", &self.resp, "--resp"),
            ("rpc.address", &self.rpc, "--rpc"),
            ("log.engine", &self.log, "--log"),
            ("logger.format", &self.log_format, "--log-format"),
            ("node.insecure", &insecure, "--insecure"),
            ("node.secure", &secure, "--secure"),
        ] {
            if let Some(value) = value {
                raw.set(key, value, flag)?;
            }
        }
        take_environment(&mut raw, |name| std::env::var(name).ok())?;
        Ok(raw)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::{Settings, table::SETTINGS};

    fn resolve(words: &[&str]) -> Result<Settings, String> {
        let words = ["plimsoll", "serve"].iter().chain(words);
        let Command::Serve(args) = Cli::try_parse_from(words).unwrap().command else {
            unreachable!("serve was given")
        };
        let raw = args.raw().map_err(|error| error.to_string())?;
        Settings::resolve(&raw).map_err(|error| error.to_string())
    }

    #[test]
    fn flags_are_settings_and_come_last() {
        let settings =
            resolve(&["--set", "resp.address=127.0.0.1:1", "--resp", "127.0.0.1:2"]).unwrap();
        assert_eq!(settings.resp.port(), 2);
        assert!(resolve(&["--insecure"]).unwrap().insecure);
        let rpc = resolve(&["--rpc", "127.0.0.1:3"]).unwrap().rpc;
        assert_eq!(rpc.map(|address| address.port()), Some(3));
        let refused = resolve(&["--log", "nowhere"]).unwrap_err();
        assert!(refused.contains("--log") && refused.contains("is no log"), "{refused}");
    }

    /// The table names each flag, and each flag that is named exists.
    #[test]
    fn the_table_and_the_flags_agree() {
        use clap::CommandFactory;
        let cli = Cli::command();
        let serve = cli.find_subcommand("serve").unwrap();
        let flags: Vec<String> = serve
            .get_arguments()
            .filter_map(|arg| arg.get_long().map(|long| format!("--{long}")))
            .filter(|flag| !["--config", "--set"].contains(&flag.as_str()))
            .collect();
        let mut named: Vec<&str> = SETTINGS.iter().filter_map(|setting| setting.flag).collect();
        named.sort_unstable();
        let mut flags: Vec<&str> = flags.iter().map(String::as_str).collect();
        flags.sort_unstable();
        assert_eq!(named, flags);
    }
}
