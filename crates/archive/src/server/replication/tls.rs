//! How a connection is encrypted: which ways are tried, the request, the handshake.
//!
//! The modes are libpq's. A Unix socket is never encrypted, because it does not leave the machine
//! and servers offer no TLS there.

mod certificate;
mod files;
mod verifier;

use std::io;
use std::sync::Arc;

use bytes::BytesMut;
use postgres_protocol::message::frontend;
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use rustls::sign::SingleCertAndKey;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::ServerError;
use super::error::TlsFault;
use super::settings::Host;
use super::ssl_mode::SslMode;
use super::tls_settings::TlsSettings;
use verifier::Verifier;

/// The protocol's name for TLS, by which nobody can take us to a server of another one.
const PROTOCOL: &[u8] = b"postgresql";

/// One way to begin a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// In the clear.
    Plain,
    /// With TLS if the server offers it, otherwise in the clear.
    TlsIfOffered,
    /// With TLS.
    Tls,
}

/// What is tried, and what is tried then, if the server refuses the former for what it is.
pub fn ways(host: &Host, mode: SslMode) -> (Way, Option<Way>) {
    match (host, mode) {
        (Host::Unix(_), _) | (_, SslMode::Disable) => (Way::Plain, None),
        (_, SslMode::Allow) => (Way::Plain, Some(Way::Tls)),
        (_, SslMode::Prefer) => (Way::TlsIfOffered, Some(Way::Plain)),
        (_, SslMode::Require | SslMode::VerifyCa | SslMode::VerifyFull) => (Way::Tls, None),
    }
}

/// What is known of the TLS session.
pub struct Session {
    /// What SCRAM is bound to (`tls-server-end-point`), if the certificate has it.
    pub end_point: Option<Vec<u8>>,
}

/// A stream to the server.
pub enum Secured {
    /// It offers no TLS, and need not.
    Plain(TcpStream),
    /// Encrypted.
    Tls(Box<TlsStream<TcpStream>>, Session),
}

/// Asks the server for TLS and makes the session.
pub async fn secure(
    mut stream: TcpStream,
    name: &str,
    settings: &TlsSettings,
    way: Way,
    address: &str,
) -> Result<Secured, ServerError> {
    let lost = |source| ServerError::Lost {
        address: address.to_owned(),
        source,
    };
    match ask(&mut stream).await.map_err(lost)? {
        b'S' => {
            let (stream, session) = handshake(stream, name, settings, address).await?;
            Ok(Secured::Tls(Box::new(stream), session))
        }
        b'N' if way == Way::Tls => Err(ServerError::TlsNotOffered {
            address: address.to_owned(),
            mode: settings.mode_or_default()?,
        }),
        b'N' => Ok(Secured::Plain(stream)),
        // Such as that it could not begin a process. Nobody vouches for its words yet.
        b'E' => Err(ServerError::Connect {
            address: address.to_owned(),
            source: io::Error::other("the server answers the request for TLS with an error"),
        }),
        answer => Err(ServerError::Protocol(format!(
            "byte {answer:#04x} to the request for TLS"
        ))),
    }
}

async fn ask(stream: &mut TcpStream) -> io::Result<u8> {
    let mut request = BytesMut::new();
    frontend::ssl_request(&mut request);
    stream.write_all(&request).await?;
    // One byte and no more. What somebody puts behind it in the clear is then read as a part of
    // the handshake, which fails of it, and never as a message (CVE-2021-23222).
    stream.read_u8().await
}

async fn handshake(
    stream: TcpStream,
    name: &str,
    settings: &TlsSettings,
    address: &str,
) -> Result<(TlsStream<TcpStream>, Session), ServerError> {
    let mode = settings.mode_or_default()?;
    let config = configuration(settings, mode)?;
    let name = match ServerName::try_from(name.to_owned()) {
        Ok(name) => name,
        Err(_) if mode == SslMode::VerifyFull => {
            let fault = TlsFault::Name(format!("no certificate can be for the name \"{name}\""));
            return Err(failed(address, fault));
        }
        // Where the name does not count. Addresses are not told to the server.
        Err(_) => match stream.peer_addr() {
            Ok(peer) => ServerName::IpAddress(peer.ip().into()),
            Err(error) => return Err(failed(address, TlsFault::Broken(error))),
        },
    };
    let connector = TlsConnector::from(Arc::new(config));
    let connected = connector.connect(name, stream).await;
    let stream = connected.map_err(|error| failed(address, fault(error)))?;
    let (_, session) = stream.get_ref();
    tracing::debug!(server = %address, version = ?session.protocol_version(), "TLS");
    let certificates = session.peer_certificates().unwrap_or_default();
    let end_point = certificates
        .first()
        .and_then(|own| certificate::end_point(own));
    Ok((stream, Session { end_point }))
}

fn configuration(settings: &TlsSettings, mode: SslMode) -> Result<ClientConfig, ServerError> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let verifier = Verifier {
        roots: files::roots(settings, mode)?,
        is_for_the_name: mode == SslMode::VerifyFull,
        algorithms: provider.signature_verification_algorithms,
    };
    let own = files::client_certificate(settings, &provider)?;
    let builder = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| ServerError::Protocol(error.to_string()))?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(verifier));
    let mut config = match own {
        Some(own) => builder.with_client_cert_resolver(Arc::new(SingleCertAndKey::from(own))),
        None => builder.with_no_client_auth(),
    };
    config.alpn_protocols = vec![PROTOCOL.to_vec()];
    Ok(config)
}

fn failed(address: &str, fault: TlsFault) -> ServerError {
    ServerError::Tls {
        address: address.to_owned(),
        fault,
    }
}

/// What made a handshake fail.
fn fault(error: io::Error) -> TlsFault {
    match of_tls(&error) {
        Some(error) => TlsFault::of(error),
        None => TlsFault::Broken(error),
    }
}

/// What TLS has to say of an error of its stream.
pub fn of_tls(error: &io::Error) -> Option<&rustls::Error> {
    error.get_ref()?.downcast_ref()
}

#[cfg(test)]
mod tests;
