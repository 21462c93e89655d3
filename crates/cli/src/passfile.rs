//! libpq's password file, `~/.pgpass`.
//!
//! One password serves a replication connection and an ordinary one, so that a line for either
//! database is taken.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use walzip_archive::replication::{ConnectionSettings, Host};

/// What a field of a line may be compared with.
struct Wanted {
    hosts: Vec<String>,
    port: String,
    databases: Vec<String>,
    user: String,
}

/// Where the file is: `PGPASSFILE`, or in the home directory.
pub fn path() -> Option<PathBuf> {
    let named = std::env::var_os("PGPASSFILE").filter(|name| !name.is_empty());
    let in_home = || std::env::home_dir().map(|home| home.join(".pgpass"));
    named.map(PathBuf::from).or_else(in_home)
}

/// The password of the first line that fits the settings.
pub fn password(path: &Path, settings: &ConnectionSettings, user: &str) -> Option<String> {
    let metadata = std::fs::metadata(path)
        .ok()
        .filter(|metadata| metadata.is_file())?;
    if metadata.permissions().mode() & 0o077 != 0 {
        tracing::warn!(
            "{} was ignored: others can read it (chmod 0600)",
            path.display()
        );
        return None;
    }
    let text = std::fs::read_to_string(path).ok()?;
    let wanted = Wanted::new(settings, user);
    text.lines().find_map(|line| wanted.password_of(line))
}

impl Wanted {
    fn new(settings: &ConnectionSettings, user: &str) -> Wanted {
        let hosts = match (&settings.host, &settings.host_address) {
            (Some(Host::Tcp(name)), _) => vec![name.clone()],
            (Some(Host::Unix(directory)), _) => {
                vec![directory.display().to_string(), "localhost".to_owned()]
            }
            (None, Some(address)) => vec![address.clone()],
            (None, None) => vec!["localhost".to_owned()],
        };
        let database = settings
            .dbname
            .clone()
            .unwrap_or_else(|| "postgres".to_owned());
        Wanted {
            hosts,
            port: settings.port.unwrap_or(5432).to_string(),
            databases: vec!["replication".to_owned(), database],
            user: user.to_owned(),
        }
    }

    fn password_of(&self, line: &str) -> Option<String> {
        if line.starts_with('#') {
            return None;
        }
        let fields = fields(line);
        let [host, port, database, user, password] = fields.as_slice() else {
            return None;
        };
        let is = |field: &str, value: &String| field == "*" || field == value;
        let fits = self.hosts.iter().any(|value| is(host, value))
            && is(port, &self.port)
            && self.databases.iter().any(|value| is(database, value))
            && is(user, &self.user);
        fits.then(|| password.clone())
    }
}

/// The fields between colons; a backslash takes the next character as it is.
fn fields(line: &str) -> Vec<String> {
    let mut fields = vec![String::new()];
    let mut characters = line.chars();
    while let Some(character) = characters.next() {
        let taken = match character {
            ':' if fields.len() < 5 => {
                fields.push(String::new());
                continue;
            }
            '\\' => characters.next(),
            other => Some(other),
        };
        if let Some(field) = fields.last_mut() {
            field.extend(taken);
        }
    }
    fields
}

#[cfg(test)]
mod tests {
    use super::*;

    fn find(settings: &str, text: &str) -> Option<String> {
        let settings = ConnectionSettings::parse(settings).expect("valid");
        let wanted = Wanted::new(&settings, "backup");
        text.lines().find_map(|line| wanted.password_of(line))
    }

    #[test]
    fn the_first_line_that_fits_is_taken() {
        let text = "# host:port:database:user:password\n\
                    db1:5432:other:backup:no\n\
                    db1:5433:*:backup:no\n\
                    db1:5432:replication:backup:first\n\
                    *:*:*:*:second\n";
        assert_eq!(find("host=db1", text).as_deref(), Some("first"));
        assert_eq!(find("host=db2", text).as_deref(), Some("second"));
        // An address that stands alone is no socket of this machine.
        let line = |host: &str| [host, "*", "*", "*", host].join(":");
        let text = [line("localhost"), line("192.0.2.1")].join("\n");
        let far = find("hostaddr=192.0.2.1", &text);
        assert_eq!(far.as_deref(), Some("192.0.2.1"));
        assert_eq!(find("hostaddr=192.0.2.2", &text), None);
        assert_eq!(find("host=db2", "db1:*:*:*:no\nshort:line"), None);
    }

    #[test]
    fn a_backslash_keeps_a_colon() {
        assert_eq!(
            find("host=a:b", r"a\:b:*:*:*:p:w\\d").as_deref(),
            Some(r"p:w\d")
        );
    }

    #[test]
    fn a_socket_is_localhost() {
        let line = |port: &str| ["localhost", port, "*", "*", "x"].join(":");
        assert_eq!(find("host=/run/pg", &line("*")).as_deref(), Some("x"));
        let text = format!("/run/pg:*:*:*:no\n{}", line("1"));
        assert_eq!(find("port=1", &text).as_deref(), Some("x"));
        assert_eq!(find("port=2", &text), None);
    }

    #[test]
    fn a_file_that_others_can_read_is_ignored() {
        let file = tempfile::NamedTempFile::new().expect("a temporary file");
        std::fs::write(file.path(), "*:*:*:*:x\n").expect("writable");
        let settings = ConnectionSettings::default();
        assert_eq!(password(file.path(), &settings, "u").as_deref(), Some("x"));
        let mode = std::fs::Permissions::from_mode(0o640);
        std::fs::set_permissions(file.path(), mode).expect("settable");
        assert_eq!(password(file.path(), &settings, "u"), None);
    }
}
