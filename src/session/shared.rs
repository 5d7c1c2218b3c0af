// SPDX-License-Identifier: GPL-3.0-or-later
//! What all sessions use.

use std::sync::Arc;

use super::tokens::TokenRatios;
use crate::call::executor::Executor;
use crate::provider::http::Client;
use crate::tool::libraries::Libraries;
use crate::tool::registry::Registry;

/// What all sessions use.
#[derive(Clone)]
pub struct Shared {
    /// All tools of the process; each turn takes from it what its chat offers.
    pub registry: Arc<Registry>,
    /// What agents' specifications are bound to.
    pub libraries: Arc<Libraries>,
    pub executor: Executor,
    pub client: Arc<Client>,
    /// How many bytes each model has to a token.
    pub ratios: Arc<TokenRatios>,
}
