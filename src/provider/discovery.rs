// SPDX-License-Identifier: GPL-3.0-or-later
//! Which models a host has; and finds model servers on this machine, by asking each usual port for its models.

use std::borrow::Cow;
use std::time::Duration;

use futures_util::future::join_all;
use serde_json::Value;

use super::address::{endpoint, headers, models_url, settings_failure};
use super::body::read_up_to;
use super::connection_failure::proxy_wants_user;
use super::error_report::ErrorReport;
use super::failure::FailureKind;
use super::http::{Http, destination, without_secrets};
use super::refusal::refusal;
use super::retry::RetryAdvice;
use super::{ProviderError, ProviderSettings, Route};
use crate::protocol::{DiscoveredServer, ListedModel, UnlistedModels};

/// How long a local server has to list its models.
const PROBE_TIMEOUT: Duration = Duration::from_millis(800);

/// The most that is read of a list of models.
const MAX_LIST_BYTES: usize = 1024 * 1024;

/// A server that may be there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Candidate {
    /// What it is, as the user knows it.
    pub name: Cow<'static, str>,
    /// The base of its Chat Completions API.
    pub base_url: Cow<'static, str>,
}

impl Candidate {
    #[must_use]
    pub const fn new(name: &'static str, base_url: &'static str) -> Self {
        Self {
            name: Cow::Borrowed(name),
            base_url: Cow::Borrowed(base_url),
        }
    }
}

/// The servers that people run, at their usual ports, best first.
pub const LOCAL_SERVERS: &[Candidate] = &[
    Candidate::new("Ollama", "http://127.0.0.1:11434/v1"),
    Candidate::new("llama.cpp", "http://127.0.0.1:8080/v1"),
    Candidate::new("LM Studio", "http://127.0.0.1:1234/v1"),
];

impl Http {
    /// The candidates that answer like a model server, in the order given. All are asked at once.
    pub async fn discover(&self, candidates: &[Candidate]) -> Vec<DiscoveredServer> {
        let probes = candidates.iter().map(|candidate| self.probe(candidate));
        join_all(probes).await.into_iter().flatten().collect()
    }

    async fn probe(&self, candidate: &Candidate) -> Option<DiscoveredServer> {
        let url = endpoint(&candidate.base_url, &["models"]).ok()?;
        let client = self
            .connections_for(&Route::default().way(&url).ok()?)
            .ok()?;
        let asking = async {
            let response = client.get(url).send().await.ok()?;
            let found = response.status().is_success();
            let body = read_up_to(MAX_LIST_BYTES, PROBE_TIMEOUT, response).await;
            found.then_some(body)
        };
        let body = tokio::time::timeout(PROBE_TIMEOUT, asking).await.ok()??;
        Some(DiscoveredServer {
            name: candidate.name.clone().into_owned(),
            base_url: candidate.base_url.clone().into_owned(),
            models: listed_models(&serde_json::from_slice(&body).ok()?)?,
        })
    }
}

/// How long the host of a provider has to list its models. A connection may take most of it.
const LIST_TIMEOUT: Duration = Duration::from_secs(15);

impl Http {
    /// The chat models that the host of SETTINGS lists, sorted.
    ///
    /// # Errors
    ///
    /// How far the question came, and why no further.
    pub async fn models(
        &self,
        settings: &ProviderSettings,
    ) -> Result<Vec<ListedModel>, UnlistedModels> {
        let listed = tokio::time::timeout(LIST_TIMEOUT, self.list(settings)).await;
        let listed = listed.unwrap_or_else(|_| {
            let seconds = LIST_TIMEOUT.as_secs();
            let why = format!("There was no answer within {seconds} s.");
            Err(unlisted("HTTP", settings_failure(why)))
        });
        let mut models = listed.map_err(|unlisted| UnlistedModels {
            why: without_secrets(&unlisted.why, settings),
            ..unlisted
        })?;
        models.sort_unstable();
        models.dedup_by(|later, earlier| later.name == earlier.name);
        Ok(models)
    }

    async fn list(&self, settings: &ProviderSettings) -> Result<Vec<ListedModel>, UnlistedModels> {
        let unsettled = |error| unlisted("the settings", error);
        let url = models_url(settings).map_err(unsettled)?;
        let host = url.host_str().unwrap_or_default();
        let headers = headers(settings, host).map_err(unsettled)?;
        let way = settings.route.way(&url).map_err(unsettled)?;
        let client = self.connections_for(&way).map_err(unsettled)?;
        let to = destination(settings, &url, &headers);
        let response = match client.get(url.clone()).headers(headers).send().await {
            Ok(response) => response,
            Err(error) => {
                let (cause, culprit) = self.unsent(&error, &url, &way).await;
                let stage = cause.stage(culprit);
                return Err(unlisted(
                    stage,
                    cause.failure(&to, way.via.as_ref(), culprit),
                ));
            }
        };
        let status = response.status();
        if let (407, Some(via)) = (status.as_u16(), &way.via) {
            return Err(unlisted("the proxy", proxy_wants_user(&to, via)));
        }
        let body = read_up_to(MAX_LIST_BYTES, LIST_TIMEOUT, response).await;
        let error = if status.is_success() {
            let list = serde_json::from_slice(&body).ok();
            match list.and_then(|list| listed_models(&list)) {
                Some(models) => return Ok(models),
                None => settings_failure(format!(
                    "{} answers, but not with a list of models.",
                    to.place()
                )),
            }
        } else {
            let report = ErrorReport::of_body(&body, None);
            refusal(status.as_u16(), report, &to, RetryAdvice::Never)
        };
        let refused = match error.kind {
            FailureKind::Refused(status) => status,
            _ => status.as_u16(),
        };
        let stage = format!("HTTP ({})", status.as_u16());
        Err(UnlistedModels {
            status: Some(refused),
            ..unlisted(&stage, error)
        })
    }
}

fn unlisted(stage: &str, error: ProviderError) -> UnlistedModels {
    UnlistedModels {
        stage: stage.to_owned(),
        why: error.message,
        status: None,
    }
}

/// The chat models of a list of models; none when the JSON is no such list, as when something
/// else listens at the port. Models that only embed text can't chat and are left out.
#[must_use]
pub fn listed_models(list: &Value) -> Option<Vec<ListedModel>> {
    let models = list
        .get("data")
        .or_else(|| list.get("models"))?
        .as_array()?;
    Some(models.iter().filter_map(listed_model).collect())
}

fn listed_model(model: &Value) -> Option<ListedModel> {
    let name = model.get("id").or_else(|| model.get("name"))?.as_str()?;
    // Google lists them below a folder.
    let name = name.strip_prefix("models/").unwrap_or(name);
    let limit = |places: &[&str]| {
        places
            .iter()
            .find_map(|place| model.pointer(place)?.as_u64())
            .filter(|number| *number > 0)
    };
    let window = limit(&WINDOW_PLACES);
    (!name.contains("embed")).then(|| ListedModel {
        name: name.to_owned(),
        context_window: window,
        // Some say the window here, too, which is no limit of a reply.
        max_output: limit(&OUTPUT_PLACES).filter(|output| window.is_none_or(|all| *output < all)),
    })
}

/// Where hosts say how much a model takes. A router's own way to it may take less than the model.
const WINDOW_PLACES: [&str; 8] = [
    "/top_provider/context_length",
    "/context_length",
    "/context_window",
    "/max_model_len",
    "/max_context_length",
    "/inputTokenLimit",
    "/max_input_tokens",
    "/meta/n_ctx",
];

/// Where hosts say how much a model writes.
const OUTPUT_PLACES: [&str; 5] = [
    "/top_provider/max_completion_tokens",
    "/max_completion_tokens",
    "/max_output_tokens",
    "/outputTokenLimit",
    "/max_tokens",
];
