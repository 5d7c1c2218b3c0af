// SPDX-License-Identifier: GPL-3.0-or-later
//! Tools of others: the MCP servers that the user, or a project, has chosen. Each is a group of
//! `more_tools`, and is started when its tools are first asked for. What the servers say is never believed:
//! names are made here, levels are the user's, and all that comes has a limit.

mod connection;
mod content;
mod names;
mod output;
mod process;
mod server;
mod settings;
mod texts;

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use indexmap::IndexMap;
use serde_json::Value;

use crate::protocol::{Emacs, Event, QuestionId};
use crate::runtime::held;
use crate::tool::Origin;
use crate::tool::registry::Registry;
use server::ToolServer;
pub use settings::{InvalidServers, ServerSettings};
use texts::TextQuestion;

/// How long the exit of Emacs waits for servers to end by themselves.
const LEAVING: Duration = Duration::from_millis(300);

/// The servers that were chosen.
pub struct ToolServers {
    registry: Arc<Registry>,
    emacs: Arc<dyn Emacs>,
    servers: Mutex<IndexMap<String, Arc<ToolServer>>>,
}

impl ToolServers {
    #[must_use]
    pub fn new(registry: Arc<Registry>, emacs: Arc<dyn Emacs>) -> Self {
        Self {
            registry,
            emacs,
            servers: Mutex::default(),
        }
    }

    /// Has the servers that SETTINGS, a JSON array, names, and no others. Those that stay as they are go on;
    /// one that is gone or changed is stopped.
    ///
    /// # Errors
    ///
    /// When the settings are not understood; nothing is changed then.
    pub fn configure(&self, settings: &str) -> Result<(), InvalidServers> {
        let wanted = settings::parse(settings)?;
        let mut servers = held(&self.servers);
        let mut before = std::mem::take(&mut *servers);
        let mut kept = IndexMap::new();
        let mut groups: BTreeSet<String> = self.categories();
        for settings in wanted {
            let group = names::free(&names::snake_case(&settings.name), |it| {
                !groups.contains(it)
            });
            groups.insert(group.clone());
            match before.shift_remove(&settings.name) {
                Some(server) if server.settings() == &settings && server.group() == group => {
                    kept.insert(settings.name, server);
                }
                old => {
                    old.iter().for_each(|it| it.retire());
                    let name = settings.name.clone();
                    let server =
                        ToolServer::new(group, settings, &self.registry, Arc::clone(&self.emacs));
                    kept.insert(name, server);
                }
            }
        }
        before.values().for_each(|it| it.retire());
        for server in kept.values() {
            server.promise();
        }
        *servers = kept;
        Ok(())
    }

    /// The categories of tools that are no servers'.
    fn categories(&self) -> BTreeSet<String> {
        let tools = self.registry.all();
        let others = tools
            .iter()
            .filter(|tool| !matches!(tool.origin, Origin::Server(_)));
        others.flat_map(|tool| tool.categories.clone()).collect()
    }

    /// What there is to know of each server, for the user.
    #[must_use]
    pub fn status(&self) -> Value {
        let servers = held(&self.servers);
        servers.values().map(|server| server.status()).collect()
    }

    /// What the server called NAME wrote and what became of it.
    ///
    /// # Errors
    ///
    /// When there is none.
    pub fn log(&self, name: &str) -> Result<String, InvalidServers> {
        self.named(name).map(|server| server.log_text())
    }

    /// Starts the server called NAME if it does not run; what comes of it is an event.
    ///
    /// # Errors
    ///
    /// When there is none.
    pub fn start(&self, name: &str) -> Result<(), InvalidServers> {
        let server = self.named(name)?;
        crate::runtime::spawn(async move {
            // Its state and log say why, if it can't be started.
            let _ = server.begin_again().await;
        });
        Ok(())
    }

    /// Stops the server called NAME. It starts again when it is called.
    ///
    /// # Errors
    ///
    /// When there is none.
    pub fn stop(&self, name: &str) -> Result<(), InvalidServers> {
        self.named(name).map(|server| server.stop())
    }

    /// Ends all of them, as Emacs exits. Waits for a moment at most.
    pub fn leave(&self) {
        let servers: Vec<_> = held(&self.servers).values().cloned().collect();
        let running: Vec<_> = servers.iter().filter_map(|it| it.leave()).collect();
        process::end_all(&running, LEAVING);
    }

    /// Asks the server called NAME a QUESTION, JSON text, about its prompts and resources; the answer is an event.
    ///
    /// # Errors
    ///
    /// When there is none, or the question is not understood.
    pub fn ask(&self, name: &str, question: &str) -> Result<QuestionId, InvalidServers> {
        let server = self.named(name)?;
        let asked: TextQuestion =
            serde_json::from_str(question).map_err(InvalidServers::Question)?;
        let question = QuestionId::next();
        let emacs = Arc::clone(&self.emacs);
        crate::runtime::spawn(async move {
            let answer = server.look_up(asked).await;
            emacs.emit(Event::ToolServerAnswered { question, answer });
        });
        Ok(question)
    }

    fn named(&self, name: &str) -> Result<Arc<ToolServer>, InvalidServers> {
        let servers = held(&self.servers);
        let known = || servers.keys().cloned().collect::<Vec<_>>().join(", ");
        servers
            .get(name)
            .cloned()
            .ok_or_else(|| InvalidServers::Unknown(name.to_owned(), known()))
    }
}
