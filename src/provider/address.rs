// SPDX-License-Identifier: GPL-3.0-or-later
//! Where a provider's requests go, and the headers that they carry. Pure; `http` sends them.

use reqwest::Url;
use reqwest::header::{
    ACCEPT_ENCODING, AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue,
};

use super::ProviderSettings;
use super::failure::{FailureKind, ProviderError};
use super::history::{self, Dialect};
use super::retry::RetryAdvice;

/// The version of Anthropic's API that we speak.
const ANTHROPIC_VERSION: &str = "2023-06-01";

/// The headers that carry a key, ours and those that a user may set instead.
pub const KEY_HEADERS: [&str; 4] = ["authorization", "api-key", "x-api-key", "x-goog-api-key"];

/// Where a chat is answered.
pub fn chat_url(settings: &ProviderSettings) -> Result<Url, ProviderError> {
    let base = settings.base_url.as_str();
    match settings.dialect {
        Dialect::ChatCompletions => endpoint(base, &["chat", "completions"]),
        Dialect::Messages => endpoint(base, &["messages"]),
        Dialect::Responses => endpoint(base, &["responses"]),
        Dialect::Gemini => {
            let model = settings
                .model
                .strip_prefix("models/")
                .unwrap_or(&settings.model);
            let method = format!("{model}:streamGenerateContent");
            let mut url = endpoint(base, &["models", &method])?;
            // Without it, the answer is one JSON array.
            url.query_pairs_mut().append_pair("alt", "sse");
            Ok(url)
        }
        Dialect::Ollama => endpoint(ollama_base(base), &["api", "chat"]),
    }
}

/// Where the models are listed.
pub fn models_url(settings: &ProviderSettings) -> Result<Url, ProviderError> {
    match settings.dialect {
        Dialect::Ollama => endpoint(ollama_base(&settings.base_url), &["api", "tags"]),
        // Its list for everybody says nothing of the key, and has models that the account may not use.
        _ if settings.key.is_some() && history::host_of(&settings.base_url) == "openrouter.ai" => {
            endpoint(&settings.base_url, &["models", "user"])
        }
        _ => endpoint(&settings.base_url, &["models"]),
    }
}

/// Ollama's own API is beside the one that is like OpenAI's, and may be named whole or in part.
fn ollama_base(base_url: &str) -> &str {
    let base = base_url.trim().trim_end_matches('/');
    let ends = ["/v1", "/api/chat", "/api"];
    let bare = ends.iter().find_map(|end| base.strip_suffix(end));
    bare.unwrap_or(base)
}

/// The URL of an endpoint below a base; a query of the base is kept.
pub fn endpoint(base_url: &str, path: &[&str]) -> Result<Url, ProviderError> {
    let advice = "Write it like https://api.openai.com/v1.";
    let mut url = Url::parse(base_url.trim()).map_err(|error| {
        settings_failure(format!(
            "{base_url:?} is not a valid base URL: {error}. {advice}"
        ))
    })?;
    if !matches!(url.scheme(), "http" | "https") || url.host_str().is_none() {
        return Err(settings_failure(format!(
            "{base_url:?} is not the base URL of an HTTP API. {advice}"
        )));
    }
    let complete = format!("/{}", path.join("/"));
    if !url.path().trim_end_matches('/').ends_with(&complete)
        && let Ok(mut segments) = url.path_segments_mut()
    {
        segments.pop_if_empty().extend(path);
    }
    Ok(url)
}

/// A URL without the parts in which people hide secrets.
pub fn public_part(base_url: &str) -> String {
    let end = base_url.find(['?', '#']).unwrap_or(base_url.len());
    let shown = &base_url[..end];
    match (shown.find("://"), shown.rfind('@')) {
        (Some(scheme), Some(at)) if at > scheme => {
            format!("{}://{}", &shown[..scheme], &shown[at + 1..])
        }
        _ => shown.to_owned(),
    }
}

/// The host and the port of URL.
pub fn address_of(url: &Url) -> (String, u16) {
    let host = url.host_str().unwrap_or_default();
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    // Those of SOCKS are the only schemes without a usual port that get here.
    (bare.to_owned(), url.port_or_known_default().unwrap_or(1080))
}

pub fn is_loopback(url: &Url) -> bool {
    let host = url.host_str().unwrap_or_default();
    let address = host.trim_start_matches('[').trim_end_matches(']');
    host == "localhost"
        || host.ends_with(".localhost")
        || address
            .parse::<std::net::IpAddr>()
            .is_ok_and(|address| address.is_loopback())
}

/// Whether HOST is one of Azure's: of its clouds for everybody, for the United States' government and for
/// China, or of its API Management.
fn is_azure(host: &str) -> bool {
    const DOMAINS: [&str; 6] = [
        ".azure.com",
        ".azure.us",
        ".azure.cn",
        ".azure-api.net",
        ".azure-api.us",
        ".azure-api.cn",
    ];
    DOMAINS.iter().any(|domain| host.ends_with(domain))
}

/// The header that carries KEY, and its text.
fn key_header(dialect: Dialect, host: &str, key: &str) -> (HeaderName, String) {
    let own = |name| (HeaderName::from_static(name), key.to_owned());
    match dialect {
        Dialect::Messages => own("x-api-key"),
        Dialect::Gemini => own("x-goog-api-key"),
        Dialect::ChatCompletions | Dialect::Responses if is_azure(host) => own("api-key"),
        Dialect::ChatCompletions | Dialect::Responses | Dialect::Ollama => {
            (AUTHORIZATION, format!("Bearer {key}"))
        }
    }
}

/// The headers of a request to HOST.
pub fn headers(settings: &ProviderSettings, host: &str) -> Result<HeaderMap, ProviderError> {
    let mut headers = HeaderMap::new();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    // Some proxies hold back a whole stream in order to compress it.
    headers.insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
    if settings.dialect == Dialect::Messages {
        let version = HeaderValue::from_static(ANTHROPIC_VERSION);
        headers.insert("anthropic-version", version);
    }
    if let Some(key) = &settings.key {
        let (name, text) = key_header(settings.dialect, host, key.reveal().trim());
        let mut value = HeaderValue::from_str(&text).map_err(|_| {
            settings_failure(format!(
                "The key for {host} has characters that can't be sent. Look at its entry in your auth-source."
            ))
        })?;
        value.set_sensitive(true);
        headers.insert(name, value);
    }
    for (name, value) in &settings.headers {
        // What is no name may be a key in the wrong place, so that it is not repeated.
        let header = HeaderName::try_from(name.as_str()).map_err(|_| {
            settings_failure(format!(
                "A header of the provider {:?} has a name that can't be sent.",
                settings.name
            ))
        })?;
        let mut value = HeaderValue::try_from(value.as_str()).map_err(|_| {
            settings_failure(format!(
                "The header {name:?} of the provider {:?} can't be sent.",
                settings.name
            ))
        })?;
        value.set_sensitive(true);
        headers.insert(header, value);
    }
    Ok(headers)
}

pub fn settings_failure(message: String) -> ProviderError {
    ProviderError::new(FailureKind::Settings, RetryAdvice::Never, message)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::provider::{ModelFacts, Secret};
    use serde_json::Map;

    fn settings(dialect: Dialect, base_url: &str) -> ProviderSettings {
        ProviderSettings {
            name: "mine".into(),
            dialect,
            base_url: base_url.into(),
            model: "mine".into(),
            effort: None,
            key: Some(Secret::new("0123456789".into())),
            body: Map::new(),
            first_body: Map::new(),
            headers: Vec::new(),
            facts: ModelFacts::default(),
            recordings: None,
            route: crate::provider::Route::default(),
            script: None,
        }
    }

    #[test]
    fn azure_has_its_own_header_and_keeps_the_version_in_the_address() {
        let base = "https://us.openai.azure.com/openai/deployments/mine?api-version=2024-10-21";
        let url = chat_url(&settings(Dialect::ChatCompletions, base)).expect("a URL");
        assert_eq!(
            url.as_str(),
            "https://us.openai.azure.com/openai/deployments/mine/chat/completions?api-version=2024-10-21"
        );
        for (host, is_azure) in [
            ("us.openai.azure.com", true),
            ("mine.openai.azure.us", true),
            ("mine.openai.azure.cn", true),
            ("mine.azure-api.net", true),
            ("azure.com.example", false),
            ("notazure.com", false),
        ] {
            for dialect in [Dialect::ChatCompletions, Dialect::Responses] {
                let settings = settings(dialect, &format!("https://{host}/openai/v1"));
                let headers = headers(&settings, host).expect("headers");
                assert_eq!(headers.contains_key("api-key"), is_azure, "{host}");
                assert_eq!(headers.contains_key(AUTHORIZATION), !is_azure, "{host}");
            }
        }
    }

    #[test]
    fn openrouter_lists_what_the_key_may_use() {
        let base = "https://openrouter.ai/api/v1";
        let mut settings = settings(Dialect::ChatCompletions, base);
        let path = |settings: &ProviderSettings| {
            let url = models_url(settings).expect("a URL");
            url.path().to_owned()
        };
        assert_eq!(path(&settings), "/api/v1/models/user");
        settings.key = None;
        assert_eq!(path(&settings), "/api/v1/models");
    }

    #[test]
    fn ollama_is_found_below_each_of_its_addresses() {
        for base in ["", "/", "/v1", "/v1/", "/api", "/api/", "/api/chat"] {
            let settings = settings(Dialect::Ollama, &format!("http://box.example:11434{base}"));
            let url = |url: Result<Url, ProviderError>| url.expect("a URL").path().to_owned();
            assert_eq!(url(chat_url(&settings)), "/api/chat", "{base}");
            assert_eq!(url(models_url(&settings)), "/api/tags", "{base}");
        }
        let below = settings(Dialect::Ollama, "https://gate.example/ollama/api");
        let url = chat_url(&below).expect("a URL");
        assert_eq!(url.path(), "/ollama/api/chat");
    }
}
