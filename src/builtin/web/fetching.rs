// SPDX-License-Identifier: GPL-3.0-or-later
//! Fetches a page: each address on the way is judged before anything is sent there, and what comes back is
//! read only as far as it may be. Nothing is sent but the address: no cookies, no passwords, no referrer.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures_util::future::BoxFuture;
use reqwest::Response;
use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use reqwest::header::{ACCEPT, ACCEPT_ENCODING, CONTENT_ENCODING, CONTENT_TYPE, LOCATION};
use tokio::net::lookup_host;
use tokio::time::{Instant, timeout_at};

use super::address::{Address, Network, network};
use super::media::{MediaType, NotText};
use crate::provider::http::http_by;
use crate::provider::{Route, root_cause};
use crate::tool::work::Trail;
use crate::visible::spelled;

/// The most bytes of a page that are read.
pub(super) const MOST_BYTES: usize = 5_000_000;

/// How often a server may lead on.
const MOST_REDIRECTS: usize = 5;

/// How far a call may reach.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reach {
    Internet,
    /// Also this machine and private networks: the user was told so.
    Anywhere,
}

/// What is fetched, and how.
pub(super) struct Fetch {
    pub(super) reach: Reach,
    pub(super) limit: Duration,
    /// Says how Emacs would go to an address.
    pub(super) route:
        Box<dyn Fn(String) -> BoxFuture<'static, Result<Route, String>> + Send + Sync>,
    /// How many bytes have come so far.
    pub(super) received: Arc<AtomicUsize>,
    pub(super) trail: Trail,
}

/// A page as it came.
#[derive(Debug)]
pub(super) struct Fetched {
    /// Where it was in the end.
    pub(super) address: Address,
    pub(super) status: reqwest::StatusCode,
    pub(super) media: MediaType,
    pub(super) body: Vec<u8>,
    /// Why it isn't whole, if it isn't.
    pub(super) cut: Option<Shortfall>,
}

/// Why a page isn't whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Shortfall {
    TooLong,
    TooSlow,
    Lost,
}

/// Why a page can't be had.
#[derive(Debug, thiserror::Error)]
pub(super) enum FetchFailure {
    #[error("{0}")]
    Settings(String),
    #[error(
        "{host} is in {}, which the user was not told. If the page is needed, call again with \"private_network\": true, so that the user is asked about that.",
        network.phrase()
    )]
    Private { host: String, network: Network },
    #[error("{host} can't be reached: {why}.")]
    Unreached { host: String, why: String },
    #[error("{host} did not answer within {seconds} s.")]
    Silent { host: String, seconds: f64 },
    #[error(
        "{from} leads to {to}, which is another place, so nothing was sent there. If the page is needed, fetch that address: the user is asked about it."
    )]
    Elsewhere { from: String, to: String },
    #[error("{from} leads to an address that can't be fetched. {why}")]
    NowhereElse { from: String, why: String },
    #[error("{0} leads from address to address without an end.")]
    Endless(String),
    #[error("{address} is sent in the encoding {encoding}, which was not asked for.")]
    Encoded { address: String, encoding: String },
    #[error("{address} {what}.")]
    NotText { address: String, what: NotText },
}

impl Fetch {
    /// The page at ADDRESS.
    ///
    /// # Errors
    ///
    /// Why it can't be had.
    pub(super) async fn run(&self, address: Address) -> Result<Fetched, FetchFailure> {
        let deadline = Instant::now() + self.limit;
        let first = shown(&address);
        let mut at = address;
        for _ in 0..=MOST_REDIRECTS {
            let asked = timeout_at(deadline, self.request(&at)).await;
            let response = asked.map_err(|_| self.silent(&at))??;
            let status = response.status();
            self.trail.add(format!("{} {}", status.as_u16(), at.url));
            tracing::info!(
                status = status.as_u16(),
                host = at.host(),
                "a page was asked for"
            );
            match response.headers().get(LOCATION) {
                Some(location) if status.is_redirection() => {
                    at = next(&at, &String::from_utf8_lossy(location.as_bytes()))?;
                }
                _ => return self.read(at, response, deadline).await,
            }
        }
        Err(FetchFailure::Endless(first))
    }

    /// The answer of the server at ADDRESS, as far as its head.
    async fn request(&self, address: &Address) -> Result<Response, FetchFailure> {
        self.judge(address, address.network())?;
        let route = (self.route)(address.url.to_string()).await;
        let route = route.map_err(FetchFailure::Settings)?;
        let way = route.way(&address.url);
        let way = way.map_err(|error| FetchFailure::Settings(error.message))?;
        if way.via.is_some() && address.network().is_none() {
            // The proxy finds the host itself. Where it can be found here, it is judged all the same.
            let port = address.url.port_or_known_default().unwrap_or_default();
            if let Ok(found) = lookup_host((address.host(), port)).await {
                self.judge(address, found.filter_map(|it| network(it.ip())).next())?;
            }
        }
        let names = Arc::new(JudgedNames(self.reach));
        // It reads certificates.
        let client = tokio::task::spawn_blocking(move || http_by(&way, names)).await;
        let client = client.map_err(|error| FetchFailure::Settings(error.to_string()))?;
        let request = client
            .map_err(FetchFailure::Settings)?
            .get(address.url.clone())
            .header(ACCEPT, "text/html, text/plain, application/json, */*;q=0.5")
            // Nothing that is small when it comes and large when it is unpacked.
            .header(ACCEPT_ENCODING, "identity");
        request.send().await.map_err(|error| {
            let host = address.host().to_owned();
            match refused(&error) {
                Some(network) => FetchFailure::Private { host, network },
                None => FetchFailure::Unreached {
                    host,
                    why: spelled(root_cause(&error).trim_end_matches('.'), 300),
                },
            }
        })
    }

    fn judge(&self, address: &Address, network: Option<Network>) -> Result<(), FetchFailure> {
        match (network, self.reach) {
            (Some(network), Reach::Internet) => Err(FetchFailure::Private {
                host: address.host().to_owned(),
                network,
            }),
            (None, _) | (Some(_), Reach::Anywhere) => Ok(()),
        }
    }

    /// The body of RESPONSE, as far as it may be read.
    async fn read(
        &self,
        address: Address,
        mut response: Response,
        deadline: Instant,
    ) -> Result<Fetched, FetchFailure> {
        let header = |name| {
            let value = response.headers().get(name);
            value.map(|it| String::from_utf8_lossy(it.as_bytes()).into_owned())
        };
        let media = MediaType::parse(header(CONTENT_TYPE).as_deref());
        let encoding = header(CONTENT_ENCODING).filter(|it| !it.eq_ignore_ascii_case("identity"));
        if let Some(encoding) = encoding {
            return Err(FetchFailure::Encoded {
                address: shown(&address),
                encoding: spelled(&encoding, 40),
            });
        }
        let length = response.content_length();
        let unfit = |what| FetchFailure::NotText {
            address: shown(&address),
            what,
        };
        media.check(length).map_err(unfit)?;
        let mut body = Vec::new();
        let cut = loop {
            match timeout_at(deadline, response.chunk()).await {
                Err(_) if body.is_empty() => return Err(self.silent(&address)),
                Err(_) => break Some(Shortfall::TooSlow),
                Ok(Err(_)) => break Some(Shortfall::Lost),
                Ok(Ok(None)) => break None,
                Ok(Ok(Some(bytes))) => {
                    let room = MOST_BYTES - body.len();
                    body.extend_from_slice(&bytes[..bytes.len().min(room)]);
                    self.received.store(body.len(), Ordering::Relaxed);
                    media.check_text(&body, length).map_err(unfit)?;
                    if bytes.len() > room {
                        break Some(Shortfall::TooLong);
                    }
                }
            }
        };
        Ok(Fetched {
            status: response.status(),
            address,
            media,
            body,
            cut,
        })
    }

    fn silent(&self, address: &Address) -> FetchFailure {
        FetchFailure::Silent {
            host: address.host().to_owned(),
            seconds: self.limit.as_secs_f64(),
        }
    }
}

/// Where the server at FROM leads by LOCATION, if that is of the same place.
fn next(from: &Address, location: &str) -> Result<Address, FetchFailure> {
    let nowhere = |why: String| FetchFailure::NowhereElse {
        from: shown(from),
        why,
    };
    let url = from.url.join(location);
    let url = url.map_err(|error| nowhere(format!("'{}': {error}.", spelled(location, 200))))?;
    let mut to = Address::of(url).map_err(nowhere)?;
    if !from.is_same_place(&to) {
        return Err(FetchFailure::Elsewhere {
            from: shown(from),
            to: shown(&to),
        });
    }
    to.fragment = to.fragment.or_else(|| from.fragment.clone());
    Ok(to)
}

/// ADDRESS in a sentence.
fn shown(address: &Address) -> String {
    spelled(address.url.as_str(), 500)
}

// Names of hosts, which are judged by what they stand for: what was judged is what is connected to.

struct JudgedNames(Reach);

/// A name stands for an address in NETWORK.
#[derive(Debug, thiserror::Error)]
#[error("it is in {}", .0.phrase())]
struct NotOfInternet(Network);

impl Resolve for JudgedNames {
    fn resolve(&self, name: Name) -> Resolving {
        let reach = self.0;
        Box::pin(async move {
            let found: Vec<SocketAddr> = lookup_host((name.as_str(), 0)).await?.collect();
            // One of several is reason enough: it could be the one that is used.
            let network = found.iter().find_map(|it| network(it.ip()));
            match (network, reach) {
                (Some(network), Reach::Internet) => Err(NotOfInternet(network).into()),
                _ if found.is_empty() => {
                    Err(io::Error::other("its name stands for no address").into())
                }
                _ => Ok(Box::new(found.into_iter()) as Addrs),
            }
        })
    }
}

/// The network in which the host is, if ERROR is that it may not be reached.
fn refused(error: &reqwest::Error) -> Option<Network> {
    let mut cause: Option<&dyn std::error::Error> = Some(error);
    while let Some(it) = cause {
        if let Some(NotOfInternet(network)) = it.downcast_ref() {
            return Some(*network);
        }
        cause = it.source();
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn names_are_judged_by_what_they_stand_for() {
        let look = |reach| JudgedNames(reach).resolve("localhost".parse().unwrap());
        let refused = look(Reach::Internet).await.err().unwrap();
        assert_eq!(refused.to_string(), "it is in this machine");
        assert!(
            look(Reach::Anywhere)
                .await
                .unwrap()
                .all(|it| it.ip().is_loopback())
        );
    }
}
