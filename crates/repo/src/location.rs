//! Where a repository is: a path or URL, and how it is written.

use std::fmt;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};

use percent_encoding::{AsciiSet, CONTROLS, percent_decode_str, utf8_percent_encode};
use url::Url;

use crate::error::RepoError;

/// What a path in an `sftp://` URL cannot have as it is.
const NOT_IN_PATH: &AsciiSet = &CONTROLS
    .add(b' ')
    .add(b'"')
    .add(b'#')
    .add(b'%')
    .add(b'<')
    .add(b'>')
    .add(b'?')
    .add(b'\\')
    .add(b'^')
    .add(b'`')
    .add(b'{')
    .add(b'|')
    .add(b'}');

/// What can hold a repository: a directory or a store.
///
/// Printing it gives a form that [`Location::parse`] reads back, absolute, so that it
/// can be written into a `restore_command` that runs in another directory. It has no secrets.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Location {
    /// A directory on a mounted file system, as an absolute path.
    Local(PathBuf),
    /// A part of a bucket, or all of it.
    Bucket(BucketLocation),
    /// A directory on another host.
    Sftp(SftpLocation),
}

/// A service that keeps objects in buckets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Service {
    /// Amazon S3, and what speaks its protocol.
    S3,
    /// Google Cloud Storage.
    Gcs,
    /// Azure Blob Storage, which calls buckets containers.
    Azure,
}

impl Service {
    fn scheme(self) -> &'static str {
        match self {
            Service::S3 => "s3",
            Service::Gcs => "gs",
            Service::Azure => "az",
        }
    }
}

/// The keys of a bucket that begin with a prefix.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BucketLocation {
    /// The service that has the bucket.
    pub service: Service,
    /// The bucket's name.
    pub bucket: String,
    /// What stands before each key, without slashes at its ends; empty for the whole bucket.
    pub prefix: String,
}

/// A directory that an SSH server leads to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SftpLocation {
    /// Whom to log in as, if the URL says so.
    pub user: Option<String>,
    /// The server's name or address.
    pub host: String,
    /// The server's port, if it is not 22.
    pub port: Option<u16>,
    /// The absolute path of the directory.
    pub path: String,
}

impl Location {
    /// Reads a path or a URL.
    ///
    /// A relative path is taken from the current directory, as a shell would.
    pub fn parse(text: &str) -> Result<Self, RepoError> {
        let Some(scheme) = scheme(text) else {
            return local(text).map_err(|detail| invalid(text, detail));
        };
        let scheme = scheme.to_ascii_lowercase();
        let bucket = |service| bucket(service, text).map(Self::Bucket);
        let location = match scheme.as_str() {
            "file" => file(text),
            "s3" => bucket(Service::S3),
            "gs" => bucket(Service::Gcs),
            "az" | "azure" => bucket(Service::Azure),
            "sftp" => sftp(text).map(Self::Sftp),
            _ => return Err(RepoError::UnsupportedScheme { scheme }),
        };
        location.map_err(|detail| invalid(&shown(text), detail))
    }

    /// Whether both lead to the same directory, or to the same part of a bucket or a host, by their texts: a
    /// disk that does not answer is not asked. `..` takes back the part before it, also where that is a link.
    pub fn is_same_place(&self, other: &Location) -> bool {
        match (self, other) {
            (Location::Local(one), Location::Local(two)) => straight(one) == straight(two),
            _ => self == other,
        }
    }

    /// The same, links followed.
    pub fn leads_to_same_place(&self, other: &Location) -> bool {
        match (self, other) {
            (Location::Local(one), Location::Local(two)) => {
                // Where one of them is not there, its text is all there is.
                let real = |path: &PathBuf| path.canonicalize().unwrap_or_else(|_| straight(path));
                real(one) == real(two)
            }
            _ => self == other,
        }
    }

    /// Whether it is a directory on a mounted file system.
    pub fn is_local(&self) -> bool {
        matches!(self, Self::Local(_))
    }
}

impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Local(path) => path.display().fmt(f),
            Self::Bucket(bucket) => {
                write!(f, "{}://{}", bucket.service.scheme(), bucket.bucket)?;
                match bucket.prefix.as_str() {
                    "" => Ok(()),
                    prefix => write!(f, "/{prefix}"),
                }
            }
            Self::Sftp(SftpLocation {
                user,
                host,
                port,
                path,
            }) => {
                f.write_str("sftp://")?;
                if let Some(user) = user {
                    write!(f, "{user}@")?;
                }
                match host.contains(':') {
                    true => write!(f, "[{host}]")?,
                    false => f.write_str(host)?,
                }
                if let Some(port) = port {
                    write!(f, ":{port}")?;
                }
                write!(f, "{}", utf8_percent_encode(path, NOT_IN_PATH))
            }
        }
    }
}

/// A path without `.`, `..` and a slash at its end.
fn straight(path: &Path) -> PathBuf {
    let mut straight = PathBuf::new();
    for part in path.components() {
        match part {
            Component::CurDir => {}
            // Of the root, it is the root.
            Component::ParentDir => drop(straight.pop()),
            part => straight.push(part),
        }
    }
    straight
}

fn invalid(location: &str, detail: String) -> RepoError {
    RepoError::InvalidLocation {
        location: location.to_owned(),
        detail,
    }
}

/// A URL that was refused, without what may be a password or a signature.
fn shown(text: &str) -> String {
    let (scheme, rest) = text.split_once("://").unwrap_or_default();
    let rest = rest.split(['?', '#']).next().unwrap_or_default();
    let (authority, path) = match rest.split_once('/') {
        Some((authority, path)) => (authority, format!("/{path}")),
        None => (rest, String::new()),
    };
    match authority.rsplit_once('@') {
        Some((_, host)) => format!("{scheme}://...@{host}{path}"),
        None => format!("{scheme}://{authority}{path}"),
    }
}

fn local(text: &str) -> Result<Location, String> {
    if text.is_empty() {
        return Err("it is empty".to_owned());
    }
    if text.contains('\0') {
        return Err("it contains a zero byte".to_owned());
    }
    if let Some(meant) = meant(text) {
        return Err(format!(
            "did you mean {meant}? A directory of that name is ./{text}"
        ));
    }
    if text == "~" || text.starts_with("~/") {
        return Err("walzip does not know ~: name the whole path".to_owned());
    }
    let path = std::path::absolute(Path::new(text)).map_err(|error| error.to_string())?;
    on_one_line(path).map(Location::Local)
}

/// The URL that a path looks like, but for a character or two: `s3:/bucket`, `s3//bucket`; or the place on
/// a host that ssh and rsync name so: `backup@host:/wal`.
fn meant(text: &str) -> Option<String> {
    let schemes = ["s3", "gs", "az", "azure", "sftp", "file"].into_iter();
    let mut rests = schemes.filter_map(|scheme| {
        let rest = text.strip_prefix(scheme)?;
        let is_meant = rest.starts_with(':') || rest.starts_with("//");
        let rest = rest.trim_start_matches([':', '/']);
        // A file URL names no host.
        let root = if scheme == "file" { "/" } else { "" };
        is_meant.then(|| format!("{scheme}://{root}{rest}"))
    });
    rests.next().or_else(|| {
        let (host, path) = text.split_once(":/")?;
        let is_meant = !host.is_empty() && !host.contains('/') && !path.starts_with('/');
        is_meant.then(|| format!("sftp://{host}/{path}"))
    })
}

/// `restore_command` is a line of a configuration file, and has to name it.
fn on_one_line(path: PathBuf) -> Result<PathBuf, String> {
    match path.as_os_str().as_bytes().contains(&b'\n') {
        true => Err("it contains a line break".to_owned()),
        false => Ok(path),
    }
}

fn file(text: &str) -> Result<Location, String> {
    let url = Url::parse(text).map_err(|error| error.to_string())?;
    let path = url
        .to_file_path()
        .map_err(|()| "a file URL names an absolute path on this host".to_owned())?;
    on_one_line(path).map(Location::Local)
}

fn bucket(service: Service, text: &str) -> Result<BucketLocation, String> {
    let (_, rest) = text.split_once("://").unwrap_or_default();
    let (bucket, prefix) = rest.split_once('/').unwrap_or((rest, ""));
    if bucket.contains('@') {
        return Err("credentials do not belong into it; see docs/configuration.md".to_owned());
    }
    let fits = |c: char| c.is_ascii_alphanumeric() || "-._".contains(c);
    if bucket.is_empty() || !bucket.chars().all(fits) {
        return Err("it needs the name of a bucket".to_owned());
    }
    let prefix = prefix.strip_suffix('/').unwrap_or(prefix);
    if prefix.contains(['?', '#', '%']) {
        return Err("?, # and % cannot be in it".to_owned());
    }
    let parsed = object_store::path::Path::parse(prefix).map_err(|error| error.to_string())?;
    if parsed.as_ref() != prefix {
        return Err("a part of its path is empty".to_owned());
    }
    Ok(BucketLocation {
        service,
        bucket: bucket.to_owned(),
        prefix: prefix.to_owned(),
    })
}

fn sftp(text: &str) -> Result<SftpLocation, String> {
    let url = Url::parse(text).map_err(|error| error.to_string())?;
    if url.password().is_some() {
        return Err("a password does not belong into it: use a key".to_owned());
    }
    if url.query().is_some() || url.fragment().is_some() {
        return Err("?, # and what follows cannot be in it".to_owned());
    }
    let decoded = |text: &str| -> Result<String, String> {
        let decoded = percent_decode_str(text).decode_utf8();
        let decoded = decoded.map_err(|_| "it is not UTF-8".to_owned())?;
        match decoded.contains('\0') {
            true => Err("it contains a zero byte".to_owned()),
            false => Ok(decoded.into_owned()),
        }
    };
    let host = url.host_str().filter(|host| !host.is_empty());
    let host = host.ok_or("it needs the name of a host")?;
    let fits = |c: char| c.is_ascii_alphanumeric() || "-._".contains(c);
    let user = Some(url.username()).filter(|user| !user.is_empty());
    if !user.is_none_or(|user| user.chars().all(fits)) {
        return Err("the user's name has characters that it cannot have".to_owned());
    }
    let path = decoded(url.path())?;
    let path = path.trim_end_matches('/');
    if path.is_empty() {
        return Err("it needs the path of a directory".to_owned());
    }
    if path == "/~" || path.starts_with("/~/") {
        return Err("its path is absolute, and ~ stands for no home there".to_owned());
    }
    Ok(SftpLocation {
        user: user.map(str::to_owned),
        host: host.trim_matches(['[', ']']).to_owned(),
        port: url.port(),
        path: path.to_owned(),
    })
}

/// The part before `://`, when the text has the form of a URL.
fn scheme(text: &str) -> Option<&str> {
    let (scheme, _) = text.split_once("://")?;
    let mut characters = scheme.chars();
    let first_is_letter = characters.next().is_some_and(|c| c.is_ascii_alphabetic());
    let rest_fits = characters.all(|c| c.is_ascii_alphanumeric() || "+-.".contains(c));
    (first_is_letter && rest_fits).then_some(scheme)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_looks_like_a_url_makes_no_directory() {
        for (text, says) in [
            ("s3:/bucket/db", "did you mean s3://bucket/db?"),
            ("s3//bucket", "did you mean s3://bucket?"),
            ("sftp:host/db", "did you mean sftp://host/db?"),
            ("file:/srv/db", "did you mean file:///srv/db?"),
            ("db1:/srv/wal", "did you mean sftp://db1/srv/wal?"),
            ("me@db1:/srv/wal", "did you mean sftp://me@db1/srv/wal?"),
            ("~/walzip", "name the whole path"),
        ] {
            let error = Location::parse(text).expect_err(text).to_string();
            assert!(error.contains(says), "{error}");
        }
        for text in ["./s3:/bucket", "s3", "/s3:/bucket", "azores/db", "a/b:/c"] {
            assert!(Location::parse(text).is_ok(), "{text}");
        }
    }

    #[test]
    fn a_url_is_printed_in_a_form_that_is_read_back() {
        for (text, printed) in [
            ("s3://bucket", "s3://bucket"),
            ("s3://bucket/", "s3://bucket"),
            ("S3://bucket/a/b c/", "s3://bucket/a/b c"),
            ("gs://a_b.c/x=1", "gs://a_b.c/x=1"),
            ("az://container/pg", "az://container/pg"),
            ("azure://container/pg", "az://container/pg"),
            ("sftp://host/srv/wal", "sftp://host/srv/wal"),
            (
                "sftp://me@host:2222/srv/wal/",
                "sftp://me@host:2222/srv/wal",
            ),
            ("sftp://me@host:22/a%20b%25", "sftp://me@host:22/a%20b%25"),
            ("sftp://[::1]:2222/a", "sftp://[::1]:2222/a"),
        ] {
            let location = Location::parse(text).unwrap();
            assert_eq!(location.to_string(), printed);
            assert_eq!(Location::parse(printed).unwrap(), location);
        }
    }

    #[test]
    fn the_same_place_is_known_by_its_text() {
        let place = |text| Location::parse(text).unwrap();
        for same in [
            "/x/repo1",
            "/x/repo1/",
            "/x/./repo1",
            "/x/../x/repo1",
            "/../x/repo1/y/..",
        ] {
            assert!(place(same).is_same_place(&place("/x/repo1")), "{same}");
            assert!(
                place(same).leads_to_same_place(&place("/x/repo1")),
                "{same}"
            );
        }
        assert!(place("sftp://host/x/../x/a/").is_same_place(&place("sftp://host/x/a")));
        assert!(!place("/x/repo1/..").is_same_place(&place("/x/repo1")));
    }

    #[test]
    fn what_names_no_place_is_refused() {
        for text in [
            "s3://",
            "/a\nb",
            "file:///a%0Ab",
            "s3:///prefix",
            "s3://bucket//a",
            "s3://bucket/a//b",
            "s3://bucket/../a",
            "s3://bucket/a?x",
            "s3://buc ket",
            "sftp://host",
            "sftp://host/",
            "sftp:///path",
            "sftp://host/a?b",
            "sftp://host/~/a",
            "sftp://host:99999/a",
            "sftp://host/a%00",
        ] {
            let parsed = Location::parse(text);
            assert!(
                matches!(parsed, Err(RepoError::InvalidLocation { .. })),
                "{text}: {parsed:?}"
            );
        }
        let other = Location::parse("swift://bucket/a");
        assert!(matches!(other, Err(RepoError::UnsupportedScheme { .. })));
    }

    #[test]
    fn a_secret_in_a_url_is_refused_and_not_repeated() {
        for text in [
            "s3://AKIA:SECRET@bucket/a",
            "az://container/a?sig=SECRET",
            "sftp://me:SECRET@host/a",
            "sftp://me@host/a#SECRET",
        ] {
            let message = Location::parse(text).unwrap_err().to_string();
            assert!(!message.contains("SECRET"), "{message}");
        }
    }
}
