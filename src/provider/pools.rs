// SPDX-License-Identifier: GPL-3.0-or-later
//! The clients of the HTTP library, one for each way to a server. Each keeps connections open between
//! requests; when one of them turns out to be dead, all of its way are given up. `http` sends.

use std::collections::{HashMap, HashSet};
use std::sync::Mutex;
use std::time::Duration;

use once_cell::sync::OnceCell;
use reqwest::Url;

use super::address::{is_loopback, settings_failure};
use super::cause::root_cause;
use super::failure::{Destination, ProviderError};
use crate::runtime::held;

/// Whether a request may have gone over a connection that was kept from an earlier one. While the
/// machine slept, or the server restarted, such a connection has died without a word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Connection {
    MayBeKept,
    New,
}

/// How a server is reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Way {
    /// On this machine without TLS: no proxy, no certificates, so that a local model works where
    /// neither is set up.
    Local,
    /// On this machine with TLS: no proxy.
    LocalTls,
    Remote,
}

impl Way {
    fn to(url: &Url) -> Self {
        match (is_loopback(url), url.scheme()) {
            (true, "http") => Self::Local,
            (true, _) => Self::LocalTls,
            (false, _) => Self::Remote,
        }
    }
}

#[derive(Debug)]
struct Pool {
    client: reqwest::Client,
    /// The places from which an answer came, so that a connection to them may have been kept.
    answered: HashSet<String>,
}

/// The connections that are kept.
#[derive(Debug, Default)]
pub struct Pools(Mutex<HashMap<Way, Pool>>);

impl Pools {
    /// The client for URL, which waits CONNECT_TIMEOUT for a new connection.
    pub fn client(
        &self,
        url: &Url,
        connect_timeout: Duration,
    ) -> Result<reqwest::Client, ProviderError> {
        let way = Way::to(url);
        let mut pools = held(&self.0);
        if let Some(pool) = pools.get(&way) {
            return Ok(pool.client.clone());
        }
        let client = made(way, connect_timeout)?;
        let answered = HashSet::new();
        pools.insert(
            way,
            Pool {
                client: client.clone(),
                answered,
            },
        );
        Ok(client)
    }

    /// An answer from PLACE came over the way to URL.
    pub fn note_answer(&self, url: &Url, place: &Destination) {
        if let Some(pool) = held(&self.0).get_mut(&Way::to(url)) {
            pool.answered.insert(place.place());
        }
    }

    /// Over what a request to PLACE goes.
    pub fn connection(&self, url: &Url, place: &Destination) -> Connection {
        let pools = held(&self.0);
        let pool = pools.get(&Way::to(url));
        match pool.is_some_and(|pool| pool.answered.contains(&place.place())) {
            true => Connection::MayBeKept,
            false => Connection::New,
        }
    }

    /// Keeps none of the connections of the way to URL any more: what has killed one has killed its like.
    pub fn forget(&self, url: &Url) {
        held(&self.0).remove(&Way::to(url));
    }
}

fn made(way: Way, connect_timeout: Duration) -> Result<reqwest::Client, ProviderError> {
    install_tls();
    let builder = reqwest::Client::builder()
        .connect_timeout(connect_timeout)
        // A redirect would carry the key and the conversation to a host that the user did not name.
        .redirect(reqwest::redirect::Policy::none())
        .user_agent(concat!("agent-q-module/", env!("CARGO_PKG_VERSION")));
    let builder = match way {
        Way::Local => builder.no_proxy().tls_certs_only([]),
        Way::LocalTls => builder.no_proxy(),
        Way::Remote => builder,
    };
    builder.build().map_err(|error| {
        settings_failure(format!(
            "No HTTP client can be made: {}. Are CA certificates installed?",
            root_cause(&error)
        ))
    })
}

/// Choose ring as the process's TLS implementation, unless somebody has chosen one.
fn install_tls() {
    static INSTALLED: OnceCell<()> = OnceCell::new();
    INSTALLED.get_or_init(|| {
        // An error means that a provider is installed already, which is all that we need.
        let _ = rustls::crypto::ring::default_provider().install_default();
    });
}
