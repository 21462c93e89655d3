//! How a session begins once there is a connection: who we are, and the proof.

use std::io;

use bytes::BytesMut;
use fallible_iterator::FallibleIterator;
use postgres_protocol::authentication::{md5_hash, sasl};
use postgres_protocol::message::backend::{AuthenticationSaslBody, Message};
use postgres_protocol::message::frontend;

use super::ServerError;
use super::connection::{Connection, Mode, malformed, unexpected};
use super::settings::ConnectionSettings;
use super::tls_settings::ChannelBinding;

impl Connection {
    /// Begins the session, to the point where it takes queries.
    pub(super) async fn log_in(
        &mut self,
        settings: &ConnectionSettings,
        mode: Mode,
        user: &str,
    ) -> Result<(), ServerError> {
        self.start(settings, mode, user).await?;
        self.authenticate(settings, user).await?;
        self.until_ready().await
    }

    async fn start(
        &mut self,
        settings: &ConnectionSettings,
        mode: Mode,
        user: &str,
    ) -> Result<(), ServerError> {
        let application_name = settings.application_name.as_deref().unwrap_or("walzip");
        let mut parameters = vec![
            ("user", user),
            ("application_name", application_name),
            ("client_encoding", "UTF8"),
            // Answers that are parsed must not depend on the role's settings.
            ("datestyle", "ISO"),
        ];
        match mode {
            Mode::Replication => parameters.push(("replication", "true")),
            Mode::Sql => {
                parameters.push(("database", settings.dbname.as_deref().unwrap_or("postgres")));
            }
        }
        let mut buffer = BytesMut::new();
        frontend::startup_message(parameters, &mut buffer).map_err(malformed)?;
        let Err(lost) = self.send(&buffer).await else {
            return Ok(());
        };
        // What the server said before it hung up tells more: that it refuses our certificate.
        match self.receive().await {
            Err(said) => Err(said),
            Ok(_) => Err(lost),
        }
    }

    async fn authenticate(
        &mut self,
        settings: &ConnectionSettings,
        user: &str,
    ) -> Result<(), ServerError> {
        let password = settings.password.as_deref();
        let binding = settings.tls.channel_binding.unwrap_or_default();
        match self.receive().await? {
            Message::AuthenticationSasl(body) => {
                let password = self.needed(password)?.to_owned();
                self.scram(&body, &password, binding).await?;
            }
            // Before a password is sent to who knows whom.
            _ if binding == ChannelBinding::Require => {
                return Err(self.unbound("the server does not authenticate by SCRAM"));
            }
            Message::AuthenticationOk => return Ok(()),
            Message::AuthenticationCleartextPassword => {
                let password = self.needed(password)?;
                self.send_password(password.as_bytes()).await?;
            }
            Message::AuthenticationMd5Password(body) => {
                let password = self.needed(password)?;
                let hash = md5_hash(user.as_bytes(), password.as_bytes(), body.salt());
                self.send_password(hash.as_bytes()).await?;
            }
            _ => return Err(self.unauthenticated("the server asks for an unsupported method")),
        }
        match self.receive().await? {
            Message::AuthenticationOk => Ok(()),
            other => Err(unexpected("authentication", &other)),
        }
    }

    /// Which mechanism, and what it is bound to.
    fn mechanism(
        &self,
        body: &AuthenticationSaslBody,
        wish: ChannelBinding,
    ) -> Result<(&'static str, sasl::ChannelBinding), ServerError> {
        let (mut plain, mut bound) = (false, false);
        let mut mechanisms = body.mechanisms();
        while let Some(name) = mechanisms.next().map_err(malformed)? {
            match name {
                sasl::SCRAM_SHA_256 => plain = true,
                sasl::SCRAM_SHA_256_PLUS => bound = true,
                _ => {}
            }
        }
        if bound && self.tls.is_none() && wish != ChannelBinding::Disable {
            // It would offer that on TLS only: somebody between us takes TLS away.
            let reason = "the server offers SCRAM-SHA-256-PLUS on a connection without TLS";
            return Err(self.unauthenticated(reason));
        }
        let end_point = self.tls.as_ref().and_then(|tls| tls.end_point.as_ref());
        match (end_point.filter(|_| wish != ChannelBinding::Disable), wish) {
            (Some(end_point), _) if bound => {
                let binding = sasl::ChannelBinding::tls_server_end_point(end_point.clone());
                Ok((sasl::SCRAM_SHA_256_PLUS, binding))
            }
            (_, ChannelBinding::Require) if self.tls.is_none() => {
                Err(self.unbound("the connection is not encrypted"))
            }
            (_, ChannelBinding::Require) if bound => Err(self.unbound(
                "the algorithm of the certificate's signature is none that it can be bound to",
            )),
            (_, ChannelBinding::Require) => {
                Err(self.unbound("the server does not offer SCRAM-SHA-256-PLUS"))
            }
            _ if !plain => Err(self.unauthenticated("the server does not offer SCRAM-SHA-256")),
            // Says that it could be bound: who took the offer away is found out.
            (Some(_), _) => Ok((sasl::SCRAM_SHA_256, sasl::ChannelBinding::unrequested())),
            (None, _) => Ok((sasl::SCRAM_SHA_256, sasl::ChannelBinding::unsupported())),
        }
    }

    async fn scram(
        &mut self,
        body: &AuthenticationSaslBody,
        password: &str,
        wish: ChannelBinding,
    ) -> Result<(), ServerError> {
        let (mechanism, binding) = self.mechanism(body, wish)?;
        let refused = |error: io::Error, this: &Self| this.unauthenticated(&error.to_string());
        let mut scram = sasl::ScramSha256::new(password.as_bytes(), binding);

        let mut buffer = BytesMut::new();
        frontend::sasl_initial_response(mechanism, scram.message(), &mut buffer)
            .map_err(malformed)?;
        self.send(&buffer).await?;
        match self.receive().await? {
            Message::AuthenticationSaslContinue(body) => {
                scram
                    .update(body.data())
                    .map_err(|error| refused(error, self))?;
            }
            other => return Err(unexpected("SCRAM", &other)),
        }

        let mut buffer = BytesMut::new();
        frontend::sasl_response(scram.message(), &mut buffer).map_err(malformed)?;
        self.send(&buffer).await?;
        match self.receive().await? {
            // This proves that the server knows the password too.
            Message::AuthenticationSaslFinal(body) => scram
                .finish(body.data())
                .map_err(|error| refused(error, self)),
            other => Err(unexpected("SCRAM", &other)),
        }
    }

    async fn send_password(&mut self, password: &[u8]) -> Result<(), ServerError> {
        let mut buffer = BytesMut::new();
        frontend::password_message(password, &mut buffer).map_err(malformed)?;
        self.send(&buffer).await
    }

    fn needed<'a>(&self, password: Option<&'a str>) -> Result<&'a str, ServerError> {
        password
            .ok_or_else(|| self.unauthenticated("the server asks for a password, none is given"))
    }

    fn unbound(&self, reason: &'static str) -> ServerError {
        ServerError::Unbound {
            address: self.address.clone(),
            reason,
        }
    }

    fn unauthenticated(&self, reason: &str) -> ServerError {
        ServerError::Authentication {
            address: self.address.clone(),
            reason: reason.to_owned(),
        }
    }
}
