//! The guardian: a small shell beside the lab that sends signals for it, and ends what the lab
//! started if the lab itself is gone, however it went. It is a shell because signals are not to be
//! had from safe Rust without one more library, and because a shell's `kill` costs no process.

use std::io::{self, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::time::Duration;

/// Reads `verb argument` lines. At the end of its input it kills what it guards (a negative number
/// is a process group), removes the trees, and the folders if they are empty, the last one first.
const SCRIPT: &str = r#"
guarded=" " folders= trees=
while read -r verb what; do
  case $verb in
    guard) guarded="$guarded$what " ;;
    forget) guarded="${guarded%% "$what" *} ${guarded#* "$what" }" ;;
    folder) folders="$what $folders" ;;
    tree) trees="$what $trees" ;;
    *) kill -s "$verb" -- "$what" 2>/dev/null ;;
  esac
done
for process in $guarded; do
  kill -s KILL -- "$process" 2>/dev/null
done
for tree in $trees; do rm -rf "$tree"; done
for attempt in 1 2 3 4 5 6 7 8 9 10; do
  left=
  for folder in $folders; do
    if [ -d "$folder" ]; then rmdir "$folder" 2>/dev/null || left=yes; fi
  done
  [ -n "$left" ] || break
  sleep 0.1
done
"#;

/// How long it is waited for at the end: its folders empty as the kernel reaps what was killed.
const END_WAIT: Duration = Duration::from_secs(3);
const END_POLL: Duration = Duration::from_millis(20);

/// The signals that the lab sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Signal {
    /// Freezes.
    Stop,
    /// Thaws.
    Continue,
    /// Asks to end.
    Terminate,
    /// Ends.
    Kill,
}

/// The guardian.
pub(crate) struct Guardian {
    shell: Mutex<Child>,
}

impl Guardian {
    /// Starts it, in a process group of its own so that Ctrl-C does not reach it.
    pub(crate) fn start() -> io::Result<Self> {
        let shell = Command::new("/bin/sh")
            .args(["-c", SCRIPT])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .process_group(0)
            .spawn()?;
        Ok(Self { shell: Mutex::new(shell) })
    }

    fn tell(&self, line: &str) -> io::Result<()> {
        let mut shell = self.shell.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let input = shell.stdin.as_mut().ok_or(io::ErrorKind::BrokenPipe)?;
        input.write_all(format!("{line}\n").as_bytes())
    }

    /// Sends a signal to a process; to its whole group with the negative of its number.
    pub(crate) fn signal(&self, process: i64, signal: Signal) -> io::Result<()> {
        let name = match signal {
            Signal::Stop => "STOP",
            Signal::Continue => "CONT",
            Signal::Terminate => "TERM",
            Signal::Kill => "KILL",
        };
        self.tell(&format!("{name} {process}"))
    }

    /// Ends this process with the lab, whatever happens to that.
    pub(crate) fn guard(&self, process: i64) -> io::Result<()> {
        self.tell(&format!("guard {process}"))
    }

    /// The process has ended: its number may be another's soon.
    pub(crate) fn forget(&self, process: i64) -> io::Result<()> {
        self.tell(&format!("forget {process}"))
    }

    /// Removes this empty folder at the end. A path with blanks or signs of the shell is refused.
    pub(crate) fn folder(&self, path: &str) -> io::Result<()> {
        self.tell(&format!("folder {}", plain(path)?))
    }

    /// Removes this folder of the lab at the end, with what is in it; refused as the other.
    pub(crate) fn tree(&self, path: &str) -> io::Result<()> {
        self.tell(&format!("tree {}", plain(path)?))
    }
}

fn plain(path: &str) -> io::Result<&str> {
    let is_plain = |sign: char| sign.is_ascii_alphanumeric() || "/-_.,+".contains(sign);
    match path.starts_with('/') && path.chars().all(is_plain) {
        true => Ok(path),
        false => Err(io::ErrorKind::InvalidInput.into()),
    }
}

impl Drop for Guardian {
    fn drop(&mut self) {
        let shell = self.shell.get_mut().unwrap_or_else(std::sync::PoisonError::into_inner);
        drop(shell.stdin.take());
        let mut waited = Duration::ZERO;
        while waited < END_WAIT && matches!(shell.try_wait(), Ok(None)) {
            std::thread::sleep(END_POLL);
            waited += END_POLL;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sleeper() -> (Child, i64) {
        let child = Command::new("sleep").arg("300").process_group(0).spawn().unwrap();
        let number = i64::from(child.id());
        (child, number)
    }

    #[test]
    fn what_is_guarded_ends_with_it_and_what_is_forgotten_does_not() {
        let folder = tempfile::tempdir().unwrap();
        let inner = folder.path().join("inner");
        std::fs::create_dir(&inner).unwrap();
        let ((mut one, first), (mut two, second), (mut three, third)) =
            (sleeper(), sleeper(), sleeper());
        let guardian = Guardian::start().unwrap();
        for number in [first, second, -third] {
            guardian.guard(number).unwrap();
        }
        guardian.forget(second).unwrap();
        guardian.folder(inner.to_str().unwrap()).unwrap();
        assert!(guardian.folder("/tmp/a b").is_err() && guardian.tree("relative").is_err());
        let tree = folder.path().join("tree");
        std::fs::create_dir_all(tree.join("inside")).unwrap();
        guardian.tree(tree.to_str().unwrap()).unwrap();
        drop(guardian);
        assert!(!one.wait().unwrap().success());
        assert!(!three.wait().unwrap().success());
        assert!(two.try_wait().unwrap().is_none());
        assert!(!inner.exists() && !tree.exists());
        two.kill().unwrap();
        two.wait().unwrap();
    }

    #[test]
    fn signals_arrive() {
        let guardian = Guardian::start().unwrap();
        let (mut child, number) = sleeper();
        guardian.signal(number, Signal::Stop).unwrap();
        guardian.signal(number, Signal::Terminate).unwrap();
        guardian.signal(number, Signal::Continue).unwrap();
        assert!(!child.wait().unwrap().success());
        let (mut child, number) = sleeper();
        guardian.signal(-number, Signal::Kill).unwrap();
        assert!(!child.wait().unwrap().success());
    }
}
