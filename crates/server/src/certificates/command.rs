//! `plimsoll certificates`: flags, the files that are written and what is said of them. It decides
//! nothing about what stands in a certificate.
//!
//! A key is written for its owner alone (0600), and a file that is there is kept unless `--force`
//! is given. Each file appears whole: it is written beside its place and moved there.

use std::fmt::Write as _;
use std::fs::{self, OpenOptions, Permissions};
use std::io::{self, Write};
use std::net::IpAddr;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use clap::{Args, Subcommand};
use time::OffsetDateTime;

use super::{
    Authority, CA_DAYS, DAYS_MAX, Hosts, LEAF_DAYS, Made, MakeError, Purpose, host_names, make_ca,
};

/// The name of an authority unless told otherwise.
const CA_NAME: &str = "Plimsoll CA";
/// Under which name the authority's files stand in its folder.
const CA_STEM: &str = "ca";
/// Who may read a private key.
const KEY_MODE: u32 = 0o600;
/// Who may read a certificate.
const CERTIFICATE_MODE: u32 = 0o644;

/// Shown under `--help`.
pub const EXAMPLES: &str = "\
Examples:
  plimsoll certificates ca --out certs
      An authority: certs/ca.crt, and certs/ca.key, which signs and goes to no node.
  plimsoll certificates node --ca certs --out certs --name node-1 \\
                 --dns search-1.example --ip 10.0.0.1
      certs/node-1.crt and .key for the node of this `node.name` (and `cluster.name`, where that is
      not plimsoll: --cluster); clients look for one of its names.
  plimsoll certificates server --ca certs --out certs --name log-1 --ip 10.0.0.4
      For one of the log's servers, which nodes do not take for one of theirs.
  plimsoll certificates client --ca certs --out certs --name follower
      For who only asks.
  plimsoll certificates node --ca certs --out certs --name node-1 --ip 10.0.0.1 --force
      Anew, in the place of the old one.

Exit codes: 0, 1 where a file cannot be read or written, 2 where the command line is
wrong or a file is there already.";

/// What `plimsoll certificates` can do.
#[derive(Debug, Subcommand)]
pub enum CertificatesCommand {
    /// Makes an authority: ca.crt and ca.key.
    #[command(after_help = EXAMPLES)]
    Ca(CaArgs),
    /// Makes a node's certificate and key, NAME.crt and NAME.key.
    #[command(after_help = EXAMPLES)]
    Node(NodeArgs),
    /// Makes a certificate and key for another server, such as the log's: NAME.crt and NAME.key.
    #[command(after_help = EXAMPLES)]
    Server(ServerArgs),
    /// Makes a certificate and key for who only asks, NAME.crt and NAME.key.
    #[command(after_help = EXAMPLES)]
    Client(ClientArgs),
}

/// The flags of `plimsoll certificates ca`.
#[derive(Debug, Args)]
pub struct CaArgs {
    /// Folder of the files; it is made where it is not there.
    #[arg(long, value_name = "DIR")]
    pub out: PathBuf,
    /// The authority's name.
    #[arg(long, value_name = "NAME", default_value = CA_NAME)]
    pub name: String,
    /// How long it holds.
    #[arg(long, value_name = "N", default_value_t = CA_DAYS, value_parser = clap::value_parser!(u32).range(1..=i64::from(DAYS_MAX)))]
    pub days: u32,
    /// Replace files that are there. What the old authority signed is then trusted by nobody new.
    #[arg(long)]
    pub force: bool,
}

/// What certificates of nodes and clients have in common.
#[derive(Debug, Args)]
pub struct SignedArgs {
    /// Folder of ca.crt and ca.key.
    #[arg(long, value_name = "DIR")]
    pub ca: PathBuf,
    /// Folder of the files; it is made where it is not there.
    #[arg(long, value_name = "DIR")]
    pub out: PathBuf,
    /// The name, also of the files: letters, digits, `.`, `-` and `_`.
    #[arg(long, value_name = "NAME", value_parser = stem)]
    pub name: String,
    /// How long it holds; not longer than its authority.
    #[arg(long, value_name = "N", default_value_t = LEAF_DAYS, value_parser = clap::value_parser!(u32).range(1..=i64::from(DAYS_MAX)))]
    pub days: u32,
    /// Replace files that are there.
    #[arg(long)]
    pub force: bool,
}

/// The flags of `plimsoll certificates node`.
#[derive(Debug, Args)]
pub struct NodeArgs {
    /// Authority, folder, name.
    #[command(flatten)]
    pub signed: SignedArgs,
    /// Where it is reached.
    #[command(flatten)]
    pub hosts: HostArgs,
    /// The node's `cluster.name`: other nodes take it in as the node NAME of this cluster.
    #[arg(long, value_name = "NAME", default_value = "plimsoll")]
    pub cluster: String,
}

/// Where a server is reached.
#[derive(Debug, Args)]
#[group(required = true, multiple = true)]
pub struct HostArgs {
    /// A host's name that others reach it by; may be given several times.
    #[arg(long, value_name = "HOST")]
    pub dns: Vec<String>,
    /// An address that others reach it by; may be given several times.
    #[arg(long = "ip", value_name = "ADDR")]
    pub ips: Vec<IpAddr>,
}

impl HostArgs {
    fn hosts(&self) -> Hosts {
        Hosts { dns: self.dns.clone(), ips: self.ips.clone() }
    }
}

/// The flags of `plimsoll certificates server`.
#[derive(Debug, Args)]
pub struct ServerArgs {
    /// Authority, folder, name.
    #[command(flatten)]
    pub signed: SignedArgs,
    /// Where it is reached.
    #[command(flatten)]
    pub hosts: HostArgs,
}

/// The flags of `plimsoll certificates client`.
#[derive(Debug, Args)]
pub struct ClientArgs {
    /// Authority, folder, name.
    #[command(flatten)]
    pub signed: SignedArgs,
}

/// Why a name is none that files may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
enum StemError {
    /// It has other characters, or begins with one that it may not begin with.
    #[error("letters, digits, `.`, `-` and `_`, the first a letter or digit")]
    Characters,
    /// The authority's own files may stand in the same folder.
    #[error("`ca` is the authority's own")]
    Authority,
}

/// A name that files may have.
fn stem(text: &str) -> Result<String, StemError> {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || b".-_".contains(&byte);
    if text.is_empty() || text.starts_with(['.', '-']) || !text.bytes().all(fits) {
        return Err(StemError::Characters);
    }
    if text == CA_STEM {
        return Err(StemError::Authority);
    }
    Ok(text.to_owned())
}

/// Why `plimsoll certificates` failed.
#[derive(Debug, thiserror::Error)]
pub enum CommandError {
    /// A file is there, and may be in use.
    #[error("{} is there already: pass --force to replace it", .0.display())]
    Exists(PathBuf),
    /// The authority's files do not do.
    #[error("{} and ca.key: {error}", .path.display())]
    Authority {
        /// Its certificate.
        path: PathBuf,
        /// Why.
        error: MakeError,
    },
    /// A name or the like.
    #[error(transparent)]
    Make(#[from] MakeError),
    /// A file or folder.
    #[error("{}: {error}", .path.display())]
    File {
        /// Which.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// Standard output.
    #[error("cannot print: {0}")]
    Print(io::Error),
}

impl CommandError {
    /// Whether the command line is at fault.
    #[must_use]
    pub fn is_usage(&self) -> bool {
        matches!(self, Self::Exists(_) | Self::Make(MakeError::Name(_)))
    }

    fn file(path: &Path, error: io::Error) -> Self {
        Self::File { path: path.to_owned(), error }
    }
}

/// Makes what was asked for and says on standard output what was written.
///
/// # Errors
/// Names the file or the flag. A file that is there is left as it is.
pub fn run(command: &CertificatesCommand, now: SystemTime) -> Result<(), CommandError> {
    let said = make(command, now)?;
    io::stdout().lock().write_all(said.as_bytes()).map_err(CommandError::Print)
}

/// Makes what was asked for; gives what is to be said of it.
pub(super) fn make(command: &CertificatesCommand, now: SystemTime) -> Result<String, CommandError> {
    match command {
        CertificatesCommand::Ca(args) => {
            let files = Files::new(&args.out, CA_STEM, args.force)?;
            files.write(&make_ca(&args.name, args.days, now)?)
        }
        CertificatesCommand::Node(args) => {
            let purpose =
                Purpose::Node { hosts: args.hosts.hosts(), cluster: args.cluster.clone() };
            make_signed(&args.signed, &purpose, now)
        }
        CertificatesCommand::Server(args) => {
            make_signed(&args.signed, &Purpose::Server(args.hosts.hosts()), now)
        }
        CertificatesCommand::Client(args) => make_signed(&args.signed, &Purpose::Client, now),
    }
}

/// Makes an authority and a node's certificate by it, in an empty folder; gives the SHA-256 of the authority.
///
/// # Errors
/// As [`run`].
pub fn make_own(
    folder: &Path,
    name: &str,
    cluster: &str,
    hosts: Hosts,
    now: SystemTime,
) -> Result<String, CommandError> {
    let ca = make_ca(CA_NAME, CA_DAYS, now)?;
    let authority = Authority::read(&ca.certificate, &ca.key)?;
    let purpose = Purpose::Node { hosts, cluster: cluster.to_owned() };
    let node = authority.make(name, &purpose, LEAF_DAYS, now)?;
    let [of_ca, of_node] = [CA_STEM, name].map(|stem| Files::new(folder, stem, false));
    // The authority last: where it is there, so is the rest.
    let (of_ca, of_node) = (of_ca?, of_node?);
    of_node.write(&node)?;
    of_ca.write(&ca)?;
    Ok(ca.fingerprint())
}

fn make_signed(
    args: &SignedArgs,
    purpose: &Purpose,
    now: SystemTime,
) -> Result<String, CommandError> {
    let files = Files::new(&args.out, &args.name, args.force)?;
    let read = |name: &str| {
        let path = args.ca.join(name);
        fs::read_to_string(&path).map_err(|error| CommandError::file(&path, error))
    };
    let authority = Authority::read(&read("ca.crt")?, &read("ca.key")?);
    let made = authority.and_then(|it| it.make(&args.name, purpose, args.days, now));
    let made = made.map_err(|error| match error {
        MakeError::Authority(_) => CommandError::Authority { path: args.ca.join("ca.crt"), error },
        error => error.into(),
    });
    files.write(&made?)
}

/// Where a certificate and its key go.
struct Files {
    folder: PathBuf,
    certificate: PathBuf,
    key: PathBuf,
    force: bool,
}

impl Files {
    /// Looks first at both, so that nothing is written where one of them is there.
    fn new(folder: &Path, stem: &str, force: bool) -> Result<Self, CommandError> {
        let [certificate, key] = ["crt", "key"].map(|end| folder.join(format!("{stem}.{end}")));
        if !force {
            for path in [&certificate, &key] {
                // Also a link that leads nowhere.
                if path.symlink_metadata().is_ok() {
                    return Err(CommandError::Exists(path.clone()));
                }
            }
        }
        Ok(Self { folder: folder.to_owned(), certificate, key, force })
    }

    fn write(&self, made: &Made) -> Result<String, CommandError> {
        fs::create_dir_all(&self.folder)
            .map_err(|error| CommandError::file(&self.folder, error))?;
        let before = host_names(&fs::read_to_string(&self.certificate).unwrap_or_default());
        // The key first: a certificate alone is of no use to anyone.
        self.place(&self.key, &made.key, KEY_MODE)?;
        self.place(&self.certificate, &made.certificate, CERTIFICATE_MODE)?;
        let mut said = format!(
            "{}\n{}\nvalid until {}\nsha256 {}\n",
            self.certificate.display(),
            self.key.display(),
            OffsetDateTime::from(made.until).date(),
            made.fingerprint()
        );
        for name in before.difference(&host_names(&made.certificate)) {
            let _ = writeln!(said, "no longer for {name}: the one before was");
        }
        Ok(said)
    }

    fn place(&self, path: &Path, text: &str, mode: u32) -> Result<(), CommandError> {
        let mut beside = path.as_os_str().to_owned();
        beside.push(format!(".{}.new", std::process::id()));
        let beside = PathBuf::from(beside);
        let written = write_new(&beside, text, mode).and_then(|()| {
            if self.force {
                return fs::rename(&beside, path);
            }
            // Unlike a rename, fails where another process was faster.
            fs::hard_link(&beside, path)?;
            fs::remove_file(&beside)
        });
        written.map_err(|error| {
            let _ = fs::remove_file(&beside);
            match error.kind() {
                io::ErrorKind::AlreadyExists => CommandError::Exists(path.to_owned()),
                _ => CommandError::file(path, error),
            }
        })
    }
}

/// Writes a file that is not there, whole and on disk, and for nobody else's eyes at any moment.
fn write_new(path: &Path, text: &str, mode: u32) -> io::Result<()> {
    // Of a process that had the same number and was killed.
    let _ = fs::remove_file(path);
    let mut file = OpenOptions::new().write(true).create_new(true).mode(KEY_MODE).open(path)?;
    file.write_all(text.as_bytes())?;
    file.set_permissions(Permissions::from_mode(mode))?;
    file.sync_all()
}
