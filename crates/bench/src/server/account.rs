//! As whom a server runs: PostgreSQL refuses to run as root.

use std::fs;
use std::io;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use crate::error::Error;

/// Whom a root process runs servers as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Account {
    uid: u32,
    gid: u32,
}

impl Account {
    /// Nobody in particular, unless this process runs as root.
    pub(super) fn choose() -> Result<Option<Account>, Error> {
        if !rustix::process::geteuid().is_root() {
            return Ok(None);
        }
        let path = Path::new("/etc/passwd");
        let passwd = fs::read_to_string(path).map_err(|source| Error::file(path, source))?;
        let found = ["postgres", "nobody"]
            .iter()
            .find_map(|name| find(&passwd, name));
        found.map(Some).ok_or_else(|| {
            Error::Usage(
                "a server refuses to run as root, and there is neither a user postgres nor nobody: \
                 run this as another user"
                    .to_owned(),
            )
        })
    }

    /// Makes a command run as this user.
    pub(super) fn run(self, command: &mut Command) {
        command.uid(self.uid).gid(self.gid);
    }

    /// Gives a file or directory to this user.
    pub(super) fn own(self, path: &Path) -> io::Result<()> {
        std::os::unix::fs::chown(path, Some(self.uid), Some(self.gid))
    }
}

fn find(passwd: &str, name: &str) -> Option<Account> {
    let line = passwd
        .lines()
        .find(|line| line.split(':').next() == Some(name))?;
    let mut fields = line.split(':').skip(2).map(|field| field.parse().ok());
    Some(Account {
        uid: fields.next()??,
        gid: fields.next()??,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_is_found_by_its_whole_name() {
        let passwd = "root:x:0:0:root:/root:/bin/sh\npostgresql:x:7:8::/:/bin/sh\n\
                      postgres:x:101:104:,,,:/var/lib/postgresql:/bin/sh\n";
        let account = Account { uid: 101, gid: 104 };
        assert_eq!(find(passwd, "postgres"), Some(account));
        assert_eq!(find(passwd, "nobody"), None);
    }
}
