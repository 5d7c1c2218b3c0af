// SPDX-License-Identifier: GPL-3.0-or-later
//! What the user chose of a server, as Emacs writes it: a command or an address, with all that is in it
//! already filled in.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use serde::Deserialize;

use crate::builtin::programs::is_secret;
use crate::provider::Route;

/// A server that was chosen.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct ServerSettings {
    /// As the user wrote it.
    pub name: String,
    /// The root of the project that it is for, as Emacs writes it; none for one of the user's own.
    pub project: Option<String>,
    #[serde(flatten)]
    pub reached: ServerPlace,
    /// How long a call may go without a sign of life, in seconds.
    #[serde(default = "patience")]
    timeout: u64,
}

/// How a server is reached.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(untagged)]
pub enum ServerPlace {
    Command(ServerCommand),
    Address {
        url: String,
        #[serde(default)]
        headers: BTreeMap<String, String>,
        #[serde(default)]
        route: Route,
    },
}

/// A program that is started, and spoken to by its standard input and output.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct ServerCommand {
    /// The program and its arguments.
    pub command: Vec<String>,
    /// Emacs's environment without the keys of providers.
    #[serde(default)]
    environment: Vec<(String, String)>,
    /// What the user gives it of their own accord.
    #[serde(default)]
    own: Vec<(String, String)>,
    pub directory: PathBuf,
}

const fn patience() -> u64 {
    120
}

impl ServerCommand {
    /// All of its environment: what may hold a secret reaches it only when the user says so.
    #[must_use]
    pub fn environment(&self) -> Vec<(String, String)> {
        let inherited = self.environment.iter().filter(|(name, value)| {
            !is_secret(name, value) && !self.own.iter().any(|(own, _)| own == name)
        });
        inherited.chain(&self.own).cloned().collect()
    }

    /// The names of what it doesn't get of Emacs's environment.
    #[must_use]
    pub fn withheld(&self) -> Vec<&str> {
        let secret = self.environment.iter().filter(|(name, value)| {
            is_secret(name, value) && !self.own.iter().any(|(own, _)| own == name)
        });
        secret.map(|(name, _)| name.as_str()).collect()
    }
}

impl ServerSettings {
    #[must_use]
    pub fn timeout(&self) -> Duration {
        Duration::from_secs(self.timeout.clamp(1, 24 * 60 * 60))
    }
}

/// Why servers can't be had.
#[derive(Debug, thiserror::Error)]
pub enum InvalidServers {
    #[error("Cannot parse the settings of tool servers: {0}")]
    Unreadable(#[source] serde_json::Error),
    #[error("Cannot parse the question to a tool server: {0}")]
    Question(#[source] serde_json::Error),
    #[error("The tool server {0} has no command.")]
    NoCommand(String),
    #[error("There are two tool servers called {0}.")]
    Twice(String),
    #[error("There is no tool server called {0}; there are: {1}.")]
    Unknown(String, String),
}

/// The servers in JSON.
pub(super) fn parse(json: &str) -> Result<Vec<ServerSettings>, InvalidServers> {
    let servers: Vec<ServerSettings> =
        serde_json::from_str(json).map_err(InvalidServers::Unreadable)?;
    for (index, server) in servers.iter().enumerate() {
        if servers[..index].iter().any(|it| it.name == server.name) {
            return Err(InvalidServers::Twice(server.name.clone()));
        }
        if let ServerPlace::Command(ServerCommand { command, .. }) = &server.reached
            && command.first().is_none_or(String::is_empty)
        {
            return Err(InvalidServers::NoCommand(server.name.clone()));
        }
    }
    Ok(servers)
}
