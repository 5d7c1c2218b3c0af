// SPDX-License-Identifier: GPL-3.0-or-later
//! Looks at the network itself where an error of the HTTP library doesn't say enough. Nothing is sent.

use std::io;
use std::net::UdpSocket;
use std::time::Duration;

use reqwest::Url;

use super::address::address_of;
use super::cause::{Cause, Culprit};
use super::route::{Trust, Way};

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
        Err(_) => Err(io::ErrorKind::TimedOut.into()),
    }
}

/// Whether this machine has a way to anywhere: a datagram's socket that is connected only asks the kernel
/// for the route. The addresses are those kept for documentation.
fn has_route() -> bool {
    let routed =
        |from: &str, to: &str| UdpSocket::bind(from).is_ok_and(|socket| socket.connect(to).is_ok());
    routed("0.0.0.0:0", "192.0.2.1:9") || routed("[::]:0", "[2001:db8::1]:9")
}
