// SPDX-License-Identifier: GPL-3.0-or-later
//! The clients of the HTTP library, one for each way to a server. Each keeps connections open between
//! requests; when one of them turns out to be dead, all of its way are given up. `http` sends.

use std::collections::{HashMap, HashSet};
use std::sync::Mutex;
use std::time::Duration;

use once_cell::sync::OnceCell;

use super::address::settings_failure;
use super::cause::root_cause;
use super::certificates::tls;
use super::failure::{Destination, ProviderError};
use super::route::{Trust, Way};
use crate::runtime::held;

/// Whether a request may have gone over a connection that was kept from an earlier one. While the
/// machine slept, or the server restarted, such a connection has died without a word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Connection {
    MayBeKept,
    New,
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
    /// The client for WAY, which waits CONNECT_TIMEOUT for a new connection.
    pub fn client(
        &self,
        way: &Way,
        connect_timeout: Duration,
    ) -> Result<reqwest::Client, ProviderError> {
        let mut pools = held(&self.0);
        if let Some(pool) = pools.get(way) {
            return Ok(pool.client.clone());
        }
        let client = made(way, connect_timeout)?;
        let answered = HashSet::new();
        pools.insert(
            way.clone(),
            Pool {
                client: client.clone(),
                answered,
            },
        );
        Ok(client)
    }

    /// An answer from PLACE came by WAY.
    pub fn note_answer(&self, way: &Way, place: &Destination) {
        if let Some(pool) = held(&self.0).get_mut(way) {
            pool.answered.insert(place.place());
        }
    }

    /// Over what a request to PLACE by WAY goes.
    pub fn connection(&self, way: &Way, place: &Destination) -> Connection {
        let pools = held(&self.0);
        let pool = pools.get(way);
        match pool.is_some_and(|pool| pool.answered.contains(&place.place())) {
            true => Connection::MayBeKept,
            false => Connection::New,
        }
    }

    /// Keeps none of the connections of WAY any more: what has killed one has killed its like.
    pub fn forget(&self, way: &Way) {
        held(&self.0).remove(way);
    }
}

fn made(way: &Way, connect_timeout: Duration) -> Result<reqwest::Client, ProviderError> {
    install_tls();
    let builder = reqwest::Client::builder()
        .connect_timeout(connect_timeout)
        // A redirect would carry the key and the conversation to a host that the user did not name.
        .redirect(reqwest::redirect::Policy::none())
        .user_agent(concat!("agent-q-module/", env!("CARGO_PKG_VERSION")))
        // As curl does: what some gateway adds to the head must not cost the answer.
        .http1_max_headers(MAX_HEADERS)
        .http1_allow_obsolete_multiline_headers_in_responses(true)
        .http1_allow_spaces_after_header_name_in_responses(true)
        .http1_ignore_invalid_headers_in_responses(true)
        // The environment of this process is not asked: Emacs has one of its own.
        .no_proxy();
    let builder = match &way.trust {
        Trust::Unneeded => builder.tls_certs_only([]),
        Trust::Certificates { authorities, own } => {
            builder.tls_backend_preconfigured(tls(authorities, own.as_ref())?)
        }
    };
    let cannot = |error: reqwest::Error| {
        settings_failure(format!(
            "No HTTP client can be made: {}.",
            root_cause(&error)
        ))
    };
    let builder = match &way.via {
        Some(via) => builder.proxy(reqwest::Proxy::all(via.url.clone()).map_err(cannot)?),
        None => builder,
    };
    builder.build().map_err(cannot)
}

/// The most headers that an answer may have.
const MAX_HEADERS: usize = 1000;

/// Choose ring as the process's TLS implementation, unless somebody has chosen one.
fn install_tls() {
    static INSTALLED: OnceCell<()> = OnceCell::new();
    INSTALLED.get_or_init(|| {
        // An error means that a provider is installed already, which is all that we need.
        let _ = rustls::crypto::ring::default_provider().install_default();
    });
}
