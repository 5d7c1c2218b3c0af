// SPDX-License-Identifier: GPL-3.0-or-later
//! The way to a provider's host: over which proxy, and whose certificates count. Emacs says both with the
//! provider, as it has them; this process's own environment may be an older one.

use std::fmt;
use std::path::PathBuf;
use std::time::SystemTime;

use hyper_util::client::proxy::matcher::Matcher;
use reqwest::Url;
use serde::Deserialize;

use super::address::{address_of, is_loopback, public_part, settings_failure};
use super::failure::ProviderError;

/// What Emacs has set about the way to a host.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Route {
    /// The proxy; none means a direct connection.
    pub proxy: Option<Proxy>,
    /// Files and folders of certificate authorities that count beside those of the system.
    pub authorities: Vec<PathBuf>,
    /// The file of certificates that count for this provider alone.
    pub ca_file: Option<PathBuf>,
}

/// A proxy as somebody wrote it down.
#[derive(Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Proxy {
    pub url: String,
    /// Where it was set, in words for the user.
    pub set_by: String,
    /// The hosts that are reached without it, as in `no_proxy`; this machine is always one of them. None
    /// where the proxy is the provider's own, which is used for any host.
    #[serde(default)]
    pub except: Option<String>,
}

/// The URL may hold a password.
impl fmt::Debug for Proxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a proxy set by {}", self.set_by)
    }
}

impl Proxy {
    fn serves(&self, url: &Url) -> bool {
        let Some(except) = &self.except else {
            return true;
        };
        let unless = Matcher::builder().all("http://proxy").no(except.as_str());
        let uri = url.as_str().parse();
        !is_loopback(url) && uri.is_ok_and(|uri| unless.build().intercept(&uri).is_some())
    }

    fn parsed(&self) -> Result<Via, ProviderError> {
        let written = self.url.trim();
        let url = match written.split_once("://") {
            None => format!("http://{written}"),
            // What desktops write for SOCKS of any version.
            Some(("socks", rest)) => format!("socks5h://{rest}"),
            Some(_) => written.to_owned(),
        };
        let wrong = |why: &str| {
            settings_failure(format!(
                "{:?} is not the URL of a proxy: {why}. {} says so; write it like http://proxy.example.com:3128.",
                public_part(&url),
                self.set_by
            ))
        };
        let parsed = Url::parse(&url).map_err(|error| wrong(&error.to_string()))?;
        if parsed.host_str().is_none_or(str::is_empty) {
            return Err(wrong("it has no host"));
        }
        match parsed.scheme() {
            "http" | "https" | "socks4" | "socks4a" | "socks5" | "socks5h" => Ok(Via {
                url: parsed,
                set_by: self.set_by.clone(),
            }),
            _ => Err(wrong("only http, https, socks4 and socks5 are known")),
        }
    }
}

/// A proxy over which a request goes.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Via {
    pub url: Url,
    set_by: String,
}

impl Via {
    /// Its host and port.
    #[must_use]
    pub fn address(&self) -> (String, u16) {
        address_of(&self.url)
    }

    /// Whether it passes on requests, and not only bytes.
    #[must_use]
    pub fn speaks_http(&self) -> bool {
        matches!(self.url.scheme(), "http" | "https")
    }

    #[must_use]
    pub fn has_user(&self) -> bool {
        !self.url.username().is_empty()
    }
}

/// The proxy as a sentence names it.
impl fmt::Display for Via {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let host = self.url.host_str().unwrap_or_default();
        let port = self.address().1;
        write!(f, "proxy {host}:{port} (set by {})", self.set_by)
    }
}

impl fmt::Debug for Via {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// How a server is reached. Connections are kept for each way.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Way {
    pub via: Option<Via>,
    pub trust: Trust,
}

/// Whose certificates count on the way.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Trust {
    /// There is no TLS, so that a local model works where no certificates are installed.
    Unneeded,
    /// Those of the system, and those in files.
    Certificates {
        authorities: Vec<CertificateFile>,
        own: Option<CertificateFile>,
    },
}

/// A file as it was at some time, so that one that changes is read again.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct CertificateFile {
    pub path: PathBuf,
    changed: Option<SystemTime>,
}

impl From<&PathBuf> for CertificateFile {
    fn from(path: &PathBuf) -> Self {
        let changed = path.metadata().and_then(|metadata| metadata.modified());
        Self {
            path: path.clone(),
            changed: changed.ok(),
        }
    }
}

impl Route {
    /// The way to URL.
    ///
    /// # Errors
    ///
    /// When the proxy is none.
    pub fn way(&self, url: &Url) -> Result<Way, ProviderError> {
        let proxy = self.proxy.as_ref().filter(|proxy| proxy.serves(url));
        let via = proxy.map(Proxy::parsed).transpose()?;
        let over_tls = |url: &Url| url.scheme() == "https";
        let trust = if over_tls(url) || via.as_ref().is_some_and(|via| over_tls(&via.url)) {
            Trust::Certificates {
                authorities: self.authorities.iter().map(Into::into).collect(),
                own: self.ca_file.as_ref().map(Into::into),
            }
        } else {
            Trust::Unneeded
        };
        Ok(Way { via, trust })
    }
}
