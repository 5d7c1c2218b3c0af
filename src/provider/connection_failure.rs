// SPDX-License-Identifier: GPL-3.0-or-later
//! Why a request could not be sent, read from the chain of errors that the HTTP library gives, or why its
//! answer is not waited for any longer, and what to tell the user. `http` sends.

use std::error::Error;
use std::io::{self, ErrorKind};
use std::net::UdpSocket;
use std::time::{Duration, UNIX_EPOCH};

use reqwest::Url;
use rustls::CertificateError;
use rustls::pki_types::UnixTime;

use super::address::address_of;
use super::failure::{Destination, FailureKind, ProviderError};
use super::retry::RetryAdvice;
use super::route::{Trust, Via, Way};

/// What is at the bottom of a request that could not be sent.
#[derive(Debug, PartialEq)]
pub enum Cause {
    Refused,
    UnknownHost,
    /// No network leads to the host.
    NoNetwork,
    /// The connection was there, and was closed before anything of an answer came.
    Closed,
    /// Nothing that was sent over the connection arrived any more, as after the machine slept.
    Dead,
    /// Nobody accepted the connection within this many seconds.
    TimedOut(f64),
    /// The connection was accepted, and within this many seconds nothing came that is TLS.
    NoTlsAnswer(f64),
    /// What answered, or hung up, does not speak TLS.
    NotTls,
    /// What answered does not speak HTTP.
    NotHttp,
    Certificate(CertificateError),
    /// TLS, but not the certificate.
    Tls(String),
    /// The proxy wants another user name or password.
    ProxyUser,
    /// The proxy leads no further.
    ProxyRefuses(String),
    Other(String),
}

/// Who did not do what a request needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Culprit {
    Proxy,
    Host,
}

/// What somebody's words mean, without what kind of error they are of.
type FromWords = fn(String) -> Cause;

/// The words of errors that have no public type: the resolver's, and those of HTTP and of proxies.
const WORDS: &[(&str, FromWords)] = &[
    ("dns error", |_| Cause::UnknownHost),
    ("failed to lookup address", |_| Cause::UnknownHost),
    ("connection closed before message completed", |_| {
        Cause::Closed
    }),
    ("invalid HTTP version parsed", |_| Cause::NotHttp),
    ("tunnel error: proxy authorization required", |_| {
        Cause::ProxyUser
    }),
    ("tunnel error: unexpected end of file", |_| Cause::Closed),
    ("tunnel error: unsuccessful", |_| {
        Cause::ProxyRefuses("it refuses".to_owned())
    }),
    ("tunnel error: proxy response", Cause::ProxyRefuses),
    (
        "SOCKS error: failed to create underlying connection",
        |_| Cause::Refused,
    ),
    ("SOCKS error: credentials not accepted", |_| {
        Cause::ProxyUser
    }),
    ("SOCKS error: server", |_| Cause::ProxyUser),
    ("SOCKS error: io error", |_| Cause::Closed),
    ("SOCKS error: ", Cause::ProxyRefuses),
];

impl Cause {
    /// The cause of ERROR.
    #[must_use]
    pub fn of(error: &(dyn Error + 'static)) -> Self {
        for current in links(error) {
            if let Some(tls) = current.downcast_ref::<rustls::Error>() {
                return Self::of_tls(tls);
            }
            let words = current.to_string();
            if words == "tls handshake eof" {
                return Self::NotTls;
            }
            if let Some((_, cause)) = WORDS.iter().find(|(start, _)| words.starts_with(start)) {
                return cause(without_prefix(words));
            }
            let io = current.downcast_ref::<io::Error>();
            if let Some(cause) = io.and_then(|io| Self::of_kind(io.kind())) {
                return cause;
            }
        }
        Self::Other(root_cause(error))
    }

    fn of_tls(error: &rustls::Error) -> Self {
        match error {
            rustls::Error::InvalidCertificate(error) => Self::Certificate(error.clone()),
            rustls::Error::InvalidMessage(_) => Self::NotTls,
            error => Self::Tls(error.to_string()),
        }
    }

    fn of_kind(kind: ErrorKind) -> Option<Self> {
        match kind {
            ErrorKind::ConnectionRefused => Some(Self::Refused),
            ErrorKind::NetworkUnreachable | ErrorKind::NetworkDown | ErrorKind::HostUnreachable => {
                Some(Self::NoNetwork)
            }
            ErrorKind::ConnectionReset | ErrorKind::ConnectionAborted | ErrorKind::BrokenPipe => {
                Some(Self::Closed)
            }
            ErrorKind::TimedOut => Some(Self::Dead),
            _ => None,
        }
    }

    /// How far a request to TO came.
    #[must_use]
    pub fn stage(&self, culprit: Culprit) -> &'static str {
        match self {
            _ if culprit == Culprit::Proxy => "the proxy",
            Self::ProxyUser | Self::ProxyRefuses(_) => "the proxy",
            Self::UnknownHost => "the lookup of the host's name",
            Self::Refused | Self::NoNetwork | Self::Dead | Self::TimedOut(_) => "the connection",
            Self::NoTlsAnswer(_) | Self::NotTls | Self::Certificate(_) | Self::Tls(_) => "TLS",
            Self::Closed | Self::NotHttp | Self::Other(_) => "HTTP",
        }
    }

    /// The failure of a request to TO, which may go VIA a proxy and was failed by CULPRIT.
    #[must_use]
    pub fn failure(self, to: &Destination, via: Option<&Via>, culprit: Culprit) -> ProviderError {
        match via {
            Some(via) if culprit == Culprit::Proxy => self.of_proxy(to, via),
            Some(_) | None => self.of_host(to),
        }
    }

    fn of_host(self, to: &Destination) -> ProviderError {
        let place = to.place();
        let (kind, message) = match &self {
            Self::Refused => (
                FailureKind::Connection,
                format!("Nothing listens at {place}. Is the server running?"),
            ),
            Self::UnknownHost => (
                FailureKind::Connection,
                format!(
                    "The host {} can't be found. Check the base URL {:?} and the network.",
                    to.host, to.base_url
                ),
            ),
            Self::NoNetwork => (
                FailureKind::NetworkDown,
                format!(
                    "{place} is unreachable: no network. Connect this machine (Wi-Fi, cable, VPN), then try again."
                ),
            ),
            Self::Closed => (
                FailureKind::Closed,
                format!("{place} closed the connection without an answer."),
            ),
            Self::Dead => (
                FailureKind::Closed,
                format!(
                    "The connection to {place} is dead: nothing that is sent arrives. Check the network."
                ),
            ),
            Self::TimedOut(seconds) => (
                FailureKind::Connection,
                format!(
                    "{place} did not accept a connection within {seconds} s. Check the host and the network."
                ),
            ),
            Self::NoTlsAnswer(seconds) => (
                FailureKind::Connection,
                format!(
                    "{place} accepted the connection but sent no TLS answer within {seconds} s. {}",
                    write_http(to)
                ),
            ),
            Self::NotTls => (
                FailureKind::Connection,
                format!("{place} does not speak TLS. {}", write_http(to)),
            ),
            Self::NotHttp => (
                FailureKind::Connection,
                format!(
                    "{place} does not speak HTTP. If it speaks TLS, write https:// in the base URL {:?}.",
                    to.base_url
                ),
            ),
            Self::Certificate(error) => (
                FailureKind::Connection,
                format!("No trusted TLS connection to {place}: {}", about(error)),
            ),
            Self::Tls(detail) => (
                FailureKind::Connection,
                format!("No TLS connection to {place}: {detail}."),
            ),
            Self::ProxyUser => (
                FailureKind::Connection,
                format!("A proxy on the way to {place} wants a user name and a password."),
            ),
            Self::ProxyRefuses(detail) | Self::Other(detail) => (
                FailureKind::Connection,
                format!("The connection to {place} failed: {detail}."),
            ),
        };
        ProviderError::new(kind, self.advice(), message)
    }

    fn of_proxy(self, to: &Destination, via: &Via) -> ProviderError {
        let place = format!("{}:{}", to.host, to.port);
        let message = match &self {
            Self::Refused => format!("Nothing listens at the {via}. Is it running?"),
            Self::UnknownHost => format!("The host of the {via} can't be found."),
            Self::NoNetwork => format!("The {via} is unreachable: no network."),
            Self::Closed => format!("The {via} closed the connection without an answer."),
            Self::Dead => {
                format!("The connection to the {via} is dead: nothing that is sent arrives.")
            }
            Self::TimedOut(seconds) => {
                format!("The {via} did not accept a connection within {seconds} s.")
            }
            Self::NoTlsAnswer(seconds) => {
                format!("The {via} did not connect to {place} within {seconds} s.")
            }
            Self::NotTls => format!("The {via} does not speak TLS. Write http:// in its URL."),
            Self::NotHttp => format!("The {via} does not speak HTTP."),
            Self::Certificate(error) => {
                format!("No trusted TLS connection to the {via}: {}", about(error))
            }
            Self::Tls(detail) => format!("No TLS connection to the {via}: {detail}."),
            Self::ProxyUser if via.has_user() => {
                format!("The {via} refuses the user name or the password in its URL.")
            }
            Self::ProxyUser => format!(
                "The {via} wants a user name and a password. Write them into its URL: {}://USER:PASSWORD@HOST:PORT.",
                via.url.scheme()
            ),
            Self::ProxyRefuses(detail) => {
                format!(
                    "The {via} makes no connection to {place}: {detail}. Does it allow this host?"
                )
            }
            Self::Other(detail) => format!("The connection over the {via} failed: {detail}."),
        };
        let kind = match &self {
            Self::NoNetwork => FailureKind::NetworkDown,
            Self::Closed | Self::Dead => FailureKind::Closed,
            _ => FailureKind::Connection,
        };
        ProviderError::new(kind, self.advice(), message)
    }

    fn advice(&self) -> RetryAdvice {
        match self {
            Self::NoTlsAnswer(_)
            | Self::NotTls
            | Self::NotHttp
            | Self::Certificate(_)
            | Self::Tls(_)
            | Self::ProxyUser => RetryAdvice::Never,
            Self::Refused
            | Self::UnknownHost
            | Self::NoNetwork
            | Self::Closed
            | Self::Dead
            | Self::TimedOut(_)
            | Self::ProxyRefuses(_)
            | Self::Other(_) => RetryAdvice::Backoff,
        }
    }
}

impl Culprit {
    /// Where a request to URL, which goes over VIA, met ERROR.
    #[must_use]
    pub fn of(error: &(dyn Error + 'static), url: &Url, via: Option<&Via>) -> Self {
        let Some(via) = via else {
            return Self::Host;
        };
        let before_host = |words: &str| {
            words.starts_with("tunnel error") || words == "error connecting to socks proxy"
        };
        let passes_on = via.speaks_http() && url.scheme() == "http";
        if passes_on || links(error).any(|link| before_host(&link.to_string())) {
            Self::Proxy
        } else {
            Self::Host
        }
    }
}

/// ERROR and what caused it, the outermost first.
fn links<'e>(error: &'e (dyn Error + 'static)) -> impl Iterator<Item = &'e (dyn Error + 'static)> {
    std::iter::successors(Some(error), |&current| {
        // An I/O error does not count what it wraps as its source.
        let wrapped = current
            .downcast_ref::<io::Error>()
            .and_then(io::Error::get_ref);
        wrapped
            .map(|inner| inner as &'e (dyn Error + 'static))
            .or_else(|| current.source())
    })
}

/// WORDS without what kind of error they are of.
fn without_prefix(words: String) -> String {
    words
        .split_once(": ")
        .map_or(words.clone(), |(_, rest)| rest.to_owned())
}

fn write_http(to: &Destination) -> String {
    format!(
        "If it speaks plain HTTP, write http:// in the base URL {:?}.",
        to.base_url
    )
}

/// What is wrong with a certificate, and what to do.
fn about(error: &CertificateError) -> String {
    let day = |time: &UnixTime| {
        let when = UNIX_EPOCH + Duration::from_secs(time.as_secs());
        humantime::format_rfc3339_seconds(when).to_string()[..10].to_owned()
    };
    match error {
        CertificateError::UnknownIssuer => "no authority that is trusted here has signed its certificate. If it is your company's or your own, put the certificate into a file and name that as the provider's :ca-file in agent-q-providers; docs/manual.org says how, under \"Proxies and certificates\".".to_owned(),
        CertificateError::NotValidForNameContext { expected, presented } => format!(
            "its certificate is not for {}, but for {}. Correct the host in the base URL, or the names (subjectAltName) in the certificate.",
            expected.to_str(),
            match presented.is_empty() {
                true => "no host at all".to_owned(),
                false => presented.join(", "),
            }
        ),
        CertificateError::ExpiredContext { not_after, .. } => format!(
            "its certificate ended on {}. The server needs a new one; or is the clock of this machine wrong?",
            day(not_after)
        ),
        CertificateError::NotValidYetContext { not_before, .. } => format!(
            "its certificate begins on {}. Is the clock of this machine wrong?",
            day(not_before)
        ),
        error => format!("{error}."),
    }
}

/// The proxy that passed on the request wants a password.
pub fn proxy_wants_user(to: &Destination, via: &Via) -> ProviderError {
    Cause::ProxyUser.failure(to, Some(via), Culprit::Proxy)
}

pub fn lost_connection(to: &Destination) -> ProviderError {
    ProviderError::new(
        FailureKind::Interrupted,
        RetryAdvice::Backoff,
        format!(
            "The connection to {} was lost before the reply was complete.",
            to.place()
        ),
    )
}

/// A silent server gets no second request: it may still be working on the first.
pub fn no_response_failure(patience: Duration, to: &Destination) -> ProviderError {
    ProviderError::new(
        FailureKind::Idle,
        RetryAdvice::Never,
        format!(
            "{} did not begin to answer within {} s, so the request was cancelled.",
            to.place(),
            patience.as_secs_f64()
        ),
    )
}

/// Nor does one that falls silent within its answer.
pub fn idle_failure(idle: Duration, to: &Destination) -> ProviderError {
    ProviderError::new(
        FailureKind::Idle,
        RetryAdvice::Never,
        format!(
            "{} sent nothing for {} s, so the request was cancelled.",
            to.place(),
            idle.as_secs_f64()
        ),
    )
}

/// A server that only says that it is there gets no second request either.
pub fn silent_failure(silence: Duration, to: &Destination) -> ProviderError {
    ProviderError::new(
        FailureKind::Idle,
        RetryAdvice::Never,
        format!(
            "{} sent only keep-alives for {} s, so the request was cancelled.",
            to.place(),
            silence.as_secs_f64()
        ),
    )
}

/// What the chain of ERROR's causes ends with.
#[must_use]
pub fn root_cause(error: &dyn Error) -> String {
    let mut deepest = error;
    while let Some(source) = deepest.source() {
        deepest = source;
    }
    deepest.to_string()
}

// A look at the network itself where an error of the HTTP library doesn't say enough. Nothing is sent.

/// How long a look whether something listens may take.
const PATIENCE: Duration = Duration::from_secs(1);

/// Why a request to URL, by WAY, met ERROR, and who is to blame. A connection had CONNECT_TIMEOUT.
pub async fn looked_into(
    error: &reqwest::Error,
    url: &Url,
    way: &Way,
    connect_timeout: Duration,
) -> (Cause, Culprit) {
    let culprit = Culprit::of(error, url, way.via.as_ref());
    match (Cause::of(error), &way.via) {
        (Cause::Dead | Cause::Other(_), _) if error.is_connect() && error.is_timeout() => {
            timed_out(url, way, connect_timeout.as_secs_f64()).await
        }
        // The library keeps to itself why.
        (Cause::Refused, Some(via)) if !via.speaks_http() && culprit == Culprit::Proxy => {
            let cause = match connect(via.address()).await {
                Err(error) => Cause::of(&error),
                Ok(()) => Cause::Refused,
            };
            (cause, culprit)
        }
        (Cause::UnknownHost, _) if !has_route() => (Cause::NoNetwork, culprit),
        (cause, _) => (cause, culprit),
    }
}

/// What took too long before a request to URL could be sent by WAY: the connection, or what came then.
async fn timed_out(url: &Url, way: &Way, seconds: f64) -> (Cause, Culprit) {
    let (address, culprit) = match &way.via {
        Some(via) => (via.address(), Culprit::Proxy),
        None => (address_of(url), Culprit::Host),
    };
    match connect(address).await {
        Ok(()) if way.trust != Trust::Unneeded || way.via.is_some() => {
            (Cause::NoTlsAnswer(seconds), culprit)
        }
        Ok(()) | Err(_) => (Cause::TimedOut(seconds), culprit),
    }
}

/// Looks whether something listens at ADDRESS.
async fn connect(address: (String, u16)) -> io::Result<()> {
    let connecting = tokio::net::TcpStream::connect(address);
    match tokio::time::timeout(PATIENCE, connecting).await {
        Ok(connection) => connection.map(drop),
        Err(_) => Err(ErrorKind::TimedOut.into()),
    }
}

/// Whether this machine has a way to anywhere: a datagram's socket that is connected only asks the kernel
/// for the route. The addresses are those kept for documentation.
fn has_route() -> bool {
    let routed =
        |from: &str, to: &str| UdpSocket::bind(from).is_ok_and(|socket| socket.connect(to).is_ok());
    routed("0.0.0.0:0", "192.0.2.1:9") || routed("[::]:0", "[2001:db8::1]:9")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::provider::failure::KeyPresence;

    fn destination() -> Destination {
        Destination {
            host: "api.example.com".into(),
            port: 443,
            base_url: "https://api.example.com/v1".into(),
            model: "m".into(),
            key: KeyPresence::Sent,
        }
    }

    /// The kernel gives up a connection over which nothing arrives; that is not a server that is slow.
    #[test]
    fn a_connection_that_died_silently_counts_as_closed() {
        let error = io::Error::other(io::Error::from(ErrorKind::TimedOut));
        let failure = Cause::of(&error).failure(&destination(), None, Culprit::Host);
        assert_eq!(failure.kind, FailureKind::Closed);
        assert!(
            failure
                .message
                .starts_with("The connection to api.example.com is dead"),
            "{failure}"
        );
    }

    #[test]
    fn a_network_that_is_down_has_words_of_its_own() {
        let to = destination();
        for kind in [
            ErrorKind::NetworkUnreachable,
            ErrorKind::NetworkDown,
            ErrorKind::HostUnreachable,
        ] {
            // As a connector wraps it.
            let error = io::Error::other(io::Error::from(kind));
            let failure = Cause::of(&error).failure(&to, None, Culprit::Host);
            assert_eq!(failure.kind, FailureKind::NetworkDown);
            assert_eq!(failure.retry, RetryAdvice::Backoff);
            assert!(
                failure
                    .message
                    .starts_with("api.example.com is unreachable: no network. Connect"),
                "{failure}"
            );
        }
    }
}
